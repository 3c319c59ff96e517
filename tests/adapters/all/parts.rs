//! Parts of all kinds: the types of permits, charges that stay when they are dropped and are refunded when they are
//! undone, and waits that a token or a deadline ends.

use std::sync::Arc;
use std::time::Duration;

use tollgate::fair::FairQueue;
use tollgate::{
    Algorithm, BoxThrottle, Clock, ErrorKind, ManualClock, OwnedPermit, Permit, Quota, RateLimiter,
    Semaphore, Throttle, all,
};

use crate::support::{Waiter, assert_at_rest, kind};
use crate::throttle::own::Budget;

#[test]
fn what_the_caller_was_let_in_for_stays_charged() {
    let (slots, budget) = (Semaphore::new(1), Budget::new(3));
    let throttle = all((&slots, budget.clone()));
    drop(throttle.try_acquire().unwrap());
    drop(Waiter::new(throttle.acquire()).granted());
    assert_eq!((slots.available_permits(), budget.left()), (1, 1));
    throttle.rollback(throttle.try_acquire().unwrap());
    assert_eq!((slots.available_permits(), budget.left()), (1, 1));
}

#[test]
fn a_refusal_of_a_later_part_is_not_charged() {
    let (slots, budget) = (Semaphore::new(1), Budget::new(3));
    let held = slots.try_acquire().unwrap();
    let throttle = all((budget.clone(), &slots));
    for _ in 0..10 {
        assert_eq!(kind(throttle.try_acquire()), ErrorKind::NoPermits);
        assert_eq!(budget.left(), 3);
    }
    let mut waiter = Waiter::parked(throttle.acquire());
    assert_eq!(budget.left(), 2);
    slots.close();
    assert_eq!(waiter.refused(), ErrorKind::Closed);
    assert_eq!(budget.left(), 3);
    drop(held);
}

#[test]
fn a_wait_that_is_given_up_is_not_charged() {
    let (slots, first, second) = (Semaphore::new(0), Budget::new(3), Budget::new(5));
    let throttle = all((first.clone(), second.clone(), &slots));
    let waiter = Waiter::parked(throttle.acquire());
    assert_eq!((first.left(), second.left()), (2, 4));
    drop(waiter);
    assert_eq!((first.left(), second.left()), (3, 5));
    let zero = Duration::ZERO;
    assert_eq!(
        kind(throttle.acquire().timeout(zero).wait()),
        ErrorKind::TimedOut
    );
    assert_eq!((first.left(), second.left()), (3, 5));
}

#[test]
fn a_refund_finds_its_way_through_what_is_made_of_throttles() {
    let (slots, budget) = (Semaphore::new(0), Budget::new(3));
    let nested = all((Some(budget.clone()), BoxThrottle::new(budget.clone())));
    let throttle = all((nested, &slots));
    let waiter = Waiter::parked(throttle.acquire());
    assert_eq!(budget.left(), 1);
    drop(waiter);
    assert_eq!(budget.left(), 3);
}

#[test]
fn a_budget_that_is_spent_gives_the_slot_back() {
    let (slots, budget) = (Semaphore::new(2), Budget::new(1));
    let throttle = all((&slots, budget.clone()));
    drop(throttle.try_acquire().unwrap());
    for refused in [throttle.try_acquire(), throttle.acquire().wait()] {
        let refused = refused.unwrap_err();
        assert_eq!(
            (refused.kind(), refused.part()),
            (ErrorKind::RateLimited, Some(1))
        );
    }
    assert_eq!((slots.available_permits(), budget.left()), (2, 0));
}

/// Two callers of a busy semaphore and a rate, one second before its permits return: how long after that they leave.
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

