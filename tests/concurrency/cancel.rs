//! Cancelling a wait by a token: who wins, what is taken, and what is left behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tollgate::{ErrorKind, Semaphore};

use crate::support::{Waiter, assert_at_rest, kind};

const LONG: Duration = Duration::from_secs(3600);

fn cancelled() -> CancellationToken {
    let token = CancellationToken::new();
    token.cancel();
    token
}

#[test]
fn a_token_that_is_not_cancelled_changes_nothing() {
    let semaphore = Semaphore::new(2);
    let token = CancellationToken::new();
    let permit = Waiter::new(semaphore.acquire().cancel_on(&token)).granted();
    assert_eq!(permit.count(), 1);
    let refused = Waiter::new(semaphore.acquire_many(3).cancel_on(&token)).refused();
    assert_eq!(refused, ErrorKind::ExceedsCapacity);
    let mut waiter = Waiter::parked(semaphore.acquire_many(2).cancel_on(&token));
    drop(permit);
    assert_eq!(waiter.granted().count(), 2);
    assert_at_rest(&semaphore, 2);
}

#[test]
fn cancelled_already_wins_although_permits_are_free_and_takes_none() {
    let semaphore = Arc::new(Semaphore::new(3));
    let token = cancelled();
    let shared = || Arc::clone(&semaphore);
    let refusals = [
        Waiter::new(semaphore.acquire().cancel_on(&token)).refused(),
        Waiter::new(semaphore.acquire_many(2).cancel_on(&token)).refused(),
        Waiter::new(semaphore.acquire_many(0).cancel_on(&token)).refused(),
        Waiter::new(shared().acquire_owned().cancel_on(&token)).refused(),
        Waiter::new(shared().acquire_owned().cancel_on(token.clone())).refused(),
        Waiter::new(semaphore.acquire().cancel_on(&token)).refused(),
        Waiter::new(shared().acquire_owned().cancel_on(token.clone())).refused(),
        Waiter::new(semaphore.wait_idle().cancel_on(&token)).refused(),
    ];
    assert_eq!(refusals, [ErrorKind::Cancelled; 8]);
    assert_at_rest(&semaphore, 3);
}

#[test]
fn cancelled_already_does_not_join_the_line() {
    let semaphore = Semaphore::new(1).max_waiters(1);
    let held = semaphore.try_acquire().unwrap();
    let refused = Waiter::new(semaphore.acquire().cancel_on(&cancelled())).refused();
    assert_eq!(refused, ErrorKind::Cancelled);
    assert_eq!(semaphore.waiting(), 0);
    drop(held);
}

#[test]
fn cancelled_already_wins_over_every_other_refusal() {
    let token = cancelled();
    let semaphore = Semaphore::new(1);
    let refused = Waiter::new(semaphore.acquire_many(2).cancel_on(&token)).refused();
    assert_eq!(refused, ErrorKind::Cancelled);
    semaphore.close();
    let refused = Waiter::new(semaphore.acquire().cancel_on(&token)).refused();
    assert_eq!(refused, ErrorKind::Cancelled);
}

#[test]
fn a_token_that_is_cancelled_between_making_and_polling_wins() {
    let semaphore = Semaphore::new(1);
    let token = CancellationToken::new();
    let mut waiter = Waiter::new(semaphore.acquire().cancel_on(&token));
    token.cancel();
    assert_eq!(waiter.refused(), ErrorKind::Cancelled);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn cancelling_wakes_the_waiter() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let token = CancellationToken::new();
    let mut waiter = Waiter::parked(semaphore.acquire().cancel_on(&token));
    let mut idle = Waiter::parked(semaphore.wait_idle().cancel_on(&token));
    assert_eq!((waiter.wakes(), idle.wakes()), (0, 0));
    token.cancel();
    assert_eq!((waiter.wakes(), idle.wakes()), (1, 1));
    assert_eq!(waiter.refused(), ErrorKind::Cancelled);
    assert_eq!(idle.refused(), ErrorKind::Cancelled);
    drop(held);
    assert_at_rest(&semaphore, 1);
}

/// smol-rs/async-lock#18: there, a future that had finished and was kept held a notification back.
#[test]
fn a_cancelled_wait_frees_its_place_even_while_the_future_is_kept() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.try_acquire().unwrap();
    let token = CancellationToken::new();
    let mut large = Waiter::parked(semaphore.acquire_many(2).cancel_on(&token));
    let mut small = Waiter::parked(semaphore.acquire());
    token.cancel();
    assert_eq!(large.refused(), ErrorKind::Cancelled);

    assert_eq!(semaphore.waiting(), 0);
    drop(small.granted());
    drop(held);
    assert_at_rest(&semaphore, 2);
    drop(large);
    assert_at_rest(&semaphore, 2);
}

