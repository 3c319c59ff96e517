//! A quota that changes all the time.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, Clock, ManualClock, Quota, QuotaChange, RateLimiter};

use crate::audit::fullest;
use crate::support::cases::cases;

const PARTS: Algorithm = Algorithm::SubInterval { parts: 3 };

/// So many in so many milliseconds, and all at once by every algorithm.
fn quota(count: u64, millis: u64) -> Quota {
    Quota::new(count, Duration::from_millis(millis)).burst(count)
}

fn limiter(algorithm: Algorithm, quota: Quota) -> (ManualClock, RateLimiter) {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(quota).algorithm(algorithm).clock(&clock);
    (clock, limiter)
}

/// Takes up to so many, and says when.
fn take(limiter: &RateLimiter, most: u64) -> impl Iterator<Item = (u64, u64)> {
    let charges = (0..most).map_while(|_| limiter.try_acquire().ok());
    charges.map(|charge| (charge.at().as_nanos(), 1))
}

/// To set what is so already changes nothing, not even what can be given back.
#[test]
fn set_quota_to_the_same_again_and_again_is_no_change() {
    for &algorithm in Algorithm::all() {
        for millis in [10, 100, 400, 900, 1000, 1100] {
            let quota = quota(50, 1000);
            let (clock, limiter) = limiter(algorithm, quota);
            let other = RateLimiter::new(quota).algorithm(algorithm).clock(&clock);
            let most = limiter.snapshot().available;
            let charge = limiter.try_acquire_many(most / 2).unwrap();
            limiter.set_quota(quota);
            limiter.refund(charge);
            assert_eq!(limiter.snapshot().available, most, "{algorithm}");
            limiter.try_acquire_many(most / 2).unwrap();
            other.try_acquire_many(most / 2).unwrap();
            for _ in 0..3000 / millis {
                limiter.set_quota(quota);
                assert_eq!(limiter.peek(), other.peek(), "{algorithm}");
                clock.advance(Duration::from_millis(millis));
            }
            assert_eq!(limiter.snapshot().available, most, "{algorithm}, {millis}");
        }
    }
}

#[test]
fn set_quota_to_the_same_rate_in_other_words_is_no_change() {
    let (_clock, limiter) = limiter(Algorithm::Gcra, Quota::per_second(1).burst(3));
    let charge = limiter.try_acquire_many(2).unwrap();
    limiter.set_quota(Quota::per_minute(60).burst(3));
    assert_eq!(limiter.quota(), Quota::per_minute(60).burst(3));
    limiter.refund(charge);
    assert_eq!(limiter.snapshot().available, 3);
}

/// The count or the period changes each 10 or 11 ms, so that no window ends just between two changes.
/// A call for each 20 changes is admitted, and all that was spent comes back. In a sliding window whose
/// period changes, what fades is rounded up each time.
#[test]
fn quota_that_goes_back_and_forth_goes_on_to_admit() {
    for &algorithm in Algorithm::all() {
        for (count, period, millis) in [(1, 0, 10), (0, 1, 11)] {
            let quota = |more| quota(50 + count * more, 1000 + period * more);
            if period > 0 && algorithm == Algorithm::SlidingWindow {
                continue;
            }
            let run = |limiter: &RateLimiter, clock: &ManualClock, rounds: u64, every: u64| {
                for round in 0..rounds {
                    if every > 0 && round % every == 0 {
                        assert!(limiter.try_acquire().is_ok(), "{algorithm}, {round}");
                    }
                    limiter.set_quota(quota(1 - round % 2));
                    clock.advance(Duration::from_millis(millis));
                }
            };
            let (clock, asked) = limiter(algorithm, quota(0));
            run(&asked, &clock, 6000, 20);
            let (clock, spent) = limiter(algorithm, quota(0));
            let most = spent.snapshot().available;
            spent.try_acquire_many(most).unwrap();
            run(&spent, &clock, 220, 0);
            assert_eq!(spent.snapshot().available, most, "{algorithm}");
        }
    }
}

