//! Rates whose interval is no whole number of nanoseconds, over long runs.

use std::time::Duration;

use tollgate::{Clock, Quota, RateLimiter};

use crate::support::Waiter;

const NANOSECOND: Duration = Duration::from_nanos(1);

/// All that is to be had is taken at every nanosecond.
#[test]
fn try_acquire_admits_as_many_as_are_due_and_no_more() {
    for (quota, per_period, period) in [
        (Quota::per_second(700_000_000).burst(2), 7, 10),
        (Quota::new(3, Duration::from_nanos(10)).burst(3), 3, 10),
        (Quota::new(99, Duration::from_nanos(100)).burst(2), 99, 100),
    ] {
        let clock = Clock::manual();
        let limiter = RateLimiter::new(quota).clock(&clock);
        let (periods, mut taken) = (20_000 / period, 0);
        for _ in 0..periods * period {
            while limiter.try_acquire().is_ok() {
                taken += 1;
            }
            clock.advance(NANOSECOND);
        }
        while limiter.try_acquire().is_ok() {
            taken += 1;
        }
        assert_eq!(taken, quota.max_burst() + periods * per_period, "{quota}");
    }
}

#[test]
fn try_acquire_of_three_a_second_admits_each_at_its_first_nanosecond() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(3).burst(3)).clock(&clock);
    let mut times = Vec::new();
    while times.len() < 3 + 3 * 10_000 {
        match limiter.try_acquire() {
            Ok(charge) => times.push(charge.at().as_nanos()),
            Err(refused) => clock.advance(refused.retry_after().unwrap()),
        }
    }
    // The burst, and then each at the first nanosecond at which its third of a second has passed.
    assert_eq!(times[..3], [0, 0, 0]);
    for (number, time) in (1_u64..).zip(&times[3..]) {
        assert_eq!(*time, (number * 1_000_000_000).div_ceil(3));
    }
}

#[test]
fn acquire_without_a_burst_goes_at_the_exact_rate() {
    for (quota, count, period) in [
        (Quota::per_second(700_000_000), 7, 10),
        (Quota::new(3, Duration::from_nanos(10)), 3, 10),
        (Quota::per_second(3), 3, 1_000_000_000),
    ] {
        let clock = Clock::manual();
        let limiter = RateLimiter::new(quota).clock(&clock);
        limiter.try_acquire().unwrap();
        let mut queue: Vec<_> = (0..count * 1000)
            .map(|_| Waiter::parked(limiter.acquire()))
            .collect();
        clock.advance(Duration::from_nanos(period * 1000 - 1));
        assert!(queue.last_mut().unwrap().is_pending(), "{quota}");
        clock.advance(NANOSECOND);
        for (number, waiter) in (1..).zip(&mut queue) {
            let at = waiter.granted().at().as_nanos();
            assert_eq!(at, (number * period).div_ceil(count), "{quota}");
        }
        assert_eq!(limiter.waiting(), 0);
    }
}

/// Charged when they go, waiters keep the exact rate as long as the timer is on time.
#[test]
fn acquire_with_delay_keeps_the_exact_rate_and_no_more() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(700_000_000))
        .missed_tick(tollgate::MissedTickBehavior::Delay)
        .clock(&clock);
    limiter.try_acquire().unwrap();
    let queue: Vec<_> = (0..7000)
        .map(|_| Waiter::parked(limiter.acquire()))
        .collect();
    for nanos in 1..=10_000_usize {
        clock.advance(NANOSECOND);
        let gone = queue.len() - limiter.waiting();
        assert_eq!(gone, nanos * 7 / 10);
    }
}
