//! What is buffered: what a handle takes ahead, and what becomes of it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tollgate::{LocalLimiter, Quota, QuotaChange, RateLimiter};

use crate::setup::{FIFTY, limiter, ms};
use crate::support::Waiter;

/// Each row is calls of a handle with this batch, one after the other: what they cost, and what is
/// buffered and what is left of fifty then.
#[test]
fn try_acquire_takes_a_batch_ahead_when_too_little_is_buffered() {
    type Calls = &'static [(u64, u64, u64)];
    let rows: [(&str, u64, Calls); 6] = [
        (
            "a batch for so many calls",
            3,
            &[(1, 2, 47), (1, 1, 47), (1, 0, 47), (1, 2, 44)],
        ),
        ("one takes nothing ahead", 1, &[(1, 0, 49), (1, 0, 48)]),
        (
            "a larger batch than there is",
            99,
            &[(1, 49, 0), (49, 0, 0)],
        ),
        (
            "what is missing comes with a batch",
            8,
            &[(5, 3, 42), (4, 7, 34)],
        ),
        ("more than a batch", 8, &[(5, 3, 42), (20, 0, 25)]),
        ("nothing", 8, &[(0, 0, 50), (1, 7, 42), (0, 7, 42)]),
    ];
    for (name, batch, calls) in rows {
        let (_clock, limiter) = limiter(FIFTY);
        let mut local = limiter.local(batch);
        assert_eq!(local.buffered(), 0);
        for (cost, buffered, left) in calls {
            local.try_acquire_many(*cost).unwrap();
            let seen = (local.buffered(), limiter.snapshot().available);
            assert_eq!(seen, (*buffered, *left), "{name}: {cost}");
        }
    }
}

/// Time pays a batch off from its beginning: what was used, after how long the rest is given back, and
/// what there is then.
#[test]
fn return_unused_gives_back_what_time_has_not_paid_off() {
    for (used, after, available) in [
        (2, ms(0), 48),
        (2, ms(15), 49),
        (2, ms(100), 50),
        (20, ms(100), 40),
        (31, ms(300), 49),
        (32, ms(0), 18),
    ] {
        let (clock, limiter) = limiter(FIFTY);
        let mut local = limiter.local(32);
        local.try_acquire_many(used).unwrap();
        clock.advance(after);
        local.return_unused();
        local.return_unused();
        assert_eq!(local.buffered(), 0);
        assert_eq!(limiter.snapshot().available, available, "{used} {after:?}");
    }
}

/// A handle that is dropped, also by a panic, gives the rest back; one that is leaked leaves it to
/// time. The waiters get it.
#[test]
fn handle_that_goes_gives_the_rest_back() {
    type Go = fn(LocalLimiter);
    let rows: [(&str, Go, usize); 3] = [
        ("dropped", |local| drop(local), 1),
        (
            "panicked",
            |local| {
                let panicked = catch_unwind(AssertUnwindSafe(move || {
                    assert_eq!(local.buffered(), 0, "on purpose");
                }));
                assert!(panicked.is_err());
            },
            1,
        ),
        ("leaked", |local| std::mem::forget(local), 0),
    ];
    for (name, go, wakes) in rows {
        let (clock, limiter) = limiter(FIFTY);
        let mut local = limiter.local(50);
        local.try_acquire_many(20).unwrap();
        let mut waiter = Waiter::parked(limiter.acquire_many(30));
        go(local);
        assert_eq!(waiter.wakes(), wakes, "{name}");
        clock.advance(ms(300));
        waiter.granted();
    }
}

/// What is buffered stays admitted when the quota changes, and is not given back then.
#[test]
fn set_quota_leaves_what_is_buffered_admitted() {
    let (_clock, limiter) = limiter(FIFTY);
    let mut local = limiter.local(32);
    local.try_acquire_many(2).unwrap();
    limiter.set_quota_with(Quota::per_second(100).burst(60), QuotaChange::KeepSpent);
    local.try_acquire_many(20).unwrap();
    assert_eq!((local.buffered(), limiter.snapshot().available), (10, 28));
    local.return_unused();
    assert_eq!((local.buffered(), limiter.snapshot().available), (0, 28));
    // The next one is of the new quota.
    local.try_acquire().unwrap();
    local.return_unused();
    assert_eq!(limiter.snapshot().available, 27);
}

#[test]
fn handle_outlives_its_limiter_and_may_be_of_a_static() {
    static SHARED: RateLimiter = RateLimiter::new(Quota::per_hour(1).burst(10));
    let mut local = SHARED.local(4);
    local.try_acquire().unwrap();
    assert!(SHARED.try_acquire_many(7).is_err());
    assert_eq!(
        format!("{local:?}"),
        "LocalLimiter { buffered: 3, batch: 4, .. }"
    );
    let (_clock, limiter) = limiter(Quota::per_second(1).burst(3));
    let mut local = limiter.local(2);
    drop(limiter);
    (0..3).for_each(|_| local.try_acquire().unwrap());
    assert!(local.try_acquire().is_err());
}

/// A limiter that starts fresh in the second runtime gets nothing back of what was buffered before.
#[cfg(feature = "tokio")]
#[test]
fn return_unused_in_another_runtime_gives_nothing_back() {
    use crate::support::paused_runtime;
    use tollgate::Clock;

    let limiter = RateLimiter::new(Quota::per_hour(1).burst(10)).clock(Clock::tokio());
    let (first, second) = (paused_runtime(), paused_runtime());
    let mut local = limiter.local(4);
    first.block_on(async { local.try_acquire().unwrap() });
    second.block_on(async {
        (0..4).for_each(|_| local.try_acquire().unwrap());
        assert_eq!(limiter.snapshot().available, 6);
        local.return_unused();
        assert_eq!(limiter.snapshot().available, 9);
    });
    first.block_on(async { local.try_acquire().unwrap() });
    second.block_on(async { local.return_unused() });
}
