//! What can be seen of a limiter in words, and from several sides at once.

use std::sync::Arc;

use crate::setup::{FIFTY, TEN, TICK, assert_due, at, limiter, ms, spent};
use crate::support::Waiter;

/// What could be had, if nobody waited, is not what a call gets that comes now.
#[test]
fn snapshot_beside_a_queue_shows_the_queue_and_what_is_available() {
    let (clock, limiter) = spent(FIFTY);
    let snapshot = limiter.snapshot();
    assert_eq!((snapshot.limit, snapshot.in_use), (50, 50));
    let mut first = Waiter::parked(limiter.acquire_many(40));
    clock.advance(ms(150));
    let _second = Waiter::parked(limiter.acquire_many(20));
    let _third = limiter.reserve().unwrap();
    clock.advance(ms(250) - TICK);
    let (snapshot, decision) = (limiter.snapshot(), limiter.peek());
    assert_eq!((snapshot.available, snapshot.waiting), (39, 3));
    assert_eq!(snapshot.oldest_wait, Some(ms(400) - TICK));
    assert_eq!((limiter.snapshot().available, decision.remaining), (39, 0));
    assert!(!decision.retry_after.is_zero());
    clock.advance(TICK);
    first.granted();
    assert_eq!(limiter.snapshot().oldest_wait, Some(ms(250)));
}

#[test]
fn debug_shows_the_quota_the_queue_and_the_cost() {
    let (_clock, limiter) = limiter(TEN.burst(7));
    let charge = format!("{:?}", limiter.try_acquire_many(7).unwrap());
    assert!(charge.contains("cost: 7"), "{charge}");
    let reserved = limiter.reserve().unwrap();
    let reservation = format!("{reserved:?}");
    assert!(reservation.contains("cost: 1") && reservation.contains("waiting: true"));
    let text = format!("{limiter:?}");
    assert!(
        text.contains("10/s") && text.contains("waiting: 1"),
        "{text}"
    );
}

#[test]
fn acquire_owned_and_a_reservation_outlive_their_limiter() {
    let (clock, limiter) = spent(TEN);
    let shared = Arc::new(limiter);
    let mut waiter = Waiter::parked(Arc::clone(&shared).acquire_owned());
    let reservation = shared.reserve().unwrap();
    drop(shared);
    assert_due(&clock, &mut waiter, ms(100));
    clock.advance(ms(100));
    assert_eq!(at(&Waiter::new(reservation).granted()), ms(200));
}