/// The period changes far within a window: ten windows in all, or more than 32 parts of two.
#[test]
fn period_that_goes_back_and_forth_within_a_window_ends_it() {
    for (algorithm, windows, each) in [
        (PARTS, 32, 2),
        (Algorithm::FixedWindow, 10, 8),
        (Algorithm::TokenBucket, 10, 8),
    ] {
        let quota = |round| Quota::new(8, Duration::from_nanos(1000 + round % 2));
        let (clock, limiter) = limiter(algorithm, quota(0));
        let mut total = 0;
        for round in 0..1000_u64 {
            total += take(&limiter, 99).count();
            limiter.set_quota(quota(round));
            clock.advance(Duration::from_nanos(11));
        }
        assert!(total >= windows * each, "{algorithm}: {total}");
    }
}

/// What was had at once under the old quota is paid off as soon as what is had at once under the new
/// one; but what was forced stays owed.
#[test]
fn set_quota_to_a_much_smaller_one_does_not_lock_out_for_what_was_had_before() {
    let minute = Duration::from_secs(60);
    for (algorithm, periods) in [
        (Algorithm::TokenBucket, 1),
        (Algorithm::FixedWindow, 1),
        (Algorithm::SlidingWindow, 2),
        (Algorithm::SubInterval { parts: 4 }, 1),
    ] {
        for forced in [0, 30] {
            let (clock, limiter) = limiter(algorithm, Quota::per_minute(1000));
            limiter
                .try_acquire_many(limiter.snapshot().available)
                .unwrap();
            limiter.charge(forced);
            limiter.set_quota(Quota::per_minute(10));
            assert_eq!(limiter.snapshot().available, 0, "{algorithm}");
            clock.advance(periods * minute);
            assert_eq!(limiter.try_acquire().is_ok(), forced == 0, "{algorithm}");
            clock.advance(4 * minute);
            assert!(limiter.try_acquire().is_ok(), "{algorithm}");
        }
    }
}

/// The end of a window of the old quota, the beginning of the next, and the beginning of one of the
/// new quota, in two milliseconds.
#[test]
fn set_quota_to_another_period_begins_no_window_in_the_midst_of_another() {
    for (algorithm, count) in [
        (Algorithm::SubInterval { parts: 1 }, 2),
        (Algorithm::FixedWindow, 10),
    ] {
        let ms = Duration::from_millis;
        let (clock, limiter) = limiter(algorithm, Quota::new(count, ms(1000)));
        let each = limiter.snapshot().available as usize;
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

/// Quotas are changed, and carried over, by the algorithm in use.
#[test]
fn set_quota_that_does_not_fit_the_algorithm_panics_and_changes_nothing() {
    let (_clock, limiter) = limiter(Algorithm::SlidingLog, Quota::per_second(10));
    limiter.try_acquire_many(4).unwrap();
    limiter.set_quota(Quota::per_second(9));
    assert_eq!(limiter.snapshot().available, 5);
    let burst = crate::support::foreign::panic_message(|| {
        limiter.set_quota(Quota::per_second(20).burst(3));
    });
    assert!(burst.is_some_and(|message| message.contains("20/s burst 3")));
    assert_eq!(limiter.snapshot().available, 5);
}

proptest! {
    #![proptest_config(cases(1000))]

    /// In any time of the shorter period there are no more than by the larger count: twice as many
    /// by a fixed window.
    #[test]
    fn windows_admit_no_more_across_changes_than_by_the_larger_count(
        (algorithm, times) in prop_oneof![Just((PARTS, 1)), Just((Algorithm::FixedWindow, 2))],
        steps in prop::collection::vec(
            (prop_oneof![3 => 0..3_u64, 3 => 0..40_u64, 1 => 0..200_u64], 0..12_u64),
            1..60,
        ),
        quotas in prop::collection::vec((4..12_u64, 60..120_u64, 0..30_usize), 0..5),
    ) {
        let quota = |count, nanos| Quota::new(count, Duration::from_nanos(nanos));
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
        let most = times * largest.expect("there is one");
        let fullest = fullest(&ticks, shortest.expect("there is one"));
        prop_assert!(fullest <= most, "{fullest} of {most}: {ticks:?}");
    }
}
