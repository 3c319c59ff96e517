//! What is answered to a request that was not let in.

use std::future::{Ready, ready};
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use hyper::body::Body;
use tollgate::{AcquireError, ErrorKind, Semaphore, Throttle, TryThrottle, Waiting};
use tollgate_tower::ThrottleLayer;
use tower::Layer;

use super::service::ManualService;
use super::setup::{Read, Reader, Setup, call};
use crate::support::assert_at_rest;
use crate::support::scripted::{Log, Script};

/// As issue 793 of tower: there, a request that finds no slot has to wait.
#[test]
fn it_can_refuse_and_not_wait() {
    let slots = Semaphore::new(1);
    let inner = ManualService::new(&Log::default());
    let mut service = ThrottleLayer::new(&slots).refusing().layer(inner.clone());
    let mut first = call(&mut service, "a");
    assert!(first.is_pending());
    let refused = call(&mut service, "b").output().unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(slots.snapshot().waiting, 0);
    // The refusal holds nothing, and neither does the first once it was read.
    inner.send([]);
    drop(first.output());
    assert!(call(&mut service, "c").is_pending());
    drop((first, refused));
    assert_at_rest(&slots, 1);
}

/// Refuses for a reason of its own.
#[derive(Clone)]
struct Refuses(AcquireError);

impl Throttle for Refuses {
    type Permit = ();
    type Enter = Ready<Result<(), AcquireError>>;

    fn enter(&self) -> Waiting<Self::Enter> {
        Waiting::new(ready(self.try_enter()))
    }
}

impl TryThrottle for Refuses {
    fn try_enter(&self) -> Result<(), AcquireError> {
        Err(self.0.clone())
    }
}

/// The status and `Retry-After` of what a layer answers, which is checked to be a refusal for this
/// reason, which layers further out know.
#[track_caller]
fn refusal<T: Throttle>(layer: ThrottleLayer<T>, error: &AcquireError) -> (u16, Option<String>) {
    let log = Log::default();
    let mut service = layer.layer(ManualService::new(&log));
    let answer = call(&mut service, "a").output().unwrap();
    assert!(log.take().is_empty(), "the service was called");
    assert_eq!(answer.extensions().get(), Some(error));
    let after = answer.headers().get(RETRY_AFTER);
    let after = after.map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(answer.headers()["cache-control"], "no-store");
    assert_eq!(answer.headers().len(), 1 + usize::from(after.is_some()));
    let status = answer.status().as_u16();
    let mut body = Reader(Box::pin(answer.into_body()));
    assert!(body.0.is_end_stream());
    assert_eq!(body.0.size_hint().exact(), Some(0));
    assert_eq!(body.read(), Read::End);
    (status, after)
}

/// By waiting and at once, as it is and with 418 for what can be changed.
#[track_caller]
fn refusals(error: &AcquireError) -> [(u16, Option<String>); 4] {
    let throttle = Refuses(error.clone());
    let wait = ThrottleLayer::new(throttle.clone());
    let at_once = ThrottleLayer::new(throttle).refusing();
    let teapot = StatusCode::IM_A_TEAPOT;
    [
        refusal(wait.clone(), error),
        refusal(at_once.clone(), error),
        refusal(wait.status(teapot), error),
        refusal(at_once.status(teapot), error),
    ]
}

#[test]
fn each_kind_has_its_status() {
    let table = [
        (ErrorKind::RateLimited, [429, 418]),
        (ErrorKind::QueueFull, [429, 418]),
        (ErrorKind::NoPermits, [429, 418]),
        (ErrorKind::TimedOut, [429, 418]),
        (ErrorKind::Closed, [503, 503]),
        (ErrorKind::Cancelled, [503, 503]),
        (ErrorKind::ExceedsCapacity, [413, 413]),
        (ErrorKind::TooManyKeys, [503, 503]),
        (ErrorKind::Store, [503, 503]),
    ];
    for (kind, [usual, changed]) in table {
        let answers = refusals(&AcquireError::new(kind)).map(|(status, after)| {
            assert_eq!(after, None, "{kind:?}");
            status
        });
        assert_eq!(answers, [usual, usual, changed, changed], "{kind:?}");
    }
}

#[test]
fn it_says_when_to_try_again_if_it_knows() {
    let table = [
        (Duration::ZERO, Some("1")),
        (Duration::from_millis(20), Some("1")),
        (Duration::from_secs(1), Some("1")),
        (Duration::from_millis(1001), Some("2")),
        (Duration::from_secs(3600), Some("3600")),
        // Never.
        (Duration::MAX, None),
    ];
    for (duration, seconds) in table {
        let answers = refusals(&AcquireError::limited(duration));
        let after = seconds.map(str::to_owned);
        let [usual, changed] = [429, 418].map(|status| (status, after.clone()));
        let expected = [usual.clone(), usual, changed.clone(), changed];
        assert_eq!(answers, expected, "{duration:?}");
    }
    let too_much = AcquireError::exceeds_capacity(8);
    assert!(refusals(&too_much).iter().all(|(_, after)| after.is_none()));
}

#[test]
fn the_wait_is_over_and_the_work_gone_when_it_is_refused() {
    let mut setup = Setup::new();
    setup.throttle.now(Script::Wait);
    let mut request = setup.called("a");
    setup.throttle.now(Script::Refuse(ErrorKind::Closed));
    assert_eq!(request.wakes(), 1);
    let answer = request.output().unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(setup.log.take(), ["enter t", "refuse t"]);
}

/// A refusal is no matter of the timeout.
#[test]
fn one_that_refuses_at_once_does_so_with_a_timeout_as_well() {
    let mut setup = Setup::with(|throttle| {
        ThrottleLayer::new(throttle)
            .refusing()
            .timeout(Duration::from_secs(3600))
    });
    setup.throttle.now(Script::Wait);
    let answer = setup.request("a").output().unwrap();
    let error = answer.extensions().get::<AcquireError>().unwrap();
    assert_eq!(error.kind(), ErrorKind::NoPermits);
    assert_eq!(setup.log.take(), ["try t", "refuse t"]);
}

#[test]
fn a_timeout_of_zero_admits_requests_that_need_not_wait() {
    let mut setup = Setup::with(|throttle| ThrottleLayer::new(throttle).timeout(Duration::ZERO));
    let inside = setup.called("a");
    setup.throttle.now(Script::Wait);
    let answer = setup.request("b").output().unwrap();
    let error = answer.extensions().get::<AcquireError>().unwrap();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let log = ["enter t", "in t0", "call a", "enter t", "leave t"];
    assert_eq!(setup.log.take(), log);
    drop(inside);
}
