//! Models the rules that remember more than a debt, with two or three threads, under every interleaving
//! within the bound of [`model!`], on a manual clock.
//!
//! Most models concern the sliding log: each charge takes two compare-exchanges, and other threads run
//! in between.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use tollgate::rate::{Charge, QuotaChange};
use tollgate::time::ManualClock;
use tollgate::{Algorithm, Quota, RateLimiter};
use tollgate_loom::*;

type Limiter = Arc<RateLimiter>;

/// Returns a limiter of `count` a second on a clock of its own.
fn limiter(algorithm: Algorithm, count: u64) -> (Limiter, ManualClock) {
    let clock = clock();
    let limiter = RateLimiter::new(Quota::per_second(count)).clock(&clock);
    let limiter = limiter.algorithm(algorithm);
    // The state is created at the first use, by an `OnceLock`, which loom does not know.
    assert_eq!(limiter.snapshot().waiting, 0);
    (Arc::new(limiter), clock)
}

/// Returns a log. If it is used, all its slots have charges of a second ago, which have just expired.
fn log(count: u64, used: bool) -> (Limiter, ManualClock) {
    let (limiter, clock) = limiter(Algorithm::SlidingLog, count);
    if used {
        assert!((0..count).all(|_| admits(&limiter)));
        clock.advance(SECOND);
    }
    (limiter, clock)
}

fn admits(limiter: &Limiter) -> bool {
    limiter.try_acquire().is_ok()
}

fn admits_two(limiter: &Limiter) -> bool {
    limiter.try_acquire_many(2).is_ok()
}

fn charged(limiter: &Limiter) -> Option<Charge> {
    limiter.try_acquire().ok()
}

/// Returns how many of three threads that try at once are admitted.
fn admitted_of_three(limiter: &Limiter, tries: fn(&Limiter) -> bool) -> usize {
    let others = each_with::<2, _, _>(limiter, tries);
    let mine = tries(limiter);
    let others = join_all(others).into_iter().filter(|it| *it).count();
    others + usize::from(mine)
}

fn tick(charge: &Charge) -> u64 {
    charge.at().as_nanos()
}

/// Asserts that any second has at most `count` charges: each is a second after the one `count` before it.
fn assert_apart(charges: impl IntoIterator<Item = Charge>, count: usize) {
    let mut ticks: Vec<u64> = charges.into_iter().map(|charge| tick(&charge)).collect();
    ticks.sort_unstable();
    for (first, last) in ticks.iter().zip(ticks.iter().skip(count)) {
        assert!(last - first >= 1_000_000_000, "{first} and {last}");
    }
}

/// The version in the first article loses counts here.
#[test]
fn of_three_tries_and_two_places_two_are_admitted() {
    check_each(3, [false, true], |used| {
        let (limiter, _clock) = log(2, used);
        assert_eq!(admitted_of_three(&limiter, admits), 2);
        assert_eq!(limiter.snapshot().available, 0);
        assert_eq!(limiter.peek().retry_after, Some(SECOND));
    });
}

/// Other threads that need a taken place may pass the thread that took it, again and again.
#[test]
fn place_that_is_not_written_yet_is_written_by_who_needs_it() {
    check_each(4, [false, true], |used| {
        let (limiter, clock) = log(1, used);
        let other = with(&limiter, charged);
        let mut admitted = vec![charged(&limiter)];
        for _ in 0..2 {
            clock.advance(SECOND);
            admitted.push(charged(&limiter));
        }
        admitted.push(other.join().unwrap());
        let admitted: Vec<Charge> = admitted.into_iter().flatten().collect();
        assert!(admitted.len() >= 2);
        let newest = admitted.iter().map(tick).max().unwrap();
        assert_apart(admitted, 1);
        // The next decision knows of all of them.
        let next = limiter.peek().retry_after.unwrap();
        let expected = Duration::from_nanos(newest) + SECOND;
        let now = Duration::from_nanos(clock.now().as_nanos());
        assert!(now + next >= expected && next <= SECOND);
    });
}

#[test]
fn one_and_several_at_once_share_what_there_is() {
    check_each(3, [false, true], |used| {
        let (limiter, _clock) = log(2, used);
        let threads = [with(&limiter, admits_two), with(&limiter, admits)];
        let [two, one] = join_all(threads);
        assert!(two != one);
        assert_eq!(limiter.snapshot().available, if two { 0 } else { 1 });
    });
}

