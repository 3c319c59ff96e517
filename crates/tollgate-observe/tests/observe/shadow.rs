//! A shadow admits everybody, and reports what its twin would have done.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use tollgate::fair::FairQueue;
use tollgate::throttle::{Adaptive, BoxThrottle, Feedback, Inspect, Weighted};
use tollgate::{
    AcquireError, Clock, ErrorKind, Quota, RateLimiter, Semaphore, Throttle, TryThrottle, all,
};
use tollgate_adaptive::AdaptiveRate;
use tollgate_observe::{Observer, Place, Shadow};
use tollgate_tower::ThrottleLayer;
use tower::{Layer, ServiceExt, service_fn};

use super::Report::{Admitted, Refused, Released, Undone};
use super::support::Waiter;
use super::{Log, SECOND};

const REFUSED: super::Report = Refused(ErrorKind::NoPermits, None);
const LIMITED: super::Report = Refused(ErrorKind::RateLimited, None);

/// Keeps how long each caller would have had to wait at least.
#[derive(Default)]
struct Waits(Mutex<Vec<Duration>>);

impl Observer for Waits {
    type Held = ();

    fn admitted(&self, _: Place, _: Option<Duration>) {
        self.0.lock().unwrap().push(Duration::ZERO);
    }

    fn refused(&self, _: Place, error: &AcquireError, _: Option<Duration>) {
        let after = error.retry_after();
        self.0.lock().unwrap().push(after.expect("a rate knows"));
    }
}

#[test]
fn admit_beyond_the_twin_holds_nothing() {
    let (twin, log) = (Semaphore::new(1), Log::default());
    let shadow = Shadow::new(&twin, &log);
    let first = shadow.admit();
    assert!(first.is_some() && shadow.admit().is_none());
    assert_eq!(shadow.twin().available_permits(), 0);
    drop(first);
    assert!(shadow.admit().is_some());
    assert_eq!(
        log.take(),
        [
            Admitted(None),
            REFUSED,
            Released(1),
            Admitted(None),
            Released(3)
        ]
    );
}

#[test]
fn entries_of_each_kind_are_ready_and_reported_once() {
    let (twin, log) = (Semaphore::new(0), Log::default());
    let shadow = Shadow::new(&twin, &log);
    assert!(Waiter::new(shadow.enter()).granted().is_none());
    assert!(shadow.try_enter().unwrap().is_none());
    assert!(shadow.enter_now().unwrap().is_none());
    twin.close();
    drop(shadow.enter());
    assert!(Waiter::new(shadow.enter()).granted().is_none());
    let closed = Refused(ErrorKind::Closed, None);
    assert_eq!(log.take(), [REFUSED, REFUSED, REFUSED, closed]);
}

#[test]
fn rollback_returns_the_charge_to_the_twin() {
    let log = Log::default();
    let twin = RateLimiter::new(Quota::per_second(1)).clock(Clock::manual());
    let shadow = Shadow::new(&twin, &log);
    let full = Semaphore::new(0);
    // The second part refuses.
    assert!(all((shadow.clone(), &full)).try_acquire().is_err());
    assert_eq!(log.take(), [Admitted(None), Undone(1)]);
    assert_eq!(twin.snapshot().available, 1);
}

#[test]
fn cost_above_the_twin_is_admitted_and_a_rest_is_refunded() {
    let log = Log::default();
    let twin = RateLimiter::new(Quota::per_second(100).burst(10)).clock(Clock::manual());
    let shadow = Shadow::new(&twin, &log);
    assert!(shadow.max_units() >= 11);
    assert!(shadow.cost(11).try_enter().unwrap().is_none());
    let exceeds = Refused(ErrorKind::ExceedsCapacity, None);
    assert_eq!(log.take(), [exceeds]);

    let charge = shadow.cost(8).try_enter().unwrap();
    assert_eq!(twin.snapshot().available, 2);
    shadow.settle(charge, 3);
    assert_eq!(twin.snapshot().available, 7);
    let nothing = shadow.cost(8).try_enter().unwrap();
    shadow.settle(nothing, 0);
    assert_eq!(twin.snapshot().available, 7);
}

