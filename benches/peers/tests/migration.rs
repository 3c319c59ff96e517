//! Tests the statements of the pages of `tollgate::migrate` about other crates, beside tollgate.

use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt, TryStreamExt};
use governor::clock::{Clock as _, FakeRelativeClock};
use object_store::limit::LimitStore;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};
use tollgate::{Clock, ErrorKind, Quota, RateLimiter, Semaphore};
use tollgate_object_store::Throttled;
use tollgate_tower::ThrottleLayer;
use tower::limit::{ConcurrencyLimitLayer, RateLimitLayer};
use tower::load_shed::LoadShedLayer;
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::GlobalKeyExtractor;

const FIFTY: NonZeroU32 = NonZeroU32::new(50).unwrap();
const SECOND: Duration = Duration::from_secs(1);
/// Longer than any test takes.
const HOUR: Duration = Duration::from_secs(3600);

fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().build().unwrap()
}

#[test]
fn per_second_of_governor_has_a_burst_of_its_count() {
    let clock = FakeRelativeClock::default();
    let quota = governor::Quota::per_second(FIFTY);
    let old = governor::RateLimiter::direct_with_clock(quota, clock.clone());
    assert!((0..50).all(|_| old.check().is_ok()));
    let wait = old.check().unwrap_err().wait_time_from(clock.now());

    let new = |quota| RateLimiter::new(quota).clock(Clock::manual());
    assert!(new(Quota::per_second(50)).try_acquire_many(2).is_err());
    let new = new(Quota::per_second(50).burst(50));
    assert!((0..50).all(|_| new.try_acquire().is_ok()));
    assert_eq!(new.try_acquire().unwrap_err().retry_after(), Some(wait));
    assert_eq!(wait, Duration::from_millis(20));
}

#[test]
fn check_n_above_the_burst_of_governor_is_an_error_of_its_own() {
    let old = governor::RateLimiter::direct(governor::Quota::per_second(FIFTY));
    let too_many = old.check_n(NonZeroU32::new(51).unwrap());
    assert_eq!(too_many.unwrap_err().0, 50);
    let new = RateLimiter::new(Quota::per_second(50).burst(50));
    let too_many = new.try_acquire_many(51).unwrap_err();
    assert_eq!(too_many.kind(), ErrorKind::ExceedsCapacity);
    assert_eq!(too_many.capacity(), Some(50));
}

#[test]
fn per_second_of_governor_rounds_the_interval_down() {
    let fast = governor::Quota::per_second(NonZeroU32::new(700_000_000).unwrap());
    assert_eq!(fast.replenish_interval(), Duration::from_nanos(1));
}

#[test]
fn per_second_of_tower_governor_is_an_interval() {
    let mut builder = GovernorConfigBuilder::default();
    let config = builder.per_second(7200).burst_size(5).finish().unwrap();
    let address = "1.2.3.4".parse().unwrap();
    assert!((0..5).all(|_| config.limiter().check_key(&address).is_ok()));
    let quota = config.limiter().check_key(&address).unwrap_err().quota();
    assert_eq!(quota.replenish_interval(), 2 * HOUR);
}

#[test]
fn refusal_of_tower_governor_has_a_copy_of_retry_after() {
    let mut builder = GovernorConfigBuilder::default().key_extractor(GlobalKeyExtractor);
    let mut builder = builder.per_second(3600).burst_size(1).use_headers();
    let layer = GovernorLayer::new(builder.finish().unwrap());
    let app: Router = Router::new().layer(layer);
    let answer = async || {
        let request = Request::new(Body::empty());
        app.clone().oneshot(request).await.unwrap()
    };
    runtime().block_on(async {
        assert!(!answer().await.headers().contains_key("retry-after"));
        let refused = answer().await;
        let fields = refused.headers();
        assert_eq!(fields["x-ratelimit-after"], fields["retry-after"]);
        assert_eq!(fields["x-ratelimit-remaining"], "0");
    });
}

#[test]
fn leaky_bucket_starts_empty_and_holds_ten_refills() {
    runtime().block_on(async {
        let mut old = leaky_bucket::RateLimiter::builder();
        let old = old.refill(3).interval(HOUR).build();
        assert!(!old.try_acquire(1));
        assert_eq!((old.max(), old.balance()), (30, 0));
    });
    assert_eq!(
        RateLimiter::new(Quota::new(3, SECOND)).snapshot().available,
        1
    );
}

#[test]
fn acquire_of_leaky_bucket_above_its_maximum_ends() {
    runtime().block_on(async {
        let mut old = leaky_bucket::RateLimiter::builder();
        let old = old.refill(1).interval(Duration::from_millis(1)).max(2);
        old.build().acquire(5).await;
        let new = RateLimiter::new(Quota::new(1, Duration::from_millis(1)).burst(2));
        let refused = new.acquire_many(5).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ExceedsCapacity);
    });
}

#[test]
fn acquire_many_of_tokio_above_the_limit_waits_for_add_permits() {
    let (old, new) = (tokio::sync::Semaphore::new(2), Semaphore::new(2));
    {
        let mut three = Box::pin(old.acquire_many(3));
        assert!(three.as_mut().now_or_never().is_none());
        // The request has collected the two free permits.
        assert_eq!(old.available_permits(), 0);
        old.add_permits(1);
        assert!(three.now_or_never().is_some());
    }
    let refused = new.acquire_many(3).now_or_never().unwrap();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ExceedsCapacity);
}

