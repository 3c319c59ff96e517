//! What goes wrong in queues with priorities and tenants.

use std::sync::Arc;
use std::time::Duration;

use tollgate::fair::{Class, FairQueue};
use tollgate::{Clock, ErrorKind, Semaphore};

use crate::support::{Waiter, assert_at_rest};

fn slots(permits: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(permits))
}

/// A stream of callers of high priority keeps one of low priority waiting without end.
///
/// Seen in milvus-io/milvus#51246, vivek-ng/concurrency-limiter#6.
#[test]
fn low_priority_starves_behind_a_stream_of_high_priority() {
    let clock = Clock::manual();
    let queue = FairQueue::new(slots(1))
        .classes(|priority| Class::new().priority(*priority))
        .aging(Duration::from_secs(1))
        .clock(&clock);
    let mut permit = queue.class(3).try_acquire().unwrap();
    let mut low = Waiter::parked(queue.class(0).acquire());
    for second in 1..=4 {
        let mut high = Waiter::parked(queue.class(3).acquire());
        clock.advance(Duration::from_secs(1));
        drop(permit);
        // At a level above the others, it goes first.
        if second == 4 {
            assert!(high.is_pending());
            drop(low.granted());
            break;
        }
        assert!(low.is_pending());
        permit = high.granted();
    }
    assert_eq!(queue.waiting(), 0);
}

/// One tenant queues a thousand, and another one waits for all of them.
///
/// Seen in wavelens/gradient#111.
#[test]
fn quiet_tenant_waits_behind_all_of_a_noisy_one() {
    let queue = FairQueue::new(slots(2));
    let [one, other] = [(); 2].map(|()| queue.class("noisy").try_acquire().unwrap());
    let mut noisy = [(); 1000].map(|()| Waiter::parked(queue.class("noisy").acquire()));
    let mut quiet = Waiter::parked(queue.class("quiet").acquire());
    drop(one);
    let permit = quiet.granted();
    assert!(noisy.iter_mut().all(Waiter::is_pending));
    drop((permit, other));
    assert!(noisy[..2].iter().all(|wait| wait.wakes() == 1));
}

/// A large request at the head gives up, and nobody wakes the small ones behind it.
///
/// Seen in embassy-rs/embassy#6964, unslothai/unsloth#9415.
#[test]
fn cancelled_large_head_leaves_small_ones_asleep() {
    let queue = FairQueue::new(slots(2));
    let permit = queue.class(1).try_acquire().unwrap();
    let large = Waiter::parked(queue.class(2).acquire_many(2));
    let mut small = Waiter::parked(queue.class(2).acquire());
    drop(large);
    assert_eq!(small.wakes(), 1);
    drop((small.granted(), permit));
    assert_at_rest(queue.throttle(), 2);
}

/// The queue of a tenant is removed while it holds permits, or never.
///
/// Seen in kubernetes/kubernetes#140884, ipfs/go-bitswap#112.
#[test]
fn queue_of_a_tenant_is_removed_in_use_or_never() {
    let queue = FairQueue::new(slots(8)).max_classes(2);
    let permit = queue.class(0).try_acquire().unwrap();
    for tenant in 1..1000 {
        drop(queue.class(tenant).acquire().wait().unwrap());
    }
    let classes = queue.snapshot();
    assert_eq!((classes.len(), classes[0].key, classes[0].held), (1, 0, 1));
    let _other = queue.class(1).try_acquire().unwrap();
    let refused = Waiter::new(queue.class(2).acquire()).refused();
    assert_eq!(refused, ErrorKind::QueueFull);
    drop(permit);
}