#[test]
fn inspect_shows_no_limit() {
    let (twin, log) = (Semaphore::new(1), Log::default());
    let shadow = Shadow::new(&twin, &log);
    let slots = Semaphore::new(8);
    let mut seen = 0;
    all((shadow, &slots)).inspect(None, &mut |part, _| seen += 10 * part + 1);
    assert_eq!(seen, 11);
}

#[test]
fn learn_reaches_a_twin_that_admitted_the_call() {
    let api = AdaptiveRate::new().clock(Clock::manual());
    let shadow = Shadow::new(&api, ());
    let mut admitted = shadow.try_enter().unwrap();
    let mut refused = loop {
        let entered = shadow.try_enter().unwrap();
        if entered.is_none() {
            break entered;
        }
    };
    let rate = api.snapshot().rate;
    shadow.learn(&mut refused, Feedback::OVERLOADED);
    assert_eq!(api.snapshot().rate, rate);
    shadow.learn(&mut admitted, Feedback::OVERLOADED);
    assert!(api.snapshot().rate < rate);
}

#[test]
fn compositions_and_queues_with_a_shadow_admit_everybody() {
    let log = Log::default();
    let shadow = Shadow::new(Arc::new(Semaphore::new(1)), Arc::new(log));
    let boxed = BoxThrottle::new(shadow.clone());
    let first = [(); 2].map(|()| Waiter::new(boxed.enter()).granted());

    let queue = FairQueue::new(shadow.clone());
    let class = queue.class("a");
    let permits = [(); 3].map(|()| Waiter::new(class.acquire()).granted());
    assert!(permits.iter().all(|permit| permit.is_none()));
    drop((first, permits));
    assert!(Waiter::new(class.acquire()).granted().is_some());
}

#[tokio::test]
async fn layer_with_a_shadow_calls_the_service_each_time() {
    let shadow = Shadow::new(Arc::new(Semaphore::new(0)), Arc::new(Log::default()));
    let page = service_fn(async |_: http::Request<()>| {
        Ok::<_, std::convert::Infallible>(http::Response::new(axum::body::Body::empty()))
    });
    for _ in 0..3 {
        let service = ThrottleLayer::new(shadow.clone()).layer(page);
        let response = service.oneshot(http::Request::new(())).await.unwrap();
        assert_eq!(response.status(), 200);
    }
    assert_eq!(shadow.observer().take(), [REFUSED; 3]);
}

#[test]
fn retry_after_of_a_rate_is_that_of_try_acquire() {
    let (clock, log, waits) = (Clock::manual(), Log::default(), Waits::default());
    let twin = RateLimiter::new(Quota::per_second(1)).clock(&clock);
    let shadow = Shadow::new(&twin, (&log, &waits));
    let _calls = [(); 3].map(|()| shadow.admit());
    clock.advance(SECOND);
    let _call = shadow.admit();
    assert_eq!(
        log.take(),
        [Admitted(None), LIMITED, LIMITED, Admitted(None)]
    );
    assert_eq!(
        *waits.0.lock().unwrap(),
        [Duration::ZERO, SECOND, SECOND, Duration::ZERO]
    );
}

proptest! {
    /// Callers that arrive at any times for any amounts would have waited for at least the time that the
    /// shadow reports.
    #[test]
    fn retry_after_never_exceeds_the_wait_in_a_queue(
        calls in prop::collection::vec((0_u64..3_000, 1_u64..=5), 1..60),
        burst in 5_u64..20,
    ) {
        let (clock, waits) = (Clock::manual(), Waits::default());
        let quota = Quota::per_second(2).burst(burst);
        let twin = RateLimiter::new(quota).clock(&clock);
        let real = RateLimiter::new(quota).clock(&clock);
        let shadow = Shadow::new(&twin, &waits);
        // A reservation that is dropped is given back.
        let mut queue = Vec::new();
        for (pause, cost) in calls {
            clock.advance(Duration::from_millis(pause));
            let reserved = real.reserve_many(cost).unwrap();
            let waited = reserved.delay();
            queue.push(reserved);
            let _entered = shadow.cost(cost).try_enter();
            let reported = waits.0.lock().unwrap().pop().unwrap();
            prop_assert!(reported <= waited, "{reported:?} of {waited:?}");
        }
    }
}
