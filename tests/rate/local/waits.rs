//! Waiting: out of what is buffered, by a batch, or in the queue; and never past those that were there
//! before.

use std::time::Duration;

use tollgate::{Clock, ErrorKind, LocalLimiter, Quota, RateLimiter};

use crate::setup::{FIFTY, limiter, ms, spent};
use crate::support::{Waiter, kind};

/// A handle with seven buffered, of a limiter whose rest is taken; three are missing for ten.
fn buffered_seven() -> (tollgate::ManualClock, RateLimiter, LocalLimiter) {
    let (clock, limiter) = limiter(FIFTY);
    let mut local = limiter.local(8);
    local.try_acquire().unwrap();
    limiter.try_acquire_many(42).unwrap();
    (clock, limiter, local)
}

#[test]
fn acquire_with_some_buffered_or_a_batch_to_be_had_is_ready_at_once() {
    let (_clock, limiter) = limiter(FIFTY);
    let mut local = limiter.local(32);
    drop(local.acquire_many(10));
    assert_eq!((local.buffered(), limiter.snapshot().available), (0, 50));
    for left in (0..32).rev() {
        Waiter::new(local.acquire()).granted();
        assert_eq!((local.buffered(), limiter.snapshot().available), (left, 18));
    }
    local.acquire().wait().unwrap();
    assert_eq!((local.buffered(), limiter.snapshot().available), (17, 0));
    assert_eq!(
        Waiter::new(local.acquire_many(51)).refused(),
        ErrorKind::ExceedsCapacity
    );
    assert_eq!((local.buffered(), limiter.snapshot().available), (17, 0));
}

/// It asks for its own cost, and for what is missing beside what is buffered; not for a batch.
#[test]
fn acquire_in_the_queue_asks_for_what_is_missing() {
    let (clock, limiter, mut local) = buffered_seven();
    let mut waiter = Waiter::parked(local.acquire_many(10));
    let mut next = Waiter::parked(limiter.acquire());
    clock.advance(ms(30));
    assert_eq!((waiter.wakes(), next.wakes()), (1, 0));
    waiter.granted();
    drop(waiter);
    clock.advance(ms(10));
    next.granted();
    assert_eq!((local.buffered(), limiter.snapshot().available), (0, 0));
}

/// However a wait for the rest ends, what is buffered stays; what was granted and not noticed is
/// given back, unless the wait was leaked.
#[test]
fn acquire_that_ends_without_its_grant_leaves_what_is_buffered() {
    for (waits, leaks, available) in [(0, false, 0), (30, false, 3), (30, true, 0)] {
        let (clock, limiter, mut local) = buffered_seven();
        let waiter = Waiter::parked(local.acquire_many(10));
        clock.advance(ms(waits));
        match leaks {
            true => std::mem::forget(waiter.into_future()),
            false => drop(waiter),
        }
        let seen = (
            local.buffered(),
            limiter.snapshot().available,
            limiter.snapshot().waiting,
        );
        assert_eq!(seen, (7, available, 0));
    }
    #[cfg(feature = "tokio")]
    {
        let (_clock, limiter, mut local) = buffered_seven();
        let token = tokio_util::sync::CancellationToken::new();
        let mut waiter = Waiter::parked(local.acquire_many(10).cancel_on(&token));
        token.cancel();
        assert_eq!(waiter.refused(), ErrorKind::Cancelled);
        drop(waiter);
        assert_eq!((local.buffered(), limiter.snapshot().waiting), (7, 0));
    }
}

/// On the clock by which calls are decided without the lock, a call after one that was refused asks for
/// itself alone, and then for the rest of a batch.
#[test]
fn try_acquire_after_a_refusal_takes_what_there_is_of_a_batch() {
    for (left, buffered) in [(1, 0), (5, 4), (50, 7)] {
        let limiter = RateLimiter::new(Quota::per_hour(1).burst(50)).clock(Clock::system());
        let charge = limiter.try_acquire_many(50).unwrap();
        let mut local = limiter.local(8);
        for _ in 0..2 {
            let refused = local.try_acquire().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::RateLimited);
            assert!(refused.retry_after() > Some(Duration::from_secs(3500)));
        }
        assert!(local.try_acquire_many(51).is_err());
        limiter.settle(charge, 50 - left);
        local.try_acquire().unwrap();
        assert_eq!(local.buffered(), buffered);
        let available = limiter.snapshot().available;
        assert_eq!(available, left - 1 - buffered);
        local.return_unused();
        assert_eq!(limiter.snapshot().available, left - 1);
    }
}

/// There is enough for the head in three ticks, and for a small one now; but what is buffered goes
/// while others wait.
#[test]
fn acquire_takes_nothing_past_those_that_wait_but_what_is_buffered() {
    let (clock, limiter) = limiter(FIFTY);
    let mut local = limiter.local(8);
    local.try_acquire_many(6).unwrap();
    limiter.try_acquire_many(12).unwrap();
    let mut waiter = Waiter::parked(limiter.acquire_many(33));
    for _ in 0..2 {
        Waiter::new(local.acquire()).granted();
    }
    let refused = local.try_acquire().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::RateLimited);
    assert_eq!(refused.retry_after(), Some(ms(40)));
    let mut behind = Waiter::parked(local.acquire());
    clock.advance(ms(30));
    waiter.granted();
    assert!(behind.is_pending());
    clock.advance(ms(10));
    behind.granted();
    drop(behind);
    assert_eq!(local.buffered(), 0);
}

#[test]
fn close_ends_a_wait_and_leaves_what_is_buffered() {
    let (_clock, limiter, mut local) = buffered_seven();
    let mut waiter = Waiter::parked(local.acquire_many(10));
    limiter.close();
    assert_eq!(waiter.wakes(), 1);
    assert_eq!(waiter.refused(), ErrorKind::Closed);
    drop(waiter);
    assert_eq!(kind(local.try_acquire_many(8)), ErrorKind::Closed);
    local.try_acquire_many(6).unwrap();
    Waiter::new(local.acquire()).granted();
    assert_eq!(kind(local.try_acquire()), ErrorKind::Closed);
    for cost in [0, 1] {
        let refused = Waiter::new(local.acquire_many(cost)).refused();
        assert_eq!(refused, ErrorKind::Closed);
    }
}

#[test]
fn acquire_with_a_timeout_that_will_not_fit_is_refused_at_once() {
    let (clock, limiter) = spent(FIFTY);
    let mut local = limiter.local(32);
    let tick = Duration::from_nanos(1);
    let waiting = local.acquire_many(3).timeout(ms(30) - tick);
    let error = Waiter::new(waiting).output().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(error.retry_after(), Some(ms(30)));
    let mut waiter = Waiter::parked(local.acquire_many(3).timeout(ms(30)));
    clock.advance(ms(30));
    waiter.granted();
}
