//! Waits that a token ends.

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

/// Blocks a thread with the tokens of each row, and cancels: the thread gives up, and nothing is lost.
#[test]
fn a_blocked_thread_is_woken_by_any_of_its_tokens_however_it_is_cancelled() {
    let parent = CancellationToken::new;
    type Row = (&'static str, Vec<CancellationToken>, Box<dyn FnOnce()>);
    let row = |name, which: fn(&CancellationToken) -> CancellationToken| -> Row {
        let token = parent();
        (name, vec![which(&token)], Box::new(move || token.cancel()))
    };
    let mut rows = vec![
        row("the token", Clone::clone),
        row("its parent", CancellationToken::child_token),
        row("the parent of its parent", |token| {
            token.child_token().child_token()
        }),
    ];
    for which in 0..3 {
        let tokens = vec![parent(), parent(), parent()];
        let token = tokens[which].clone();
        rows.push(("one of three", tokens, Box::new(move || token.cancel())));
    }
    let token = parent();
    let guard = token.clone().drop_guard();
    rows.push(("a guard", vec![token], Box::new(|| drop(guard))));
    for (name, tokens, cancel) in rows {
        let semaphore = CondvarSemaphore::new(1);
        let held = semaphore.try_acquire().unwrap();
        thread::scope(|scope| {
            let request = tokens.iter().fold(semaphore.acquire(), |request, token| {
                request.cancel_on(token.clone())
            });
            let waiting = scope.spawn(|| kind(request.wait()));
            blocked(&semaphore, 1);
            cancel();
            assert_eq!(waiting.join().unwrap(), ErrorKind::Cancelled, "{name}");
        });
        assert_eq!(
            (semaphore.snapshot().waiting, semaphore.snapshot().available),
            (0, 0)
        );
        drop(held);
        assert_at_rest(&semaphore);
    }
}

#[test]
fn a_cancelled_token_wins_over_a_free_permit_and_every_other_refusal() {
    let semaphore = CondvarSemaphore::new(1);
    let (live, token) = (CancellationToken::new(), cancelled());
    let refused = || {
        let acquire = || semaphore.acquire();
        let requests = [
            acquire().cancel_on(&token),
            acquire().cancel_on(token.child_token()),
            acquire().cancel_on(&live).cancel_on(&token),
            acquire().cancel_on(&token).cancel_on(&live),
            acquire().cancel_on(&token).timeout(LONG),
            acquire().timeout(Duration::ZERO).cancel_on(&token),
        ];
        for request in requests {
            let refused = request.wait().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Cancelled);
            assert_eq!(refused.to_string(), "cancelled before waiting");
        }
    };
    refused();
    assert_at_rest(&semaphore);
    let held = semaphore.try_acquire().unwrap();
    refused();
    semaphore.close();
    refused();
    drop(held);
    assert_at_rest(&semaphore);
}

/// Also one whose handles are all dropped, so that nobody can cancel it any more.
#[test]
fn a_token_that_is_not_cancelled_or_is_cancelled_too_late_changes_nothing() {
    let semaphore = CondvarSemaphore::new(1);
    let token = CancellationToken::new();
    let held = semaphore.acquire().cancel_on(&token).wait().unwrap();
    let (parent, late) = (CancellationToken::new(), token.clone());
    let child = parent.child_token();
    thread::scope(|scope| {
        let request = semaphore.acquire().cancel_on(&parent).cancel_on(&child);
        let waiting = scope.spawn(|| drop(request.wait().unwrap()));
        blocked(&semaphore, 1);
        drop((child, parent));
        late.cancel();
        drop(held);
        waiting.join().unwrap();
    });
    assert_at_rest(&semaphore);
}

#[test]
fn a_child_does_not_wake_waiters_with_its_parent_or_its_sibling() {
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
fn one_token_ends_all_waits_that_have_it_and_no_others() {
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
        assert_eq!(semaphore.snapshot().waiting, EACH);
        drop(held);
        for thread in staying {
            thread.join().unwrap().unwrap();
        }
    });
    assert_at_rest(&semaphore);
}
