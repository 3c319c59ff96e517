//! What the sliding window and the sliding log promise beyond what every algorithm does.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use tollgate::{
    Algorithm, Clock, ErrorKind, ManualClock, Oversize, Quota, QuotaChange, RateLimiter,
};

use crate::rate_model::LAST_TICK;
use crate::rate_model::window::Window;
use crate::support::cases::cases;
use crate::support::{Waiter, kind};

const LOG: Algorithm = Algorithm::SlidingLog;
const BOTH: [Algorithm; 2] = [LOG, Algorithm::SlidingWindow];

fn nanos(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

fn limiter(algorithm: Algorithm, quota: Quota) -> (ManualClock, RateLimiter) {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(quota).algorithm(algorithm).clock(&clock);
    (clock, limiter)
}

fn lenient(algorithm: Algorithm, quota: Quota) -> (ManualClock, RateLimiter) {
    let (clock, limiter) = limiter(algorithm, quota);
    (clock, limiter.oversize(Oversize::Overdraft))
}

/// Whatever can be seen of a limiter now.
fn state(limiter: &RateLimiter) -> Vec<(u64, Duration, Duration)> {
    let looks = (0..=limiter.quota().count() + 1).map(|cost| limiter.peek_many(cost));
    looks
        .map(|look| (look.remaining, look.retry_after, look.reset_after))
        .collect()
}

fn quota() -> impl Strategy<Value = Quota> {
    (1..=6_u64, 6..=100_u64).prop_map(|(count, period)| Quota::new(count, nanos(period)))
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn refund_at_once_is_as_if_it_was_never_charged(
        algorithm in prop_oneof![Just(BOTH[0]), Just(BOTH[1])],
        quota in quota(),
        before in prop::collection::vec((0..60_u64, 0..9_u64, any::<bool>()), 0..12),
        cost in 1..20_u64,
        less in 0..20_u64,
    ) {
        let [(clock, given_back), (other_clock, other)] = [(); 2].map(|()| lenient(algorithm, quota));
        for (pause, cost, asks) in before {
            clock.advance(nanos(pause));
            other_clock.advance(nanos(pause));
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
        given_back.refund(given_back.charge(cost));
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
    fn refunds_of_a_log_admit_no_more_than_without_what_was_given_back(
        quota in quota(),
        steps in prop::collection::vec((0..60_u64, 1..9_u64, 0..3_u8, any::<Index>()), 1..40),
    ) {
        let (clock, limiter) = lenient(LOG, quota);
        let (count, period) = (quota.count() as usize, quota.period().as_nanos() as u64);
        let mut kept: Vec<(u64, u64)> = Vec::new();
        let mut held = Vec::new();
        for (pause, cost, what, which) in steps {
            clock.advance(nanos(pause));
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
            prop_assert!(limiter.snapshot().available as usize <= count.saturating_sub(used));
        }
    }

    /// A call is admitted as one of at most the count in the period that ends with it, by the quota in
    /// force, whatever it was before; waiters too. Only one of count and period changes: then there is a
    /// slot for all that may matter.
    #[test]
    fn what_was_spent_of_a_log_stays_spent_however_often_the_quota_changes(
        changes_count in any::<bool>(),
        (mut count, mut period) in (1..6_u64, 40..200_u64),
        steps in prop::collection::vec(
            (0..50_u64, 1..4_u64, prop::option::weighted(0.2, 1..40_u64)),
            1..80,
        ),
    ) {
        let quota = |count, period| Quota::new(count, nanos(period));
        let (clock, limiter) = limiter(LOG, quota(count, period));
        let mut charged: Vec<(u64, u64)> = Vec::new();
        let mut waiters = Vec::new();
        for (pause, cost, change) in steps {
            let cost = cost.min(count);
            clock.advance(nanos(pause));
            match limiter.try_acquire_many(cost) {
                Ok(charge) => charged.push((charge.at().as_nanos(), cost)),
                Err(_) if waiters.len() < 5 => {
                    let mut waiter = Waiter::new(limiter.acquire_many(cost));
                    let _ = waiter.poll().map(|refused| refused.unwrap_err());
                    waiters.push((waiter, cost));
                }
                Err(_) => {}
            }
            if let Some(change) = change {
                match changes_count {
                    true => count = change,
                    false => period = 20 + 4 * change,
                }
                limiter.set_quota_with(quota(count, period), QuotaChange::KeepSpent);
            }
            waiters.retain_mut(|(waiter, cost)| {
                if waiter.wakes() == 0 {
                    return true;
                }
                let charge = waiter.output().ok();
                charged.extend(charge.map(|charge| (charge.at().as_nanos(), *cost)));
                false
            });
            let now = clock.now().as_nanos();
            let within = charged.iter().filter(|(at, _)| at + period > now);
            let within: u64 = within.map(|(_, cost)| cost).sum();
            prop_assert_eq!(limiter.snapshot().available, count.saturating_sub(within));
        }
    }
}

proptest! {
    #![proptest_config(cases(400))]

    /// Also where the product of the limit and the period needs more than 64 bits.
    #[test]
    fn sliding_window_of_a_large_limit_is_exact(
        less in 0..4_u64,
        more in prop_oneof![0..1000_u64, 0..1_u64 << 50],
        steps in prop::collection::vec((0..6_u8, 0..3000_u64, 1..=1000_u64, any::<Index>()), 1..40),
    ) {
        let count = (1 << 30) + 1 - less;
        let period = count + more;
        let part = |of: u64, by: u64| (u128::from(of) * u128::from(by) / 1000) as u64;
        let (clock, limiter) = limiter(Algorithm::SlidingWindow, Quota::new(count, nanos(period)));
        let (mut model, mut held) = (Window::new(count, period), Vec::new());
        for (what, pause, cost, which) in steps {
            clock.advance(nanos(part(period, pause / 3)));
            let (now, cost) = (clock.now().as_nanos(), part(count, cost).max(1));
            match what {
                0 => {
                    held.push(limiter.charge(cost));
                    model.book(now, cost);
                }
                1 if !held.is_empty() => {
                    let charge = held.swap_remove(which.index(held.len()));
                    model.refund(charge.at().as_nanos(), charge.cost(), now);
                    limiter.refund(charge);
                }
                _ => match limiter.try_acquire_many(cost) {
                    Ok(charge) => {
                        prop_assert!(model.fits(now, cost));
                        prop_assert_eq!((charge.at().as_nanos(), charge.cost()), (now, cost));
                        model.book(now, cost);
                        held.push(charge);
                    }
                    Err(error) => {
                        let due = model.earliest(now, cost).unwrap();
                        prop_assert_eq!(error.retry_after(), Some(nanos(due - now)));
                    }
                },
            }
            let free = count.saturating_sub(model.used(now));
            prop_assert_eq!(limiter.snapshot().available, free);
        }
    }
}

/// Two that were charged at one tick, one of them for later: it is not the other's that is given back.
#[test]
fn refund_of_what_was_charged_in_advance_is_not_of_what_is_charged_at_its_tick() {
    let (clock, limiter) = lenient(LOG, Quota::new(2, nanos(1000)));
    for tick in [100, 200] {
        clock.advance(nanos(100));
        assert_eq!(limiter.try_acquire().unwrap().at().as_nanos(), tick);
    }
    clock.advance(nanos(300));
    limiter.charge(1);
    clock.advance(nanos(600));
    // Now the one before is charged, and this one in 100 ns.
    limiter.refund(limiter.charge(1));
    let refused = limiter.try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), Some(nanos(100)));
}

/// A log through many sizes: nothing is lost but what there is no slot for.
#[test]
fn set_quota_of_a_log_to_many_sizes_keeps_what_was_spent() {
    let quota = |count| Quota::new(count, Duration::from_secs(1));
    let (_clock, limiter) = limiter(LOG, quota(1));
    limiter.try_acquire().unwrap();
    for power in 1..15 {
        let count = 1 << power;
        let change = |count| limiter.set_quota_with(quota(count), QuotaChange::KeepSpent);
        change(count);
        assert_eq!(limiter.snapshot().available, count - count / 2);
        limiter.try_acquire_many(count - count / 2).unwrap();
        let mut waiter = Waiter::parked(limiter.acquire_many(count));
        change(count + 1);
        assert!(waiter.is_pending());
        assert_eq!(limiter.peek_many(0).reset_after, Duration::from_secs(1));
        drop(waiter);
        change(count);
        assert_eq!(limiter.snapshot().available, 0);
    }
}

/// What takes the lock goes through a million slots, a few times.
#[test]
fn million_slots_are_charged_refunded_and_changed() {
    for algorithm in BOTH {
        let most = 1 << 20;
        let (clock, limiter) = limiter(algorithm, Quota::per_hour(most));
        let first = limiter.try_acquire_many(most - 5).unwrap();
        clock.advance(Duration::from_secs(1800));
        for _ in 0..5 {
            limiter.try_acquire().unwrap();
        }
        assert_eq!(kind(limiter.try_acquire()), ErrorKind::RateLimited);
        limiter.refund(first);
        assert_eq!(limiter.snapshot().available, most - 5);
        limiter.charge(2 * most);
        limiter.set_quota(Quota::per_hour(most + 1));
        assert_eq!(limiter.snapshot().available, 0);
    }
}

/// The largest costs are refused or never paid off, and can be given back; the longest period is never
/// over; and a log goes on at the last instant that a clock can tell.
#[test]
fn largest_costs_and_longest_periods_saturate() {
    for algorithm in BOTH {
        let quota = Quota::per_second(3);
        let (_clock, strict) = limiter(algorithm, quota);
        assert_eq!(
            kind(strict.try_acquire_many(u64::MAX)),
            ErrorKind::ExceedsCapacity
        );
        strict.try_acquire().unwrap();
        let charge = strict.charge(u64::MAX);
        assert!(charge.cost() > 10);
        assert!(strict.peek().retry_after > nanos(LAST_TICK / 2));
        strict.charge(u64::MAX);
        assert_eq!(
            (strict.charge(1).cost(), strict.snapshot().available),
            (0, 0)
        );
        let (_clock, debts) = lenient(algorithm, quota);
        debts.try_acquire().unwrap();
        debts.refund(debts.charge(u64::MAX));
        assert_eq!(debts.snapshot().available, 2);

        let (clock, longest) = limiter(algorithm, Quota::new(64, nanos(1 << 58)));
        let charge = longest.try_acquire_many(63).unwrap();
        clock.advance(nanos(LAST_TICK));
        longest.try_acquire().unwrap();
        let refused = longest.try_acquire().unwrap_err();
        assert!(refused.retry_after() > Some(nanos(u64::MAX / 2)));
        longest.refund(charge);
        clock.advance(Duration::MAX);
        assert_eq!(longest.snapshot().available, 63);
    }
    let (clock, log) = limiter(LOG, Quota::new(1, nanos(1 << 40)));
    clock.advance(nanos(LAST_TICK));
    log.refund(log.try_acquire().unwrap());
    clock.advance(nanos(u64::MAX - LAST_TICK));
    log.try_acquire().unwrap();
    assert_eq!(kind(log.try_acquire()), ErrorKind::RateLimited);
}

/// In a second runtime a limiter starts fresh, whatever the time was in the first.
#[cfg(feature = "tokio")]
#[test]
fn acquire_in_another_runtime_starts_fresh() {
    use crate::support::paused_runtime;
    for algorithm in BOTH {
        let limiter = RateLimiter::new(Quota::per_second(2))
            .algorithm(algorithm)
            .clock(Clock::tokio());
        for days in [100, 0] {
            let limiter = &limiter;
            paused_runtime().block_on(async move {
                tokio::time::advance(Duration::from_secs(days * 86_400)).await;
                limiter.try_acquire_many(2).unwrap();
                let refused = limiter.try_acquire().unwrap_err();
                let after = refused.retry_after().unwrap();
                assert!(after <= Duration::from_secs(2), "{algorithm}: {after:?}");
                tokio::time::advance(after).await;
                limiter.try_acquire().unwrap();
            });
        }
    }
}
