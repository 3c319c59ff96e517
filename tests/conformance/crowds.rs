//! The checks that take many: at random, and on threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;

use futures::executor::block_on;
use tollgate::{Throttle, TryThrottle};

use super::subject::{EnterOf, PermitOf, Subject, assert_at_rest};
use crate::support::Waiter;
use crate::support::random::Random;

const LIMIT: usize = 3;

/// Polls whatever was woken, as an executor does, and makes a permit of it if it was let in.
fn run_woken<S: Subject>(
    waiting: &mut Vec<(Waiter<EnterOf<S>>, usize)>,
    inside: &mut Vec<PermitOf<S>>,
) {
    let mut at = 0;
    while at < waiting.len() {
        let (waiter, seen) = &mut waiting[at];
        if waiter.wakes() == *seen {
            at += 1;
            continue;
        }
        *seen = waiter.wakes();
        match waiter.poll() {
            Poll::Pending => at += 1,
            Poll::Ready(entered) => {
                inside.push(entered.unwrap());
                waiting.remove(at);
            }
        }
    }
}

pub(crate) fn random_entries_and_exits_lose_nothing<S: Subject>() {
    for seed in 0..20 {
        let throttle = S::with_limit(LIMIT);
        let mut random = Random::new(seed);
        let mut waiting = Vec::new();
        let mut inside = Vec::new();
        for _ in 0..200 {
            match random.below(6) {
                0 => inside.extend(throttle.try_enter()),
                1 | 2 => {
                    let mut waiter = Waiter::new(throttle.enter());
                    match waiter.poll() {
                        Poll::Ready(entered) => inside.push(entered.unwrap()),
                        Poll::Pending => waiting.push((waiter, 0)),
                    }
                }
                3 if !waiting.is_empty() => {
                    let gives_up = random.below(waiting.len() as u32) as usize;
                    drop(waiting.swap_remove(gives_up));
                }
                4 if !inside.is_empty() => {
                    let leaves = random.below(inside.len() as u32) as usize;
                    throttle.undo(inside.swap_remove(leaves));
                }
                _ => run_woken::<S>(&mut waiting, &mut inside),
            }
            assert!(inside.len() <= LIMIT, "too many are inside");
        }
        // Everybody who still waits gets in when those before have left, by being woken alone.
        while !(waiting.is_empty() && inside.is_empty()) {
            run_woken::<S>(&mut waiting, &mut inside);
            assert!(!inside.is_empty(), "somebody waits, and nobody is inside");
            throttle.undo(inside.swap_remove(0));
        }
        assert_at_rest::<S>(&throttle, LIMIT);
    }
}

fn give_up_after_a_poll<S: Subject>(throttle: &S::Throttle) -> Option<PermitOf<S>> {
    let mut waiter = Waiter::new(throttle.enter());
    match waiter.poll() {
        Poll::Ready(entered) => entered.ok(),
        Poll::Pending => {
            thread::yield_now();
            None
        }
    }
}

pub(crate) fn threads_never_exceed_the_limit<S: Subject>() {
    let throttle = S::with_limit(LIMIT);
    let inside = AtomicUsize::new(0);
    thread::scope(|scope| {
        for seed in 0..4 {
            let (throttle, inside) = (&throttle, &inside);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                for _ in 0..300 {
                    let entered = match random.below(3) {
                        0 => throttle.try_enter().ok(),
                        1 => give_up_after_a_poll::<S>(throttle),
                        _ => Some(block_on(throttle.enter()).unwrap()),
                    };
                    let Some(permit) = entered else { continue };
                    let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(now <= LIMIT, "too many are inside");
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    throttle.undo(permit);
                }
            });
        }
    });
    assert_at_rest::<S>(&throttle, LIMIT);
}
