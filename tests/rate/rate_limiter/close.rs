//! A closed limiter admits no call, whatever it asks for.

use std::time::Duration;

use tollgate::{Clock, ErrorKind, RateLimiter};

use crate::setup::{FIFTY, TEN, limiter};
use crate::support::{Waiter, kind};

#[test]
fn close_refuses_every_later_call() {
    let (clock, limiter) = limiter(FIFTY);
    assert!(!limiter.is_closed());
    let mut unpolled = Waiter::new(limiter.acquire());
    limiter.close();
    assert!(limiter.is_closed());
    for _ in 0..2 {
        assert_eq!(kind(limiter.reserve()), ErrorKind::Closed);
        for cost in [0, 1, 50, 51] {
            assert_eq!(kind(limiter.try_acquire_many(cost)), ErrorKind::Closed);
            let refused = Waiter::new(limiter.acquire_many(cost)).refused();
            assert_eq!(refused, ErrorKind::Closed);
            assert_eq!(limiter.peek_many(cost).retry_after, Duration::MAX);
        }
        clock.advance(Duration::from_secs(1));
        limiter.close();
    }
    assert_eq!(unpolled.refused(), ErrorKind::Closed);
    assert!(format!("{limiter:?}").contains("closed: true"));
}

/// A call that is too large is refused for that, even if there is no place: it would not help to wait
/// for one.
#[test]
fn acquire_with_several_reasons_is_refused_for_the_first() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(TEN).max_waiters(1).clock(&clock);
    limiter.try_acquire().unwrap();
    let _head = Waiter::parked(limiter.acquire());
    let refused = |cost| Waiter::new(limiter.acquire_many(cost)).refused();
    assert_eq!(refused(2), ErrorKind::ExceedsCapacity);
    assert_eq!(
        kind(limiter.try_acquire_many(2)),
        ErrorKind::ExceedsCapacity
    );
    assert_eq!(refused(1), ErrorKind::QueueFull);
    limiter.close();
    assert_eq!(
        (refused(1), refused(2)),
        (ErrorKind::Closed, ErrorKind::Closed)
    );
}
