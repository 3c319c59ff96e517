//! Compositions that are cancelled by a token or by a deadline: they are of no part, and give back.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tollgate::{ErrorKind, Semaphore, all};

use super::given_back::each_part;
use super::shapes::NAMES;
use crate::support::scripted::Script;
use crate::support::{Waiter, assert_at_rest, kind};

const SHORT: Duration = Duration::from_millis(250);

/// Given back when the wait is over, and not when its future is dropped.
#[tokio::test(start_paused = true)]
async fn a_token_or_a_deadline_ends_the_wait_for_any_part() {
    const LIMITS: [usize; 4] = [1, 2, 3, 4];
    for waits_for in 0..LIMITS.len() {
        let [a, b, c, d] = &LIMITS.map(Semaphore::new);
        let throttle = all((a, b, c, d));
        let parts = [a, b, c, d];
        let held = parts[waits_for].try_acquire_many(LIMITS[waits_for] as u32);
        let at_rest_but_for_what_is_held = || {
            for (part, limit) in parts.into_iter().zip(LIMITS) {
                if !std::ptr::eq(part, parts[waits_for]) {
                    assert_at_rest(part, limit);
                }
            }
        };
        let token = CancellationToken::new();
        let mut waiter = Waiter::parked(throttle.acquire().cancel_on(&token));
        token.cancel();
        assert!(waiter.wakes() > 0);
        let begun = Instant::now();
        let refusals = [
            (waiter.output(), ErrorKind::Cancelled),
            // One that is cancelled already asks nobody.
            (
                throttle.acquire().cancel_on(&token).await,
                ErrorKind::Cancelled,
            ),
            (throttle.acquire().timeout(SHORT).await, ErrorKind::TimedOut),
        ];
        assert_eq!(begun.elapsed(), SHORT);
        for (refused, kind) in refusals {
            let refused = refused.unwrap_err();
            assert_eq!((refused.kind(), refused.part()), (kind, None));
        }
        at_rest_but_for_what_is_held();
        drop((held, waiter));
        at_rest_but_for_what_is_held();
        assert_at_rest(parts[waits_for], LIMITS[waits_for]);
    }
}

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
    assert_eq!(kind(refused), ErrorKind::TimedOut);
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
        assert_eq!(waiter.refused(), ErrorKind::Cancelled);
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
