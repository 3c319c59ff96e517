//! The limits in compositions, behind queues, in layers and in readers.

use std::convert::Infallible;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;
use tollgate::fair::FairQueue;
use tollgate::throttle::BoxThrottle;
use tollgate::{ErrorKind, Quota, Throttle, all};
use tollgate_file::{FileLimiter, FileSemaphore};
use tollgate_io::ThrottleIoExt;
use tollgate_tower::ThrottleLayer;
use tower::{ServiceBuilder, ServiceExt, service_fn};

const SOON: Duration = Duration::from_millis(5);

struct World {
    _folder: tempfile::TempDir,
    slots: FileSemaphore,
    rate: FileLimiter,
}

impl World {
    fn new(permits: usize, quota: Quota) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let slots = FileSemaphore::open(folder.path().join("slots"), permits).unwrap();
        let rate = FileLimiter::open(folder.path().join("rate"), quota).unwrap();
        Self {
            _folder: folder,
            slots,
            rate,
        }
    }
}

#[tokio::test]
async fn all_whose_second_part_refuses_takes_nothing_of_the_first() {
    let world = World::new(1, Quota::per_day(1).burst(1));
    let permit = world.slots.acquire().await.unwrap();
    let rate_first = all((&world.rate, &world.slots));
    let refused = rate_first.enter().timeout(SOON).await.unwrap_err();
    assert_eq!(
        (refused.kind(), refused.part()),
        (ErrorKind::TimedOut, None)
    );
    drop(permit);
    // The unit is there again, and so is the permit after a refusal by the rate.
    let entered = rate_first.enter().await.unwrap();
    drop(entered);
    let slots_first = all((&world.slots, &world.rate));
    let refused = slots_first.enter().timeout(SOON).await.unwrap_err();
    assert_eq!(
        (refused.kind(), refused.part()),
        (ErrorKind::TimedOut, Some(1))
    );
    drop(world.slots.try_acquire().unwrap());
    assert_eq!(world.rate.unrefunded(), 0);
}

#[tokio::test]
async fn cancel_on_a_token_ends_the_wait_and_takes_nothing() {
    let world = World::new(1, Quota::per_day(1));
    let (permit, charge) = all((&world.slots, &world.rate)).enter().await.unwrap();
    let token = CancellationToken::new();
    let waits = async || {
        let slot = world.slots.acquire().cancel_on(&token).await;
        slot.map(drop).unwrap_err().kind()
    };
    let unit = world.rate.acquire().cancel_on(&token);
    let (slot, unit, ()) = tokio::join!(waits(), unit, async { token.cancel() });
    assert_eq!(slot, ErrorKind::Cancelled);
    assert_eq!(unit.unwrap_err().kind(), ErrorKind::Cancelled);
    drop(permit);
    world.rate.refund(charge);
    drop(world.slots.try_acquire().unwrap());
    world.rate.try_acquire().unwrap();
}

#[tokio::test]
async fn enter_through_a_fair_queue_admits_all_its_classes() {
    let world = World::new(1, Quota::per_second(1_000).burst(1));
    let slots = FairQueue::new(world.slots.clone());
    let rate = FairQueue::new(world.rate.clone());
    let held = slots.class("a").acquire().await.unwrap();
    let (a, b) = (slots.class("a"), slots.class("b"));
    let enter = |class: &tollgate::fair::ClassHandle<FileSemaphore, &'static str>| {
        let wait = class.acquire();
        async { drop(wait.await.unwrap()) }
    };
    tokio::join!(enter(&a), enter(&b), async { drop(held) });
    for class in ["a", "b", "a"] {
        drop(rate.class(class).acquire().await.unwrap());
    }
    let boxed = BoxThrottle::new(world.rate.clone());
    drop(boxed.enter().await.unwrap());
}

#[tokio::test]
async fn call_through_a_layer_is_limited() {
    let world = World::new(1, Quota::per_day(1).burst(2));
    let limits = all((world.slots.clone(), world.rate.clone()));
    let service = ServiceBuilder::new()
        .layer(ThrottleLayer::new(limits).errors())
        .service(service_fn(async |n: u32| Ok::<_, Infallible>(n * n)));
    assert_eq!(service.clone().oneshot(3).await.unwrap(), 9);
    assert_eq!(service.clone().oneshot(4).await.unwrap(), 16);
    assert_eq!(
        world.rate.try_acquire().unwrap_err().kind(),
        ErrorKind::RateLimited
    );
    drop(world.slots.try_acquire().unwrap());
}

#[tokio::test]
async fn read_of_a_throttled_reader_charges_the_bytes_that_moved() {
    let world = World::new(1, Quota::per_hour(1).burst(4096));
    let mut reader = (&[7_u8; 100][..]).throttled(world.rate.clone());
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).await.unwrap();
    assert_eq!(bytes, [7; 100]);
    let rest = world.rate.try_acquire_many(4096 - 100);
    assert_eq!(rest.unwrap().cost(), 3996);
    assert!(world.rate.try_acquire().is_err());
}
