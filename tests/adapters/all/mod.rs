//! Several throttles as one: all of them or none, in order, and with everything given back.
//!
//! Properties for any number of parts and any nesting are checked for each shape in
//! `all/shapes.rs`, with parts that log their calls.

mod given_back;
mod model;
mod shapes;

/// The model of a semaphore, which the rows of semaphores also use.
#[allow(
    dead_code,
    reason = "a part of it is about waits for idleness and limits that move"
)]
#[path = "../../concurrency/model/naive.rs"]
mod semaphore;

use std::sync::Arc;
use std::time::Duration;

use tollgate::fair::FairQueue;
use tollgate::time::ManualClock;
use tollgate::{Algorithm, Clock, Quota, RateLimiter, Semaphore, Throttle, all};

use crate::support::Waiter;

/// Lets two callers enter a busy semaphore and a rate, one second before its permits return, and
/// returns how long after that they leave.
fn leave_after<T: Throttle>(throttle: &T, slots: &Semaphore, clock: &ManualClock) -> Vec<u128> {
    let held = slots.try_acquire_many(2).unwrap();
    let mut waiters = vec![
        Waiter::parked(throttle.enter()),
        Waiter::parked(throttle.enter()),
    ];
    let step = Duration::from_millis(100);
    for _ in 0..10 {
        clock.advance(step);
        assert!(waiters.iter_mut().all(Waiter::is_pending));
    }
    drop(held);
    let mut left = Vec::new();
    for at in 0..5 {
        waiters.retain_mut(Waiter::is_pending);
        left.resize(2 - waiters.len(), at * step.as_millis());
        clock.advance(step);
    }
    left
}

/// Checks the statement about the order in the documentation of `all`.
#[test]
fn rate_before_a_semaphore_lets_callers_leave_together_and_behind_it_apart() {
    let (clock, slots) = (Clock::manual(), Semaphore::new(2));
    let rate = || RateLimiter::new(Quota::per_second(5)).clock(&clock);
    let (first, last) = (rate(), rate());
    assert_eq!(leave_after(&all((&first, &slots)), &slots, &clock), [0, 0]);
    assert_eq!(leave_after(&all((&slots, &last)), &slots, &clock), [0, 200]);
}

/// A composition inside another one is entered as far as there is room, undone, and entered again.
#[test]
fn a_rate_and_a_class_of_a_nested_composition_without_room_are_charged_once() {
    for algorithm in [
        Algorithm::Gcra,
        Algorithm::SlidingLog,
        Algorithm::SlidingWindow,
    ] {
        let (clock, slots) = (Clock::manual(), Semaphore::new(1));
        let quota = Quota::per_second(3).burst(3);
        let rate = RateLimiter::new(quota).algorithm(algorithm).clock(&clock);
        let queue = FairQueue::new(Arc::new(Semaphore::new(3)));
        let nested = all((&rate, queue.class("a").cost(2), &slots));
        let throttle = all((queue.class("b"), nested));
        let state = || {
            (
                rate.snapshot().available,
                queue.throttle().available_permits(),
            )
        };
        let held = slots.try_acquire().unwrap();
        for _ in 0..5 {
            let waiter = Waiter::parked(throttle.acquire());
            assert_eq!(state(), (2, 0));
            drop(waiter);
            assert_eq!(state(), (3, 3));
            assert!(queue.snapshot().is_empty());
            assert!(throttle.enter_now().is_none());
            assert_eq!(state(), (3, 3));
        }
        let mut waiter = Waiter::parked(throttle.acquire());
        drop(held);
        drop(waiter.granted());
        assert_eq!(state(), (2, 3));
    }
}

/// Compositions under a token or a deadline: these are no parts, and cancelling gives everything
/// back.
#[cfg(feature = "tokio")]
mod cancelled {
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;
    use tollgate::ErrorKind;

    use super::given_back::each_part;
    use super::shapes::NAMES;
    use super::*;
    use crate::support::assert_at_rest;
    use crate::support::scripted::Script;

    const SHORT: Duration = Duration::from_millis(250);

    #[tokio::test(start_paused = true)]
    async fn one_deadline_is_for_all_parts_together() {
        let (a, b) = (Semaphore::new(1), Semaphore::new(1));
        let (held_a, _held_b) = (a.try_acquire().unwrap(), b.try_acquire().unwrap());
        let begun = Instant::now();
        let both = all((&a, &b));
        let release = async {
            tokio::time::sleep(SHORT / 2).await;
            drop(held_a);
        };
        let (refused, ()) = tokio::join!(both.acquire().timeout(SHORT), release);
        let refused = refused.map(drop).unwrap_err();
        assert_eq!(
            (refused.kind(), refused.part()),
            (ErrorKind::TimedOut, None)
        );
        assert_eq!(begun.elapsed(), SHORT);
        assert_at_rest(&a, 1);
    }

    #[test]
    fn parts_are_undone_when_the_wait_is_over_and_not_when_it_is_dropped() {
        each_part(|shape, part| {
            shape.parts[part].now(Script::Wait);
            let token = CancellationToken::new();
            let cancellable = tollgate::wait::Waiting::new(shape.enter()).cancel_on(&token);
            let mut waiter = Waiter::parked(cancellable);
            shape.log.take();
            token.cancel();
            let refused = waiter.output().expect_err("it is cancelled");
            assert_eq!(
                (refused.kind(), refused.part()),
                (ErrorKind::Cancelled, None)
            );
            let mut expected = vec![format!("leave {}", NAMES[part])];
            expected.extend(shape.begun(part).undone);
            assert_eq!(shape.log.take(), expected, "{}", shape.description);
            drop(waiter);
            assert!(shape.log.take().is_empty(), "{}", shape.description);
        });
    }
}