// A refund writes every slot again, so at most two preemptions are allowed; otherwise it takes minutes. The
// log itself has models of its own.
model!(refund_and_tries_lose_nothing, 2, || {
    let (limiter, _clock) = log(2, false);
    let charge = limiter.try_acquire().unwrap();
    let other = with(&limiter, admits);
    // One place was free, and another becomes free.
    limiter.refund(charge);
    let mine = admits(&limiter);
    let other = other.join().unwrap();
    assert!(mine && other);
    assert_eq!(limiter.snapshot().available, 0);
});

/// The first article claims that a lock is needed to change the limit, and that requests would have
/// to wait for it.
/// A change writes every slot again, so one preemption is allowed; otherwise it takes minutes.
#[test]
fn no_charge_is_lost_when_the_log_becomes_longer_or_shorter() {
    check_each(1, [(2, 3), (3, 2), (1, 2)], |(from, to)| {
        let (limiter, _clock) = log(from, false);
        let other = with(&limiter, admits);
        limiter.set_quota_with(Quota::per_second(to), QuotaChange::KeepSpent);
        let mine = admits(&limiter);
        let other = other.join().unwrap();
        let spent = u64::from(mine) + u64::from(other);
        assert!(spent > 0);
        assert_eq!(limiter.snapshot().available, to.saturating_sub(spent));
    });
}

model!(charge_as_the_quota_changes_counts_at_its_time, 1, || {
    let (limiter, clock) = log(1, true);
    let other = with(&limiter, charged);
    limiter.set_quota_with(Quota::per_second(2), QuotaChange::KeepSpent);
    clock.advance(SECOND / 2);
    let mine = [charged(&limiter), charged(&limiter)];
    let other = other.join().unwrap();
    let charges: Vec<Charge> = mine.into_iter().chain([other]).flatten().collect();
    assert_eq!(charges.len(), 2);
    assert_apart(charges, 2);
    assert_eq!(limiter.snapshot().available, 0);
});

model!(waiter_and_a_try_share_what_there_is, || {
    let (limiter, clock) = log(1, true);
    let waiter = with(&limiter, |limiter| {
        let reservation = limiter.reserve().unwrap();
        let delay = reservation.delay();
        std::mem::forget(reservation);
        delay
    });
    let tried = admits(&limiter);
    let delay = waiter.join().unwrap();
    assert_eq!(delay, if tried { SECOND } else { Duration::ZERO });
    clock.advance(SECOND);
    assert_eq!(admits(&limiter), !tried);
});

/// At the beginning of a window one thread moves the count over, while others decide.
#[test]
fn window_begins_once() {
    check_each(2, [Duration::from_millis(1500), 2 * SECOND], |advance| {
        let (limiter, clock) = limiter(Algorithm::SlidingWindow, 4);
        limiter.try_acquire_many(4).unwrap();
        clock.advance(advance);
        // Half of the earlier charges have expired, or all.
        let most = if advance == 2 * SECOND { 4 } else { 2 };
        assert_eq!(admitted_of_three(&limiter, admits_two), most / 2);
        assert_eq!(limiter.snapshot().available, 0);
    });
}

// A decision of the earlier window must not count in this one.
model!(who_decides_late_does_not_count_in_the_wrong_window, || {
    let (limiter, clock) = limiter(Algorithm::SlidingWindow, 2);
    limiter.try_acquire().unwrap();
    let other = with(&limiter, charged);
    clock.advance(SECOND);
    // All charges in the earlier window still count: one or two.
    let mine = charged(&limiter);
    let other = other.join().unwrap();
    assert!(mine.is_some() != other.is_some());
    assert_eq!(limiter.snapshot().available, 0);
});

// The epoch is the same again after eight changes, and the charge is equal: only the word distinguishes them.
model!(decision_is_not_by_the_quota_of_eight_changes_ago, 1, || {
    let (limiter, _clock) = limiter(Algorithm::SlidingWindow, 9);
    limiter.try_acquire().unwrap();
    let other = with(&limiter, |limiter| drop(limiter.try_acquire()));
    for count in (1..9).rev() {
        limiter.set_quota(Quota::per_second(count));
    }
    // Nothing is left of the last quota.
    let used = limiter.snapshot().in_use;
    join_all([other]);
    assert_eq!(limiter.snapshot().in_use, used);
});
