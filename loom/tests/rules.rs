//! The rules that remember more than a debt, with two or three threads, under every interleaving
//! within the bound of [`model`], on a manual clock.
//!
//! The sliding log is what most of this is about: two compare-exchanges for each charge, and others
//! in between.

#![cfg(tollgate_loom)]
// The threads of a model are not threads: loom asks for no `Send`.
#![allow(clippy::arc_with_non_send_sync)]

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use tollgate::{Algorithm, Charge, Clock, ManualClock, Quota, QuotaChange, RateLimiter};

/// Every interleaving with at most three preemptions, or as many as `LOOM_MAX_PREEMPTIONS` says.
/// Switches where a thread ends are not counted.
fn model(run: impl Fn() + Sync + Send + 'static) {
    model_with(3, run);
}

fn model_with(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.check(run);
}

const SECOND: Duration = Duration::from_secs(1);

/// A limiter of so many a second on a clock of its own, at a tick that is not zero.
fn limiter(algorithm: Algorithm, count: u64) -> (Arc<RateLimiter>, ManualClock) {
    let clock = Clock::manual();
    clock.advance(100 * SECOND);
    let limiter = RateLimiter::new(Quota::per_second(count))
        .algorithm(algorithm)
        .clock(&clock);
    // Its state is made at the first use, by an `OnceLock`, which loom does not know.
    assert_eq!(limiter.snapshot().waiting, 0);
    (Arc::new(limiter), clock)
}

/// As [`limiter`], with so many charges of a second ago, which have just expired.
fn used(count: u64) -> (Arc<RateLimiter>, ManualClock) {
    let (limiter, clock) = limiter(Algorithm::SlidingLog, count);
    for _ in 0..count {
        limiter.try_acquire().unwrap();
    }
    clock.advance(SECOND);
    (limiter, clock)
}

fn in_thread<T: 'static>(
    limiter: &Arc<RateLimiter>,
    work: impl FnOnce(&RateLimiter) -> T + 'static,
) -> thread::JoinHandle<T> {
    let limiter = Arc::clone(limiter);
    thread::spawn(move || work(&limiter))
}

fn tick(charge: &Charge) -> u64 {
    charge.at().as_nanos()
}

/// In any second there are at most `count`: each is a second after the one so many before it.
fn assert_apart(charges: impl IntoIterator<Item = Charge>, count: usize) {
    let mut ticks: Vec<u64> = charges.into_iter().map(|charge| tick(&charge)).collect();
    ticks.sort_unstable();
    for (first, last) in ticks.iter().zip(ticks.iter().skip(count)) {
        assert!(last - first >= 1_000_000_000, "{first} and {last}");
    }
}

/// The first article's version loses counts here.
#[test]
fn of_three_tries_and_two_places_two_are_admitted() {
    for used_before in [false, true] {
        model(move || {
            let (limiter, _clock) = match used_before {
                false => limiter(Algorithm::SlidingLog, 2),
                true => used(2),
            };
            let other = || in_thread(&limiter, |limiter| limiter.try_acquire().is_ok());
            let (first, second) = (other(), other());
            let mine = limiter.try_acquire().is_ok();
            let admitted = [mine, first.join().unwrap(), second.join().unwrap()];
            assert_eq!(admitted.into_iter().filter(|it| *it).count(), 2);
            assert_eq!(limiter.snapshot().available, 0);
            assert_eq!(limiter.peek().retry_after, SECOND);
        });
    }
}

/// Who has taken a place may be passed by others who need it, again and again.
#[test]
fn a_place_that_is_not_written_yet_is_written_by_who_needs_it() {
    for used_before in [false, true] {
        model_with(4, move || {
            let (limiter, clock) = match used_before {
                false => limiter(Algorithm::SlidingLog, 1),
                true => used(1),
            };
            let other = in_thread(&limiter, |limiter| limiter.try_acquire().ok());
            let mut admitted = vec![limiter.try_acquire().ok()];
            for _ in 0..2 {
                clock.advance(SECOND);
                admitted.push(limiter.try_acquire().ok());
            }
            admitted.push(other.join().unwrap());
            let admitted: Vec<Charge> = admitted.into_iter().flatten().collect();
            assert!(admitted.len() >= 2);
            let newest = admitted.iter().map(tick).max().unwrap();
            assert_apart(admitted, 1);
            // What comes next knows of all of them.
            let next = limiter.peek().retry_after;
            let expected = Duration::from_nanos(newest) + SECOND;
            let now = Duration::from_nanos(clock.now().as_nanos());
            assert!(now + next >= expected && next <= SECOND);
        });
    }
}

#[test]
fn one_and_several_at_once_share_what_there_is() {
    for used_before in [false, true] {
        model(move || {
            let (limiter, _clock) = match used_before {
                false => limiter(Algorithm::SlidingLog, 2),
                true => used(2),
            };
            let two = in_thread(&limiter, |limiter| limiter.try_acquire_many(2).is_ok());
            let one = in_thread(&limiter, |limiter| limiter.try_acquire().is_ok());
            let (two, one) = (two.join().unwrap(), one.join().unwrap());
            assert!(two != one);
            assert_eq!(limiter.snapshot().available, if two { 0 } else { 1 });
        });
    }
}

