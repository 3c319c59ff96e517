//! Waits that a token ends.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tollgate::{CondvarSemaphore, ErrorKind};

use super::{assert_at_rest, blocked};
use crate::support::kind;

const LONG: Duration = Duration::from_secs(3600);

fn cancelled() -> CancellationToken {
    let token = CancellationToken::new();
    token.cancel();
    token
}

/// Blocks a thread with these tokens, cancels one, and sees what comes of it.
fn cancelled_while_blocked(tokens: &[CancellationToken], cancels: &CancellationToken) {
    let semaphore = CondvarSemaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    thread::scope(|scope| {
        let blocked_thread = scope.spawn(|| {
            let request = tokens.iter().fold(semaphore.acquire(), |request, token| {
                request.cancel_on(token)
            });
            kind(request.wait())
        });
        blocked(&semaphore, 1);
        cancels.cancel();
        assert_eq!(blocked_thread.join().unwrap(), ErrorKind::Cancelled);
    });
    assert_eq!((semaphore.waiting(), semaphore.available_permits()), (0, 0));
    drop(held);
    assert_at_rest(&semaphore);
}

#[test]
fn a_token_wakes_a_blocked_thread() {
    let token = CancellationToken::new();
    cancelled_while_blocked(std::slice::from_ref(&token), &token);
}

#[test]
fn a_parent_wakes_who_waits_with_a_child() {
    let token = CancellationToken::new();
    cancelled_while_blocked(&[token.child_token()], &token);
    let token = CancellationToken::new();
    cancelled_while_blocked(&[token.child_token().child_token()], &token);
}

#[test]
fn any_of_several_wakes() {
    for which in 0..3 {
        let tokens = [(); 3].map(|()| CancellationToken::new());
        cancelled_while_blocked(&tokens, &tokens[which]);
    }
}

#[test]
fn a_guard_that_is_dropped_wakes() {
    let semaphore = CondvarSemaphore::new(1);
    let _held = semaphore.try_acquire().unwrap();
    let token = CancellationToken::new();
    thread::scope(|scope| {
        let guard = token.clone().drop_guard();
        let request = semaphore.acquire().cancel_on(token.clone());
        let waiting = scope.spawn(|| kind(request.wait()));
        blocked(&semaphore, 1);
        drop(guard);
        assert_eq!(waiting.join().unwrap(), ErrorKind::Cancelled);
    });
}

#[test]
fn a_child_does_not_wake_who_waits_with_its_parent_or_its_sibling() {
    let semaphore = CondvarSemaphore::new(2);
    let held = [
        semaphore.try_acquire().unwrap(),
        semaphore.try_acquire().unwrap(),
    ];
    let parent = CancellationToken::new();
    let (child, sibling) = (parent.child_token(), parent.child_token());
    thread::scope(|scope| {
        let waiting = [&parent, &sibling].map(|token| {
            let semaphore = &semaphore;
            scope.spawn(move || semaphore.acquire().cancel_on(token).wait().map(drop))
        });
        blocked(&semaphore, 2);
        child.cancel();
        drop(held);
        for thread in waiting {
            thread.join().unwrap().unwrap();
        }
    });
    assert_at_rest(&semaphore);
}

#[test]
fn cancelled_already_wins_although_a_permit_is_free_and_takes_none() {
    let semaphore = Arc::new(CondvarSemaphore::new(1));
    let (live, token) = (CancellationToken::new(), cancelled());
    let shared = || Arc::clone(&semaphore);
    let refusals = [
        kind(semaphore.acquire().cancel_on(&token).wait()),
        kind(semaphore.acquire().cancel_on(token.clone()).wait()),
        kind(
            semaphore
                .acquire()
                .cancel_on(&live)
                .cancel_on(&token)
                .wait(),
        ),
        kind(
            semaphore
                .acquire()
                .cancel_on(&token)
                .cancel_on(&live)
                .wait(),
        ),
        kind(semaphore.acquire().cancel_on(token.child_token()).wait()),
        kind(semaphore.acquire().cancel_on(&token).timeout(LONG).wait()),
        kind(shared().acquire_owned().cancel_on(&token).wait()),
    ];
    assert_eq!(refusals, [ErrorKind::Cancelled; 7]);
    assert_eq!(Arc::strong_count(&semaphore), 1);
    assert_at_rest(&semaphore);
}

#[test]
fn cancelled_comes_before_everything_else() {
    let semaphore = CondvarSemaphore::new(1);
    let token = cancelled();
    let _held = semaphore.try_acquire().unwrap();
    let zero = semaphore
        .acquire()
        .timeout(Duration::ZERO)
        .cancel_on(&token);
    assert_eq!(kind(zero.wait()), ErrorKind::Cancelled);
    semaphore.close();
    let closed = semaphore.acquire().cancel_on(&token);
    assert_eq!(kind(closed.wait()), ErrorKind::Cancelled);
}

