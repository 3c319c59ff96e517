//! Shares beside priorities and aging.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tollgate::fair::{Class, FairQueue, Share};
use tollgate::throttle::Weighted;
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

/// One low class waits while a high one is served, and another one comes after that.
#[test]
fn acquire_by_cost_of_two_low_classes_after_load_of_a_high_one_takes_turns() {
    let queue = FairQueue::new(slots(1))
        .share(Share::ByCost)
        .classes(|key| Class::new().priority(u8::from(*key == "high")));
    let mut held = queue.class("high").try_acquire().unwrap();
    let park = |key| Waiter::parked(queue.class(key).acquire());
    let mut one: Vec<_> = (0..20).map(|_| park("one")).collect();
    let mut high: Vec<_> = (0..500).map(|_| park("high")).collect();
    for wait in &mut high {
        drop(held);
        held = wait.granted();
    }
    let mut two: Vec<_> = (0..20).map(|_| park("two")).collect();
    for (one, two) in one.iter_mut().zip(&mut two) {
        drop(held);
        drop(one.granted());
        held = two.granted();
    }
}

/// The class is ranked by the waiter that is then its oldest.
#[test]
fn drop_of_the_oldest_waiter_of_a_class_puts_it_behind_one_that_came_before_the_next() {
    for share in [Share::ByConcurrency, Share::ByCost] {
        let queue = FairQueue::new(slots(1)).share(share);
        let permit = queue.class("holds").try_acquire().unwrap();
        let park = |key| Waiter::parked(queue.class(key).acquire());
        let leaves = park("one");
        let mut other = park("two");
        let mut next = park("one");
        drop(leaves);
        drop(permit);
        drop(other.granted());
        drop(next.granted());
    }
}

/// Both classes count as one level; the lower one goes first, whatever they have been charged.
#[test]
fn acquire_of_a_class_that_has_aged_goes_before_a_higher_one_of_its_level() {
    for share in [Share::ByConcurrency, Share::ByCost] {
        let clock = Clock::manual();
        let queue = FairQueue::new(slots(1))
            .share(share)
            .classes(|priority| Class::new().priority(*priority))
            .aging(10 * MILLISECOND)
            .clock(&clock);
        let mut held = queue.class(0).try_acquire().unwrap();
        for _ in 0..9 {
            let mut charged = Waiter::parked(queue.class(0).acquire());
            drop(held);
            held = charged.granted();
        }
        let mut low = Waiter::parked(queue.class(0).acquire());
        clock.advance(10 * MILLISECOND);
        let mut high = Waiter::parked(queue.class(1).acquire());
        drop(held);
        drop(low.granted());
        drop(high.granted());
    }
}

/// The highest level is reached too.
#[test]
fn acquire_of_a_class_below_the_highest_priority_ages_by_one() {
    let clock = Clock::manual();
    let queue = FairQueue::new(slots(1))
        .classes(|priority| Class::new().priority(*priority))
        .aging(10 * MILLISECOND)
        .clock(&clock);
    let held = queue.class(255).try_acquire().unwrap();
    let mut low = Waiter::parked(queue.class(254).acquire());
    clock.advance(10 * MILLISECOND);
    let mut high = Waiter::parked(queue.class(255).acquire());
    drop(held);
    drop(low.granted());
    drop(high.granted());
}

/// The oldest waiter of the low class never goes, and would raise its class for ever.
#[test]
fn acquire_of_a_class_that_serves_the_newest_first_does_not_age() {
    let clock = Clock::manual();
    let queue = FairQueue::new(slots(1))
        .classes(|is_high| match is_high {
            true => Class::new().priority(100),
            false => Class::new().adaptive_lifo(MILLISECOND),
        })
        .aging(10 * MILLISECOND)
        .clock(&clock);
    let mut held = queue.class(true).try_acquire().unwrap();
    let oldest = Waiter::parked(queue.class(false).acquire());
    clock.advance(2000 * MILLISECOND);
    for _ in 0..10 {
        let mut high = Waiter::parked(queue.class(true).acquire());
        let low = Waiter::parked(queue.class(false).acquire());
        drop(held);
        held = high.granted();
        assert_eq!(low.wakes(), 0);
    }
    assert_eq!(oldest.wakes(), 0);
}