#[test]
fn a_refund_and_tries_lose_nothing() {
    // A refund writes every slot again: at most two preemptions, or it takes minutes. The log itself
    // has models of its own.
    model_with(2, || {
        let (limiter, _clock) = limiter(Algorithm::SlidingLog, 2);
        let charge = limiter.try_acquire().unwrap();
        let other = in_thread(&limiter, |limiter| limiter.try_acquire().is_ok());
        // One place was free, and another becomes so.
        limiter.refund(charge);
        let mine = limiter.try_acquire().is_ok();
        let other = other.join().unwrap();
        assert!(mine && other);
        assert_eq!(limiter.snapshot().available, 0);
    });
}

/// The first article holds that a lock is needed to change the limit, and that requests would have
/// to wait for it.
#[test]
fn no_charge_is_lost_when_the_log_becomes_longer_or_shorter() {
    for (from, to) in [(2, 3), (3, 2), (1, 2)] {
        // A change writes every slot again: one preemption, or it takes minutes.
        model_with(1, move || {
            let (limiter, _clock) = limiter(Algorithm::SlidingLog, from);
            let other = in_thread(&limiter, |limiter| limiter.try_acquire().is_ok());
            limiter.set_quota_with(Quota::per_second(to), QuotaChange::KeepSpent);
            let mine = limiter.try_acquire().is_ok();
            let other = other.join().unwrap();
            assert!(mine || other);
            let spent = u64::from(mine) + u64::from(other);
            assert_eq!(limiter.snapshot().available, to.saturating_sub(spent));
        });
    }
}

#[test]
fn a_charge_that_is_being_written_when_the_quota_changes_counts_at_its_time() {
    model_with(1, || {
        let (limiter, clock) = used(1);
        let other = in_thread(&limiter, |limiter| limiter.try_acquire().ok());
        limiter.set_quota_with(Quota::per_second(2), QuotaChange::KeepSpent);
        clock.advance(SECOND / 2);
        let mine = [limiter.try_acquire().ok(), limiter.try_acquire().ok()];
        let other = other.join().unwrap();
        let charges: Vec<Charge> = mine.into_iter().chain([other]).flatten().collect();
        assert_eq!(charges.len(), 2);
        assert_apart(charges, 2);
        assert_eq!(limiter.snapshot().available, 0);
    });
}

#[test]
fn a_waiter_and_a_try_share_what_there_is() {
    model(|| {
        let (limiter, clock) = used(1);
        let waiter = in_thread(&limiter, |limiter| {
            let reservation = limiter.reserve().unwrap();
            let delay = reservation.delay();
            std::mem::forget(reservation);
            delay
        });
        let tried = limiter.try_acquire().is_ok();
        let delay = waiter.join().unwrap();
        assert_eq!(delay, if tried { SECOND } else { Duration::ZERO });
        clock.advance(SECOND);
        assert_eq!(limiter.try_acquire().is_ok(), !tried);
    });
}

/// At the beginning of a window one moves the count over, while others decide.
#[test]
fn a_window_begins_once() {
    for advance in [Duration::from_millis(1500), 2 * SECOND] {
        model_with(2, move || {
            let (limiter, clock) = limiter(Algorithm::SlidingWindow, 4);
            limiter.try_acquire_many(4).unwrap();
            clock.advance(advance);
            // Half of those before are gone, or all.
            let most = if advance == 2 * SECOND { 4 } else { 2 };
            let other = || in_thread(&limiter, |limiter| limiter.try_acquire_many(2).is_ok());
            let (first, second) = (other(), other());
            let mine = limiter.try_acquire_many(2).is_ok();
            let admitted = [mine, first.join().unwrap(), second.join().unwrap()];
            let admitted = admitted.into_iter().filter(|it| *it).count();
            assert_eq!(admitted, most / 2);
            assert_eq!(limiter.snapshot().available, 0);
        });
    }
}

/// A decision of the window before must not become one of this.
#[test]
fn who_decides_late_does_not_count_in_the_wrong_window() {
    model(|| {
        let (limiter, clock) = limiter(Algorithm::SlidingWindow, 2);
        limiter.try_acquire().unwrap();
        let other = in_thread(&limiter, |limiter| limiter.try_acquire().ok());
        clock.advance(SECOND);
        // Of those in the window before, all count still: one or two.
        let mine = limiter.try_acquire().ok();
        let other = other.join().unwrap();
        assert!(mine.is_some() != other.is_some());
        assert_eq!(limiter.snapshot().available, 0);
    });
}

/// The epoch is the same again after eight changes, and as much is charged: only the word tells them apart.
#[test]
fn a_decision_by_a_window_is_not_by_the_quota_of_eight_changes_ago() {
    model_with(1, || {
        let (limiter, _clock) = limiter(Algorithm::SlidingWindow, 9);
        limiter.try_acquire().unwrap();
        let other = in_thread(&limiter, |limiter| drop(limiter.try_acquire()));
        for count in (1..9).rev() {
            limiter.set_quota(Quota::per_second(count));
        }
        // Nothing is left of the last quota.
        let used = limiter.snapshot().in_use;
        other.join().unwrap();
        assert_eq!(limiter.snapshot().in_use, used);
    });
}
