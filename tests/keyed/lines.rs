//! The lines of keys: each has one, first-in first-out, and nobody waits for another key.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{
    Clock, ErrorKind, Keyed, ManualClock, MissedTickBehavior, Quota, RateLimiter, Semaphore, all,
};

use super::world::Users;
use crate::support::foreign::calls_when_woken;
use crate::support::{Waiter, kind};

const SECOND: Duration = Duration::from_secs(1);

fn users() -> (Arc<Users>, ManualClock) {
    let clock = Clock::manual();
    let users = Users::new(Quota::per_second(1)).clock(&clock);
    (Arc::new(users), clock)
}

#[test]
fn waiters_of_a_key_go_in_the_order_in_which_they_joined() {
    let (users, clock) = users();
    for key in [1, 2] {
        users.key(&key).try_acquire().unwrap();
    }
    let line = |key: u32| -> Vec<_> {
        (0..3)
            .map(|_| Waiter::parked(Arc::clone(&users).key_owned(key).acquire()))
            .collect()
    };
    let (mut one, mut two) = (line(1), line(2));
    assert_eq!((users.key(&1).waiting(), users.key(&2).waiting()), (3, 3));
    assert_eq!(kind(users.key(&1).try_acquire()), ErrorKind::RateLimited);
    for turn in 0..3 {
        clock.advance(SECOND);
        for line in [&mut one, &mut two] {
            assert_eq!(line[turn].granted().at(), clock.now());
            assert!(line[turn + 1..].iter_mut().all(Waiter::is_pending));
        }
    }
}

#[test]
fn a_waiter_that_leaves_moves_those_behind_it_up() {
    let (users, clock) = users();
    let user = users.key(&1);
    user.try_acquire().unwrap();
    let first = Waiter::parked(user.acquire());
    let mut second = Waiter::parked(user.acquire());
    drop(first);
    clock.advance(SECOND);
    second.granted();
}

#[test]
fn a_key_is_forgotten_only_when_all_is_paid_off() {
    let (users, clock) = users();
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
fn a_leaked_reservation_keeps_its_key() {
    let (users, clock) = users();
    let user = users.key(&1);
    user.try_acquire().unwrap();
    std::mem::forget(user.reserve().unwrap());
    users.retain(|_| false);
    assert_eq!(user.waiting(), 1);
    clock.advance(SECOND);
    assert_eq!(user.waiting(), 0);
    assert_eq!(user.peek().retry_after, SECOND);
}

#[test]
fn a_charge_can_be_refunded_after_its_key_was_promoted() {
    let clock = Clock::manual();
    let users = Users::new(Quota::per_second(1).burst(4)).clock(&clock);
    let user = users.key(&1);
    let first = user.try_acquire_many(2).unwrap();
    let second = user.try_acquire_many(2).unwrap();
    let mut waiter = Waiter::parked(user.acquire_many(2));
    user.refund(first);
    waiter.granted();
    user.refund(second);
    assert_eq!(user.available(), 2);
}

#[test]
fn the_bound_of_the_line_holds_for_each_key() {
    let clock = Clock::manual();
    let users = Users::new(Quota::per_second(1))
        .max_waiters(1)
        .missed_tick(MissedTickBehavior::Delay)
        .clock(&clock);
    for key in [1, 2] {
        let user = users.key(&key);
        user.try_acquire().unwrap();
        let _waiter = Waiter::parked(user.acquire());
        assert_eq!(kind(user.acquire().wait()), ErrorKind::QueueFull);
    }
}

#[test]
fn a_timeout_that_will_not_fit_is_refused_at_once() {
    let (users, _clock) = users();
    let user = users.key(&1);
    user.try_acquire().unwrap();
    let refused = user.acquire().timeout(SECOND / 2).wait().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TimedOut);
    assert_eq!(refused.retry_after(), Some(SECOND));
}

