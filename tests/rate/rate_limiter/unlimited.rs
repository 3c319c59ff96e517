//! No limit: set, and lifted, while the limiter is in use.

use std::time::Duration;

use tollgate::throttle::Weighted;
use tollgate::{Algorithm, Clock, ErrorKind, Keyed, Quota, QuotaChange, RateLimiter};

use crate::setup::{TEN, TICK, assert_available, assert_limited, limiter, ms, queue, spent};
use crate::support::{Waiter, kind};

#[test]
fn try_acquire_without_a_limit_admits_any_cost_at_any_time() {
    let (clock, limiter) = limiter(Quota::UNLIMITED);
    for pause in [
        Duration::ZERO,
        TICK,
        Duration::from_secs(3600),
        Duration::MAX,
    ] {
        clock.advance(pause);
        for cost in [0, 1, 1 << 40, u64::MAX, u64::MAX] {
            let charge = limiter.try_acquire_many(cost).unwrap();
            assert_eq!((charge.cost(), charge.at()), (cost, clock.now()));
            let decision = limiter.decision(&charge);
            assert_eq!((decision.limit, decision.remaining), (u64::MAX, u64::MAX));
            assert_eq!(decision.retry_after, Duration::ZERO);
            assert_eq!(decision.reset_after, Duration::ZERO);
        }
        assert_eq!(limiter.charge(u64::MAX).cost(), u64::MAX);
        assert_eq!(limiter.snapshot().available, u64::MAX);
    }
    let snapshot = limiter.snapshot();
    let seen = (snapshot.limit, snapshot.in_use, snapshot.available);
    assert_eq!(seen, (u64::MAX, 0, u64::MAX));
    let handle = &limiter;
    assert_eq!(
        (handle.max_units(), handle.chunk_units()),
        (u64::MAX, u64::MAX)
    );
    assert!(format!("{limiter:?}").contains("unlimited"));
}

#[test]
fn set_quota_to_unlimited_releases_all_waiters_in_their_order() {
    let (clock, limiter) = spent(TEN);
    limiter.charge(1000);
    // More than are woken at once, and some for more than the burst of before.
    limiter.set_quota(TEN.burst(5));
    let mut waiters = queue(&limiter, &[1, 2, 3, 4, 5].repeat(60));
    let mut last = Waiter::parked(limiter.reserve_many(5).unwrap());
    limiter.set_quota(Quota::UNLIMITED);
    assert_eq!(limiter.snapshot().waiting, 0);
    let costs: Vec<u64> = waiters
        .iter_mut()
        .map(|waiter| {
            assert_eq!(waiter.wakes(), 1);
            let charge = waiter.granted();
            assert_eq!(charge.at(), clock.now());
            charge.cost()
        })
        .collect();
    assert_eq!(costs, [1, 2, 3, 4, 5].repeat(60));
    assert_eq!(last.granted().cost(), 5);
    // Their charges are owed nothing for, before and after a limit.
    limiter.set_quota(TEN.burst(5));
    assert_available(&limiter, 5);
}

#[test]
fn set_quota_after_no_limit_has_the_whole_burst() {
    for how in [QuotaChange::Proportional, QuotaChange::KeepSpent] {
        let (clock, limiter) = limiter(Quota::UNLIMITED);
        let before = limiter.try_acquire_many(1 << 50).unwrap();
        limiter.set_quota_with(TEN.burst(3), how);
        assert_eq!(limiter.quota(), TEN.burst(3));
        assert_available(&limiter, 3);
        limiter.try_acquire_many(3).unwrap();
        limiter.refund(before);
        assert_limited(&limiter, 1, ms(100));
        let refused = kind(limiter.try_acquire_many(4));
        assert_eq!(refused, ErrorKind::ExceedsCapacity);

        // A charge from before gives nothing back after that, either.
        let charge = limiter.charge(2);
        limiter.set_quota_with(Quota::UNLIMITED, how);
        limiter.settle(charge, 1);
        limiter.set_quota_with(TEN.burst(3), how);
        limiter.try_acquire_many(3).unwrap();
        clock.advance(ms(100));
        limiter.try_acquire().unwrap();
        assert_limited(&limiter, 1, ms(100));
    }
}

#[test]
fn settle_without_a_limit_changes_nothing() {
    let (_clock, limiter) = limiter(Quota::UNLIMITED);
    for used in [0, 7, 10, 11, u64::MAX] {
        let charge = limiter.try_acquire_many(10).unwrap();
        limiter.settle(charge, used);
        assert_eq!(limiter.snapshot().available, u64::MAX);
    }
}

