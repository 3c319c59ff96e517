//! What becomes of what was spent, in each of the two ways, up and down.

use std::time::Duration;

use tollgate::{Quota, QuotaChange};

use super::scene::{assert_available, assert_due, assert_limited, limiter, line, ms, spent};

const TENTH: Quota = Quota::per_second(100).burst(10);

/// Spends so many of ten, changes the quota, and says what is left.
fn left(spent: u64, quota: Quota, carry: QuotaChange) -> u64 {
    let (_clock, limiter) = limiter(TENTH);
    limiter.try_acquire_many(spent).unwrap();
    limiter.set_quota_with(quota, carry);
    let left = limiter.available();
    assert_available(&limiter, left);
    left
}

#[test]
fn each_way_leaves_what_it_says() {
    let (up, down) = (TENTH.burst(20), TENTH.burst(5));
    for (carry, spent, of_twenty, of_five) in [
        (QuotaChange::Proportional, 0, 20, 5),
        (QuotaChange::Proportional, 4, 12, 3),
        (QuotaChange::Proportional, 10, 0, 0),
        (QuotaChange::KeepSpent, 0, 20, 5),
        (QuotaChange::KeepSpent, 4, 16, 1),
        (QuotaChange::KeepSpent, 8, 12, 0),
    ] {
        assert_eq!(left(spent, up, carry), of_twenty, "{carry:?} {spent} up");
        assert_eq!(left(spent, down, carry), of_five, "{carry:?} {spent} down");
    }
}

#[test]
fn the_rate_by_itself_changes_nothing_that_is_left() {
    let (faster, slower) = (
        Quota::per_second(1000).burst(10),
        Quota::per_hour(100).burst(10),
    );
    for carry in [QuotaChange::Proportional, QuotaChange::KeepSpent] {
        for quota in [faster, slower] {
            assert_eq!(left(4, quota, carry), 6, "{carry:?} {quota}");
        }
    }
}

#[test]
fn what_is_owed_takes_the_time_of_the_new_rate() {
    for carry in [QuotaChange::Proportional, QuotaChange::KeepSpent] {
        let (clock, limiter) = spent(TENTH);
        clock.advance(ms(5));
        limiter.set_quota_with(Quota::per_hour(36).burst(10), carry);
        // Half of one has been paid off, and one takes 100 s now.
        assert_limited(&limiter, 1, Duration::from_secs(50));
        assert_eq!(limiter.peek().reset_after, Duration::from_secs(950));
    }
}

#[test]
fn what_is_owed_beyond_the_burst_stays_owed() {
    let up = TENTH.burst(20);
    for (carry, retry_after) in [
        (QuotaChange::Proportional, ms(70)),
        (QuotaChange::KeepSpent, ms(0)),
    ] {
        let (_clock, limiter) = spent(TENTH);
        limiter.charge(3);
        limiter.set_quota_with(up, carry);
        assert_eq!(limiter.peek().retry_after, retry_after, "{carry:?}");
    }
}

#[test]
fn a_line_is_timed_anew_in_each_way() {
    let up = Quota::per_second(100).burst(20);
    let down = Quota::per_second(100).burst(5);
    // Ten are owed, less the two that were paid off, and somebody asks for five.
    for (quota, carry, due) in [
        (up, QuotaChange::Proportional, ms(10)),
        (up, QuotaChange::KeepSpent, ms(0)),
        (down, QuotaChange::Proportional, ms(40)),
        (down, QuotaChange::KeepSpent, ms(50)),
    ] {
        let (clock, limiter) = spent(TENTH);
        let mut waiters = line(&limiter, &[5, 5]);
        clock.advance(ms(20));
        limiter.set_quota_with(quota, carry);
        if due.is_zero() {
            let charge = waiters[0].granted();
            assert_eq!(charge.at(), clock.now(), "{quota} {carry:?}");
        } else {
            assert_due(&clock, &mut waiters[0], due);
        }
        if quota == up && due.is_zero() {
            waiters[1].granted();
        } else {
            assert_due(&clock, &mut waiters[1], ms(50));
        }
    }
}
