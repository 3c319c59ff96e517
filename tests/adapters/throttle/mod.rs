//! Wrappers of one throttle: a reference, an `Arc`, an `Option`, a box, and a throttle with a cost. The properties of
//! each throttle are checked in `contracts/conformance/`, where each wrapper is a subject.

mod weighted;

use std::sync::Arc;
use std::time::Duration;

use tollgate::throttle::BoxThrottle;
use tollgate::{Clock, ErrorKind, Quota, RateLimiter, Semaphore, Throttle, TryThrottle, all};

use crate::support::scripted::{Log, Script, Scripted};
use crate::support::{Waiter, assert_at_rest};

/// Returns how often a caller enters without leaving.
fn capacity<T: TryThrottle>(throttle: &T, at_most: usize) -> usize {
    let permits: Vec<_> = (0..at_most)
        .map_while(|_| throttle.try_enter().ok())
        .collect();
    let count = permits.len();
    permits
        .into_iter()
        .for_each(|permit| throttle.rollback(permit));
    count
}

/// Returns a rate that admits this many, and the next in an hour.
fn rate(burst: u64) -> Arc<RateLimiter> {
    let quota = Quota::per_hour(1).burst(burst);
    Arc::new(RateLimiter::new(quota).clock(Clock::manual()))
}

#[test]
fn rollback_gives_back_what_a_drop_does_not() {
    let (semaphore, rate) = (Semaphore::new(3), rate(5));
    for _ in 0..2 {
        assert_eq!(capacity(&&semaphore, 10), 3);
        assert_eq!(capacity(&&&rate, 10), 5);
        assert_eq!(capacity(&Arc::new(&rate), 10), 5);
        assert_eq!(capacity(&all((&semaphore, &rate)), 10), 3);
        assert_eq!(capacity(&all((&rate, &rate)), 10), 2);
        assert_eq!(capacity(&Some(Some(&rate)), 10), 5);
        assert_eq!(capacity(&None::<&Semaphore>, 10), 10);
    }
    let nested = all((Some(&rate), BoxThrottle::new(Arc::clone(&rate))));
    let full = Arc::new(Semaphore::new(0));
    let waiter = Waiter::parked(all((nested, full)).acquire());
    assert_eq!(rate.snapshot().available, 3);
    drop(waiter);
    assert_eq!(rate.snapshot().available, 5);
    assert_at_rest(&semaphore, 3);
}

#[test]
fn none_lets_everybody_in_at_once() {
    let nothing: Option<&Semaphore> = None;
    for _ in 0..1000 {
        let mut waiter = Waiter::new(nothing.enter());
        assert!(waiter.granted().is_none());
        assert_eq!(waiter.wakes(), 0);
        assert!(nothing.try_enter().unwrap().is_none());
    }
    nothing.rollback(None);
    assert!(nothing.enter().timeout(Duration::ZERO).wait().is_ok());
}

/// This happens when a configuration changes between two calls and both throttles have the same
/// type.
#[test]
fn rollback_of_a_permit_of_some_and_of_none_by_the_other_drops_it() {
    let log = Log::default();
    let throttle = Some(log.part("a"));
    let permit = throttle.try_enter().unwrap();
    log.take();
    None::<Scripted>.rollback(permit);
    assert_eq!(log.take(), ["drop a0"]);
    throttle.rollback(None);
    assert!(log.take().is_empty());
}