#[test]
fn pause_without_a_limit_blocks_until_its_end() {
    let (clock, limiter) = limiter(Quota::UNLIMITED);
    limiter.pause_for(ms(50));
    assert_limited(&limiter, 1, ms(50));
    assert_eq!(limiter.snapshot().available, 0);
    let mut waiters = queue(&limiter, &[1, u64::MAX, 3]);
    clock.advance(ms(50) - TICK);
    assert_eq!(limiter.snapshot().waiting, 3);
    clock.advance(TICK);
    for waiter in &mut waiters {
        assert_eq!(waiter.granted().at(), clock.now());
    }
    assert_eq!(limiter.snapshot().available, u64::MAX);
    assert_eq!(limiter.peek().reset_after, Duration::ZERO);
}

#[test]
fn set_quota_during_a_pause_keeps_its_end_and_spends_the_burst() {
    let (clock, limiter) = limiter(TEN.burst(5));
    limiter.pause_for(ms(50));
    let mut waiters = queue(&limiter, &[1, 1]);
    limiter.set_quota(Quota::UNLIMITED);
    assert_eq!(limiter.snapshot().waiting, 2);
    limiter.set_quota(TEN.burst(5));
    clock.advance(ms(50));
    assert_eq!(waiters[0].granted().at(), clock.now());
    assert!(waiters[1].is_pending());
    clock.advance(ms(100));
    waiters[1].granted();
    assert_limited(&limiter, 1, ms(100));
}

#[test]
fn close_without_a_limit_refuses() {
    let (_clock, limiter) = limiter(Quota::UNLIMITED);
    limiter.close();
    assert_eq!(kind(limiter.try_acquire()), ErrorKind::Closed);
}

#[test]
fn local_without_a_limit_takes_whole_batches() {
    let (_clock, limiter) = limiter(Quota::UNLIMITED);
    let mut local = limiter.local(8);
    local.try_acquire_many(1 << 40).unwrap();
    local.try_acquire_many(3).unwrap();
    assert_eq!(local.buffered(), 5);
    limiter.set_quota(TEN.burst(4));
    drop(local);
    assert_available(&limiter, 4);
}

#[test]
fn set_quota_of_all_keys_lifts_the_limit_and_sets_it() {
    let clock = Clock::manual();
    let users = Keyed::<u64, _>::new(RateLimiter::new(TEN.burst(2)).clock(&clock));
    for key in 0..2 {
        users.key(&key).try_acquire_many(2).unwrap();
    }
    // This key has its own limiter.
    let one = users.key(&1);
    let mut waiter = Waiter::parked(one.acquire());
    users.set_quota(Quota::UNLIMITED);
    waiter.granted();
    for key in 0..3 {
        let user = users.key(&key);
        let charge = user.try_acquire_many(u64::MAX).unwrap();
        user.refund(charge);
        let snapshot = user.snapshot();
        assert_eq!((snapshot.limit, snapshot.in_use), (u64::MAX, 0));
        assert_eq!(user.peek_many(u64::MAX).remaining, u64::MAX);
        assert_eq!(user.chunk_units(), u64::MAX);
    }
    users.set_quota(TEN.burst(2));
    for key in 0..3 {
        assert_eq!(users.key(&key).snapshot().available, 2);
    }
}

#[test]
fn quota_of_a_key_that_is_unlimited_admits_any_cost() {
    let users = Keyed::<u64, _>::new(RateLimiter::new(TEN).clock(Clock::manual()))
        .quotas(|key| if *key == 0 { Quota::UNLIMITED } else { TEN });
    for _ in 0..3 {
        users.key(&0).try_acquire_many(1 << 60).unwrap();
    }
    users.key(&1).try_acquire().unwrap();
    assert_eq!(kind(users.key(&1).try_acquire()), ErrorKind::RateLimited);
}

#[test]
fn check_of_an_unlimited_quota_refuses_algorithms_that_count() {
    let gcra = Algorithm::Gcra;
    for algorithm in Algorithm::all().iter().filter(|it| **it != gcra) {
        let refused = algorithm.check(Quota::UNLIMITED).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "batches, windows and logs cannot be unlimited, but the quota is unlimited"
        );
    }
    assert_eq!(Algorithm::Gcra.check(Quota::UNLIMITED), Ok(()));
    assert_eq!(Algorithm::Gcra.batch(Quota::UNLIMITED), Quota::UNLIMITED);
    let limiter = RateLimiter::new(Quota::UNLIMITED).algorithm(Algorithm::Gcra);
    assert!(limiter.quota().is_unlimited());
}
