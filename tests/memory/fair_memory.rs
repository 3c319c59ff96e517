//! How much memory one call of a fair queue allocates and frees, however many callers wait.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use stats_alloc::Region;
use tollgate::Semaphore;
use tollgate::fair::{ClassHandle, FairPermit, FairQueue};

use crate::support::random::Random;
use crate::{COUNTED, alone, held};

const WAITERS: usize = 100_000;
/// What one call may allocate and free; all waiters have some megabytes.
const AT_MOST: usize = 1 << 20;

type Queue = FairQueue<Arc<Semaphore>, usize>;
type Wait = tollgate::Waiting<<ClassHandle<Arc<Semaphore>, usize> as tollgate::Throttle>::Enter>;
type Permit = FairPermit<Arc<Semaphore>, usize>;

/// Runs one call, and checks how many bytes it allocates and frees.
#[track_caller]
fn one_call<T>(run: impl FnOnce() -> T) -> T {
    let region = Region::new(COUNTED);
    let result = run();
    let change = region.change();
    let moved = change.bytes_allocated + change.bytes_deallocated;
    assert!(moved <= AT_MOST, "{moved} bytes in one call");
    result
}

fn poll(wait: &mut Wait) -> Poll<Permit> {
    let mut context = Context::from_waker(Waker::noop());
    pin!(wait).poll(&mut context).map(Result::unwrap)
}

/// Fills the queue; the semaphore has no permit left.
fn fill(queue: &Queue) -> Vec<Wait> {
    let mut waits: Vec<_> = (0..WAITERS)
        .map(|index| queue.class(index % 3).acquire())
        .collect();
    for wait in &mut waits {
        assert!(one_call(|| poll(wait)).is_pending());
    }
    waits
}

fn queue() -> (Queue, Permit) {
    let queue = FairQueue::new(Arc::new(Semaphore::new(1)));
    let permit = queue.class(0).try_acquire().unwrap();
    (queue, permit)
}

#[test]
fn drop_of_each_of_many_permits_moves_and_frees_few_waiters() {
    let _alone = alone();
    let (queue, mut permit) = queue();
    let mut waits = fill(&queue);
    // The classes take turns, as the waiters came.
    for (served, wait) in waits.iter_mut().enumerate() {
        one_call(|| drop(permit));
        permit = match one_call(|| poll(wait)) {
            Poll::Ready(permit) => permit,
            Poll::Pending => panic!("{served} were served"),
        };
    }
}

#[test]
fn drop_of_each_of_many_waiters_moves_and_frees_few_others() {
    let _alone = alone();
    let (queue, _permit) = queue();
    let mut waits = fill(&queue);
    let mut random = Random::new(7);
    while !waits.is_empty() {
        let index = random.below(waits.len() as u32) as usize;
        let wait = waits.swap_remove(index);
        one_call(|| drop(wait));
    }
    assert_eq!(queue.waiting(), 0);
}

#[test]
fn drop_of_the_last_waiter_frees_memory_time_after_time() {
    let _alone = alone();
    let region = Region::new(COUNTED);
    let (queue, _permit) = queue();
    drop(fill(&queue));
    for _ in 0..100 {
        let mut wait = queue.class(0).acquire();
        assert!(one_call(|| poll(&mut wait)).is_pending());
        one_call(|| drop(wait));
    }
    assert!(held(&region) <= 256 << 10, "{} bytes", held(&region));
}

/// One waits all the time, so the slots are never all free.
#[test]
fn acquire_after_others_have_left_uses_their_slots_again() {
    let _alone = alone();
    let (queue, permit) = queue();
    let mut stays = queue.class(0).acquire();
    assert!(poll(&mut stays).is_pending());
    let region = Region::new(COUNTED);
    for _ in 0..WAITERS {
        let mut leaves = queue.class(0).acquire();
        assert!(poll(&mut leaves).is_pending());
    }
    assert!(held(&region) <= 64 << 10, "{} bytes", held(&region));
    drop(permit);
}
