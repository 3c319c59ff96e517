//! Permits of a semaphore that go from their holder to the next waiter, and those that go back instead.

use std::mem;
use std::sync::Arc;

use tollgate::Semaphore;
use tollgate::fair::FairQueue;

use crate::support::Waiter;

type Queue = FairQueue<Arc<Semaphore>, u32>;

fn queue(permits: usize) -> Queue {
    FairQueue::new(Arc::new(Semaphore::new(permits)))
}

/// Callers at the semaphore and the entrant take turns, in the order in which they have come.
#[test]
fn drop_passes_no_caller_that_waits_at_the_semaphore() {
    let queue = queue(1);
    let semaphore = Arc::clone(queue.throttle());
    let held = queue.class(1).try_acquire().unwrap();
    let mut direct = Waiter::parked(Arc::clone(&semaphore).acquire_owned());
    let mut waits = [1, 2, 3].map(|key| Waiter::parked(queue.class(key).acquire()));
    let mut later = Waiter::parked(Arc::clone(&semaphore).acquire_owned());
    drop(held);
    drop(direct.granted());
    drop(waits[0].granted());
    drop(later.granted());
    drop(waits[1].granted());
    drop(waits[2].granted());
    assert_eq!(semaphore.available_permits(), 1);
}

/// A holder can exchange the inner permits of two queues, and split one.
#[test]
fn drop_of_a_permit_that_was_changed_returns_what_it_has() {
    let (one, two) = (queue(2), queue(1));
    let mut of_one = one.class(1).acquire_many(2).wait().unwrap();
    let mut of_two = two.class(1).try_acquire().unwrap();
    let mut waits = [&one, &two].map(|queue| Waiter::parked(queue.class(2).acquire()));
    mem::swap(&mut *of_one, &mut *of_two);
    let part = of_two.split(1).unwrap();
    drop(of_one);
    drop(waits[1].granted());
    assert!(waits[0].is_pending());
    drop(of_two);
    let permit = waits[0].granted();
    assert_eq!(one.throttle().available_permits(), 0);
    drop((part, permit));
    assert_eq!(one.throttle().available_permits(), 2);
    assert_eq!(two.throttle().available_permits(), 1);
    assert!(one.snapshot().is_empty() && two.snapshot().is_empty());
}

#[test]
fn into_inner_returns_the_permit_of_the_semaphore_to_the_caller() {
    let queue = queue(1);
    let held = queue.class(1).try_acquire().unwrap();
    let mut waits = Waiter::parked(queue.class(1).acquire());
    let inner = held.into_inner();
    assert!(waits.is_pending());
    drop(inner);
    drop(waits.granted());
    assert_eq!(queue.throttle().available_permits(), 1);
}

/// The entrants of both take turns, however many wait in each.
#[test]
fn two_queues_of_one_semaphore_hand_nothing_past_each_other() {
    let one = queue(1);
    let other: Queue = FairQueue::new(Arc::clone(one.throttle()));
    let mut held = one.class(1).try_acquire().unwrap();
    let [mut first, mut third] = [1, 2].map(|key| Waiter::parked(one.class(key).acquire()));
    let [mut second, mut fourth] = [1, 2].map(|key| Waiter::parked(other.class(key).acquire()));
    for waiter in [&mut first, &mut second, &mut third, &mut fourth] {
        drop(held);
        held = waiter.granted();
    }
    drop(held);
    assert_eq!(one.throttle().available_permits(), 1);
    assert!(one.snapshot().is_empty() && other.snapshot().is_empty());
}