/// What the documentation of `all` says about the order.
#[test]
fn rate_before_a_semaphore_lets_callers_leave_together_and_behind_it_apart() {
    let (clock, slots) = (Clock::manual(), Semaphore::new(2));
    let rate = || RateLimiter::new(Quota::per_second(5)).clock(&clock);
    let (first, last) = (rate(), rate());
    assert_eq!(leave_after(&all((&first, &slots)), &slots, &clock), [0, 0]);
    assert_eq!(leave_after(&all((&slots, &last)), &slots, &clock), [0, 200]);
}

/// A composition inside of another is entered as far as there is room, undone, and entered again.
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
        let queue = FairQueue::new(Arc::new(Semaphore::new(2)));
        let nested = all((&rate, queue.class("a"), &slots));
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
            assert_eq!(state(), (3, 2));
            assert!(queue.snapshot().is_empty());
            assert!(throttle.enter_now().is_none());
            assert_eq!(state(), (3, 2));
        }
        let mut waiter = Waiter::parked(throttle.acquire());
        drop(held);
        drop(waiter.granted());
        assert_eq!(state(), (2, 2));
    }
}

#[test]
fn permits_have_the_types_and_the_order_of_the_parts() {
    let (one, other) = (Semaphore::new(1), Arc::new(Semaphore::new(6)));
    let nested = all((&one, Arc::clone(&other).cost_owned(2)));
    let throttle = all((
        Arc::clone(&other),
        other.cost(3),
        None::<&Semaphore>,
        nested,
    ));
    #[allow(clippy::type_complexity, reason = "it is what is shown")]
    let permits: (
        OwnedPermit,
        Permit<&'_ Semaphore>,
        Option<Permit<&'_ Semaphore>>,
        (Permit<&'_ Semaphore>, OwnedPermit),
    ) = throttle.try_acquire().unwrap();
    let (single, three, nothing, (of_one, two)) = permits;
    assert_eq!((single.count(), three.count(), two.count()), (1, 3, 2));
    assert!(nothing.is_none());
    assert_eq!((one.available_permits(), other.available_permits()), (0, 0));
    // Each is a permit of its own.
    drop(three);
    assert_eq!((one.available_permits(), other.available_permits()), (0, 3));
    drop((single, of_one, two));
    assert_at_rest(&one, 1);
    drop(throttle);
    assert_at_rest(&other, 6);
}

/// Compositions that are cancelled by a token or by a deadline: they are of no part, and give back.
#[cfg(feature = "tokio")]
mod cancelled {
    use std::time::Duration;

    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;
    use tollgate::{ErrorKind, Semaphore, all};

    use crate::all::given_back::each_part;
    use crate::all::shapes::NAMES;
    use crate::support::scripted::Script;
    use crate::support::{Waiter, assert_at_rest, kind};

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
            let cancellable = tollgate::Waiting::new(shape.enter()).cancel_on(&token);
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

    /// The way out of opposite orders.
    #[tokio::test(start_paused = true)]
    async fn a_deadline_gets_out_of_opposite_orders() {
        let (a, b) = (Semaphore::new(1), Semaphore::new(1));
        let (held_a, held_b) = (a.try_acquire().unwrap(), b.try_acquire().unwrap());
        let (forward, backward) = (all((&a, &b)), all((&b, &a)));
        let begun = Instant::now();
        let release = async {
            tokio::task::yield_now().await;
            drop((held_a, held_b));
        };
        let one = async {
            let refused = forward.acquire().timeout(SHORT).await;
            assert_eq!(kind(refused), ErrorKind::TimedOut);
            assert_eq!(begun.elapsed(), SHORT);
            // It has made room for the other one, and comes again when that one has gone.
            drop(forward.acquire().timeout(SHORT).await.unwrap());
        };
        let other = async {
            let permits = backward.acquire().timeout(4 * SHORT).await.unwrap();
            assert_eq!(begun.elapsed(), SHORT);
            tokio::task::yield_now().await;
            drop(permits);
        };
        tokio::join!(one, other, release);
        assert_at_rest(&a, 1);
        assert_at_rest(&b, 1);
    }
}