/// The queue waits for more permits, and looks at the time when one returns.
#[test]
fn drop_of_a_permit_serves_one_that_has_aged_meanwhile() {
    let clock = Clock::manual();
    let queue = aging(&clock);
    let three = queue.class(3).acquire_many(3).wait().unwrap();
    let one = queue.class(2).acquire().wait().unwrap();
    let mut low = Waiter::parked(queue.class(0).acquire());
    clock.advance(50 * MILLISECOND);
    let high = Waiter::parked(queue.class(1).acquire_many(4));
    clock.advance(60 * MILLISECOND);
    drop(one);
    drop(low.granted());
    drop((three, high));
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

/// When its permit returns, its waiter has reached the level of the other class.
#[test]
fn acquire_in_a_class_at_its_maximum_ages_while_it_waits() {
    let clock = Clock::manual();
    let queue = FairQueue::new(slots(1))
        .classes(|priority| Class::new().priority(*priority).max_concurrency(1))
        .aging(10 * MILLISECOND)
        .clock(&clock);
    let permit = queue.class(0).try_acquire().unwrap();
    let mut low = Waiter::parked(queue.class(0).acquire());
    clock.advance(10 * MILLISECOND);
    let mut high = Waiter::parked(queue.class(1).acquire());
    drop(permit);
    drop(low.granted());
    drop(high.granted());
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

/// A class that asks for much and uses little of it has what it asked for.
#[test]
fn settle_of_less_than_was_asked_for_counts_what_was_asked_for() {
    let queue = FairQueue::new(slots(100)).share(Share::ByCost);
    let [a, b] = ["a", "b"].map(|key| queue.class(key));
    let all = a.acquire_many(100).wait().unwrap();
    let mut first = Waiter::parked(a.acquire_many(50));
    let mut other = Waiter::parked(b.acquire_many(10));
    let mut again = Waiter::parked(a.acquire_many(50));
    let mut others = [(); 4].map(|()| Waiter::parked(b.acquire_many(10)));
    queue.throttle().set_permits(50);
    drop(all);
    a.settle(first.granted(), 0);
    // As many units as the other class asked for, the first one has already.
    let mut held = vec![other.granted()];
    held.extend(others.each_mut().map(Waiter::granted));
    assert!(again.is_pending());
    drop(held);
    drop(again.granted());
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

/// An entry counts as one, whatever it costs.
#[test]
fn acquire_by_concurrency_of_classes_with_different_costs_takes_turns() {
    let queue = FairQueue::new(slots(4));
    let held = queue.class("holds").acquire_many(4).wait().unwrap();
    let park = |key, cost| Waiter::parked(queue.class(key).acquire_many(cost));
    let heavy: Vec<_> = (0..8).map(|_| park("heavy", 4)).collect();
    let light: Vec<_> = (0..8).map(|_| park("light", 1)).collect();
    drop(held);
    for (mut heavy, mut light) in heavy.into_iter().zip(light) {
        drop(heavy.granted());
        drop(light.granted());
    }
}

#[test]
fn weight_by_cost_holds_with_any_number_of_permits() {
    let percent = [1, 2, 3, 4, 8].map(|permits| percent_of_the_heavy(permits, Share::ByCost));
    assert_eq!(percent, [75; 5]);
}

/// With one permit no class holds any when it returns, so all are level at each choice.
#[test]
fn acquire_of_a_class_with_many_callers_takes_turns_with_one_of_a_single_caller() {
    let queue = FairQueue::new(slots(1));
    let mut held = queue.class("loud").try_acquire().unwrap();
    let park = |key| Waiter::parked(queue.class(key).acquire());
    let loud: Vec<_> = (0..20).map(|_| park("loud")).collect();
    let mut quiet = park("quiet");
    for mut loud in loud {
        drop(held);
        held = loud.granted();
        drop(held);
        held = quiet.granted();
        quiet = park("quiet");
    }
}

/// A class of a single long call has been served all the while, and is owed nothing when it ends.
#[test]
fn acquire_after_a_long_call_and_a_lower_limit_takes_turns_with_the_other_class() {
    let queue = FairQueue::new(slots(2));
    let park = |key| Waiter::parked(queue.class(key).acquire());
    let slow_held = queue.class("slow").try_acquire().unwrap();
    let mut fast_held = queue.class("fast").try_acquire().unwrap();
    let mut slow = [(); 4].map(|()| park("slow"));
    let mut fast: VecDeque<_> = (0..4).map(|_| park("fast")).collect();
    for _ in 0..100 {
        drop(fast_held);
        fast_held = fast.pop_front().unwrap().granted();
        fast.push_back(park("fast"));
    }
    queue.throttle().set_permits(1);
    drop(slow_held);
    drop(fast_held);
    // It starts with the last turn of the other class, and its waiters came earlier.
    let [first, slow @ ..] = &mut slow;
    drop(first.granted());
    for (slow, fast) in slow.iter_mut().zip(&mut fast) {
        drop(slow.granted());
        drop(fast.granted());
    }
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
