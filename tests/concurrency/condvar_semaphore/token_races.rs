//! Tokens that are cancelled while something else happens; and what is left of them.

use std::sync::Barrier;
use std::thread;

use tokio_util::sync::CancellationToken;
use tollgate::{CondvarSemaphore, ErrorKind};

use super::{assert_at_rest, blocked};
use crate::support::kind;
use crate::support::random::Random;

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
        let this = "condvar_semaphore::token_races::\
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
