//! Shares beside priorities and aging.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tollgate::fair::{Class, FairQueue, Share};
use tollgate::{Clock, ManualClock, Semaphore};

use crate::support::Waiter;

fn slots(permits: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(permits))
}

const MILLISECOND: Duration = Duration::from_millis(1);

/// Returns a queue of four slots, whose classes are named by their priorities.
fn aging(clock: &ManualClock) -> FairQueue<Arc<Semaphore>, u8> {
    FairQueue::new(slots(4))
        .classes(|key| Class::new().priority(*key))
        .aging(100 * MILLISECOND)
        .clock(clock)
}

/// The semaphore could admit the one of low priority, but the queue waits for more permits.
#[test]
fn drop_of_another_waiter_serves_one_that_has_aged_meanwhile() {
    let clock = Clock::manual();
    let queue = aging(&clock);
    let three = queue.class(3).acquire_many(3).wait().unwrap();
    // Nobody tells the queue when this one returns.
    let one = Arc::clone(queue.throttle()).try_acquire_owned().unwrap();
    let mut low = Waiter::parked(queue.class(0).acquire());
    clock.advance(50 * MILLISECOND);
    let high = Waiter::parked(queue.class(1).acquire_many(4));
    let leaves = Waiter::parked(queue.class(0).acquire());
    clock.advance(60 * MILLISECOND);
    drop(one);
    assert_eq!(low.wakes(), 0);
    drop(leaves);
    drop(low.granted());
    drop((three, high));
}

#[test]
fn acquire_with_aging_at_the_end_of_time_is_served() {
    let clock = Clock::manual();
    let queue = FairQueue::new(slots(1)).aging(Duration::MAX).clock(&clock);
    let permit = queue.class(1).try_acquire().unwrap();
    let mut waits = Waiter::parked(queue.class(2).acquire());
    clock.advance(Duration::MAX);
    drop(permit);
    drop(waits.granted());
}

/// Returns the percentage of grants of a class of weight 3 beside one of weight 1, when each permit
/// is held for the same number of turns and its caller comes again.
fn percent_of_the_heavy(permits: usize, share: Share) -> usize {
    let queue = FairQueue::new(slots(permits))
        .share(share)
        .classes(|weight| Class::new().weight(*weight));
    let mut held: VecDeque<_> = (0..permits)
        .map(|_| (1, queue.class(1).try_acquire().unwrap()))
        .collect();
    let park = |weight| (weight, Waiter::parked(queue.class(weight).acquire()));
    let mut waits: Vec<_> = [1, 3].repeat(2 * permits).into_iter().map(park).collect();
    let mut heavy = 0;
    // The first turns, until no permit is left of those that were there at the beginning.
    let before = 20 * permits;
    for turn in 0..before + 1200 {
        let (weight, permit) = held.pop_front().unwrap();
        drop(permit);
        let next = waits.iter().position(|(_, wait)| wait.wakes() > 0);
        let (served, mut wait) = waits.remove(next.unwrap());
        held.push_back((served, wait.granted()));
        waits.push(park(weight));
        heavy += usize::from(turn >= before && served == 3);
    }
    heavy * 100 / 1200
}

#[test]
fn weight_by_concurrency_holds_with_one_permit_and_multiples_of_the_sum_of_the_weights() {
    let percent = [1, 2, 3, 4, 6, 7, 8, 10, 12]
        .map(|permits| percent_of_the_heavy(permits, Share::ByConcurrency));
    assert_eq!(percent, [75, 50, 66, 75, 66, 71, 75, 70, 75]);
}

#[test]
fn weight_by_cost_holds_with_any_number_of_permits() {
    let percent = [1, 2, 3, 4, 8].map(|permits| percent_of_the_heavy(permits, Share::ByCost));
    assert_eq!(percent, [75; 5]);
}

#[test]
fn acquire_after_a_long_call_shares_evenly_among_three_classes() {
    const NAMES: [&str; 3] = ["slow", "b", "c"];
    let queue = FairQueue::new(slots(2));
    let park = |class: usize| (class, Waiter::parked(queue.class(NAMES[class]).acquire()));
    let slow = queue.class("slow").try_acquire().unwrap();
    let mut held = VecDeque::from([queue.class("b").try_acquire().unwrap()]);
    let mut waits: Vec<_> = [0, 1, 2].repeat(5).into_iter().map(park).collect();
    let mut turns = |held: &mut VecDeque<_>, count| {
        let mut grants = [0; 3];
        for _ in 0..count {
            drop(held.pop_front());
            let next = waits.iter().position(|(_, wait)| wait.wakes() > 0);
            let (class, mut wait) = waits.remove(next.unwrap());
            held.push_back(wait.granted());
            waits.push(park(class));
            grants[class] += 1;
        }
        grants
    };
    assert_eq!(turns(&mut held, 1000)[0], 0);
    held.push_back(slow);
    assert_eq!(turns(&mut held, 600), [200; 3]);
}
