//! Cancelling a wait by a token: who wins, what is taken, and what is left behind.
//!
//! What holds for a wait for any throttle is in `contracts/conformance/endings.rs`.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tollgate::{AcquireError, ErrorKind, Semaphore};

use crate::support::{Counter, Waiter, assert_at_rest, kind};

const LONG: Duration = Duration::from_secs(3600);

fn cancelled() -> CancellationToken {
    let token = CancellationToken::new();
    token.cancel();
    token
}

/// A semaphore of 1 that is held.
fn held() -> (&'static Semaphore, tollgate::Permit<&'static Semaphore>) {
    let semaphore: &Semaphore = Box::leak(Box::new(Semaphore::new(1)));
    (semaphore, semaphore.try_acquire().unwrap())
}

#[test]
fn to_string_of_cancelled_says_whether_the_call_waited() {
    let (semaphore, held) = held();
    let early = semaphore.acquire().cancel_on(cancelled()).wait();
    assert_eq!(early.unwrap_err().to_string(), "cancelled before waiting");
    let threads = tollgate::CondvarSemaphore::new(1);
    let early = threads.acquire().cancel_on(cancelled()).wait();
    assert_eq!(early.unwrap_err().to_string(), "cancelled before waiting");
    let token = CancellationToken::new();
    let mut waiter = Waiter::parked(semaphore.acquire().cancel_on(&token));
    token.cancel();
    let late = waiter.output().unwrap_err();
    assert_eq!(late.to_string(), "cancelled while waiting");
    drop(held);
    assert_at_rest(semaphore, 1);
}

#[test]
fn a_cancelled_token_wins_over_free_permits_and_every_other_refusal() {
    let token = cancelled();
    let (open, full, closed) = (
        Semaphore::new(3),
        Semaphore::new(1).max_waiters(0),
        Semaphore::new(1),
    );
    let _held = full.try_acquire().unwrap();
    closed.close();
    let rows = [
        ("free", &open, 2),
        ("nothing", &open, 0),
        ("too many", &open, 4),
        ("full", &full, 1),
        ("closed", &closed, 1),
    ];
    for (name, semaphore, permits) in rows {
        let wait = || semaphore.acquire_many(permits).cancel_on(&token);
        assert_eq!(
            Waiter::new(wait()).refused(),
            ErrorKind::Cancelled,
            "{name}"
        );
        assert_eq!(kind(wait().wait()), ErrorKind::Cancelled, "{name}");
    }
    let idle = open.wait_idle().cancel_on(&token).wait();
    assert_eq!(kind(idle), ErrorKind::Cancelled);
    assert_at_rest(&open, 3);
}

#[test]
fn another_refusal_comes_through_a_token_that_is_not_cancelled() {
    let semaphore = Semaphore::new(2);
    let token = CancellationToken::new();
    let refused = Waiter::new(semaphore.acquire_many(3).cancel_on(&token)).output();
    assert_eq!(refused.map(drop), Err(AcquireError::exceeds_capacity(2)));
}

#[test]
fn cancelling_wakes_once_and_wins_over_a_close_that_came_before() {
    let (semaphore, held) = held();
    let token = CancellationToken::new();
    let mut waiter = Waiter::parked(semaphore.acquire().cancel_on(&token));
    let mut idle = Waiter::parked(semaphore.wait_idle().cancel_on(&token));
    let mut closed = Waiter::parked(semaphore.acquire().cancel_on(&token));
    assert_eq!((waiter.wakes(), idle.wakes()), (0, 0));
    token.cancel();
    assert_eq!((waiter.wakes(), idle.wakes()), (1, 1));
    assert_eq!(waiter.refused(), ErrorKind::Cancelled);
    assert_eq!(idle.refused(), ErrorKind::Cancelled);
    semaphore.close();
    assert_eq!(closed.refused(), ErrorKind::Cancelled);
    drop(held);
    assert_at_rest(semaphore, 1);
}

#[test]
fn cancelling_after_the_permit_was_received_changes_nothing() {
    let (semaphore, held) = held();
    let token = CancellationToken::new();
    let mut waiter = Waiter::parked(semaphore.acquire().cancel_on(&token));
    drop(held);
    let permit = waiter.granted();
    token.cancel();
    // It is unregistered, although the future is kept.
    assert_eq!((waiter.wakes(), semaphore.available_permits()), (1, 0));
    drop(permit);
    assert_at_rest(semaphore, 1);
}

#[test]
fn dropping_the_wait_unregisters_from_the_token() {
    let (semaphore, _held) = held();
    let token = CancellationToken::new();
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let mut waiter = Waiter::new(semaphore.acquire().cancel_on(&token));
    assert!(waiter.poll_with(&waker).is_pending());
    drop((waiter, waker));
    assert_eq!(Arc::strong_count(&counter), 1);
    token.cancel();
    assert_eq!(counter.count(), 0);
}

#[test]
fn a_wait_with_a_token_that_is_polled_with_another_waker_wakes_that_one() {
    let (semaphore, _held) = held();
    let token = CancellationToken::new();
    let counter = Arc::new(Counter::default());
    let mut waiter = Waiter::parked(semaphore.acquire().cancel_on(&token));
    let waker = Waker::from(Arc::clone(&counter));
    assert!(waiter.poll_with(&waker).is_pending());
    token.cancel();
    assert_eq!((waiter.wakes(), counter.count()), (0, 1));
    assert_eq!(waiter.refused(), ErrorKind::Cancelled);
}

