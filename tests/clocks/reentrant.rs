//! Wakers that do something with the time or the limiter themselves, at the tick at which they are
//! called.

use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;
use tollgate::Waiting;

use tollgate::{Clock, ManualClock, Quota, RateLimiter};

use crate::millis;
use crate::support::Waiter;
use crate::support::foreign::{calls_when_woken, panics_when_woken};

fn limiter(clock: &ManualClock) -> Arc<RateLimiter> {
    let limiter = Arc::new(RateLimiter::new(Quota::per_second(100)).clock(clock));
    limiter.try_acquire().unwrap();
    limiter
}

fn advances(clock: &ManualClock, by: Duration) -> Waker {
    let clock = clock.clone();
    calls_when_woken(move || clock.advance(by))
}

#[test]
fn waker_that_advances_adds_to_where_time_is_going() {
    let clock = Clock::manual();
    let limiter = limiter(&clock);
    let mut waiter = Waiter::new(limiter.acquire());
    assert!(waiter.poll_with(&advances(&clock, millis(7))).is_pending());
    clock.advance(millis(15));
    assert_eq!(clock.now().as_nanos(), 22_000_000);
    assert_eq!(waiter.granted().at().as_nanos(), 10_000_000);
}

/// When it was not time that made the first one due, the next is overdue before its timer is armed.
#[test]
fn waker_that_advances_when_the_head_has_left_strands_nobody() {
    let clock = Clock::manual();
    let limiter = Arc::new(RateLimiter::new(Quota::per_second(100).burst(5)).clock(&clock));
    limiter.try_acquire_many(3).unwrap();
    let head = Waiter::parked(limiter.acquire_many(5));
    let mut second = Waiter::new(limiter.acquire_many(2));
    assert!(second.poll_with(&advances(&clock, millis(15))).is_pending());
    let mut third = Waiter::parked(limiter.acquire());
    drop(head);
    assert_eq!(clock.now().as_nanos(), 15_000_000);
    assert_eq!(third.wakes(), 1);
    second.granted();
    third.granted();
}

#[test]
fn what_a_waker_does_is_done_at_its_tick() {
    let clock = Clock::manual();
    let limiters = [limiter(&clock), limiter(&clock)];
    let seen = Arc::new(Mutex::new(Vec::new()));
    let waker = {
        let (clock, seen) = (clock.clone(), Arc::clone(&seen));
        let other = RateLimiter::new(Quota::per_second(100)).clock(&clock);
        calls_when_woken(move || {
            let charge = other.try_acquire().unwrap();
            seen.lock().unwrap().push((clock.now(), charge.at()));
        })
    };
    let mut first = Waiter::new(limiters[0].acquire());
    assert!(first.poll_with(&waker).is_pending());
    clock.advance(millis(3));
    let mut second = Waiter::new(limiters[1].acquire_many(1));
    limiters[1].charge(1);
    assert!(second.poll_with(&waker).is_pending());
    clock.advance(millis(500));
    let seen = seen.lock().unwrap();
    let ticks: Vec<_> = seen
        .iter()
        .map(|(now, at)| (now.as_nanos(), at.as_nanos()))
        .collect();
    assert_eq!(ticks, [(10_000_000, 10_000_000), (20_000_000, 20_000_000)]);
}

/// It joins the queue again when it is woken, and is due at the tick after, which is before the end.
#[test]
fn waker_that_joins_again_is_due_before_the_end_of_the_step() {
    type Rejoined = Mutex<Vec<Waiter<Waiting<<Arc<RateLimiter> as tollgate::Throttle>::Enter>>>>;
    let clock = Clock::manual();
    let limiter = limiter(&clock);
    let rejoined = Arc::new(Rejoined::default());
    let waker = {
        let (limiter, rejoined) = (Arc::clone(&limiter), Arc::clone(&rejoined));
        calls_when_woken(move || {
            let waiter = Waiter::parked(Arc::clone(&limiter).acquire_owned());
            rejoined.lock().unwrap().push(waiter);
        })
    };
    let mut first = Waiter::new(limiter.acquire());
    assert!(first.poll_with(&waker).is_pending());
    clock.advance(millis(100));
    assert_eq!(first.granted().at().as_nanos(), 10_000_000);
    let mut rejoined = rejoined.lock().unwrap();
    assert_eq!(rejoined.len(), 1);
    assert_eq!(rejoined[0].wakes(), 1);
    assert_eq!(rejoined[0].granted().at().as_nanos(), 20_000_000);
}

/// Neither the waker of a waiter nor that of a timeout, which is set on the clock itself.
#[test]
fn waker_that_panics_delays_nobody() {
    for timeout in [Duration::MAX, millis(10)] {
        let clock = Clock::manual();
        let limiters = [limiter(&clock), limiter(&clock)];
        let mut bad = Waiter::new(limiters[0].acquire().timeout(timeout));
        assert!(bad.poll_with(&panics_when_woken()).is_pending());
        let mut behind = Waiter::parked(limiters[0].acquire());
        let mut elsewhere = Waiter::parked(limiters[1].acquire());
        clock.advance(millis(20));
        assert_eq!(clock.now().as_nanos(), 20_000_000);
        assert_eq!((behind.wakes(), elsewhere.wakes()), (1, 1));
        let ticks = [bad.granted(), behind.granted(), elsewhere.granted()];
        let ticks = ticks.map(|charge| charge.at().as_nanos());
        assert_eq!(ticks, [10_000_000, 20_000_000, 10_000_000]);
    }
}