#[test]
fn a_token_and_a_deadline_each_end_the_wait() {
    let semaphore = CondvarSemaphore::new(1);
    let _held = semaphore.try_acquire().unwrap();
    let token = CancellationToken::new();
    let soon = Duration::from_millis(2);
    let request = semaphore.acquire().cancel_on(&token).timeout(soon);
    assert_eq!(kind(request.wait()), ErrorKind::TimedOut);
    thread::scope(|scope| {
        let request = semaphore.acquire().timeout(LONG).cancel_on(&token);
        let waiting = scope.spawn(|| kind(request.wait()));
        blocked(&semaphore, 1);
        token.cancel();
        assert_eq!(waiting.join().unwrap(), ErrorKind::Cancelled);
    });
}

#[test]
fn a_token_that_is_not_cancelled_changes_nothing() {
    let semaphore = CondvarSemaphore::new(1);
    let token = CancellationToken::new();
    let held = semaphore.acquire().cancel_on(&token).wait().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            // Its only handle is here: when that is dropped, nobody can cancel it any more.
            let request = semaphore.acquire().cancel_on(CancellationToken::new());
            drop(request.wait().unwrap());
        });
        blocked(&semaphore, 1);
        drop(held);
        waiting.join().unwrap();
    });
    assert_at_rest(&semaphore);
}

#[test]
fn a_token_that_is_dropped_while_somebody_waits_does_not_wake() {
    let semaphore = CondvarSemaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let parent = CancellationToken::new();
    let child = parent.child_token();
    thread::scope(|scope| {
        let request = semaphore.acquire().cancel_on(&parent).cancel_on(&child);
        let waiting = scope.spawn(|| drop(request.wait().unwrap()));
        blocked(&semaphore, 1);
        drop((child, parent));
        drop(held);
        waiting.join().unwrap();
    });
    assert_at_rest(&semaphore);
}

#[test]
fn one_token_ends_the_wait_of_all_who_have_it_and_of_no_others() {
    const EACH: usize = 5;
    let semaphore = CondvarSemaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let (token, other) = (CancellationToken::new(), CancellationToken::new());
    thread::scope(|scope| {
        let mut leaving = Vec::new();
        let mut staying = Vec::new();
        for _ in 0..EACH {
            leaving.push(scope.spawn(|| kind(semaphore.acquire().cancel_on(&token).wait())));
            staying.push(scope.spawn(|| semaphore.acquire().cancel_on(&other).wait().map(drop)));
        }
        blocked(&semaphore, 2 * EACH);
        token.cancel();
        for thread in leaving {
            assert_eq!(thread.join().unwrap(), ErrorKind::Cancelled);
        }
        assert_eq!(semaphore.waiting(), EACH);
        drop(held);
        for thread in staying {
            thread.join().unwrap().unwrap();
        }
    });
    assert_at_rest(&semaphore);
}

#[test]
fn one_token_ends_waits_for_several_semaphores() {
    let semaphores = [(); 3].map(|()| CondvarSemaphore::new(1));
    let _held = semaphores
        .each_ref()
        .map(|semaphore| semaphore.try_acquire().unwrap());
    let token = CancellationToken::new();
    thread::scope(|scope| {
        let waiting = semaphores.each_ref().map(|semaphore| {
            let request = semaphore.acquire().cancel_on(&token);
            let thread = scope.spawn(|| kind(request.wait()));
            blocked(semaphore, 1);
            thread
        });
        token.cancel();
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), ErrorKind::Cancelled);
        }
    });
}

#[test]
fn a_cancellation_while_a_permit_is_held_is_harmless() {
    let semaphore = CondvarSemaphore::new(1);
    let token = CancellationToken::new();
    let permit = semaphore.acquire().cancel_on(&token).wait().unwrap();
    token.cancel();
    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
    drop(permit);
    assert_at_rest(&semaphore);
}

#[test]
fn a_token_outlives_the_semaphore() {
    let token = CancellationToken::new();
    for waits in [false, true] {
        let semaphore = CondvarSemaphore::new(1);
        let held = semaphore.acquire().cancel_on(&token).wait().unwrap();
        if waits {
            let soon = Duration::from_micros(10);
            let refused = semaphore.acquire().cancel_on(&token).timeout(soon).wait();
            assert_eq!(kind(refused), ErrorKind::TimedOut);
        }
        drop(held);
    }
    token.cancel();
    assert!(token.is_cancelled());
}
