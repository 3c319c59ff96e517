//! What windows promise across a change of the quota.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, Clock, ManualClock, Quota, QuotaChange, RateLimiter};

use crate::support::cases::cases;

const PARTS: Algorithm = Algorithm::SubInterval { parts: 3 };

fn quota(count: u64, nanos: u64) -> Quota {
    Quota::new(count, Duration::from_nanos(nanos))
}

fn limiter(algorithm: Algorithm, quota: Quota) -> (ManualClock, RateLimiter) {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(quota).algorithm(algorithm).clock(&clock);
    (clock, limiter)
}

/// Takes up to so many, and says when.
fn take(limiter: &RateLimiter, most: u64) -> impl Iterator<Item = u64> {
    let charges = (0..most).map_while(|_| limiter.try_acquire().ok());
    charges.map(|charge| charge.at().as_nanos())
}

/// How many there are in the fullest time of a period, as one would write it down.
fn fullest(ticks: &[u64], period: u64) -> usize {
    let from = |from: u64| {
        let within = |tick: &&u64| (from..from + period).contains(*tick);
        ticks.iter().filter(within).count()
    };
    ticks.iter().map(|tick| from(*tick)).max().unwrap_or(0)
}

/// How many times the count there may be.
fn times(algorithm: Algorithm) -> u64 {
    if algorithm == Algorithm::FixedWindow {
        2
    } else {
        1
    }
}

fn algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![Just(PARTS), Just(Algorithm::FixedWindow)]
}

/// After how long somebody comes, and for how many.
fn steps() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let pause = prop_oneof![3 => 0..3_u64, 3 => 0..40_u64, 1 => 0..200_u64];
    prop::collection::vec((pause, 0..12_u64), 1..60)
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn in_the_shorter_period_there_are_no_more_than_by_the_larger_count(
        algorithm in algorithm(),
        steps in steps(),
        quotas in prop::collection::vec((4..12_u64, 60..120_u64, 0..30_usize), 0..5),
    ) {
        let (clock, limiter) = limiter(algorithm, quota(8, 90));
        let mut changes = quotas.iter();
        let (mut ticks, mut next) = (Vec::new(), changes.next());
        let mut wait = next.map_or(0, |change| change.2);
        for (pause, most) in steps {
            clock.advance(Duration::from_nanos(pause));
            ticks.extend(take(&limiter, most));
            if let Some((count, nanos, _)) = next.filter(|_| wait == 0) {
                limiter.set_quota_with(quota(*count, *nanos), QuotaChange::Proportional);
                next = changes.next();
                wait = next.map_or(0, |change| change.2);
            }
            wait = wait.saturating_sub(1);
        }
        let shortest = quotas.iter().map(|(_, nanos, _)| *nanos).chain([90]).min();
        let largest = quotas.iter().map(|(count, ..)| *count).chain([8]).max();
        let most = times(algorithm) * largest.expect("there is one");
        let fullest = fullest(&ticks, shortest.expect("there is one"));
        prop_assert!(fullest as u64 <= most, "{fullest} of {most}: {ticks:?}");
    }
}

/// The end of a window of the old quota, the beginning of the next, and the beginning of one of the
/// new quota, in two milliseconds.
#[test]
fn a_change_of_the_period_does_not_begin_a_window_in_the_midst_of_another() {
    for (algorithm, count) in [
        (Algorithm::SubInterval { parts: 1 }, 2),
        (Algorithm::FixedWindow, 10),
    ] {
        let ms = Duration::from_millis;
        let (clock, limiter) = limiter(algorithm, Quota::new(count, ms(1000)));
        let each = limiter.available() as usize;
        clock.advance(ms(999));
        assert_eq!(take(&limiter, 99).count(), each);
        clock.advance(ms(1));
        assert_eq!(take(&limiter, 99).count(), each);
        limiter.set_quota(Quota::new(count, ms(1001)));
        clock.advance(ms(1));
        let refused = limiter.try_acquire().unwrap_err();
        assert_eq!(refused.retry_after(), Some(ms(1000)), "{algorithm}");
    }
}

/// However often it changes, a window that has begun ends.
#[test]
fn a_period_that_goes_back_and_forth_goes_on_to_admit() {
    for algorithm in [PARTS, Algorithm::FixedWindow, Algorithm::TokenBucket] {
        let (clock, limiter) = limiter(algorithm, quota(8, 1000));
        let mut total = 0;
        for round in 0..1000_u64 {
            total += take(&limiter, 99).count();
            limiter.set_quota(quota(8, 1000 + round % 2));
            clock.advance(Duration::from_nanos(11));
        }
        // Ten windows in all, or more than 32 parts of two.
        let (windows, each) = if algorithm == PARTS { (32, 2) } else { (10, 8) };
        assert!(total >= windows * each, "{algorithm}: {total}");
    }
}
