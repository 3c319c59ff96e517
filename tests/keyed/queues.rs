//! The queues of keys: each has one, and no waiter waits for another key. What a key shares with every
//! throttle is in the conformance suite, and what it shares with a limiter in the model.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{Clock, ErrorKind, Keyed, ManualClock, MissedTickBehavior, Quota, RateLimiter};

use super::world::Users;
use crate::support::{Waiter, kind};

const SECOND: Duration = Duration::from_secs(1);

fn users(burst: u64) -> (Arc<Users>, ManualClock) {
    let clock = Clock::manual();
    let users = Users::new(RateLimiter::new(Quota::per_second(1).burst(burst)).clock(&clock));
    (Arc::new(users), clock)
}

#[test]
fn waiters_of_each_key_go_in_the_order_in_which_they_joined() {
    let (users, clock) = users(1);
    let queue = |key: u32| {
        users.key(&key).try_acquire().unwrap();
        let wait = |_| Waiter::parked(Arc::clone(&users).key_owned(key).acquire());
        (0..3).map(wait).collect::<Vec<_>>()
    };
    let (mut one, mut two) = (queue(1), queue(2));
    assert_eq!(
        (
            users.key(&1).snapshot().waiting,
            users.key(&2).snapshot().waiting
        ),
        (3, 3)
    );
    for turn in 0..3 {
        clock.advance(SECOND);
        for queue in [&mut one, &mut two] {
            assert_eq!(queue[turn].granted().at(), clock.now());
            assert!(queue[turn + 1..].iter_mut().all(Waiter::is_pending));
        }
    }
}

#[test]
fn shrink_forgets_a_key_only_when_all_is_paid_off() {
    let (users, clock) = users(1);
    let user = users.key(&1);
    user.try_acquire().unwrap();
    let mut waiter = Waiter::parked(user.acquire());
    clock.advance(SECOND);
    waiter.granted();
    drop(waiter);
    users.shrink();
    assert_eq!(users.len(), 1);
    assert_eq!(user.peek().retry_after, SECOND);
    clock.advance(SECOND);
    users.shrink();
    assert!(users.is_empty());
}

#[test]
fn close_ends_all_waits_of_all_keys() {
    let (users, _clock) = users(1);
    let mut waiters = [&1, &2, &300].map(|key| {
        users.key(key).try_acquire().unwrap();
        Waiter::parked(users.key(key).acquire())
    });
    let mut late = Waiter::new(users.key(&9).acquire());
    assert!(!users.is_closed());
    users.close();
    assert!(users.is_closed());
    for waiter in &mut waiters {
        assert_eq!(waiter.refused(), ErrorKind::Closed);
    }
    assert_eq!(late.refused(), ErrorKind::Closed);
    assert_eq!(kind(users.key(&1).try_acquire()), ErrorKind::Closed);
    assert_eq!(kind(users.key(&77).try_acquire_many(0)), ErrorKind::Closed);
    assert_eq!(users.key(&77).peek().retry_after, Duration::MAX);
}

#[test]
fn cost_is_what_each_entry_takes() {
    let (users, _clock) = users(1);
    let refused = kind(users.key(&1).cost(2).try_acquire());
    assert_eq!(refused, ErrorKind::ExceedsCapacity);
    let slots = Arc::new(Keyed::<u32, _>::semaphores(4));
    let permit = slots.key(&1).cost(3).try_acquire().unwrap();
    assert_eq!(permit.count(), 3);
    let two = Arc::clone(&slots).key_owned(1).cost(2);
    assert_eq!(kind(two.try_acquire()), ErrorKind::NoPermits);
}

/// For a charge that is not the last one a refund takes a limiter.
#[test]
fn refund_that_takes_a_limiter_after_the_close_leaves_it_closed() {
    let (users, _clock) = users(4);
    let user = users.key(&1);
    let first = user.try_acquire().unwrap();
    user.try_acquire().unwrap();
    users.close();
    user.refund(first);
    assert_eq!(user.snapshot().available, 3);
    assert_eq!(user.peek().retry_after, Duration::MAX);
}

/// It ends earlier by what was refunded before it, and so others end where it did, had nothing been
/// refunded: they are told apart until then.
#[test]
fn refund_of_a_charge_that_is_paid_off_is_not_of_a_later_one() {
    let (users, clock) = users(4);
    let user = users.key(&1);
    let first = user.try_acquire_many(2).unwrap();
    let second = user.try_acquire_many(2).unwrap();
    user.refund(first);
    clock.advance(2 * SECOND);
    user.try_acquire_many(2).unwrap();
    user.refund(second);
    assert_eq!(user.snapshot().available, 2);
}

/// From outside: a key said `TimedOut` where a limiter says `QueueFull`. A full queue comes before a
/// timeout that will not fit.
#[test]
fn acquire_that_will_not_fit_is_refused_as_a_limiter_refuses() {
    for (max_waiters, expected) in [
        (0, ErrorKind::QueueFull),
        (1, ErrorKind::QueueFull),
        (2, ErrorKind::TimedOut),
    ] {
        let clock = Clock::manual();
        let quota = Quota::per_second(1);
        let limiter = RateLimiter::new(quota)
            .max_waiters(max_waiters)
            .missed_tick(MissedTickBehavior::Delay)
            .clock(&clock);
        let users = Users::new(
            RateLimiter::new(quota)
                .max_waiters(max_waiters)
                .missed_tick(MissedTickBehavior::Delay)
                .clock(&clock),
        );
        let user = users.key(&1);
        limiter.try_acquire().unwrap();
        user.try_acquire().unwrap();
        let _waiters: Vec<_> = (0..max_waiters.min(1))
            .map(|_| {
                (
                    Waiter::parked(limiter.acquire()),
                    Waiter::parked(user.acquire()),
                )
            })
            .collect();
        for timeout in [Duration::ZERO, SECOND / 2] {
            let theirs = limiter.acquire().timeout(timeout).wait().unwrap_err();
            let ours = user.acquire().timeout(timeout).wait().unwrap_err();
            assert_eq!(theirs.kind(), expected);
            assert_eq!(ours, theirs);
        }
    }
}
