//! Waits that a token ends.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tollgate::{CondvarSemaphore, ErrorKind};

use super::{assert_at_rest, blocked};
use crate::support::kind;
use crate::support::random::Random;

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

/// Who is let in, who leaves, and who stays: whatever comes first, the other one who waits gets in.
#[test]
fn a_cancellation_that_races_with_a_release_loses_nothing() {
    let semaphore = CondvarSemaphore::new(1);
    let mut random = Random::new(7);
    for _ in 0..1000 {
        let held = semaphore.try_acquire().unwrap();
        let token = CancellationToken::new();
        let together = Barrier::new(2);
        thread::scope(|scope| {
            let leaves_perhaps =
                scope.spawn(|| match semaphore.acquire().cancel_on(&token).wait() {
                    Ok(permit) => drop(permit),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled),
                });
            let stays = scope.spawn(|| drop(semaphore.acquire().wait().unwrap()));
            // Both sleep, or are about to, or one has not even come.
            let expected = 1 + random.below(2) as usize;
            while semaphore.snapshot().waiting < expected {
                thread::yield_now();
            }
            let cancels = scope.spawn(|| {
                together.wait();
                token.cancel();
            });
            together.wait();
            drop(held);
            for thread in [leaves_perhaps, stays, cancels] {
                thread.join().unwrap();
            }
        });
        assert_at_rest(&semaphore);
    }
}

#[test]
fn a_cancellation_that_races_with_going_to_sleep_is_not_missed() {
    let semaphore = CondvarSemaphore::new(1);
    let _held = semaphore.try_acquire().unwrap();
    for round in 0..1000 {
        let token = CancellationToken::new();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| kind(semaphore.acquire().cancel_on(&token).wait()));
            if round % 2 == 0 {
                blocked(&semaphore, 1);
            }
            token.cancel();
            assert_eq!(waiting.join().unwrap(), ErrorKind::Cancelled);
        });
    }
    assert_eq!(
        (semaphore.snapshot().waiting, semaphore.snapshot().available),
        (0, 0)
    );
}

/// How much memory of this process is in use, in bytes.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    kilobytes.unwrap().parse::<usize>().unwrap() * 1024
}

/// A registration that stayed behind would take more than a hundred bytes, and so forty megabytes
/// in the end. It is measured in a process of its own, where no other test takes any.
#[cfg(target_os = "linux")]
#[test]
fn a_token_that_lives_long_does_not_keep_waits_that_are_over() {
    const WAITS: usize = 20_000;
    const TOKENS: usize = 20;
    const ALONE: &str = "TOLLGATE_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let this = "condvar_semaphore::tokens::\
                    a_token_that_lives_long_does_not_keep_waits_that_are_over";
        let mut process = std::process::Command::new(std::env::current_exe().unwrap());
        let run = process.args([this, "--exact"]).env(ALONE, "1").output();
        let run = run.expect("it runs");
        let output = String::from_utf8_lossy(&run.stdout);
        assert!(
            run.status.success() && output.contains("1 passed"),
            "{output}"
        );
        return;
    }
    let semaphore = CondvarSemaphore::new(1);
    let _held = semaphore.try_acquire().unwrap();
    let token = CancellationToken::new();
    let wait = || {
        let instant = std::time::Duration::from_nanos(1);
        let request = semaphore.acquire().timeout(instant);
        let request = (0..TOKENS).fold(request, |request, _| request.cancel_on(&token));
        assert_eq!(kind(request.wait()), ErrorKind::TimedOut);
    };
    wait();
    let before = resident();
    for _ in 0..WAITS {
        wait();
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 10_000_000, "grown by {grown} bytes");
}
