//! Models decisions, waiters and passing time with a concurrent change of the quota.

use super::*;
use tollgate::rate::QuotaChange;
use tollgate::throttle::{Inspect, LimitStatus};

model!(decision_under_an_old_quota_is_not_written_over, || {
    let (limiter, clock) = limiter(Quota::per_hour(1));
    let other = with(&limiter, admits);
    limiter.set_quota(Quota::per_second(1000));
    assert!(other.join().unwrap());
    // Whether it was charged before or after, it costs a thousandth of a second now.
    assert_eq!(limiter.peek().retry_after, Some(Duration::from_millis(1)));
    clock.advance(Duration::from_millis(1));
    limiter.try_acquire().unwrap();
});

// The backlog is zero before and after the change, so only the epoch distinguishes them.
model!(decision_under_an_old_quota_of_equal_debt_takes_none, || {
    let (limiter, _clock) = limiter(Quota::per_hour(1));
    limiter.set_quota(Quota::per_minute(1));
    let other = with(&limiter, admits);
    limiter.set_quota(Quota::per_second(1000));
    assert!(other.join().unwrap());
    // It was charged before and carried over, or charged under the current quota.
    assert_eq!(limiter.peek().retry_after, Some(Duration::from_millis(1)));
});

model!(refusal_is_by_one_quota_or_the_other, || {
    let (limiter, clock) = spent(Quota::per_hour(1));
    clock.advance(HOUR / 2);
    let other = with(&limiter, |limiter| {
        limiter.try_acquire().unwrap_err().retry_after().unwrap()
    });
    // One call then takes three quarters of an hour, and half of that must still be paid off. With the earlier
    // burst it would be refused for a quarter of an hour.
    limiter.set_quota(Quota::new(1, HOUR * 3 / 4));
    let after = other.join().unwrap();
    assert!(after == HOUR / 2 || after == HOUR * 3 / 8, "{after:?}");
});

// With three threads, at most one preemption is allowed; otherwise it takes minutes.
model!(two_quotas_and_a_decision_agree_in_the_end, 1, || {
    let (limiter, _clock) = limiter(Quota::per_hour(1));
    let set = |limiter: &Limiter| limiter.set_quota(Quota::per_second(1000));
    let other = with(&limiter, set);
    let tried = with(&limiter, admits);
    limiter.set_quota(Quota::per_second(10));
    join_all([other]);
    assert!(tried.join().unwrap());
    let (after, quota) = (limiter.peek().retry_after, limiter.quota());
    assert_eq!(after, Some(quota.period() / quota.count() as u32));
});

model!(reconfiguration_times_a_joiner_again, || {
    let (limiter, clock) = spent(Quota::per_hour(1));
    let joiner = join(&limiter, 1);
    limiter.set_quota(Quota::per_second(1000));
    let joined = joiner.join().unwrap();
    clock.advance(Duration::from_millis(1));
    let charge = charge_of(joined);
    assert_eq!(charge.at().as_nanos(), 100_001_000_000);
});

// Time passes during a change of the quota and a try.
model!(set_quota_beside_passing_time_mints_nothing, || {
    let (limiter, clock) = spent(secondly(2));
    let other = with(&limiter, move |limiter| {
        clock.advance(SECOND);
        limiter.try_acquire().is_ok()
    });
    limiter.set_quota(Quota::per_second(2).burst(2));
    let admitted = other.join().unwrap();
    // One token came back before the change, or two after it; or one before it and none after.
    let spent = u64::from(admitted);
    assert!(admitted);
    assert!(limiter.snapshot().available + spent <= 2);
});

// The quota and the decision belong to the same moment.
model!(inspect_beside_a_change_says_one_quota, || {
    let (limiter, _clock) = limiter(hourly(2));
    let changes = with(&limiter, |limiter| limiter.set_quota(hourly(3)));
    limiter.inspect(None, &mut |_, status| match status {
        LimitStatus::Rate { quota, decision } => assert_eq!(quota.max_burst(), decision.limit),
        other => panic!("{other:?}"),
    });
    join_all([changes]);
});