#[test]
fn a_child_token_is_cancelled_with_its_parent_and_not_the_reverse() {
    let (semaphore, _held) = held();
    let parent = CancellationToken::new();
    let child = parent.child_token();
    let mut waiter = Waiter::parked(semaphore.acquire().cancel_on(&child));
    let mut sibling = Waiter::parked(semaphore.acquire().cancel_on(parent.child_token()));
    child.cancel();
    assert_eq!(waiter.refused(), ErrorKind::Cancelled);
    assert!(sibling.is_pending());
    parent.cancel();
    assert_eq!(sibling.refused(), ErrorKind::Cancelled);
}

#[test]
fn either_of_two_tokens_cancels() {
    for cancel_first in [true, false] {
        let (semaphore, held) = held();
        let (first, second) = (CancellationToken::new(), CancellationToken::new());
        let wait = semaphore.acquire().cancel_on(&first).cancel_on(&second);
        let mut waiter = Waiter::parked(wait);
        if cancel_first { &first } else { &second }.cancel();
        assert_eq!(waiter.wakes(), 1);
        assert_eq!(waiter.refused(), ErrorKind::Cancelled);
        drop(held);
        assert_at_rest(semaphore, 1);
    }
}

#[test]
fn one_token_cancels_many_and_leaves_the_others_in_the_queue() {
    let (semaphore, held) = held();
    let token = CancellationToken::new();
    let mut cancelled = Vec::new();
    let mut others = Vec::new();
    for _ in 0..100 {
        cancelled.push(Waiter::parked(semaphore.acquire().cancel_on(&token)));
        others.push(Waiter::parked(semaphore.acquire()));
    }
    token.cancel();
    for waiter in &mut cancelled {
        assert_eq!(waiter.wakes(), 1);
        assert_eq!(waiter.refused(), ErrorKind::Cancelled);
    }
    assert_eq!(semaphore.snapshot().waiting, 100);
    drop(held);
    for waiter in &mut others {
        drop(waiter.granted());
    }
    assert_at_rest(semaphore, 1);
}

#[tokio::test(start_paused = true)]
async fn a_token_and_a_timeout_stack_in_both_orders_and_can_be_spawned() {
    let semaphore = Arc::new(Semaphore::new(1));
    let token = CancellationToken::new();
    let wait = || Arc::clone(&semaphore).acquire_owned();
    let short = Duration::from_millis(10);
    // Nothing to wait for.
    drop(wait().cancel_on(&token).timeout(short).await.unwrap());
    drop(wait().timeout(short).cancel_on(&token).await.unwrap());
    let held = semaphore.try_acquire().unwrap();
    // The time is over first.
    let inside = wait().cancel_on(&token).timeout(short).await;
    let outside = wait().timeout(short).cancel_on(&token).await;
    assert_eq!([kind(inside), kind(outside)], [ErrorKind::TimedOut; 2]);
    // The token is cancelled first.
    let mut idle = Waiter::parked(semaphore.wait_idle().timeout(LONG).cancel_on(&token));
    let tasks = [
        tokio::spawn(wait().cancel_on(token.clone())),
        tokio::spawn(wait().cancel_on(token.child_token()).timeout(LONG)),
        tokio::spawn(wait().timeout(LONG).cancel_on(token.clone())),
    ];
    while semaphore.snapshot().waiting < tasks.len() {
        tokio::task::yield_now().await;
    }
    token.cancel();
    for task in tasks {
        assert_eq!(kind(task.await.unwrap()), ErrorKind::Cancelled);
    }
    assert_eq!(idle.refused(), ErrorKind::Cancelled);
    drop(held);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_blocked_thread_can_be_cancelled_whatever_the_order() {
    let (semaphore, held) = held();
    let token = CancellationToken::new();
    thread::scope(|scope| {
        let waits = [
            scope.spawn(|| kind(semaphore.acquire().cancel_on(&token).timeout(LONG).wait())),
            scope.spawn(|| kind(semaphore.acquire().timeout(LONG).cancel_on(&token).wait())),
        ];
        while semaphore.snapshot().waiting < waits.len() {
            thread::yield_now();
        }
        token.cancel();
        for wait in waits {
            assert_eq!(wait.join().unwrap(), ErrorKind::Cancelled);
        }
    });
    drop(held);
    assert_at_rest(semaphore, 1);
}

/// Round after round a release and a cancellation run into one waiter and the next one.
#[test]
fn when_grant_and_cancellation_race_exactly_one_is_observed_and_nothing_is_lost() {
    let semaphore = Arc::new(Semaphore::new(1));
    for round in 0..300 {
        let held = Arc::clone(&semaphore).try_acquire_owned().unwrap();
        let token = CancellationToken::new();
        let mut racer = Waiter::parked(semaphore.acquire().cancel_on(&token));
        let mut next = Waiter::parked(semaphore.acquire());
        thread::scope(|scope| {
            scope.spawn(|| {
                if round % 2 == 0 {
                    thread::yield_now();
                }
                token.cancel();
            });
            scope.spawn(|| drop(held));
            let outcome = loop {
                match racer.poll() {
                    Poll::Ready(outcome) => break outcome,
                    Poll::Pending => thread::yield_now(),
                }
            };
            match outcome {
                Ok(permit) => {
                    assert!(next.is_pending());
                    drop(permit);
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled),
            }
        });
        // The release has happened: whichever it was, the next one has the permit.
        drop(next.granted());
        assert_at_rest(&semaphore, 1);
    }
}
