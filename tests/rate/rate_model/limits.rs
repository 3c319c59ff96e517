//! At the ends of what can be counted, and many at once.

use std::time::Duration;

use tollgate::{Clock, ErrorKind, MissedTickBehavior, Quota, RateLimiter};

use crate::support::{Waiter, kind};

/// The last tick of all means never, and a clock that is moved there does not wake forever; but a waiter
/// that becomes due there by a refund is granted like every other.
#[test]
fn acquire_at_the_last_tick_of_all_is_granted_only_by_a_refund() {
    let clock = Clock::manual();
    let [never, refunded] = [(); 2].map(|()| RateLimiter::new(Quota::per_second(1)).clock(&clock));
    never.charge(u64::MAX);
    let mut waiter = Waiter::parked(never.acquire());
    clock.advance(Duration::MAX);
    assert!(waiter.is_pending());
    let charge = refunded.try_acquire().unwrap();
    let mut waiter = Waiter::parked(refunded.acquire());
    refunded.refund(charge);
    assert_eq!(waiter.granted().cost(), 1);
}

/// Many limiters on one clock are due at one tick, and each arms its timer again: one after the
/// other, and not one inside the other.
#[test]
fn many_limiters_that_are_due_at_one_tick_do_not_nest() {
    let clock = Clock::manual();
    let limiters: Vec<_> = (0..5000)
        .map(|_| RateLimiter::new(Quota::per_second(1)).clock(&clock))
        .collect();
    let mut waiters = Vec::new();
    for limiter in &limiters {
        limiter.try_acquire().unwrap();
        waiters.push(Waiter::parked(limiter.acquire()));
        waiters.push(Waiter::parked(limiter.acquire()));
    }
    for gone in 1..=2 {
        clock.advance(Duration::from_secs(1));
        let woken = waiters.iter().filter(|waiter| waiter.wakes() > 0).count();
        assert_eq!(woken, gone * limiters.len());
    }
}

/// Waiters that are charged when they go lose no fraction of a nanosecond each, if the timer is on
/// time; so a call behind them gets the exact time.
#[test]
fn try_acquire_behind_a_queue_that_delays_gets_the_exact_time() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(700_000_000))
        .missed_tick(MissedTickBehavior::Delay)
        .clock(&clock);
    limiter.try_acquire().unwrap();
    let _queue: Vec<_> = (0..100)
        .map(|_| Waiter::parked(limiter.acquire()))
        .collect();
    let after = limiter.try_acquire().unwrap_err().retry_after().unwrap();
    assert_eq!(after, Duration::from_nanos((101_u64 * 10).div_ceil(7)));
    clock.advance(after - Duration::from_nanos(1));
    assert_eq!(limiter.snapshot().waiting, 0);
    assert_eq!(kind(limiter.try_acquire()), ErrorKind::RateLimited);
    clock.advance(Duration::from_nanos(1));
    limiter.try_acquire().unwrap();
}

/// Charged when they go, waiters keep the exact rate as long as the timer is on time.
#[test]
fn acquire_with_delay_keeps_the_exact_rate_and_no_more() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(700_000_000))
        .missed_tick(MissedTickBehavior::Delay)
        .clock(&clock);
    limiter.try_acquire().unwrap();
    let queue: Vec<_> = (0..7000)
        .map(|_| Waiter::parked(limiter.acquire()))
        .collect();
    for nanos in 1..=10_000_usize {
        clock.advance(Duration::from_nanos(1));
        let gone = queue.len() - limiter.snapshot().waiting;
        assert_eq!(gone, nanos * 7 / 10);
    }
}

/// The first and the last of ten thousand: those behind a waiter that leaves move up at once,
/// whichever leave first.
#[test]
fn acquire_dropped_by_ten_thousand_in_any_order_moves_the_last_up() {
    use crate::support::random::Random;

    type Pick = fn(&mut Random, usize) -> usize;
    let picks: [Pick; 3] = [
        |_, _| 0,
        |_, left| left - 1,
        |random, left| random.below(left as u32) as usize,
    ];
    for pick in picks {
        let clock = Clock::manual();
        let limiter = RateLimiter::new(Quota::per_second(10)).clock(&clock);
        limiter.try_acquire().unwrap();
        let mut waiters: Vec<_> = (0..10_000)
            .map(|_| Waiter::parked(limiter.acquire()))
            .collect();
        let mut last = waiters.pop().unwrap();
        let mut random = Random::new(1);
        while !waiters.is_empty() {
            drop(waiters.swap_remove(pick(&mut random, waiters.len())));
        }
        assert_eq!(limiter.snapshot().waiting, 1);
        clock.advance(Duration::from_millis(100));
        assert_eq!(last.granted().at(), clock.now());
    }
}
