//! Decisions, waiters and passing time beside a change of the quota.

use super::*;
use tollgate::QuotaChange;
use tollgate::throttle::{Inspect, LimitStatus};

#[test]
fn a_decision_under_an_old_quota_is_not_written_over_a_new_one() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_hour(1));
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.try_acquire().is_ok())
        };
        limiter.set_quota(Quota::per_second(1000));
        assert!(other.join().unwrap());
        // Charged before or after, it is one of a thousand a second now.
        assert_eq!(limiter.peek().retry_after, Duration::from_millis(1));
        clock.advance(Duration::from_millis(1));
        limiter.try_acquire().unwrap();
    });
}

/// Nothing is owed before and after the change, so only the epoch tells them apart.
#[test]
fn a_decision_under_an_old_quota_takes_nothing_although_as_much_is_owed() {
    model(|| {
        let (limiter, _clock) = limiter(Quota::per_hour(1));
        limiter.set_quota(Quota::per_minute(1));
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.try_acquire().is_ok())
        };
        limiter.set_quota(Quota::per_second(1000));
        assert!(other.join().unwrap());
        // It was charged before, and that was carried over, or by the quota of now.
        assert_eq!(limiter.peek().retry_after, Duration::from_millis(1));
    });
}

#[test]
fn a_refusal_is_by_one_quota_or_the_other() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_hour(1));
        limiter.try_acquire().unwrap();
        clock.advance(HOUR / 2);
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.try_acquire().unwrap_err().retry_after().unwrap())
        };
        // One call takes three quarters of an hour then, and half of that is owed. With the burst of
        // before it would be refused for a quarter of an hour.
        limiter.set_quota(Quota::new(1, HOUR * 3 / 4));
        let after = other.join().unwrap();
        assert!(after == HOUR / 2 || after == HOUR * 3 / 8, "{after:?}");
    });
}

#[test]
fn two_reconfigurations_and_a_decision_agree_in_the_end() {
    // Three threads: at most one preemption, or it takes minutes.
    model_with(1, || {
        let (limiter, _clock) = limiter(Quota::per_hour(1));
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.set_quota(Quota::per_second(1000)))
        };
        let tried = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.try_acquire().is_ok())
        };
        limiter.set_quota(Quota::per_second(10));
        other.join().unwrap();
        assert!(tried.join().unwrap());
        let after = limiter.peek().retry_after;
        let quota = limiter.quota();
        assert_eq!(
            after,
            quota.period() / u32::try_from(quota.count()).unwrap()
        );
    });
}

#[test]
fn a_reconfiguration_times_a_joiner_again() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_hour(1));
        limiter.try_acquire().unwrap();
        let joiner = join(&limiter, 1);
        limiter.set_quota(Quota::per_second(1000));
        let joined = joiner.join().unwrap();
        clock.advance(Duration::from_millis(1));
        let charge = charge_of(joined);
        assert_eq!(charge.at().as_nanos(), 100_001_000_000);
    });
}

/// Time passes beside a change of the quota and a try.
#[test]
fn set_quota_beside_passing_time_mints_nothing() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_second(1).burst(2));
        limiter.try_acquire_many(2).unwrap();
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || {
                clock.advance(SECOND);
                limiter.try_acquire().is_ok()
            })
        };
        limiter.set_quota(Quota::per_second(2).burst(2));
        let admitted = other.join().unwrap();
        // One came back before the change, or two after it; or one before it and none after.
        let spent = u64::from(admitted);
        assert!(admitted);
        assert!(limiter.snapshot().available + spent <= 2);
    });
}

/// The quota and the decision are of one moment.
#[test]
fn inspect_beside_a_change_says_one_quota() {
    model(|| {
        let (limiter, _clock) = limiter(Quota::per_hour(1).burst(2));
        let changes = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.set_quota(Quota::per_hour(1).burst(3)))
        };
        limiter.inspect(None, &mut |_, status| match status {
            LimitStatus::Rate { quota, decision } => assert_eq!(quota.max_burst(), decision.limit),
            other => panic!("{other:?}"),
        });
        changes.join().unwrap();
    });
}

/// Whether the waiter joins before, in between or after, it is released. It takes one of the burst if it
/// is charged after the limit was set again, and only then a refund gives one back.
#[test]
fn set_quota_to_unlimited_and_back_releases_a_joiner_and_mints_nothing() {
    model(|| {
        let (limiter, _clock) = limiter(Quota::per_hour(1).burst(2));
        limiter.try_acquire_many(2).unwrap();
        let joiner = join(&limiter, 1);
        limiter.set_quota(Quota::UNLIMITED);
        limiter.set_quota(Quota::per_hour(1).burst(2));
        let charge = charge_of(joiner.join().unwrap());
        let left = limiter.snapshot().available;
        limiter.try_acquire_many(left).unwrap();
        limiter.refund(charge);
        assert_eq!(left + limiter.snapshot().available, 2);
    });
}

