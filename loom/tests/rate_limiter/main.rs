//! Models the rate limiter with two or three threads, on a manual clock.
//!
//! Time passes only where a model advances it, so each model knows exactly which calls must be admitted.
//! Each waiter counts its wakes: a due waiter must have been woken, or have noticed by
//! itself.

#![cfg(tollgate_loom)]

mod holds_and_pauses;
mod local;
mod quota_changes;

use std::sync::Arc;
use std::time::Duration;

use tollgate::rate::Charge;
use tollgate::throttle::Cost;
use tollgate::time::ManualClock;
use tollgate::wait::Waiting;
use tollgate::{Algorithm, ErrorKind, Quota, RateLimiter, Throttle};
use tollgate_loom::*;

type Limiter = Arc<RateLimiter>;
type Wait = Waiting<<Cost<Limiter> as Throttle>::Enter>;

fn on(clock: ManualClock, algorithm: Algorithm, quota: Quota) -> (Limiter, ManualClock) {
    let limiter = RateLimiter::new(quota).algorithm(algorithm);
    let limiter = Arc::new(limiter.clock(&clock));
    // The state is created at the first use, by an `OnceLock`, which loom does not know.
    assert_eq!(limiter.snapshot().waiting, 0);
    (limiter, clock)
}

/// Returns a limiter on a clock of its own.
fn limiter(quota: Quota) -> (Limiter, ManualClock) {
    on(clock(), Algorithm::Gcra, quota)
}

/// Returns a limiter with this rule, at a tick at which the window before is not cut off.
fn by(algorithm: Algorithm, quota: Quota) -> (Limiter, ManualClock) {
    let clock = clock();
    clock.advance(HOUR);
    on(clock, algorithm, quota)
}

/// Returns a limiter that has admitted its whole burst.
fn spent(quota: Quota) -> (Limiter, ManualClock) {
    let (limiter, clock) = limiter(quota);
    limiter.try_acquire_many(quota.max_burst()).unwrap();
    (limiter, clock)
}

/// Returns a limiter with a charge of `cost`.
fn charged(quota: Quota, cost: u64) -> (Limiter, ManualClock, Charge) {
    let (limiter, clock) = limiter(quota);
    let charge = limiter.try_acquire_many(cost).unwrap();
    (limiter, clock, charge)
}

/// Returns a quota of one per hour with this burst.
fn hourly(burst: u64) -> Quota {
    Quota::per_hour(1).burst(burst)
}

/// Returns a quota of one per second with this burst.
fn secondly(burst: u64) -> Quota {
    Quota::per_second(1).burst(burst)
}

fn admits(limiter: &Limiter) -> bool {
    limiter.try_acquire().is_ok()
}

fn admits_twice(limiter: &Limiter) -> [bool; 2] {
    [(); 2].map(|()| admits(limiter))
}

/// Returns a wait of this cost.
fn wait(limiter: &Limiter, cost: u64) -> Wait {
    Arc::clone(limiter).cost_owned(cost).acquire()
}

/// Returns a waiter in the queue.
fn queued(limiter: &Limiter, cost: u64) -> Waiter<Wait> {
    Waiter::queued(wait(limiter, cost))
}

/// Joins the queue in a thread.
fn join(limiter: &Limiter, cost: u64) -> JoinHandle<Joined<Wait>> {
    joining(wait(limiter, cost))
}

/// Returns a limiter that is spent, and a waiter for it.
fn awaited(quota: Quota) -> (Limiter, ManualClock, Waiter<Wait>) {
    let (limiter, clock) = spent(quota);
    let waiter = queued(&limiter, 1);
    (limiter, clock, waiter)
}

/// Returns the charge of a joiner, which must have been admitted.
fn charge_of(joined: Joined<Wait>) -> Charge {
    output_of(joined).unwrap()
}

/// Asserts that a joiner has been served, as the last of the queue.
fn served(limiter: &Limiter, joined: Joined<Wait>) {
    charge_of(joined);
    assert_eq!(limiter.snapshot().waiting, 0);
}

