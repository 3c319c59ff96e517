//! Cancelling a wait by a token: wakers, tasks and threads. Sequences of calls are rows of
//! `model/scenarios.rs`, and what holds for a wait for any throttle is in `contracts/conformance/endings.rs`.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tollgate::{ErrorKind, Semaphore};

use crate::support::{Counter, Waiter, assert_at_rest, kind};

const LONG: Duration = Duration::from_secs(3600);

/// A semaphore of 1 that is held.
fn held() -> (&'static Semaphore, tollgate::Permit<&'static Semaphore>) {
    let semaphore: &Semaphore = Box::leak(Box::new(Semaphore::new(1)));
    (semaphore, semaphore.try_acquire().unwrap())
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