/// More than the burst can only be admitted while there is no limit, and is not owed after that.
#[test]
fn a_decision_without_a_limit_is_not_written_over_a_new_one() {
    model(|| {
        let (limiter, _clock) = limiter(Quota::UNLIMITED);
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.try_acquire_many(5).map_err(|error| error.kind()))
        };
        limiter.set_quota(Quota::per_hour(1).burst(2));
        match other.join().unwrap() {
            Ok(charge) => limiter.refund(charge),
            Err(kind) => assert_eq!(kind, ErrorKind::ExceedsCapacity),
        }
        limiter.try_acquire_many(2).unwrap();
        assert_eq!(limiter.try_acquire().unwrap_err().retry_after(), Some(HOUR));
    });
}

/// The limit is lifted beside the refund of a charge for which somebody waits.
#[test]
fn set_quota_to_unlimited_beside_a_refund_releases_the_waiter() {
    model(|| {
        let (limiter, _clock) = limiter(Quota::per_hour(1));
        let charge = limiter.try_acquire().unwrap();
        let mut waiter = Waiter::new(&limiter, 1);
        assert!(waiter.poll().is_pending());
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.refund(charge))
        };
        limiter.set_quota(Quota::UNLIMITED);
        other.join().unwrap();
        waiter.output().unwrap();
        assert_eq!(limiter.snapshot().waiting, 0);
    });
}

/// Decisions by a quota of several per nanosecond take the lock, and those by others do not.
#[test]
fn set_quota_to_many_per_nanosecond_and_back_beside_a_decision_loses_nothing() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_hour(1).burst(4));
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.try_acquire_many(2).is_ok())
        };
        let dense = Quota::new(5, Duration::from_nanos(2)).burst(4);
        limiter.set_quota(dense);
        assert!(other.join().unwrap());
        assert_eq!(limiter.snapshot().available, 2);
        limiter.set_quota(Quota::per_hour(1).burst(4));
        assert_eq!(limiter.snapshot().available, 2);
        limiter.try_acquire_many(2).unwrap();
        limiter.set_quota(dense);
        clock.advance(Duration::from_nanos(1));
        assert_eq!(limiter.snapshot().available, 2);
    });
}

/// One call serves one waiter in a model, and leaves the second to the timer, which another call may
/// find.
#[test]
fn set_quota_that_makes_two_due_beside_a_try_releases_both_before_it() {
    model(|| {
        let (limiter, _clock) = limiter(Quota::per_hour(1));
        limiter.try_acquire().unwrap();
        let waiters = [(); 2].map(|()| Waiter::new(&limiter, 1).queued());
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || {
                let tried = limiter.try_acquire().map_err(|error| error.retry_after());
                (tried, limiter.snapshot().waiting)
            })
        };
        limiter.set_quota_with(Quota::per_second(1).burst(4), QuotaChange::KeepSpent);
        // All due waiters were released when either call returned, by it or by the other.
        match other.join().unwrap() {
            (Ok(_), waiting) => assert_eq!(waiting, 0),
            (Err(after), _) => assert!(after.is_some_and(|after| !after.is_zero())),
        }
        for waiter in waiters {
            waiter.output().unwrap();
        }
        assert_eq!(limiter.snapshot().waiting, 0);
    });
}

/// The timer that goes on with the others may be the one that is moved meanwhile.
#[test]
fn set_quota_that_makes_two_due_beside_passing_time_releases_both() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_second(1));
        limiter.try_acquire().unwrap();
        let waiters = [(); 2].map(|()| Waiter::new(&limiter, 1).queued());
        let other = thread::spawn(move || clock.advance(SECOND));
        limiter.set_quota_with(Quota::per_hour(1).burst(4), QuotaChange::KeepSpent);
        other.join().unwrap();
        for waiter in waiters {
            waiter.output().unwrap();
        }
        assert_eq!(limiter.snapshot().waiting, 0);
    });
}

/// Neither does one that leaves take with it what was left to the timer.
#[test]
fn close_beside_a_waiter_that_leaves_reaches_the_others() {
    model(|| {
        let (limiter, _clock) = limiter(Quota::per_hour(1));
        limiter.try_acquire().unwrap();
        let [first, second, third] = [(); 3].map(|()| Waiter::new(&limiter, 1).queued());
        let other = thread::spawn(move || drop(second));
        limiter.close();
        other.join().unwrap();
        for waiter in [first, third] {
            assert_eq!(waiter.output().unwrap_err().kind(), ErrorKind::Closed);
        }
        assert_eq!(limiter.snapshot().waiting, 0);
    });
}
