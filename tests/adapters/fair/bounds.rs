//! What is refused: callers beyond the bounds.

use std::sync::Arc;
use std::time::Duration;

use tollgate::fair::{Class, FairQueue, Share};
use tollgate::{Clock, ErrorKind, Semaphore};

use crate::support::{Waiter, kind};

fn slots(permits: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(permits))
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn acquire_in_one_class_too_many_is_refused_until_another_is_not_in_use() {
    let queue = FairQueue::new(slots(8)).max_classes(2);
    let handles = [1, 2, 3].map(|key| queue.class(key));
    let one = handles[0].try_acquire().unwrap();
    let two = handles[1].acquire().wait().unwrap();
    assert_eq!(kind(handles[2].try_acquire()), ErrorKind::QueueFull);
    assert_eq!(
        Waiter::new(handles[2].acquire()).refused(),
        ErrorKind::QueueFull
    );
    drop(one);
    let three = handles[2].try_acquire().unwrap();
    // The first class was forgotten, and its handle finds that out.
    assert_eq!(kind(handles[0].try_acquire()), ErrorKind::QueueFull);
    drop(two);
    let one = handles[0].try_acquire().unwrap();
    let again = queue.class(1).try_acquire().unwrap();
    let held: Vec<_> = queue
        .snapshot()
        .iter()
        .map(|class| (class.key, class.held))
        .collect();
    assert!(held.contains(&(1, 2)) && held.contains(&(3, 1)), "{held:?}");
    drop((one, again, three));
    assert!(queue.snapshot().is_empty());
}

#[test]
fn acquire_by_a_handle_of_a_forgotten_class_counts_with_the_new_one() {
    let queue = FairQueue::new(slots(8))
        .classes(|_| Class::new().max_concurrency(1))
        .max_classes(1);
    let old = queue.class(1);
    drop(old.try_acquire().unwrap());
    drop(queue.class(2).try_acquire().unwrap());
    let permit = queue.class(1).try_acquire().unwrap();
    assert_eq!(kind(old.try_acquire()), ErrorKind::NoPermits);
    let mut waits = Waiter::parked(old.acquire());
    drop(permit);
    drop(waits.granted());
}

/// Each key comes once, while somebody always waits.
#[test]
fn acquire_of_ever_new_classes_in_a_busy_queue_forgets_old_ones() {
    for share in [Share::ByConcurrency, Share::ByCost] {
        let queue = FairQueue::new(slots(1)).share(share).max_classes(50);
        let mut permit = queue.class(0).try_acquire().unwrap();
        let mut next = Waiter::parked(queue.class(1).acquire());
        for key in 2..1000 {
            let later = Waiter::parked(queue.class(key).acquire());
            drop(permit);
            permit = next.granted();
            next = later;
        }
    }
}

/// Of two classes that left, the one that is further ahead stays behind others when it comes back.
#[test]
fn acquire_by_cost_of_a_new_class_forgets_the_class_that_is_ahead_by_least() {
    let queue = FairQueue::new(slots(8)).share(Share::ByCost).max_classes(3);
    let all = queue.class(0).acquire_many(8).wait().unwrap();
    let [mut large, mut small] =
        [(1, 8), (2, 2)].map(|(key, cost)| Waiter::parked(queue.class(key).acquire_many(cost)));
    drop(all);
    drop(large.granted());
    let permit = small.granted();
    let rest = queue.class(0).acquire_many(6).wait().unwrap();
    drop(permit);
    drop(queue.class(0).acquire_many(2).wait().unwrap());
    // The table is full, and the class 0 is in use. Class 2 is forgotten, 1 is still behind.
    let two = queue.class(3).acquire_many(2).wait().unwrap();
    let mut first = Waiter::parked(queue.class(1).acquire_many(8));
    let mut second = Waiter::parked(queue.class(3).acquire_many(8));
    drop((rest, two));
    drop(second.granted());
    drop(first.granted());
}

/// Held permits are level at each turn of one permit, so there too it counts what classes were given.
#[test]
fn acquire_by_concurrency_of_a_new_class_forgets_the_class_that_is_ahead_by_least() {
    let queue = FairQueue::new(slots(1))
        .classes(|key| Class::new().weight(if *key == 2 { 4 } else { 1 }))
        .max_classes(3);
    let permit = queue.class(0).try_acquire().unwrap();
    let [mut far, mut near] = [1, 2].map(|key| Waiter::parked(queue.class(key).acquire()));
    drop(permit);
    drop(far.granted());
    drop(near.granted());
    let permit = queue.class(0).try_acquire().unwrap();
    // The table is full, and the class 0 is in use. Class 2 is forgotten, 1 is still behind.
    assert_eq!(kind(queue.class(3).try_acquire()), ErrorKind::NoPermits);
    let [mut far, mut new] = [1, 3].map(|key| Waiter::parked(queue.class(key).acquire()));
    drop(permit);
    drop(new.granted());
    drop(far.granted());
}

/// A class that was ahead is not forgotten while that matters, so leaving does not pay.
#[test]
fn acquire_by_cost_of_a_class_that_comes_back_is_still_behind() {
    let queue = FairQueue::new(slots(4)).share(Share::ByCost).max_classes(2);
    let (ahead, other) = (queue.class(1), queue.class(2));
    let all = ahead.acquire_many(4).wait().unwrap();
    let mut large = Waiter::parked(ahead.acquire_many(4));
    let mut small = Waiter::parked(other.acquire_many(1));
    drop(all);
    let all = large.granted();
    // The large one has left. It is not forgotten for a third class, and comes back.
    assert_eq!(
        Waiter::new(queue.class(3).acquire()).refused(),
        ErrorKind::QueueFull
    );
    let mut comes_back = Waiter::parked(ahead.acquire_many(1));
    let mut three = [(); 3].map(|()| Waiter::parked(other.acquire_many(1)));
    drop(all);
    let mut permits = vec![small.granted()];
    permits.extend(three.iter_mut().map(Waiter::granted));
    assert!(comes_back.is_pending());
    drop(permits);
    drop(comes_back.granted());
}

#[test]
fn acquire_with_a_timeout_runs_on_the_clock_of_the_queue() {
    let clock = Clock::manual();
    let queue = FairQueue::new(slots(1)).clock(&clock);
    let class = queue.class(());
    let _permit = class.try_acquire().unwrap();
    let mut waits = Waiter::parked(class.acquire().timeout(SECOND));
    clock.advance(SECOND);
    assert_eq!(waits.refused(), ErrorKind::TimedOut);
    assert_eq!(
        (queue.waiting(), queue.throttle().snapshot().waiting),
        (0, 0)
    );
}