#[test]
fn an_owned_wait_that_was_cancelled_lets_go_of_the_semaphore_even_while_it_is_kept() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = semaphore.try_acquire().unwrap();
    let token = CancellationToken::new();
    let mut waiter = Waiter::parked(
        Arc::clone(&semaphore)
            .acquire_owned()
            .cancel_on(token.clone()),
    );
    token.cancel();
    assert_eq!(waiter.refused(), ErrorKind::Cancelled);
    drop(held);
    assert_eq!(Arc::strong_count(&semaphore), 1);
    drop(waiter);
}

#[test]
fn cancelling_after_the_grant_passes_the_grant_on() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let token = CancellationToken::new();
    let mut both = Waiter::parked(semaphore.acquire().cancel_on(&token));
    let mut next = Waiter::parked(semaphore.acquire());
    drop(held);
    assert_eq!((both.wakes(), next.wakes()), (1, 0));
    token.cancel();
    // It has not been polled since: the token wins, and the grant is not lost.
    assert_eq!(both.refused(), ErrorKind::Cancelled);
    assert_eq!(next.wakes(), 1);
    drop(next.granted());
    assert_at_rest(&semaphore, 1);
}

#[test]
fn cancelling_after_the_permit_was_received_changes_nothing() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let token = CancellationToken::new();
    let mut waiter = Waiter::parked(semaphore.acquire().cancel_on(&token));
    drop(held);
    let permit = waiter.granted();
    token.cancel();
    assert_eq!(permit.count(), 1);
    assert_eq!(semaphore.available_permits(), 0);
    drop(permit);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn cancelling_and_closing_gives_one_answer() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let token = CancellationToken::new();
    let mut waiter = Waiter::parked(semaphore.acquire().cancel_on(&token));
    semaphore.close();
    token.cancel();
    assert_eq!(waiter.refused(), ErrorKind::Cancelled);
    drop(held);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn dropping_the_wait_unregisters_from_the_token() {
    let semaphore = Semaphore::new(1);
    let _held = semaphore.try_acquire().unwrap();
    let token = CancellationToken::new();
    let counter = Arc::new(crate::support::Counter::default());
    let waker = std::task::Waker::from(Arc::clone(&counter));
    let mut waiter = Waiter::new(semaphore.acquire().cancel_on(&token));
    assert!(waiter.poll_with(&waker).is_pending());
    drop(waiter);
    drop(waker);
    assert_eq!(Arc::strong_count(&counter), 1);
    token.cancel();
    assert_eq!(counter.count(), 0);
}

#[test]
fn a_wait_that_was_granted_unregisters_from_the_token_even_while_it_is_kept() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let token = CancellationToken::new();
    let mut waiter = Waiter::parked(semaphore.acquire().cancel_on(&token));
    drop(held);
    drop(waiter.granted());
    token.cancel();
    assert_eq!(waiter.wakes(), 1);
}

#[test]
fn a_wait_with_a_token_that_is_polled_with_another_waker_wakes_that_one() {
    let semaphore = Semaphore::new(1);
    let _held = semaphore.try_acquire().unwrap();
    let token = CancellationToken::new();
    let counter = Arc::new(crate::support::Counter::default());
    let mut waiter = Waiter::parked(semaphore.acquire().cancel_on(&token));
    let waker = std::task::Waker::from(Arc::clone(&counter));
    assert!(waiter.poll_with(&waker).is_pending());
    token.cancel();
    assert_eq!((waiter.wakes(), counter.count()), (0, 1));
    assert_eq!(waiter.refused(), ErrorKind::Cancelled);
}

#[test]
fn a_child_token_is_cancelled_with_its_parent() {
    let semaphore = Semaphore::new(1);
    let _held = semaphore.try_acquire().unwrap();
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
        let semaphore = Semaphore::new(1);
        let held = semaphore.try_acquire().unwrap();
        let (first, second) = (CancellationToken::new(), CancellationToken::new());
        let mut waiter = Waiter::parked(semaphore.acquire().cancel_on(&first).cancel_on(&second));
        if cancel_first { &first } else { &second }.cancel();
        assert_eq!(waiter.wakes(), 1);
        assert_eq!(waiter.refused(), ErrorKind::Cancelled);
        drop(held);
        assert_at_rest(&semaphore, 1);
    }
}

#[test]
fn one_token_cancels_many_and_leaves_the_others_in_line() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
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
    assert_eq!(semaphore.waiting(), 100);
    drop(held);
    for waiter in &mut others {
        drop(waiter.granted());
    }
    assert_at_rest(&semaphore, 1);
}

