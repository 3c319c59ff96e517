//! Keys on tokio's time: each has a state for each runtime, and makes room when it owes in none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::sleep;
use tollgate::{Clock, ErrorKind, Quota, RateLimiter, WhenFull};

use super::world::Users;
use crate::support::{Waiter, kind, paused_runtime};

const HOUR: Duration = Duration::from_secs(3600);

fn users() -> Users {
    Users::new(RateLimiter::new(Quota::per_hour(1)).clock(Clock::tokio()))
}

fn pass(runtime: &Runtime, time: Duration) {
    runtime.block_on(async { sleep(time).await });
}

#[test]
fn keys_met_in_two_runtimes_by_turns_limit_both() {
    let own = Users::new(RateLimiter::new(Quota::per_day(1)).clock(Clock::tokio()))
        .quotas(|_| Quota::per_hour(1));
    for users in [users(), own] {
        let runtimes = [paused_runtime(), paused_runtime()];
        for free in [true, false, false] {
            for runtime in &runtimes {
                runtime.block_on(async {
                    assert_eq!(users.key(&1).snapshot().available == 1, free);
                    assert_eq!(users.key(&1).try_acquire().is_ok(), free);
                    let after = users.key(&1).try_acquire().unwrap_err().retry_after();
                    assert_eq!(after, Some(HOUR));
                });
            }
        }
        // The outside of all runtimes counts as one more.
        users.key(&1).try_acquire().unwrap();
        assert_eq!(users.len(), 1);
    }
}

#[test]
fn peek_of_an_absent_key_after_close_never_admits() {
    let users = users();
    let runtime = paused_runtime();
    runtime.block_on(async {
        users.key(&1).peek();
        assert_eq!(users.key(&1).peek().retry_after, Duration::ZERO);
        users.close();
        assert_eq!(users.key(&1).peek().retry_after, Duration::MAX);
        assert_eq!(kind(users.key(&1).try_acquire()), ErrorKind::Closed);
    });
    assert_eq!(users.len(), 0);
}

#[test]
fn max_keys_counts_a_key_until_no_runtime_in_use_owes() {
    for (when_full, evicts) in [(WhenFull::Reject, false), (WhenFull::Evict, true)] {
        let users = users().max_keys(1).when_full(when_full);
        let [here, other] = [paused_runtime(), paused_runtime()];
        let refused = || here.block_on(async { users.key(&2).try_acquire().map(drop) });
        other.block_on(async { users.key(&1).try_acquire().unwrap() });
        here.block_on(async { assert_eq!(users.key(&1).snapshot().available, 1) });
        if evicts {
            refused().unwrap();
            other.block_on(async { assert_eq!(users.key(&1).snapshot().available, 1) });
            continue;
        }
        let error = refused().unwrap_err();
        assert_eq!(
            (error.kind(), error.retry_after()),
            (ErrorKind::TooManyKeys, Some(HOUR))
        );
        // The time of the other runtime has not moved.
        pass(&here, 2 * HOUR);
        assert_eq!(refused().unwrap_err().retry_after(), Some(HOUR));
        pass(&other, HOUR - Duration::from_millis(1));
        let left = refused().unwrap_err().retry_after();
        assert_eq!(left, Some(Duration::from_millis(1)));
        pass(&other, Duration::from_millis(1));
        refused().unwrap();
        assert_eq!(
            (users.keys().collect::<Vec<_>>(), users.len()),
            (vec![2], 1)
        );
    }
}

#[test]
fn max_keys_ignores_what_is_owed_in_a_runtime_that_has_ended() {
    let users = users().max_keys(1);
    paused_runtime().block_on(async { users.key(&1).try_acquire().unwrap() });
    assert_eq!(users.keys().count(), 0);
    paused_runtime().block_on(async { users.key(&2).try_acquire().unwrap() });
}