#[cfg(feature = "tokio")]
#[test]
fn a_token_ends_the_wait_of_a_key() {
    let token = tokio_util::sync::CancellationToken::new();
    let (users, _clock) = users();
    let user = users.key(&1);
    user.try_acquire().unwrap();
    let mut waiter = Waiter::parked(user.acquire_cancellable(&token));
    token.cancel();
    assert_eq!(waiter.refused(), ErrorKind::Cancelled);
    assert_eq!(user.waiting(), 0);
}

#[test]
fn closing_ends_all_waits_of_all_keys() {
    let (users, _clock) = users();
    let keys = [1, 2, 300];
    let mut waiters = keys.each_ref().map(|key| {
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
fn who_is_refused_above_gives_back_what_its_key_was_charged() {
    let clock = Clock::manual();
    let users = Users::new(Quota::per_hour(2).burst(2)).clock(&clock);
    let slots = Keyed::<u32, Semaphore>::new(1);
    let everyone = RateLimiter::new(Quota::per_hour(1)).clock(&clock);
    let enter = |key: &u32| {
        all((slots.key(key), users.key(key), &everyone))
            .try_acquire()
            .map(drop)
    };
    enter(&1).unwrap();
    for _ in 0..10 {
        assert_eq!(enter(&2).unwrap_err().part(), Some(2));
    }
    assert_eq!(users.key(&2).available(), 2);
    assert_eq!(slots.key(&2).available_permits(), 1);
}

#[test]
fn a_cost_is_what_each_entry_takes() {
    let (users, _clock) = users();
    assert_eq!(
        kind(users.key(&1).cost(2).try_acquire()),
        ErrorKind::ExceedsCapacity
    );
    let slots = Arc::new(Keyed::<u32, Semaphore>::new(4));
    let permit = slots.key(&1).cost(3).try_acquire().unwrap();
    assert_eq!(permit.count(), 3);
    let two = Arc::clone(&slots).key_owned(1).cost(2);
    assert_eq!(kind(two.try_acquire()), ErrorKind::NoPermits);
}

#[test]
fn a_key_that_is_promoted_after_the_end_is_closed_as_well() {
    let clock = Clock::manual();
    let users = Users::new(Quota::per_second(1).burst(4)).clock(&clock);
    let user = users.key(&1);
    let first = user.try_acquire().unwrap();
    user.try_acquire().unwrap();
    users.close();
    // For a charge that is not the last one it takes a limiter.
    user.refund(first);
    assert_eq!(user.available(), 3);
    assert_eq!(user.peek().retry_after, Duration::MAX);
}

/// Of two who are due at the same tick the first one's waker runs before the other is let go.
#[test]
fn a_confirmed_reservation_that_is_due_is_not_taken_back() {
    let (users, clock) = users();
    for key in [1, 2] {
        users.key(&key).try_acquire().unwrap();
    }
    let mut waiter = Waiter::new(users.key(&1).acquire());
    let shrinks = calls_when_woken({
        let users = Arc::clone(&users);
        move || users.shrink()
    });
    assert!(waiter.poll_with(&shrinks).is_pending());
    std::mem::forget(users.key(&2).reserve().unwrap());
    clock.advance(SECOND);
    waiter.granted();
    assert_eq!(users.key(&2).peek().retry_after, SECOND);
}

/// It ends earlier by what was refunded before it, and so others end where it did, had nothing been
/// refunded: they are told apart until then.
#[test]
fn a_charge_that_is_paid_off_is_not_taken_for_a_later_one() {
    let clock = Clock::manual();
    let users = Users::new(Quota::per_second(1).burst(4)).clock(&clock);
    let user = users.key(&1);
    let first = user.try_acquire_many(2).unwrap();
    let second = user.try_acquire_many(2).unwrap();
    user.refund(first);
    clock.advance(2 * SECOND);
    user.try_acquire_many(2).unwrap();
    user.refund(second);
    assert_eq!(user.available(), 2);
}