// There is room for every try at every moment. A tick older than the word would miss the amount
// paid off meanwhile.
model!(try_as_time_passes_is_admitted_while_there_is_room, || {
    let (limiter, clock) = limiter(secondly(2));
    let other = with(&limiter, |limiter| limiter.try_acquire());
    // The try comes before the time passes, so that loom knows that the order of the two matters.
    limiter.try_acquire().unwrap();
    clock.advance(SECOND);
    limiter.try_acquire().unwrap();
    let other = other.join().unwrap();
    assert!(other.is_ok(), "{other:?}");
});

model!(of_two_tries_and_one_slot_one_is_admitted, || {
    let (limiter, _clock) = limiter(Quota::per_second(1));
    let other = with(&limiter, admits);
    let mine = limiter.try_acquire().is_ok();
    assert!(mine != other.join().unwrap());
    assert_eq!(limiter.peek().retry_after, Some(SECOND));
});

model!(try_and_a_joiner_share_what_there_is, || {
    let (limiter, clock) = limiter(Quota::per_second(1));
    let joiner = join(&limiter, 1);
    let tried = limiter.try_acquire().is_ok();
    let joined = joiner.join().unwrap();
    assert!(tried != joined.is_ok());
    clock.advance(SECOND);
    let at = charge_of(joined).at().as_nanos();
    assert_eq!(at, if tried { 101 } else { 100 } * 1_000_000_000);
    assert_eq!(limiter.snapshot().waiting, 0);
});

model!(deadline_and_a_joiner_do_not_miss_each_other, || {
    let (limiter, clock, first) = awaited(Quota::per_second(1));
    let joiner = join(&limiter, 1);
    clock.advance(SECOND);
    let joined = joiner.join().unwrap();
    clock.advance(SECOND);
    assert_eq!(first.output().unwrap().at().as_nanos(), 101_000_000_000);
    assert_eq!(charge_of(joined).at().as_nanos(), 102_000_000_000);
});

model!(deadline_and_the_first_joiner_do_not_miss_each_other, || {
    let (limiter, clock) = spent(Quota::per_second(1));
    let joiner = join(&limiter, 1);
    clock.advance(SECOND);
    let joined = joiner.join().unwrap();
    // If it joined after the time had passed, it was admitted at once.
    served(&limiter, joined);
    assert_eq!(limiter.peek().retry_after, Some(SECOND));
});

model!(refund_and_a_joiner_do_not_miss_each_other, || {
    let (limiter, _clock, charge) = charged(Quota::per_hour(1), 1);
    let joiner = join(&limiter, 1);
    limiter.refund(charge);
    // No time has passed.
    charge_of(joiner.join().unwrap());
    assert_eq!(limiter.peek().retry_after, Some(HOUR));
});

model!(refund_and_a_try_lose_nothing, || {
    let (limiter, _clock, charge) = charged(hourly(2), 1);
    let other = with(&limiter, |limiter| limiter.try_acquire().unwrap());
    limiter.refund(charge);
    let other = other.join().unwrap();
    assert_eq!(limiter.snapshot().available, 1);
    limiter.refund(other);
    assert_eq!(limiter.snapshot().available, 2);
});

// The backlog returns to the same number when equal amounts are taken and given back, but the amount given
// back before does not.
model!(take_beside_a_refund_can_be_given_back_in_full, || {
    let (limiter, _clock, first) = charged(hourly(3), 1);
    let other = with(&limiter, |limiter| limiter.try_acquire().unwrap());
    limiter.refund(first);
    let mine = limiter.try_acquire().unwrap();
    limiter.refund(other.join().unwrap());
    limiter.refund(mine);
    assert_eq!(limiter.snapshot().available, 3);
});

// The end of a charge, and the time from which that end is known, are two numbers.
model!(try_beside_the_same_quota_gives_back_what_it_took, || {
    let (limiter, clock, first) = charged(secondly(4), 2);
    let other = with(&limiter, |limiter| limiter.try_acquire().unwrap());
    limiter.refund(first);
    limiter.set_quota(Quota::new(60, 60 * SECOND).burst(4));
    let other = other.join().unwrap();
    clock.advance(SECOND);
    limiter.try_acquire_many(2).unwrap();
    // By now it is paid off.
    limiter.refund(other);
    assert_eq!(limiter.snapshot().available, 2);
});

