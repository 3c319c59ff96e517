//! Any throttle will do, and axum takes what is made of it.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Bytes;
use axum::http::Response;
use axum::routing::get;
use tollgate::{
    BoxThrottle, LeakyBucket, OwnedPermit, Quota, RateLimiter, Semaphore, Throttle, all,
};
use tollgate_tower::{ByRequest, ResponseFuture, ThrottleLayer, ThrottleService, ThrottledBody};
use tower::{Layer, ServiceExt};

use super::peers;
use super::service::ManualService;
use crate::support::assert_at_rest;

/// A router that asks the throttle, as axum wants it.
fn app<T>(throttle: T) -> Router
where
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    let layer = ThrottleLayer::new(throttle);
    Router::new()
        .route("/", get(async || "done").layer(layer.clone()))
        .layer(layer)
}

/// Asks once, by each of two routes to the throttle.
async fn status(app: Router) -> u16 {
    app.oneshot(peers::get()).await.unwrap().status().as_u16()
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
    let answer = app.oneshot(peers::get()).await.unwrap();
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
    // Let in, though there is nothing at that address.
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
    assert_body::<ThrottledBody<axum::body::Body, tollgate::BoxPermit>>();
}

/// Nothing secret or endless is printed, and what is printed says what it is.
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
