//! Tests that a ready service has taken nothing, and that the ready service is the one that is called.

use std::future::{Ready, poll_fn, ready};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::header::RETRY_AFTER;
use axum::http::{Response, StatusCode};
use axum::routing::get;
use hyper::body::Body;
use tollgate::semaphore::OwnedPermit;
use tollgate::throttle::BoxThrottle;
use tollgate::wait::Waiting;
use tollgate::{
    AcquireError, ErrorKind, LeakyBucket, Quota, RateLimiter, Semaphore, Throttle, TryThrottle, all,
};
use tollgate_tower::{ByRequest, ResponseFuture, ThrottleLayer, ThrottleService, ThrottledBody};
use tower::{Layer, Service, ServiceExt};

use super::server;
use super::setup::{ManualService, Pages, Read, Reader, Setup, call};
use crate::support::scripted::Log;
use crate::support::{Waiter, assert_at_rest};

/// In issue 454 of tower, a ready service keeps the slot from all others for as long as it
/// is not called.
#[test]
fn one_that_is_ready_and_never_called_holds_no_permit() {
    let slots = Arc::new(Semaphore::new(1));
    let inner = ManualService::new(&Log::default());
    let layer = ThrottleLayer::new(Arc::clone(&slots));
    let mut idle: Vec<_> = (0..3).map(|_| layer.layer(inner.clone())).collect();
    for service in &mut idle {
        let ready = Waiter::new(poll_fn(|context| service.poll_ready(context))).output();
        assert_eq!(ready, Ok(()));
    }
    assert_at_rest(&slots, 1);

    let mut busy = layer.layer(inner.clone());
    for _ in 0..3 {
        let ready = Waiter::new(poll_fn(|context| busy.poll_ready(context))).output();
        assert_eq!(ready, Ok(()));
        let mut request = Waiter::parked(busy.call("a"));
        assert_eq!(
            (slots.available_permits(), slots.snapshot().waiting),
            (0, 0)
        );
        inner.send([]);
        drop(request.output());
        assert_at_rest(&slots, 1);
    }
}

#[test]
fn a_future_that_was_never_polled_has_asked_nobody_in() {
    let slots = Semaphore::new(1);
    let mut setup = Setup::behind(&slots);
    let unpolled = setup.request("a");
    assert_at_rest(&slots, 1);
    let mut other = setup.called("b");
    assert_eq!(setup.log.take(), ["call b"]);
    setup.inner.send([]);
    drop((other.output(), unpolled));
    assert_at_rest(&slots, 1);
}

/// A service that is not ready, and then fails.
#[derive(Clone)]
struct Broken {
    polls: usize,
}

impl Service<()> for Broken {
    type Response = Response<Pages>;
    type Error = &'static str;
    type Future = std::future::Ready<Result<Response<Pages>, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        self.polls += 1;
        match self.polls {
            1 => Poll::Pending,
            _ => Poll::Ready(Err("broken")),
        }
    }

    fn call(&mut self, (): ()) -> Self::Future {
        unreachable!("it is never ready");
    }
}

#[test]
fn it_is_as_ready_as_the_service_inside() {
    let closed = Semaphore::new(0);
    closed.close();
    let mut service = ThrottleLayer::new(&closed).layer(Broken { polls: 0 });
    let mut ready = Waiter::parked(poll_fn(|context| service.poll_ready(context)));
    assert_eq!(ready.output(), Err("broken"));
}

// Tests the answers to requests that were not admitted.

/// In issue 793 of tower, a request that finds no slot has to wait.
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
    // The refusal holds nothing, and neither does the first request after its body was read.
    inner.send([]);
    drop(first.output());
    assert!(call(&mut service, "c").is_pending());
    drop((first, refused));
    assert_at_rest(&slots, 1);
}

/// A throttle that refuses with this error.
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

/// Returns the status and `Retry-After` of a layer's answer. Checks that the answer is a refusal with this
/// error, which is available to outer layers.
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

