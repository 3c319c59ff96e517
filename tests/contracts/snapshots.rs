//! `snapshot()` has one shape and one meaning for every type: a row for each.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{
    Clock, CondvarSemaphore, Gate, Keyed, LeakyBucket, Pool, Quota, RateLimiter, Semaphore,
    Snapshot,
};

use crate::support::Waiter;

const HOUR: Duration = Duration::from_secs(3600);

/// A row: limit, in use, available, waiting.
#[track_caller]
fn row(snapshot: Snapshot, expected: [u64; 4]) {
    let waiting = snapshot.waiting as u64;
    let seen = [snapshot.limit, snapshot.in_use, snapshot.available, waiting];
    assert_eq!(seen, expected);
}

/// At the ends of the counted range; in between, the models of both compare it after each call.
#[test]
fn snapshot_of_a_semaphore_or_a_pool_counts_permits() {
    let most = Semaphore::MAX_PERMITS;
    let expected = [most as u64, 0, most as u64, 0];
    row(Semaphore::new(most).snapshot(), expected);
    let pool = Pool::with_factory(3, || ());
    let _held = pool.try_acquire().unwrap();
    pool.close();
    row(pool.snapshot(), [3, 1, 2, 0]);
    let semaphore = Semaphore::new(0);
    let _waiter = Waiter::parked(semaphore.acquire());
    row(semaphore.snapshot(), [0, 0, 0, 1]);
    assert_eq!(semaphore.snapshot().oldest_wait, None);
}

#[cfg(feature = "channel")]
#[test]
fn snapshot_of_a_channel_semaphore_counts_waits() {
    use tollgate::ChannelSemaphore;
    for semaphore in [ChannelSemaphore::new(2), ChannelSemaphore::reversed(2)] {
        row(semaphore.snapshot(), [2, 0, 2, 0]);
        let held = [(); 2].map(|()| semaphore.try_acquire().unwrap());
        let mut waiter = Waiter::parked(semaphore.acquire());
        let other = Waiter::parked(semaphore.acquire());
        row(semaphore.snapshot(), [2, 2, 0, 2]);
        let [left, _held] = held;
        drop((other, left));
        drop(waiter.granted());
        row(semaphore.snapshot(), [2, 1, 1, 0]);
    }
}

#[test]
fn snapshot_of_a_condvar_semaphore_counts_permits() {
    let semaphore = CondvarSemaphore::new(2);
    let _held = semaphore.try_acquire().unwrap();
    row(semaphore.snapshot(), [2, 1, 1, 0]);
    let most = CondvarSemaphore::new(usize::MAX);
    row(most.snapshot(), [u64::MAX, 0, u64::MAX, 0]);
}

#[test]
fn snapshot_of_a_gate_has_no_limit() {
    let clock = Clock::manual();
    let gate = Gate::new().clock(&clock);
    row(gate.snapshot(), [u64::MAX, 0, u64::MAX, 0]);
    gate.block_for(HOUR);
    let mut waiter = Waiter::parked(gate.acquire());
    row(gate.snapshot(), [u64::MAX, 0, 0, 1]);
    clock.advance(HOUR);
    row(gate.snapshot(), [u64::MAX, 0, u64::MAX, 0]);
    waiter.granted();
}

#[test]
fn snapshot_of_a_rate_counts_what_is_not_paid_off() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_hour(1).burst(3)).clock(&clock);
    limiter.try_acquire_many(2).unwrap();
    row(limiter.snapshot(), [3, 2, 1, 0]);
    let waiter = Waiter::parked(limiter.acquire_many(2));
    clock.advance(HOUR / 2);
    row(limiter.snapshot(), [3, 2, 1, 1]);
    assert_eq!(limiter.snapshot().oldest_wait, Some(HOUR / 2));
    drop(waiter);
    limiter.charge(7);
    row(limiter.snapshot(), [3, 9, 0, 0]);
    clock.advance(9 * HOUR);
    let mut local = limiter.local(2);
    local.try_acquire().unwrap();
    row(local.snapshot(), [3, 2, 1, 0]);
    local.return_unused();
    row(local.snapshot(), [3, 1, 2, 0]);

    let bucket = LeakyBucket::new(Quota::per_hour(1), 5).clock(&clock);
    bucket.try_acquire().unwrap();
    let _waiter = Waiter::parked(bucket.acquire());
    row(bucket.snapshot(), [1, 1, 0, 1]);
}

#[test]
fn snapshot_of_a_key_is_that_of_its_limit() {
    let clock = Clock::manual();
    let users = Keyed::<u8, _>::new(RateLimiter::new(Quota::per_hour(1).burst(3)).clock(&clock));
    row(users.key(&1).snapshot(), [3, 0, 3, 0]);
    assert!(users.is_empty());
    users.key(&1).try_acquire_many(2).unwrap();
    row(users.key(&1).snapshot(), [3, 2, 1, 0]);
    let _waiter = Waiter::parked(users.key(&1).acquire_many(3));
    clock.advance(HOUR);
    row(users.key(&1).snapshot(), [3, 1, 2, 1]);
    assert_eq!(users.key(&1).snapshot().oldest_wait, Some(HOUR));

    let slots = Arc::new(Keyed::<u8, _>::semaphores(1).permits(|key| usize::from(*key)));
    row(slots.key(&4).snapshot(), [4, 0, 4, 0]);
    let _held = slots.key(&4).try_acquire_many(3).unwrap();
    let _waiter = Waiter::parked(Arc::clone(&slots).key_owned(4).acquire_many(2));
    row(slots.key(&4).snapshot(), [4, 3, 1, 1]);

    let chats = Keyed::<u8, _>::new(Gate::new().clock(&clock));
    row(chats.key(&4).snapshot(), [u64::MAX, 0, u64::MAX, 0]);
    chats.key(&4).pause_for(HOUR).unwrap();
    let _waiter = Waiter::parked(chats.key(&4).acquire());
    row(chats.key(&4).snapshot(), [u64::MAX, 0, 0, 1]);
}
