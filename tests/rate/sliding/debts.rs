//! What was charged in advance and is given back: all of it as long as nobody was charged since,
//! and never more than is due.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use tollgate::{Algorithm, Clock, ManualClock, Oversize, Quota, RateLimiter};

use crate::support::Waiter;
use crate::support::cases::cases;

fn limiter(algorithm: Algorithm, quota: Quota) -> (ManualClock, RateLimiter) {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(quota)
        .algorithm(algorithm)
        .oversize(Oversize::Overdraft)
        .clock(&clock);
    (clock, limiter)
}

/// Whatever can be told of a limiter now.
fn state(limiter: &RateLimiter) -> Vec<(u64, Duration, Duration)> {
    let looks = (0..=limiter.quota().count() + 1).map(|cost| limiter.peek_many(cost));
    looks
        .map(|look| (look.remaining, look.retry_after, look.reset_after))
        .collect()
}

fn quota() -> impl Strategy<Value = Quota> {
    (1..=6_u64, 6..=100_u64)
        .prop_map(|(count, period)| Quota::new(count, Duration::from_nanos(period)))
}

/// Of a charge: after how long, how much, and whether it asks.
fn charges() -> impl Strategy<Value = Vec<(u64, u64, bool)>> {
    prop::collection::vec((0..60_u64, 0..9_u64, any::<bool>()), 0..12)
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn what_is_given_back_at_once_was_never_charged(
        algorithm in prop_oneof![Just(Algorithm::SlidingLog), Just(Algorithm::SlidingWindow)],
        quota in quota(),
        before in charges(),
        cost in 1..20_u64,
        less in 0..20_u64,
    ) {
        let [(clock, given_back), (other_clock, other)] = [(); 2].map(|()| limiter(algorithm, quota));
        for (pause, cost, asks) in before {
            clock.advance(Duration::from_nanos(pause));
            other_clock.advance(Duration::from_nanos(pause));
            for limiter in [&given_back, &other] {
                if asks {
                    let _ = limiter.try_acquire_many(cost);
                } else {
                    limiter.charge(cost);
                }
            }
        }
        let before = state(&given_back);
        prop_assert_eq!(&before, &state(&other));
        let charge = given_back.charge(cost);
        given_back.refund(charge);
        prop_assert_eq!(&before, &state(&given_back));

        // All but so much of it.
        let actual = cost - less.min(cost);
        given_back.settle(given_back.charge(cost), actual);
        other.charge(actual);
        prop_assert_eq!(state(&given_back), state(&other));
        for clock in [&clock, &other_clock] {
            clock.advance(quota.period() / 2);
        }
        prop_assert_eq!(state(&given_back), state(&other));
    }

    /// As strict as if what was kept was all that had ever been charged, each as soon as it fits.
    #[test]
    fn whatever_is_given_back_no_more_can_be_had_than_without_it(
        algorithm in Just(Algorithm::SlidingLog),
        quota in quota(),
        steps in prop::collection::vec((0..60_u64, 1..9_u64, 0..3_u8, any::<Index>()), 1..40),
    ) {
        let (clock, limiter) = limiter(algorithm, quota);
        let (count, period) = (quota.count() as usize, quota.period().as_nanos() as u64);
        let mut kept: Vec<(u64, u64)> = Vec::new();
        let mut held = Vec::new();
        for (pause, cost, what, which) in steps {
            clock.advance(Duration::from_nanos(pause));
            let charge = match what {
                0 => Some(limiter.charge(cost)),
                1 => limiter.try_acquire_many(cost.min(quota.count())).ok(),
                _ if held.is_empty() => None,
                _ => {
                    let (charge, number): (tollgate::Charge, usize) =
                        held.remove(which.index(held.len()));
                    limiter.refund(charge);
                    kept[number].1 = 0;
                    None
                }
            };
            if let Some(charge) = charge {
                kept.push((charge.at().as_nanos(), charge.cost()));
                held.push((charge, kept.len() - 1));
            }
            let mut times: Vec<u64> = Vec::new();
            for (at, cost) in &kept {
                for _ in 0..*cost {
                    let before = times.len().checked_sub(count);
                    let free = before.map_or(0, |before| times[before] + period);
                    times.push(free.max(*at));
                }
            }
            let now = clock.now().as_nanos();
            let used = times.iter().filter(|time| **time + period > now).count();
            prop_assert!(limiter.available() as usize <= count.saturating_sub(used));
        }
    }
}

/// Two that were charged at one tick, one of them later: it is not the other's that is given back.
#[test]
fn what_was_charged_in_advance_for_a_tick_is_not_what_was_charged_at_it() {
    let algorithm = Algorithm::SlidingLog;
    let (clock, limiter) = limiter(algorithm, Quota::new(2, Duration::from_nanos(1000)));
    for tick in [100, 200] {
        clock.advance(Duration::from_nanos(100));
        assert_eq!(limiter.try_acquire().unwrap().at().as_nanos(), tick);
    }
    clock.advance(Duration::from_nanos(300));
    limiter.charge(1);
    clock.advance(Duration::from_nanos(600));
    // Now the one before is charged, and this one in 100 ns.
    let charge = limiter.charge(1);
    limiter.refund(charge);
    let refused = limiter.try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), Some(Duration::from_nanos(100)));
}

/// A waiter that was granted and gives up leaves nothing behind, however much it asked for.
#[test]
fn a_granted_waiter_that_leaves_takes_its_debt_along() {
    for algorithm in [Algorithm::SlidingLog, Algorithm::SlidingWindow] {
        for cost in [3, 5, 7, 11] {
            let (clock, limiter) = limiter(algorithm, Quota::new(3, Duration::from_nanos(1000)));
            limiter.try_acquire().unwrap();
            let large = Waiter::parked(limiter.acquire_many(cost));
            let next = Waiter::parked(limiter.acquire_many(3));
            clock.advance(Duration::from_nanos(1000));
            if algorithm == Algorithm::SlidingWindow {
                clock.advance(Duration::from_nanos(1000));
            }
            assert_eq!((large.wakes(), next.wakes()), (1, 0));
            drop(large);
            assert_eq!(next.wakes(), 1);
            drop(next);
            assert_eq!(limiter.available(), 3);
        }
    }
}

/// What was charged beyond the limit of a window is given back in the windows to which it belongs.
#[test]
fn what_was_forced_on_a_window_is_given_back_in_later_ones() {
    for windows in 0..9_u64 {
        let quota = Quota::new(10, Duration::from_secs(1));
        let (clock, limiter) = limiter(Algorithm::SlidingWindow, quota);
        let charge = limiter.charge(100);
        clock.advance(Duration::from_secs(windows));
        assert!(limiter.try_acquire().is_err());
        limiter.refund(charge);
        assert_eq!(limiter.available(), 10, "{windows}");
    }
}

#[test]
fn a_log_admits_nobody_before_what_was_charged_is_paid_off() {
    let second = Duration::from_secs(1);
    let algorithm = Algorithm::SlidingLog;
    let (clock, limiter) = limiter(algorithm, Quota::new(10, second));
    assert_eq!(limiter.try_acquire_many(1000).unwrap().cost(), 1000);
    for seconds in 0..100 {
        let refused = limiter.try_acquire().unwrap_err();
        assert_eq!(refused.retry_after(), Some((100 - seconds) * second));
        clock.advance(second);
    }
    assert_eq!(limiter.available(), 10, "{algorithm}");
    // Forced under a quota that becomes a tenth.
    limiter.charge(50);
    limiter.set_quota(Quota::new(1, second));
    let refused = limiter.try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), Some(41 * second), "{algorithm}");
}