#[test]
fn evict_drops_the_key_that_owes_least_but_none_with_waiters() {
    let users = Users::new(RateLimiter::new(Quota::per_hour(1).burst(4)).clock(Clock::tokio()))
        .max_keys(3)
        .when_full(WhenFull::Evict);
    let [here, other] = [paused_runtime(), paused_runtime()];
    let mut waiter = other.block_on(async {
        users.key(&0).try_acquire_many(4).unwrap();
        Waiter::parked(users.key(&0).acquire())
    });
    here.block_on(async {
        users.key(&1).try_acquire_many(4).unwrap();
        users.key(&2).try_acquire_many(3).unwrap();
        users.key(&3).try_acquire_many(4).unwrap();
        assert_eq!(
            (
                users.key(&1).snapshot().available,
                users.key(&2).snapshot().available
            ),
            (0, 4)
        );
    });
    other.block_on(async {
        assert_eq!(users.key(&0).snapshot().waiting, 1);
        sleep(HOUR).await;
    });
    waiter.granted();
}

#[test]
fn retain_and_shrink_drop_keys_as_on_other_clocks() {
    let users = users();
    let runtime = paused_runtime();
    runtime.block_on(async {
        for key in 0..4 {
            users.key(&key).try_acquire().unwrap();
        }
        let charge = users.key(&4).try_acquire().unwrap();
        users.key(&4).refund(charge);
        users.shrink();
        // Nothing is owed by the one that was refunded.
        assert_eq!(users.len(), 4);
        users.retain(|key| *key != 3);
        assert_eq!(users.len(), 3);
        let _waiter = Waiter::parked(users.key(&2).acquire());
        users.retain(|key| *key == 0);
        assert_eq!(users.len(), 2);
    });
}

#[test]
fn key_that_has_recovered_for_a_minute_is_replaced_though_there_is_room() {
    for (millis, len) in [(60_999, 2), (61_000, 1)] {
        let each = RateLimiter::new(Quota::per_second(1)).clock(Clock::tokio());
        let users = Users::new(each).max_keys(10);
        paused_runtime().block_on(async {
            users.key(&1).try_acquire().unwrap();
            sleep(Duration::from_millis(millis)).await;
            users.key(&2).try_acquire().unwrap();
        });
        assert_eq!(users.len(), len);
    }
}

/// The new quota, and the end, are met in every runtime.
#[test]
fn set_quota_requota_and_close_reach_every_runtime() {
    let count = Arc::new(AtomicU64::new(4));
    let answer = Arc::clone(&count);
    let own = Users::new(RateLimiter::new(Quota::per_day(1)).clock(Clock::tokio()))
        .quotas(move |_| Quota::per_hour(1).burst(answer.load(Ordering::Relaxed)));
    let common = Users::new(RateLimiter::new(Quota::per_hour(1).burst(4)).clock(Clock::tokio()));
    let runtimes = [paused_runtime(), paused_runtime()];
    for (users, is_own) in [(&common, false), (&own, true)] {
        let mut waiters = runtimes.each_ref().map(|runtime| {
            runtime.block_on(async {
                users.key(&1).try_acquire_many(2).unwrap();
                users.key(&2).try_acquire_many(4).unwrap();
                Waiter::parked(users.key(&2).acquire())
            })
        });
        users.set_quota(Quota::per_hour(1).burst(8));
        if is_own {
            count.store(8, Ordering::Relaxed);
            users.requota(&1);
        }
        for runtime in &runtimes {
            runtime.block_on(async {
                assert_eq!(users.key(&1).snapshot().available, 4);
                assert_eq!(users.key(&3).snapshot().available, 8);
            });
        }
        users.close();
        for (runtime, waiter) in runtimes.iter().zip(&mut waiters) {
            assert_eq!(waiter.refused(), ErrorKind::Closed);
            runtime.block_on(async {
                assert_eq!(kind(users.key(&1).try_acquire()), ErrorKind::Closed);
                assert_eq!(kind(users.key(&4).try_acquire()), ErrorKind::Closed);
            });
        }
    }
}