// Whether the waiter joins before, in between or after, it is released. It takes one of the burst if it
// is charged after the limit was set again, and only then does a refund give one back.
model!(set_quota_to_unlimited_and_back_mints_nothing, || {
    let (limiter, _clock) = spent(hourly(2));
    let joiner = join(&limiter, 1);
    limiter.set_quota(Quota::UNLIMITED);
    limiter.set_quota(hourly(2));
    let charge = charge_of(joiner.join().unwrap());
    let left = limiter.snapshot().available;
    limiter.try_acquire_many(left).unwrap();
    limiter.refund(charge);
    assert_eq!(left + limiter.snapshot().available, 2);
});

// More than the burst can be admitted only while there is no limit, and is not charged after that.
model!(decision_without_a_limit_is_not_written_over_a_new, || {
    let (limiter, _clock) = limiter(Quota::UNLIMITED);
    let other = with(&limiter, |limiter| limiter.try_acquire_many(5));
    limiter.set_quota(hourly(2));
    match other.join().unwrap() {
        Ok(charge) => limiter.refund(charge),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ExceedsCapacity),
    }
    limiter.try_acquire_many(2).unwrap();
    assert_eq!(limiter.try_acquire().unwrap_err().retry_after(), Some(HOUR));
});

// The limit is lifted during the refund of a charge for which a caller waits.
model!(set_quota_to_unlimited_as_it_refunds_lets_go, || {
    let (limiter, _clock, charge) = charged(Quota::per_hour(1), 1);
    let waiter = queued(&limiter, 1);
    let other = with(&limiter, |limiter| limiter.refund(charge));
    limiter.set_quota(Quota::UNLIMITED);
    join_all([other]);
    served(&limiter, Err(waiter));
});

// Decisions under a quota of several per nanosecond take the lock; decisions under others do not.
model!(set_quota_to_many_per_nanosecond_loses_nothing, || {
    let (limiter, clock) = limiter(hourly(4));
    let other = with(&limiter, |limiter| limiter.try_acquire_many(2).is_ok());
    let dense = Quota::new(5, Duration::from_nanos(2)).burst(4);
    limiter.set_quota(dense);
    assert!(other.join().unwrap());
    assert_eq!(limiter.snapshot().available, 2);
    limiter.set_quota(hourly(4));
    assert_eq!(limiter.snapshot().available, 2);
    limiter.try_acquire_many(2).unwrap();
    limiter.set_quota(dense);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(limiter.snapshot().available, 2);
});

// In a model, one call serves one waiter and leaves the second to the timer, which another call may
// find.
model!(set_quota_that_makes_two_due_releases_both_first, || {
    let (limiter, _clock) = spent(Quota::per_hour(1));
    let waiters = [(); 2].map(|()| queued(&limiter, 1));
    let other = with(&limiter, |limiter| {
        let tried = limiter.try_acquire().map_err(|error| error.retry_after());
        (tried, limiter.snapshot().waiting)
    });
    limiter.set_quota_with(secondly(4), QuotaChange::KeepSpent);
    // All due waiters were released when either call returned, by that call or by the other.
    match other.join().unwrap() {
        (Ok(_), waiting) => assert_eq!(waiting, 0),
        (Err(after), _) => assert!(after.is_some_and(|after| !after.is_zero())),
    }
    let _charges = waiters.map(|waiter| waiter.output().unwrap());
    assert_eq!(limiter.snapshot().waiting, 0);
});

// The timer that continues with the other waiters may be the one that is moved meanwhile.
model!(set_quota_that_makes_two_due_as_time_passes_releases, || {
    let (limiter, clock) = spent(Quota::per_second(1));
    let waiters = [(); 2].map(|()| queued(&limiter, 1));
    let other = spawn(move || clock.advance(SECOND));
    limiter.set_quota_with(hourly(4), QuotaChange::KeepSpent);
    join_all([other]);
    let _charges = waiters.map(|waiter| waiter.output().unwrap());
    assert_eq!(limiter.snapshot().waiting, 0);
});

// A leaving waiter does not remove the work that was left to the timer either.
model!(close_as_a_waiter_leaves_reaches_the_others, || {
    let (limiter, _clock) = spent(Quota::per_hour(1));
    let [first, second, third] = [(); 3].map(|()| queued(&limiter, 1));
    let other = dropping(second);
    limiter.close();
    join_all([other]);
    for waiter in [first, third] {
        assert_eq!(kind(waiter.output()), Some(ErrorKind::Closed));
    }
    assert_eq!(limiter.snapshot().waiting, 0);
});