#[test]
fn free_permits_gather_in_the_semaphore_and_newcomers_do_not_take_them() {
    let new = Semaphore::new(2);
    let held = new.try_acquire().unwrap();
    let mut two = Box::pin(new.acquire_many(2));
    assert!(two.as_mut().now_or_never().is_none());
    assert_eq!(new.available_permits(), 1);
    assert!(new.try_acquire().is_err());
    drop(held);
    assert!(two.now_or_never().is_some());
}

#[test]
fn newcomers_overtake_at_async_lock() {
    let (old, new) = (async_lock::Semaphore::new(1), Semaphore::new(1));
    let guard = old.try_acquire();
    let mut waits = Box::pin(old.acquire());
    assert!(waits.as_mut().now_or_never().is_none());
    drop(guard);
    assert!(old.try_acquire().is_some());

    let permit = new.try_acquire();
    let mut waits = Box::pin(new.acquire());
    assert!(waits.as_mut().now_or_never().is_none());
    drop(permit);
    assert!(new.try_acquire().is_err());
}

#[test]
fn second_of_two_permits_of_async_lock_wakes_its_waiter_after_the_first() {
    let (old, new) = (async_lock::Semaphore::new(2), Semaphore::new(2));
    let guards = (old.try_acquire(), old.try_acquire());
    // Each polls its future only after a wake, and drops it when it is ready.
    let mut first = FuturesUnordered::from_iter([old.acquire()]);
    let mut second = FuturesUnordered::from_iter([old.acquire()]);
    assert!(first.next().now_or_never().is_none());
    assert!(second.next().now_or_never().is_none());
    drop(guards);
    assert!(second.next().now_or_never().is_none());
    let _first = first.next().now_or_never().unwrap();
    assert!(second.next().now_or_never().is_some());

    let permits = new.try_acquire_many(2);
    let mut first = FuturesUnordered::from_iter([new.acquire()]);
    let mut second = FuturesUnordered::from_iter([new.acquire()]);
    assert!(first.next().now_or_never().is_none());
    assert!(second.next().now_or_never().is_none());
    drop(permits);
    assert!(second.next().now_or_never().is_some());
}

#[test]
fn leaky_bucket_and_rate_limit_of_tower_need_tokio() {
    let old = leaky_bucket::RateLimiter::builder().interval(HOUR).build();
    assert!(catch_unwind(AssertUnwindSafe(|| old.acquire(1).now_or_never())).is_err());
    let layer = RateLimitLayer::new(1, SECOND);
    assert!(catch_unwind(|| drop(layer.layer(service()))).is_err());
}

/// Never answers.
fn service() -> impl Service<(), Response = (), Error = BoxError, Future: Send> + Clone {
    service_fn(async |()| {
        std::future::pending::<()>().await;
        Ok(())
    })
}

#[test]
fn each_layer_call_of_tower_has_a_limit_of_its_own() {
    let old = ConcurrencyLimitLayer::new(1);
    let (mut one, mut other) = (old.layer(service()), old.layer(service()));
    let _first = one.ready().now_or_never().unwrap().unwrap().call(());
    assert!(other.ready().now_or_never().is_some());

    let slots = Arc::new(Semaphore::new(1));
    let new = ThrottleLayer::new(Arc::clone(&slots)).refusing().errors();
    let (mut one, mut other) = (new.layer(service()), new.layer(service()));
    let _first = one.ready().now_or_never().unwrap().unwrap().call(());
    let second = other.ready().now_or_never().unwrap().unwrap().call(());
    assert!(second.now_or_never().unwrap().is_err());
}

#[test]
fn load_shed_around_a_throttle_layer_sheds_nothing() {
    let nobody = Arc::new(Semaphore::new(0));
    let waits = ThrottleLayer::new(Arc::clone(&nobody)).errors();
    let mut shed = LoadShedLayer::new().layer(waits.layer(service()));
    let mut call = Box::pin(shed.ready().now_or_never().unwrap().unwrap().call(()));
    assert!(call.as_mut().now_or_never().is_none());
    assert_eq!(nobody.snapshot().waiting, 1);
}

async fn with_an_object(store: &impl ObjectStore) {
    store.put(&"a".into(), "data".into()).await.unwrap();
}

#[test]
fn list_of_limit_store_holds_its_permit() {
    let old = LimitStore::new(InMemory::new(), 1);
    with_an_object(&old).now_or_never().unwrap();
    let mut list = old.list(None);
    let object = list.try_next().now_or_never().unwrap().unwrap().unwrap();
    assert!(old.delete(&object.location).now_or_never().is_none());

    runtime().block_on(async {
        let new = Throttled::new(InMemory::new(), Arc::new(Semaphore::new(1)));
        with_an_object(&new).await;
        let mut list = new.list(None);
        let object = list.try_next().await.unwrap().unwrap();
        new.delete(&object.location).await.unwrap();
    });
}

#[test]
fn put_multipart_of_limit_store_takes_no_permit() {
    let old = LimitStore::new(InMemory::new(), 0);
    assert!(old.put_multipart(&"a".into()).now_or_never().is_some());
    runtime().block_on(async {
        let new = Throttled::new(InMemory::new(), Arc::new(Semaphore::new(0)));
        assert!(new.put_multipart(&"a".into()).now_or_never().is_none());
    });
}