model!(head_that_leaves_at_any_time_lets_the_next_go, || {
    let (limiter, clock) = spent(secondly(10));
    let large = queued(&limiter, 10);
    let small = queued(&limiter, 1);
    let leaves = dropping(large);
    clock.advance(SECOND);
    join_all([leaves]);
    small.output().unwrap();
    let rest = limiter.snapshot();
    assert_eq!((rest.waiting, rest.available), (0, 0));
});

model!(granted_waiter_that_leaves_gives_back_its_grant, || {
    let (limiter, clock, waiter) = awaited(Quota::per_second(1));
    let leaves = dropping(waiter);
    clock.advance(SECOND);
    join_all([leaves]);
    assert_eq!(limiter.peek().retry_after, Some(Duration::ZERO));
    assert_eq!(limiter.snapshot().waiting, 0);
});

model!(close_reaches_everybody, || {
    let (limiter, _clock, first) = awaited(Quota::per_hour(1));
    let joiner = with(&limiter, |limiter| block_on(wait(limiter, 1)));
    limiter.close();
    assert_eq!(kind(first.output()), Some(ErrorKind::Closed));
    assert_eq!(kind(joiner.join().unwrap()), Some(ErrorKind::Closed));
    assert_eq!(kind(limiter.try_acquire()), Some(ErrorKind::Closed));
});

model!(reservation_dropped_as_its_turn_comes_leaves_nothing, || {
    let (limiter, clock) = spent(Quota::per_second(1));
    let reservation = limiter.reserve().unwrap();
    let next = queued(&limiter, 1);
    let other = dropping(reservation);
    clock.advance(SECOND);
    join_all([other]);
    // It was next in the queue, or got the refunded token.
    served(&limiter, Err(next));
});

/// Time passes during a refund or a dropped reservation, and other calls decide. The amount that time has paid
/// off meanwhile is not given back. The burst is so large that the limiter has no reason to distrust its
/// clock.
#[test]
fn refund_beside_passing_time_gives_back_only_what_is_owed() {
    check_each(3, [false, true], |reserved| {
        let (limiter, clock) = limiter(secondly(4));
        let reservation = reserved.then(|| limiter.reserve_many(2).unwrap());
        let charge = (!reserved).then(|| limiter.try_acquire_many(2).unwrap());
        let other = with(&limiter, move |limiter| {
            clock.advance(2 * SECOND);
            // The first two are paid off, or were given back.
            limiter.try_acquire_many(2).unwrap();
            clock
        });
        drop(reservation);
        charge.into_iter().for_each(|charge| limiter.refund(charge));
        let _clock = other.join().unwrap();
        assert_eq!(limiter.snapshot().available, 2);
    });
}

/// The same applies to a granted waiter that leaves, and to a reservation that is dropped.
#[test]
fn leaving_beside_passing_time_gives_back_only_what_is_owed() {
    check_each(3, [false, true], |reserved| {
        let (limiter, clock) = spent(secondly(2));
        let waiter = (!reserved).then(|| queued(&limiter, 2));
        let reservation = reserved.then(|| limiter.reserve_many(2).unwrap());
        clock.advance(2 * SECOND);
        let other = with(&limiter, move |limiter| {
            clock.advance(2 * SECOND);
            limiter.try_acquire_many(2).is_ok()
        });
        drop((waiter, reservation));
        assert!(other.join().unwrap());
        assert_eq!(limiter.snapshot().available, 0);
    });
}

// The waker of a waiter is exchanged just as the waiter is granted: the old waker may have been called, so
// the waiter has to check again.
model!(poll_with_another_waker_finds_the_grant, || {
    let (limiter, clock) = spent(Quota::per_second(1));
    let timer = spawn(move || clock.advance(SECOND));
    moved(limiter.acquire()).unwrap();
    join_all([timer]);
});
