//! Fair queues: the order, refusals, and that nothing is lost. Here: the limit on classes and which class is
//! forgotten; and unusual ways to return a permit.

mod figures;
mod late;
mod naive;
mod newcomers;
mod random;
mod rates;
mod scenarios;
#[cfg(feature = "channel")]
mod throttles;
mod world;

use std::mem;
use std::sync::{Arc, Mutex};
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
    let [one, two, three] = [1, 2, 3].map(|key| queue.class(key));
    let (first, second) = (one.try_acquire().unwrap(), two.acquire().wait().unwrap());
    assert_eq!(kind(three.try_acquire()), ErrorKind::QueueFull);
    assert_eq!(kind(three.acquire().wait()), ErrorKind::QueueFull);
    drop(first);
    let third = three.try_acquire().unwrap();
    // The first class was forgotten, and its handle finds that out.
    assert_eq!(kind(one.try_acquire()), ErrorKind::QueueFull);
    drop(second);
    drop((one.try_acquire().unwrap(), third));
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

/// Each key comes once, while there is always a waiter.
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

/// Of two classes that left, the one that is further ahead is remembered.
#[test]
fn acquire_of_a_new_class_forgets_the_class_that_is_ahead_by_least() {
    for (share, permits, weight) in [(Share::ByConcurrency, 1, 4), (Share::ByCost, 8, 1)] {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let queue = {
            let asked = Arc::clone(&asked);
            FairQueue::new(slots(permits))
                .share(share)
                .max_classes(3)
                .classes(move |key| {
                    asked.lock().unwrap().push(*key);
                    Class::new().weight(if *key == 2 { weight } else { 1 })
                })
        };
        let all = permits as u64;
        let held = queue.class(0).try_acquire_many(all).unwrap();
        let mut far = Waiter::parked(queue.class(1).acquire_many(all));
        let near = [(); 4].map(|()| queue.class(2).acquire_many(all.div_ceil(4)));
        let [mut first, mut second, mut third, mut last] = near.map(Waiter::parked);
        drop(held);
        drop(first.granted());
        drop(second.granted());
        drop(third.granted());
        // Class 1 has paid as much as class 2 four times, and came first.
        drop(far.granted());
        drop(last.granted());
        let held = queue.class(0).try_acquire().unwrap();
        // The table is full, and class 0 is in use.
        let _waits = Waiter::new(queue.class(3).acquire_many(all)).is_pending();
        asked.lock().unwrap().clear();
        drop((queue.class(1), queue.class(2), held));
        assert_eq!(*asked.lock().unwrap(), [2], "{share:?}");
    }
}

/// A class that was ahead is not forgotten while that matters, so leaving does not pay.
#[test]
fn acquire_by_cost_of_a_class_that_comes_back_is_still_behind() {
    let queue = FairQueue::new(slots(4)).share(Share::ByCost).max_classes(2);
    let (ahead, other) = (queue.class(1), queue.class(2));
    let all = ahead.acquire_many(4).wait().unwrap();
    let mut large = Waiter::parked(ahead.acquire_many(4));
    let mut small = [(); 4].map(|()| Waiter::parked(other.acquire_many(1)));
    drop(all);
    small[..3]
        .iter_mut()
        .for_each(|small| drop(small.granted()));
    let all = large.granted();
    // The large one has left. It is not forgotten when a third class comes, and returns.
    assert_eq!(
        Waiter::new(queue.class(3).acquire()).refused(),
        ErrorKind::QueueFull
    );
    let mut comes_back = Waiter::parked(ahead.acquire_many(1));
    let mut three = [(); 3].map(|()| Waiter::parked(other.acquire_many(1)));
    drop(all);
    let mut permits = vec![small[3].granted()];
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

/// Direct callers of the semaphore and the entrant take turns, in the order of their arrival.
#[test]
fn drop_passes_no_caller_that_waits_at_the_semaphore() {
    let queue = FairQueue::new(slots(1));
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
    let (one, two) = (FairQueue::new(slots(2)), FairQueue::new(slots(1)));
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
    let queue = FairQueue::new(slots(1));
    let held = queue.class(1).try_acquire().unwrap();
    let mut waits = Waiter::parked(queue.class(1).acquire());
    let inner = held.into_inner();
    assert!(waits.is_pending());
    drop(inner);
    drop(waits.granted());
    assert_eq!(queue.throttle().available_permits(), 1);
    assert!(queue.snapshot().is_empty());
}

/// The entrants of both queues take turns, however many callers wait in each.
#[test]
fn two_queues_of_one_semaphore_hand_nothing_past_each_other() {
    let one = FairQueue::new(slots(1));
    let other = FairQueue::new(Arc::clone(one.throttle()));
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
