//! Limiters without a limit, whose decisions read no clock and change nothing.

use std::time::Duration;

use tollgate::{ErrorKind, Quota};

use crate::setup::{TEN, at, limiter, secs};
use crate::support::{Waiter, kind};

/// No clock was read for it: not by a try, a wait or a reservation, and for no cost.
#[test]
fn charge_without_a_limit_has_no_tick() {
    let (clock, limiter) = limiter(Quota::UNLIMITED);
    clock.advance(secs(5));
    let zero = Duration::ZERO;
    for cost in [0, 1, 1 << 40, u64::MAX] {
        let charge = limiter.try_acquire_many(cost).unwrap();
        assert_eq!((at(&charge), charge.cost()), (zero, cost));
        let charge = Waiter::new(limiter.acquire_many(cost)).granted();
        assert_eq!((at(&charge), charge.cost()), (zero, cost));
        let charge = Waiter::new(limiter.reserve_many(cost).unwrap()).granted();
        assert_eq!(at(&charge), zero);
    }
}

/// A change under the lock is known to the next call: a close, a pause, a hold, a limit, and no
/// limit again.
#[test]
fn try_acquire_without_a_limit_after_a_change_follows_it() {
    let (clock, limiter) = limiter(Quota::UNLIMITED);
    clock.advance(secs(5));
    let early = limiter.try_acquire().unwrap();
    limiter.pause_for(secs(1));
    let paused = limiter.try_acquire().unwrap_err();
    assert_eq!(paused.retry_after(), Some(secs(1)));
    let mut waiter = Waiter::parked(limiter.acquire());
    clock.advance(secs(1));
    assert_eq!(at(&waiter.granted()), secs(6));
    // The first call after the pause ends it.
    limiter.try_acquire().unwrap();
    assert_eq!(at(&limiter.try_acquire().unwrap()), Duration::ZERO);

    limiter.set_quota(TEN.burst(2));
    limiter.refund(early);
    assert_eq!(at(&limiter.try_acquire().unwrap()), secs(6));
    limiter.try_acquire().unwrap();
    assert_eq!(kind(limiter.try_acquire()), ErrorKind::RateLimited);
    limiter.set_quota(Quota::UNLIMITED);
    assert_eq!(at(&limiter.try_acquire().unwrap()), Duration::ZERO);

    limiter.close();
    assert_eq!(kind(limiter.try_acquire()), ErrorKind::Closed);
    assert_eq!(Waiter::new(limiter.acquire()).refused(), ErrorKind::Closed);
}