#[tokio::test]
async fn an_owned_wait_with_its_token_can_be_spawned() {
    let semaphore = Arc::new(Semaphore::new(1));
    let token = CancellationToken::new();
    let held = semaphore.try_acquire().unwrap();
    let shared = || Arc::clone(&semaphore);
    let short = tokio::spawn(shared().acquire_owned().cancel_on(token.clone()));
    let long = tokio::spawn(shared().acquire_owned().cancel_on(token.clone()));
    let timed = tokio::spawn(
        shared()
            .acquire_many_owned(1)
            .cancel_on(token.child_token())
            .timeout(LONG),
    );
    let mut waiting = 0;
    while waiting < 3 {
        tokio::task::yield_now().await;
        waiting = semaphore.waiting();
    }
    token.cancel();
    for task in [short, long] {
        assert_eq!(kind(task.await.unwrap()), ErrorKind::Cancelled);
    }
    assert_eq!(kind(timed.await.unwrap()), ErrorKind::Cancelled);
    drop(held);
    assert_at_rest(&semaphore, 1);
}

#[tokio::test(start_paused = true)]
async fn a_token_and_a_timeout_stack_in_both_orders() {
    let semaphore = Semaphore::new(1);
    let token = CancellationToken::new();
    let short = Duration::from_millis(10);
    // Nothing to wait for.
    drop(semaphore.acquire().cancel_on(&token).timeout(short).await);
    drop(semaphore.acquire().timeout(short).cancel_on(&token).await);
    let held = semaphore.try_acquire().unwrap();
    // The time is over first.
    let result = semaphore.acquire().cancel_on(&token).timeout(short).await;
    assert_eq!(kind(result), ErrorKind::TimedOut);
    let result = semaphore.acquire().timeout(short).cancel_on(&token).await;
    assert_eq!(kind(result), ErrorKind::TimedOut);
    // The token is cancelled first.
    let mut inside = Waiter::parked(semaphore.acquire().cancel_on(&token).timeout(LONG));
    let mut outside = Waiter::parked(semaphore.acquire().timeout(LONG).cancel_on(&token));
    let mut idle = Waiter::parked(semaphore.wait_idle().timeout(LONG).cancel_on(&token));
    token.cancel();
    assert_eq!(inside.refused(), ErrorKind::Cancelled);
    assert_eq!(outside.refused(), ErrorKind::Cancelled);
    assert_eq!(idle.refused(), ErrorKind::Cancelled);
    drop(held);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_blocked_thread_can_be_cancelled_whatever_the_order() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = semaphore.try_acquire().unwrap();
    let token = CancellationToken::new();
    let shared = || Arc::clone(&semaphore);
    let waits = [
        thread::spawn({
            let wait = shared().acquire_owned().cancel_on(token.clone());
            move || wait.wait().map(drop)
        }),
        thread::spawn({
            let wait = shared().acquire_owned().cancel_on(token.clone());
            move || wait.timeout(LONG).wait().map(drop)
        }),
        thread::spawn({
            let wait = shared().acquire_owned().timeout(LONG);
            let token = token.clone();
            move || wait.cancel_on(token).wait().map(drop)
        }),
    ];
    while semaphore.waiting() < waits.len() {
        thread::yield_now();
    }
    token.cancel();
    for wait in waits {
        assert_eq!(kind(wait.join().unwrap()), ErrorKind::Cancelled);
    }
    drop(held);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_blocking_wait_with_a_cancelled_token_does_not_block() {
    let semaphore = Semaphore::new(1);
    let token = cancelled();
    let results = [
        semaphore.acquire().cancel_on(&token).wait().map(drop),
        semaphore
            .acquire()
            .cancel_on(&token)
            .timeout(LONG)
            .wait()
            .map(drop),
        semaphore
            .acquire()
            .timeout(LONG)
            .cancel_on(&token)
            .wait()
            .map(drop),
        semaphore.wait_idle().cancel_on(&token).wait(),
    ];
    for result in results {
        assert_eq!(kind(result), ErrorKind::Cancelled);
    }
    assert_at_rest(&semaphore, 1);
}

/// Round after round a release and a cancellation run into one waiter and the next in line.
#[test]
fn when_grant_and_cancellation_race_exactly_one_is_observed_and_nothing_is_lost() {
    const ROUNDS: usize = 300;
    let semaphore = Arc::new(Semaphore::new(1));
    let (granted, cancelled) = (AtomicUsize::new(0), AtomicUsize::new(0));
    for round in 0..ROUNDS {
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
                    std::task::Poll::Ready(outcome) => break outcome,
                    std::task::Poll::Pending => thread::yield_now(),
                }
            };
            match outcome {
                Ok(permit) => {
                    granted.fetch_add(1, Ordering::Relaxed);
                    assert!(next.is_pending());
                    drop(permit);
                }
                Err(error) => {
                    cancelled.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(error.kind(), ErrorKind::Cancelled);
                }
            }
        });
        // The release has happened: whichever it was, the next one has the permit.
        drop(next.granted());
        assert_at_rest(&semaphore, 1);
    }
    let both = granted.into_inner() + cancelled.into_inner();
    assert_eq!(both, ROUNDS);
}
