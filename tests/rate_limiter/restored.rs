//! What is owed, taken from one process to the next.

use std::time::Duration;

use tollgate::rate::State;
use tollgate::{Oversize, Quota, RateLimiter};

use super::scene::{
    FIFTY, TEN, TICK, assert_available, assert_due, assert_limited, limiter, line, ms, spent,
};
use crate::support::Waiter;

/// The state of a limiter of which so much was taken.
fn exported(quota: Quota, taken: u64) -> State {
    let (_clock, limiter) = limiter(quota);
    limiter.charge(taken);
    limiter.export()
}

/// A limiter that lives by another time.
fn restored(quota: Quota, state: State, since: Duration) -> RateLimiter {
    let (clock, limiter) = limiter(quota);
    clock.advance(Duration::from_secs(77));
    limiter.restore(state, since);
    limiter
}

#[test]
fn what_was_owed_is_owed_again_less_what_was_paid_off() {
    let state = exported(FIFTY, 30);
    for (since, left) in [
        (ms(0), 20),
        (ms(50), 25),
        (ms(300), 50),
        (ms(10_000), 50),
        (Duration::MAX, 50),
    ] {
        let limiter = restored(FIFTY, state, since);
        assert_available(&limiter, left);
        let owed = ms(300).saturating_sub(since);
        assert_eq!(limiter.peek().reset_after, owed);
    }
}

#[test]
fn a_debt_beyond_the_burst_is_carried_too() {
    let limiter = restored(FIFTY, exported(FIFTY, 80), ms(100));
    assert_limited(&limiter, 1, ms(700 + 10 - 500));
}

#[test]
fn under_another_quota_what_was_spent_stays_spent_in_proportion() {
    let state = exported(FIFTY, 30);
    let limiter = restored(Quota::per_hour(3600).burst(100), state, ms(50));
    assert_available(&limiter, 50);
    assert_eq!(limiter.peek().reset_after, Duration::from_secs(50));
    let limiter = restored(TEN, state, ms(0));
    assert_eq!(limiter.peek().reset_after, ms(60));
}

#[test]
fn nothing_owed_is_nothing() {
    let limiter = restored(TEN, exported(FIFTY, 0), Duration::ZERO);
    assert_available(&limiter, 1);
}

#[test]
fn it_is_added_to_what_is_owed_already() {
    let (clock, limiter) = spent(TEN);
    let mut waiters = line(&limiter, &[1, 1]);
    clock.advance(ms(50));
    limiter.restore(exported(TEN, 3), ms(100));
    assert_due(&clock, &mut waiters[0], ms(250));
    assert_due(&clock, &mut waiters[1], ms(100));
}

#[test]
fn exporting_takes_nothing_away() {
    let (_clock, limiter) = spent(TEN);
    let _waiter = Waiter::parked(limiter.acquire());
    let before = limiter.peek();
    assert_eq!(limiter.export(), limiter.export());
    assert_eq!(limiter.peek(), before);
    // Those in line are not part of it.
    assert_eq!(limiter.export(), exported(TEN, 1));
}

#[test]
fn a_quota_without_whole_nanoseconds_loses_no_more_than_a_tick() {
    for quota in [
        Quota::per_second(3).burst(3),
        Quota::per_second(7).burst(20),
        Quota::new(3, Duration::from_nanos(10)).burst(5),
        Quota::per_second(700_000_000).burst(90),
    ] {
        for taken in [1, 2, 3, 50] {
            let (clock, before) = limiter(quota);
            before.charge(taken);
            let owed = before.peek().reset_after;
            let (_, after) = limiter(quota);
            after.restore(before.export(), Duration::ZERO);
            let again = after.peek().reset_after;
            assert!(again >= owed, "{quota}: {again:?}");
            assert!(again <= owed + 2 * TICK, "{quota}: {again:?}");
            drop(clock);
        }
    }
}

/// A token takes four units, and ten nanoseconds have twelve: what is left is rounded up to a whole
/// unit, for the one that is rounded down here may be just what another token lacks.
#[test]
fn what_is_left_after_a_part_was_paid_off_is_never_less_than_it_was() {
    let quota = Quota::new(3, Duration::from_nanos(10)).burst(5);
    let (clock, before) = limiter(quota);
    before.charge(2);
    let state = before.export();
    clock.advance(3 * TICK);
    assert_eq!(before.available(), 3);
    assert_available(&restored(quota, state, 3 * TICK), 3);

    for quota in [quota, Quota::per_second(3).burst(5)] {
        for (taken, parts) in [(1, 7_u32), (2, 7), (5, 11), (9, 13)] {
            let (clock, before) = limiter(quota);
            before.charge(taken);
            let state = before.export();
            let part = before.peek().reset_after / parts;
            for since in (0..parts).map(|number| number * part) {
                let after = restored(quota, state, since);
                assert!(
                    after.available() <= before.available(),
                    "{quota}: {since:?}"
                );
                let (again, owed) = (after.peek().reset_after, before.peek().reset_after);
                assert!(
                    again + TICK >= owed && again <= owed + 2 * TICK,
                    "{quota}: {again:?}"
                );
                clock.advance(part);
            }
        }
    }
}

#[test]
fn what_saturated_is_restored() {
    let (_clock, limiter) = limiter(FIFTY);
    let limiter = limiter.oversize(Oversize::Overdraft);
    limiter.try_acquire_many(u64::MAX).unwrap();
    let again = restored(FIFTY, limiter.export(), ms(1));
    assert_eq!(again.available(), 0);
    assert!(again.peek().retry_after > Duration::from_secs(9 * 365 * 24 * 3600));
}

#[cfg(feature = "serde")]
#[test]
fn a_state_can_be_written_to_a_file() {
    let state = exported(FIFTY, 30);
    let text = serde_json::to_string(&state).unwrap();
    assert!(text.contains("100/s burst 50"), "{text}");
    let read: State = serde_json::from_str(&text).unwrap();
    assert_eq!(read, state);
    assert_available(&restored(FIFTY, read, ms(0)), 20);
}
