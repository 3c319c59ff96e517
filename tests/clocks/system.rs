//! The time of the machine: it depends on no runtime, and so on nobody who drives one.

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use futures::executor::LocalPool;
use futures::future::join_all;
use futures::task::LocalSpawnExt;
use tokio::runtime::{Builder, Runtime};
use tollgate::{Charge, Clock, ErrorKind, Quota, RateLimiter, Tick};

use super::super::{SECOND, acquire_times, assert_apart, block_on, ends, millis, until_in_line};
use crate::support::foreign::{panics_when_woken, throws_a_bomb_when_woken};
use crate::support::{Waiter, kind, paused_runtime};

const FAST: Quota = Quota::per_second(1000);
const NEVER: Quota = Quota::per_day(1);

/// Without any timer of its own.
fn runtime() -> Runtime {
    Builder::new_current_thread().build().unwrap()
}

/// Used for the first time, and in no runtime: whatever the features are, it is on the time of the machine.
fn begun(limiter: &'static RateLimiter) -> &'static RateLimiter {
    assert_eq!(limiter.available(), 1);
    limiter
}

/// Somebody who will be due only when the quota is changed, and then soon.
fn never(limiter: &'static RateLimiter) -> &'static RateLimiter {
    begun(limiter).try_acquire().unwrap();
    limiter
}

#[test]
fn runtimes_one_after_another_share_one_in_a_static() {
    static LIMITER: RateLimiter = RateLimiter::new(FAST);
    let limiter = begun(&LIMITER);
    let charges = ends(|| {
        let charges = (0..4).map(|_| runtime().block_on(acquire_times(limiter, 3)));
        charges.flatten().collect::<Vec<_>>()
    });
    assert_eq!(charges.len(), 12);
    assert_apart(charges, millis(1));
}

#[test]
fn runtimes_at_once_share_one_in_a_static() {
    static LIMITER: RateLimiter = RateLimiter::new(FAST);
    let limiter = begun(&LIMITER);
    let charges = ends(|| {
        let threads = [(); 3].map(|()| {
            thread::spawn(|| {
                runtime().block_on(async {
                    let each = join_all((0..3).map(|_| acquire_times(limiter, 2))).await;
                    each.into_iter().flatten().collect::<Vec<_>>()
                })
            })
        });
        let each = threads.map(|thread| thread.join().unwrap());
        each.into_iter().flatten().collect::<Vec<_>>()
    });
    assert_eq!(charges.len(), 18);
    assert_apart(charges, millis(1));
}

#[test]
fn a_runtime_that_is_dropped_takes_only_its_own_tasks_out_of_the_line() {
    static LIMITER: RateLimiter = RateLimiter::new(NEVER);
    let limiter = never(&LIMITER);
    ends(|| {
        let gone = runtime();
        let tasks = [(); 3].map(|()| gone.spawn(limiter.acquire()));
        gone.block_on(until_in_line(limiter, 3));
        let behind = thread::spawn(|| runtime().block_on(limiter.acquire()));
        block_on(until_in_line(limiter, 4));
        drop(gone);
        assert!(tasks.iter().all(|task| task.is_finished()));
        assert_eq!(limiter.waiting(), 1);
        limiter.set_quota(FAST);
        behind.join().unwrap().unwrap();
    });
}

#[test]
fn a_runtime_that_is_dropped_after_the_line_began_to_move_strands_nobody() {
    static LIMITER: RateLimiter = RateLimiter::new(NEVER);
    let limiter = never(&LIMITER);
    ends(|| {
        let gone = runtime();
        for _ in 0..20 {
            gone.spawn(limiter.acquire());
        }
        gone.block_on(until_in_line(limiter, 20));
        let behind = thread::spawn(|| limiter.acquire().wait());
        block_on(until_in_line(limiter, 21));
        limiter.set_quota(FAST);
        drop(gone);
        behind.join().unwrap().unwrap();
    });
}

/// Its task is the head of the line, and nobody will ever poll it.
#[test]
fn a_runtime_that_is_never_driven_again_strands_nobody() {
    static LIMITER: RateLimiter = RateLimiter::new(NEVER);
    let limiter = never(&LIMITER);
    ends(|| {
        let asleep = runtime();
        let task = asleep.spawn(limiter.acquire());
        asleep.block_on(until_in_line(limiter, 1));
        let behind = thread::spawn(|| runtime().block_on(acquire_times(limiter, 3)));
        block_on(until_in_line(limiter, 2));
        limiter.set_quota(FAST);
        let charges = behind.join().unwrap();
        // Its turn had come before theirs, although nobody has told it yet.
        assert!(!task.is_finished());
        let its = asleep.block_on(task).unwrap().unwrap();
        assert!(charges.iter().all(|charge| charge.at() > its.at()));
    });
}

#[test]
fn plain_threads_share_one() {
    static LIMITER: RateLimiter = RateLimiter::new(FAST);
    let limiter = begun(&LIMITER);
    let charges = ends(|| {
        let waits = || {
            (0..5)
                .map(|_| limiter.acquire().wait().unwrap())
                .collect::<Vec<Charge>>()
        };
        let threads = [(); 4].map(|()| thread::spawn(waits));
        let each = threads.map(|thread| thread.join().unwrap());
        // For each thread its own charges are in order.
        for charges in &each {
            assert!(charges.is_sorted_by_key(Charge::at));
        }
        each.into_iter().flatten().collect::<Vec<_>>()
    });
    assert_eq!(charges.len(), 20);
    assert_apart(charges, millis(1));
}

#[test]
fn an_executor_without_a_timer_is_woken() {
    let charges = ends(|| {
        let limiter = Arc::new(RateLimiter::new(FAST).clock(Clock::system()));
        let done = Arc::new(Mutex::new(block_on(acquire_times(&limiter, 3))));
        let mut pool = LocalPool::new();
        for _ in 0..3 {
            let (limiter, done) = (Arc::clone(&limiter), Arc::clone(&done));
            let task = async move {
                let charges = acquire_times(&limiter, 3).await;
                done.lock().unwrap().extend(charges);
            };
            pool.spawner().spawn_local(task).unwrap();
        }
        pool.run();
        std::mem::take(&mut *done.lock().unwrap())
    });
    assert_eq!(charges.len(), 12);
    assert_apart(charges, millis(1));
}

#[test]
fn a_runtime_whose_time_is_paused_does_not_concern_it() {
    ends(|| {
        paused_runtime().block_on(async {
            let limiter = RateLimiter::new(FAST).clock(Clock::system());
            let begun = tokio::time::Instant::now();
            assert_apart(acquire_times(&limiter, 4).await, millis(1));
            assert_eq!(begun.elapsed(), Duration::ZERO);
            let slow = RateLimiter::new(NEVER).clock(Clock::system());
            slow.try_acquire().unwrap();
            tokio::time::advance(86_400 * SECOND).await;
            assert_eq!(kind(slow.try_acquire()), ErrorKind::RateLimited);
        });
    });
}

#[test]
fn a_waker_that_panics_ends_no_timer() {
    ends(|| {
        for waker in [panics_when_woken(), throws_a_bomb_when_woken()] {
            let limiter = RateLimiter::new(NEVER).clock(Clock::system());
            let other = RateLimiter::new(FAST).clock(Clock::system());
            limiter.try_acquire().unwrap();
            let mut bad = Waiter::new(limiter.acquire());
            assert!(bad.poll_with(&waker).is_pending());
            // In line before it is due, however slow the machine is.
            limiter.set_quota(FAST);
            limiter.acquire().wait().unwrap();
            let charges = (0..3).map(|_| other.acquire().wait().unwrap()).collect();
            assert_apart(charges, millis(1));
            bad.granted();
        }
    });
}

/// A timeout is an alarm of its own.
#[test]
fn a_waker_of_a_timeout_that_panics_ends_no_timer() {
    ends(|| {
        let limiter = RateLimiter::new(NEVER).clock(Clock::system());
        limiter.try_acquire().unwrap();
        // It would fit, so it waits, until somebody takes all there is for a long time.
        let mut bad = Waiter::new(limiter.acquire().timeout(2 * 86_400 * SECOND));
        assert!(bad.poll_with(&panics_when_woken()).is_pending());
        limiter.set_quota(FAST);
        // Behind it, so woken by the alarm after the one that panicked.
        limiter.acquire().wait().unwrap();
        bad.granted();
        limiter.acquire().wait().unwrap();
    });
}

#[test]
fn a_timeout_of_a_blocked_thread_ends() {
    ends(|| {
        let limiter = RateLimiter::new(NEVER).clock(Clock::system());
        limiter.try_acquire().unwrap();
        let refused = limiter.acquire().timeout(SECOND).wait();
        assert_eq!(kind(refused), ErrorKind::TimedOut);
        // It would fit when it begins, and then somebody else takes it all.
        let limiter = Arc::new(RateLimiter::new(Quota::per_second(20)).clock(Clock::system()));
        limiter.try_acquire().unwrap();
        let wait = Arc::clone(&limiter).acquire_owned();
        let waiting = thread::spawn(move || wait.timeout(millis(50)).wait());
        while limiter.waiting() == 0 && !waiting.is_finished() {
            thread::yield_now();
        }
        limiter.charge(86_400 * 20);
        // Unless the machine stood still before.
        match waiting.join().unwrap() {
            Ok(charge) => assert_eq!(charge.cost(), 1),
            Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut),
        }
    });
}

/// By so much two threads may disagree.
const MICROSECOND: Duration = Duration::from_micros(1);

#[test]
fn from_one_thread_to_another_it_goes_back_by_a_microsecond_at_most() {
    let latest = Mutex::new(Tick::default());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let clock = Clock::system();
                for _ in 0..20_000 {
                    let mut latest = latest.lock().unwrap();
                    let now = clock.now();
                    let back = latest.saturating_since(now);
                    assert!(back <= MICROSECOND, "{now:?} after {latest:?}");
                    *latest = now.max(*latest);
                }
            });
        }
    });
    assert!(*latest.lock().unwrap() > Tick::default());
}

