//! What is given back: what is in hand, as far as time has not paid it off.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tollgate::{Quota, QuotaChange};

use super::chunks::{limiter, ms};
use crate::support::Waiter;

#[test]
fn dropping_it_in_the_middle_of_a_chunk_gives_back_the_rest() {
    let (_clock, limiter) = limiter(50);
    let mut local = limiter.local(32);
    local.try_acquire_many(5).unwrap();
    assert_eq!(limiter.available(), 18);
    drop(local);
    assert_eq!(limiter.available(), 45);
}

#[test]
fn flushing_it_gives_back_the_rest_and_it_can_be_used_on() {
    let (_clock, limiter) = limiter(50);
    let mut local = limiter.local(32);
    for used in 1..=50 {
        local.try_acquire().unwrap();
        local.return_unused();
        local.return_unused();
        assert_eq!((local.buffered(), limiter.available()), (0, 50 - used));
    }
    drop(local);
    assert_eq!(limiter.available(), 0);
}

#[test]
fn a_chunk_that_was_used_up_gives_nothing_back() {
    let (_clock, limiter) = limiter(50);
    let mut local = limiter.local(32);
    local.try_acquire_many(32).unwrap();
    local.return_unused();
    local.try_acquire_many(18).unwrap();
    drop(local);
    assert_eq!(limiter.available(), 0);
}

/// Time pays a chunk off from its beginning.
#[test]
fn what_time_has_paid_off_is_not_given_back() {
    // What was used, how long it takes, and what is there after it was given back.
    for (used, after, available) in [
        (2, ms(0), 48),
        (2, ms(15), 49),
        (2, ms(20), 50),
        (2, ms(100), 50),
        (20, ms(100), 40),
        (20, ms(200), 50),
        (31, ms(310), 50),
        (31, ms(300), 49),
    ] {
        let (clock, limiter) = limiter(50);
        let mut local = limiter.local(32);
        local.try_acquire_many(used).unwrap();
        clock.advance(after);
        local.return_unused();
        assert_eq!(limiter.available(), available, "{used} {after:?}");
    }
}

/// The rest of the chunk of one is before the chunk of the other.
#[test]
fn each_of_several_gives_back_its_own_in_any_order() {
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let (clock, limiter) = limiter(50);
        let mut locals = [10, 20, 5].map(|chunk| limiter.local(chunk));
        for local in &mut locals {
            local.try_acquire_many(2).unwrap();
        }
        clock.advance(ms(50));
        // Five of the first are paid off, two of them used, so seven tens of it are owed at most.
        let mut owed = 35 - 5;
        for which in order {
            locals[which].return_unused();
            owed -= [5, 18, 3][which];
            assert_eq!(limiter.available(), 50 - owed, "{order:?}");
        }
    }
}

#[test]
fn whoever_waits_gets_what_is_given_back() {
    let (_clock, limiter) = limiter(50);
    let mut local = limiter.local(50);
    local.try_acquire_many(20).unwrap();
    let mut waiter = Waiter::parked(limiter.acquire_many(30));
    drop(local);
    assert_eq!(waiter.wakes(), 1);
    waiter.granted();
    assert_eq!((limiter.available(), limiter.waiting()), (0, 0));
}

#[test]
fn a_chunk_of_an_earlier_quota_stays_admitted_and_is_not_given_back() {
    let (_clock, limiter) = limiter(50);
    let mut local = limiter.local(32);
    local.try_acquire_many(2).unwrap();
    limiter.set_quota_with(Quota::per_second(100).burst(60), QuotaChange::KeepSpent);
    for _ in 0..20 {
        local.try_acquire().unwrap();
    }
    assert_eq!((local.buffered(), limiter.available()), (10, 28));
    limiter.try_acquire_many(4).unwrap();
    local.return_unused();
    assert_eq!((local.buffered(), limiter.available()), (0, 24));
    // The next one is of the new quota, and is given back in full.
    local.try_acquire().unwrap();
    assert_eq!((local.buffered(), limiter.available()), (23, 0));
    local.return_unused();
    assert_eq!(limiter.available(), 24 - 1);
}

#[test]
fn a_task_that_panics_gives_back_what_it_has_in_hand() {
    let (_clock, limiter) = limiter(50);
    let mut local = limiter.local(32);
    let panicked = catch_unwind(AssertUnwindSafe(move || {
        local.try_acquire_many(2).unwrap();
        panic!("in the middle of a chunk");
    }));
    assert!(panicked.is_err());
    assert_eq!(limiter.available(), 48);
}

#[test]
fn one_that_is_leaked_is_paid_off_by_time() {
    let (clock, limiter) = limiter(50);
    let mut local = limiter.local(32);
    local.try_acquire().unwrap();
    std::mem::forget(local);
    assert_eq!(limiter.available(), 18);
    clock.advance(ms(320));
    assert_eq!(limiter.available(), 50);
}

#[test]
fn it_outlives_its_limiter() {
    let (_clock, limiter) = limiter(3);
    let mut local = limiter.local(2);
    drop(limiter);
    for _ in 0..3 {
        local.try_acquire().unwrap();
    }
    assert!(local.try_acquire().is_err());
}