/// Returns the refusals after a wait and at once, with the default status and with 418 as the custom one.
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
        (ErrorKind::RuntimeEnded, [429, 418]),
        (ErrorKind::Closed, [503, 503]),
        (ErrorKind::Cancelled, [503, 503]),
        (ErrorKind::ExceedsCapacity, [413, 413]),
        (ErrorKind::TooManyKeys, [503, 503]),
        (ErrorKind::Store, [503, 503]),
    ];
    for (kind, [usual, changed]) in table {
        // In another runtime, the same call may be admitted at once.
        let known = (kind == ErrorKind::RuntimeEnded).then_some("1");
        let answers = refusals(&AcquireError::new(kind)).map(|(status, after)| {
            assert_eq!(after.as_deref(), known, "{kind:?}");
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
        // The time never comes.
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

// Tests that the layer accepts any throttle, and that axum accepts the resulting service.

/// Returns a router behind the throttle, as axum requires it.
fn app<T>(throttle: T) -> Router
where
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    let layer = ThrottleLayer::new(throttle);
    Router::new()
        .route("/", get(async || "done").layer(layer.clone()))
        .layer(layer)
}

/// Sends one request, which passes both layers, and returns its status.
async fn status(app: Router) -> u16 {
    app.oneshot(server::root()).await.unwrap().status().as_u16()
}

static SLOTS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(2));

#[tokio::test]
async fn what_owns_its_throttle_can_be_served() {
    let (slots, memory) = (Arc::new(Semaphore::new(2)), Arc::new(Semaphore::new(64)));
    let both = all((Arc::clone(&slots), Arc::clone(&memory).cost_owned(32)));
    assert_eq!(status(app(Arc::clone(&slots))).await, 200);
    assert_eq!(status(app(&*SLOTS)).await, 200);
    assert_eq!(status(app(both.clone())).await, 200);
    assert_eq!(status(app(BoxThrottle::new(both))).await, 200);
    assert_eq!(status(app(None::<Arc<Semaphore>>)).await, 200);
    assert_eq!(status(app(Some(Arc::clone(&slots)))).await, 200);
    assert_eq!(
        status(app(Arc::new(tollgate::Pool::new([(); 2])))).await,
        200
    );
    assert_eq!(
        status(app(Arc::new(tokio::sync::Semaphore::new(2)))).await,
        200
    );
    slots.close();
    assert_eq!(
        status(app(all((Arc::clone(&memory), Arc::clone(&slots))))).await,
        503
    );
    assert_at_rest(&slots, 2);
    assert_at_rest(&memory, 64);
    assert_at_rest(&SLOTS, 2);
}

#[tokio::test]
async fn a_part_that_refuses_gives_the_others_back() {
    let (slots, memory) = (Arc::new(Semaphore::new(2)), Arc::new(Semaphore::new(64)));
    memory.close();
    let both = all((Arc::clone(&slots), Arc::clone(&memory)));
    let app: Router = Router::new().layer(ThrottleLayer::new(both).refusing());
    let answer = app.oneshot(server::root()).await.unwrap();
    let error = answer.extensions().get::<tollgate::AcquireError>();
    assert_eq!(error.unwrap().part(), Some(1));
    assert_at_rest(&slots, 2);
}

#[tokio::test]
async fn rate_limiters() {
    let limiter = RateLimiter::new(Quota::per_hour(2).burst(2));
    let app = app(Arc::new(limiter));
    assert_eq!(status(app).await, 200);
    let bucket = Arc::new(LeakyBucket::new(Quota::per_hour(1), 0));
    let app = || Router::new().layer(ThrottleLayer::new(Arc::clone(&bucket)));
    // The request is admitted, although there is no route for that path.
    assert_eq!(status(app()).await, 404);
    assert_eq!(status(app()).await, 429);
}

fn assert_cloned_and_shared<T: Clone + Send + Sync + 'static>() {}
fn assert_sent<T: Send + 'static>() {}
fn assert_body<B>()
where
    B: hyper::body::Body<Data = Bytes, Error: Into<axum::BoxError>> + Send + 'static,
    Response<B>: axum::response::IntoResponse,
{
}

#[test]
fn the_types_are_what_servers_ask_for() {
    type Shared = Arc<Semaphore>;
    assert_cloned_and_shared::<ThrottleLayer<Shared>>();
    assert_cloned_and_shared::<ThrottleLayer<BoxThrottle>>();
    assert_cloned_and_shared::<ThrottleService<ManualService, Shared>>();
    assert_cloned_and_shared::<ThrottleService<ManualService, BoxThrottle>>();
    assert_sent::<ResponseFuture<ManualService, Shared, &'static str>>();
    assert_sent::<ResponseFuture<ManualService, BoxThrottle, &'static str>>();
    type Chosen = ByRequest<fn(&&'static str) -> Shared>;
    assert_sent::<ResponseFuture<ManualService, Shared, &'static str, Chosen>>();
    assert_body::<ThrottledBody<axum::body::Body, OwnedPermit>>();
    assert_body::<ThrottledBody<axum::body::Body, tollgate::throttle::BoxPermit>>();
}

/// Debug output contains no secret and no endless data, and names its type.
#[test]
fn all_can_be_printed() {
    let slots = Semaphore::new(1);
    let layer = ThrottleLayer::new(&slots);
    let service = layer.layer(());
    let printed = [format!("{layer:?}"), format!("{service:?}")];
    assert!(printed[0].starts_with("ThrottleLayer { throttle: Semaphore"));
    assert!(printed[1].starts_with("ThrottleService { inner: (), layer: ThrottleLayer"));
    let mut setup = super::setup::Setup::behind(&slots);
    let request = setup.called("a");
    let printed = format!("{:?}", request.into_future());
    assert_eq!(printed, "ResponseFuture { stage: \"is answered\", .. }");
}