/// The permit inside has another type, so no throttle can take it back.
#[test]
fn rollback_of_a_permit_of_another_box_drops_it() {
    let (log, semaphore) = (Log::default(), Arc::new(Semaphore::new(1)));
    let scripted = BoxThrottle::new(log.part("a"));
    let other = BoxThrottle::new(Arc::clone(&semaphore));
    let [permit, of_other] = [&scripted, &other].map(|it| Waiter::new(it.enter()).granted());
    log.take();
    other.rollback(permit);
    assert_eq!(log.take(), ["drop a0"]);
    scripted.rollback(of_other);
    assert!(log.take().is_empty());
    assert_at_rest(&semaphore, 1);
    // Both are unchanged.
    drop(Waiter::new(other.enter()).granted());
    scripted.rollback(Waiter::new(scripted.enter()).granted());
    assert_eq!(log.take(), ["enter a", "in a1", "undo a1"]);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn refusals_of_a_box_are_those_of_the_throttle() {
    let (semaphore, rate) = (Arc::new(Semaphore::new(1)), rate(1));
    let large = BoxThrottle::new(Arc::clone(&semaphore).cost_owned(2));
    let refused = large.acquire().wait().unwrap_err();
    let expected = (ErrorKind::ExceedsCapacity, Some(1), None);
    assert_eq!(
        (refused.kind(), refused.capacity(), refused.part()),
        expected
    );
    let throttle = BoxThrottle::new(all((Arc::clone(&semaphore), rate.cost_owned(2))));
    let refused = throttle.acquire().wait().unwrap_err();
    assert_eq!((refused.part(), refused.capacity()), (Some(1), Some(1)));
    semaphore.close();
    let refused = throttle.acquire().wait().unwrap_err();
    assert_eq!(
        (refused.kind(), refused.part()),
        (ErrorKind::Closed, Some(0))
    );
    assert_at_rest(&semaphore, 1);
}

#[test]
fn try_acquire_of_all_adds_the_part_to_what_a_rate_says() {
    let (semaphore, rate) = (Semaphore::new(1), rate(1));
    rate.try_acquire().unwrap();
    let refused = all((&semaphore, &rate)).try_acquire().unwrap_err();
    let expected = (ErrorKind::RateLimited, Some(1));
    assert_eq!((refused.kind(), refused.part()), expected);
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(3600)));
    assert_at_rest(&semaphore, 1);
}

#[test]
fn enter_of_a_box_in_a_composition_and_around_one_undoes_every_part() {
    let log = Log::default();
    let [a, b, c] = ["a", "b", "c"].map(|name| log.part(name));
    let inside = BoxThrottle::new(all((
        BoxThrottle::new(a),
        BoxThrottle::new(all((b, c.clone()))),
    )));
    inside.rollback(Waiter::new(inside.enter()).granted());
    let entered = ["try a", "in a0", "try b", "in b0", "try c", "in c0"];
    let events = log.take();
    assert_eq!(events[..6], entered);
    assert_eq!(events[6..], ["undo c0", "undo b0", "undo a0"]);

    c.now(Script::Refuse(ErrorKind::QueueFull));
    let refused = Waiter::new(inside.enter()).output().unwrap_err();
    assert_eq!(
        (refused.kind(), refused.part()),
        (ErrorKind::QueueFull, Some(1))
    );
    let events = log.take();
    assert_eq!(
        events[events.len() - 3..],
        ["refuse c", "undo b2", "undo a1"]
    );
}

#[test]
fn cost_owned_keeps_the_semaphore_alive() {
    let semaphore = Arc::new(Semaphore::new(2));
    let weak = Arc::downgrade(&semaphore);
    let throttle = semaphore.cost_owned(2);
    let permit = throttle.try_enter().unwrap();
    let waiter = Waiter::parked(throttle.enter());
    drop(throttle);
    drop(permit);
    assert!(weak.upgrade().is_some());
    drop(waiter);
    assert!(weak.upgrade().is_none());
}

#[test]
fn debug_of_a_cost_and_of_a_box_shows_what_is_known() {
    let semaphore = Arc::new(Semaphore::new(2));
    let throttle = semaphore.cost(7);
    assert_eq!(
        (throttle.cost(), Arc::clone(&semaphore).cost_owned(4).cost()),
        (7, 4)
    );
    let shown = format!("{throttle:?}");
    assert!(
        shown.starts_with("Cost") && shown.contains("cost: 7"),
        "{shown}"
    );
    let boxed = BoxThrottle::new(semaphore);
    assert_eq!(format!("{boxed:?}"), "BoxThrottle { .. }");
}
