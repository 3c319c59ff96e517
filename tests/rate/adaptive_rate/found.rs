//! The rate over time, before servers that refuse.

use std::time::Duration;

use tollgate::adaptive::AdaptiveRate;
use tollgate::{Clock, Quota, RateLimiter};

use super::{starting_at, succeed_for};
use crate::support::Waiter;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn rate_without_refusals_doubles_twice_in_two_and_a_half_seconds() {
    let (clock, rate) = starting_at(100.0);
    succeed_for(&clock, &rate, 5 * SECOND / 2);
    assert!((380.0..=400.0).contains(&rate.rate()), "{}", rate.rate());
}

/// A list of jobs that are all started at once: nobody comes later.
#[test]
fn rate_of_callers_that_are_all_queued_already_grows() {
    let (clock, rate) = starting_at(10.0);
    let mut waiters: Vec<_> = (0..400).map(|_| Waiter::new(rate.acquire())).collect();
    waiters.retain_mut(|waiter| waiter.is_pending());
    let start = clock.now();
    while !waiters.is_empty() {
        clock.advance(Duration::from_millis(1));
        waiters.retain_mut(|waiter| waiter.is_pending());
    }
    // At 10 per second they would take 40 seconds.
    let took = clock.now().saturating_since(start);
    assert!(took < 7 * SECOND, "{took:?}");
}

#[test]
fn rate_that_is_not_used_stays() {
    let (clock, rate) = starting_at(100.0);
    for _ in 0..300 {
        clock.advance(Duration::from_millis(30));
        drop(rate.try_acquire().unwrap());
    }
    assert_eq!(rate.rate(), 100.0);
}

#[test]
fn rate_at_its_highest_limit_stays_there() {
    let (clock, rate) = starting_at(100.0);
    let rate = rate.limits(1.0..=150.0);
    succeed_for(&clock, &rate, 3 * SECOND);
    assert_eq!(rate.rate(), 150.0);
}

#[test]
fn rate_at_its_lowest_limit_stays_there() {
    let (clock, rate) = starting_at(10.0);
    let rate = rate.limits(5.0..=10.0);
    for _ in 0..20 {
        clock.advance(2 * SECOND);
        rate.try_acquire().unwrap().throttled(None);
    }
    assert_eq!(rate.rate(), 5.0);
}

#[test]
fn rate_after_an_outage_is_found_again() {
    let (clock, rate) = starting_at(100.0);
    // Everything is refused for ten seconds.
    let end = clock.now().saturating_add(10 * SECOND);
    while clock.now() < end {
        match rate.try_acquire() {
            Ok(permit) => permit.throttled(None),
            Err(error) => clock.advance(error.retry_after().unwrap()),
        }
    }
    assert!(rate.rate() < 10.0);
    succeed_for(&clock, &rate, 3 * SECOND);
    assert!(rate.rate() > 90.0, "{}", rate.rate());
}

#[test]
fn rate_after_an_outage_with_retry_after_is_found_again() {
    let (clock, rate) = starting_at(100.0);
    let end = clock.now().saturating_add(30 * SECOND);
    while clock.now() < end {
        match rate.try_acquire() {
            Ok(permit) => permit.throttled(Some(5 * SECOND)),
            Err(error) => clock.advance(error.retry_after().unwrap()),
        }
    }
    assert!(rate.rate() < 10.0);
    succeed_for(&clock, &rate, 5 * SECOND);
    assert!(rate.rate() > 90.0, "{}", rate.rate());
}

/// What a client gets from a server, and how often it is refused, for so long.
fn served(
    server: &RateLimiter,
    client: &AdaptiveRate,
    clock: &tollgate::ManualClock,
    duration: Duration,
) -> (u32, u32) {
    let (mut accepted, mut refused) = (0, 0);
    let end = clock.now().saturating_add(duration);
    while clock.now() < end {
        match client.try_acquire() {
            Err(error) => clock.advance(error.retry_after().unwrap()),
            Ok(permit) => match server.try_acquire() {
                Ok(_) => accepted += 1,
                Err(error) => {
                    refused += 1;
                    permit.throttled(error.retry_after());
                }
            },
        }
    }
    (accepted, refused)
}

#[test]
fn rate_of_a_server_is_found_and_followed() {
    let clock = Clock::manual();
    let quota = |rate: u64| Quota::per_second(rate).burst(rate / 10);
    let server = RateLimiter::new(quota(300)).clock(&clock);
    let client = AdaptiveRate::new().clock(&clock);
    served(&server, &client, &clock, 15 * SECOND);
    for rate in [300, 1_200, 150] {
        server.set_quota(quota(rate));
        served(&server, &client, &clock, 15 * SECOND);
        let (accepted, refused) = served(&server, &client, &clock, 60 * SECOND);
        let wanted = 60 * rate as u32;
        assert!(accepted >= wanted * 95 / 100, "{accepted} of {wanted}");
        assert!(refused * 200 <= wanted, "{refused} of {wanted}");
    }
}

#[test]
fn rate_of_a_server_that_was_slower_for_a_minute_is_found_within_six_seconds() {
    for longer in 0..10 {
        let clock = Clock::manual();
        let quota = |rate: u64| Quota::per_second(rate).burst(rate / 10);
        let server = RateLimiter::new(quota(300)).clock(&clock);
        let client = AdaptiveRate::new().clock(&clock);
        served(&server, &client, &clock, 30 * SECOND);
        server.set_quota(quota(30));
        let minute = 60 * SECOND + longer * SECOND / 2;
        served(&server, &client, &clock, minute);
        server.set_quota(quota(300));
        let most = (0..6)
            .map(|_| served(&server, &client, &clock, SECOND).0)
            .max();
        assert!(most >= Some(270), "{most:?} after {minute:?}");
    }
}
