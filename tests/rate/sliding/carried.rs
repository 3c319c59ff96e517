//! What a change of the quota promises: never more in any period than the quota in force, counting
//! what was carried over.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, Clock, Quota, QuotaChange, RateLimiter};

use crate::support::Waiter;
use crate::support::cases::cases;

fn run() -> impl Strategy<Value = Vec<(u64, u64, Option<u64>)>> {
    prop::collection::vec(
        (0..40_u64, 1..4_u64, prop::option::weighted(0.2, 1..40_u64)),
        1..80,
    )
}

proptest! {
    #![proptest_config(cases(300))]

    /// Whoever is admitted is one of at most `N` in the period that ends with it, for the `N` of
    /// the quota that is in force, whatever it was before; also who waited.
    #[test]
    fn what_was_spent_stays_spent_however_often_the_count_changes(
        algorithm in Just(Algorithm::SlidingLog),
        period in 40..200_u64,
        steps in run(),
    ) {
        let quota = |count| Quota::new(count, Duration::from_nanos(period));
        let clock = Clock::manual();
        let limiter = RateLimiter::new(quota(5)).algorithm(algorithm).clock(&clock);
        let mut charged: Vec<(u64, u64)> = Vec::new();
        let mut line = Vec::new();
        let mut most = 5;
        for (pause, cost, count) in steps {
            let cost = cost.min(most);
            clock.advance(Duration::from_nanos(pause));
            match limiter.try_acquire_many(cost) {
                Ok(charge) => charged.push((charge.at().as_nanos(), cost)),
                Err(_) if line.len() < 5 => {
                    let mut waiter = Waiter::new(limiter.acquire_many(cost));
                    let _ = waiter.poll().map(|refused| refused.unwrap_err());
                    line.push((waiter, cost));
                }
                Err(_) => {}
            }
            line.retain_mut(|(waiter, cost)| {
                if waiter.wakes() == 0 {
                    return true;
                }
                charged.extend(waiter.output().ok().map(|charge| (charge.at().as_nanos(), *cost)));
                false
            });
            let now = clock.now().as_nanos();
            let within: u64 = charged
                .iter()
                .filter(|(at, _)| at + period > now)
                .map(|(_, cost)| cost)
                .sum();
            prop_assert_eq!(limiter.available(), most.saturating_sub(within));
            if let Some(count) = count {
                limiter.set_quota_with(quota(count), QuotaChange::KeepSpent);
                most = count;
            }
        }
    }

    /// The same, and whatever the period was before, as there is a place for all that may matter.
    #[test]
    fn what_was_spent_stays_spent_however_often_the_period_changes(
        count in 1..6_u64,
        steps in prop::collection::vec(
            (0..60_u64, 1..4_u64, prop::option::weighted(0.2, 20..200_u64)),
            1..80,
        ),
    ) {
        let quota = |period| Quota::new(count, Duration::from_nanos(period));
        let clock = Clock::manual();
        let limiter = RateLimiter::new(quota(90)).algorithm(Algorithm::SlidingLog).clock(&clock);
        let mut charged: Vec<(u64, u64)> = Vec::new();
        let mut period = 90;
        for (pause, cost, change) in steps {
            clock.advance(Duration::from_nanos(pause));
            let cost = cost.min(count);
            if let Ok(charge) = limiter.try_acquire_many(cost) {
                charged.push((charge.at().as_nanos(), cost));
            }
            if let Some(change) = change {
                limiter.set_quota(quota(change));
                period = change;
            }
            let now = clock.now().as_nanos();
            let within = charged.iter().filter(|(at, _)| at + period > now);
            let within: u64 = within.map(|(_, cost)| cost).sum();
            prop_assert_eq!(limiter.available(), count.saturating_sub(within));
        }
    }
}

/// As much counts under the new quota as is owed, and what was fading goes on to fade.
#[test]
fn a_window_goes_on_to_fade() {
    let clock = Clock::manual();
    let quota = |count, nanos| Quota::new(count, Duration::from_nanos(nanos));
    let limiter = RateLimiter::new(quota(10, 100))
        .algorithm(Algorithm::SlidingWindow)
        .clock(&clock);
    limiter.try_acquire_many(8).unwrap();
    clock.advance(Duration::from_nanos(150));
    // Four of the window before, which end at 200; then they are eight, which end at 180.
    assert_eq!(limiter.available(), 6);
    let twice = quota(20, 60);
    limiter.set_quota_with(twice, QuotaChange::Proportional);
    assert_eq!(limiter.available(), 12);
    limiter.set_quota_with(quota(6, 60), QuotaChange::KeepSpent);
    assert_eq!(limiter.available(), 0);
    // Of the window before there cannot be more than six, which are three now; so three are of this
    // one. They fade in the next.
    let refused = limiter.try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), Some(Duration::from_nanos(10)));
    clock.advance(Duration::from_nanos(30));
    assert_eq!(limiter.available(), 3);
    clock.advance(Duration::from_nanos(60));
    assert_eq!(limiter.available(), 6);
}

/// An old log in many quotas: nothing is lost but what there is no place for.
#[test]
fn many_sizes_one_after_the_other() {
    let algorithm = Algorithm::SlidingLog;
    let clock = Clock::manual();
    let quota = |count| Quota::new(count, Duration::from_secs(1));
    let limiter = RateLimiter::new(quota(1))
        .algorithm(algorithm)
        .clock(&clock);
    limiter.try_acquire().unwrap();
    for power in 1..15 {
        let count = 1 << power;
        limiter.set_quota_with(quota(count), QuotaChange::KeepSpent);
        assert_eq!(limiter.available(), count - count / 2);
        limiter.try_acquire_many(count - count / 2).unwrap();
        let mut waiter = Waiter::parked(limiter.acquire_many(count));
        limiter.set_quota_with(quota(count + 1), QuotaChange::KeepSpent);
        assert!(waiter.is_pending());
        assert_eq!(limiter.peek_many(0).reset_after, Duration::from_secs(1));
        drop(waiter);
        limiter.set_quota_with(quota(count), QuotaChange::KeepSpent);
        assert_eq!(limiter.available(), 0);
    }
}

#[test]
fn by_a_longer_period_what_was_paid_off_by_the_shorter_one_counts_again() {
    let algorithm = Algorithm::SlidingLog;
    let clock = Clock::manual();
    let quota = |seconds| Quota::new(10, Duration::from_secs(seconds));
    let limiter = RateLimiter::new(quota(1))
        .algorithm(algorithm)
        .clock(&clock);
    limiter.try_acquire_many(10).unwrap();
    clock.advance(Duration::from_millis(1500));
    assert_eq!(limiter.available(), 10);
    limiter.set_quota(quota(60));
    let refused = limiter.try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), Some(Duration::from_millis(58_500)));
    // There and back.
    limiter.set_quota(quota(1));
    assert_eq!(limiter.available(), 10);
}