#[test]
fn all_of_the_process_have_the_same_time() {
    let before = Clock::system().now();
    let limiter = RateLimiter::new(FAST).clock(Clock::system());
    let at = thread::spawn(move || limiter.try_acquire().unwrap().at())
        .join()
        .unwrap();
    let after = Clock::system().now();
    assert!(before.saturating_since(at) <= MICROSECOND);
    assert!(at.saturating_since(after) <= MICROSECOND);
}

/// In a process whose threads would need more memory than there are addresses.
#[cfg(target_os = "linux")]
#[test]
fn a_timer_thread_that_cannot_be_started_is_reported_to_each_caller() {
    const NAME: &str =
        "clocks::system::a_timer_thread_that_cannot_be_started_is_reported_to_each_caller";
    const CHILD: &str = "TOLLGATE_WITHOUT_THREADS";
    if env::var_os(CHILD).is_some() {
        return without_threads();
    }
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", NAME, "--test-threads=1"]);
    child
        .env(CHILD, "1")
        .env("RUST_MIN_STACK", (1_u64 << 47).to_string());
    let output = child.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[cfg(target_os = "linux")]
fn without_threads() {
    let limiter = RateLimiter::new(NEVER).clock(Clock::system());
    limiter.try_acquire().unwrap();
    for _ in 0..3 {
        let waits = catch_unwind(AssertUnwindSafe(|| limiter.acquire().wait()));
        let payload = waits.unwrap_err();
        let message = payload.downcast_ref::<String>().unwrap();
        assert!(
            message.starts_with("cannot start the timer thread"),
            "{message}"
        );
        assert_eq!(limiter.waiting(), 0);
        assert_eq!(kind(limiter.try_acquire()), ErrorKind::RateLimited);
    }
}
