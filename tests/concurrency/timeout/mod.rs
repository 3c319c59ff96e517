//! Waits that a timeout or a token ends: on tokio's paused time, and without any runtime. Sequences of calls are
//! rows of `model/scenarios.rs`.

use std::time::{Duration, Instant};

use futures::executor::block_on;
use futures::future::join_all;
use tollgate::{ErrorKind, Semaphore};

use crate::support::foreign::calls_when_dropped;
use crate::support::{Waiter, assert_at_rest, kind};

mod limiters;

const SHORT: Duration = Duration::from_millis(3);
const LONG: Duration = Duration::from_secs(3600);

/// The futures' executor drives no timer: that of the process must wake it.
#[test]
fn without_a_runtime_tasks_and_threads_are_woken_by_the_timer_of_the_process() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let waits: [&dyn Fn() -> ErrorKind; 5] = [
        &|| kind(block_on(semaphore.acquire().timeout(SHORT))),
        &|| kind(semaphore.acquire().timeout(SHORT).wait()),
        &|| kind(block_on(semaphore.wait_idle().timeout(SHORT))),
        &|| kind(semaphore.wait_idle().timeout(SHORT).wait()),
        // Many at once.
        &|| {
            let all = (0..200).map(|_| semaphore.acquire().timeout(SHORT));
            let refused = block_on(join_all(all)).into_iter().map(kind);
            let kinds: Vec<_> = refused.collect();
            assert_eq!(kinds, [ErrorKind::TimedOut; 200]);
            kinds[0]
        },
    ];
    for wait in waits {
        let begun = Instant::now();
        assert_eq!(wait(), ErrorKind::TimedOut);
        assert!(begun.elapsed() >= SHORT, "it was early");
    }
    drop(held);
    assert_at_rest(&semaphore, 1);
}

/// A waker that owns another timed wait, as a task does: dropping the one drops the other, which
/// locks the timer again.
#[test]
fn the_timer_drops_wakers_outside_of_its_lock() {
    static SEMAPHORE: Semaphore = Semaphore::new(0);
    let nested = || {
        let inner = std::sync::Mutex::new(Some(Waiter::parked(SEMAPHORE.acquire().timeout(LONG))));
        calls_when_dropped(move || drop(inner.lock().unwrap().take()))
    };
    // Displaced by another waker.
    let mut waiter = Waiter::new(SEMAPHORE.acquire().timeout(LONG));
    assert!(waiter.poll_with(&nested()).is_pending());
    assert!(waiter.poll_with(&nested()).is_pending());
    // Taken back.
    drop(waiter);
    // Gone off.
    let mut waiter = Waiter::new(SEMAPHORE.acquire().timeout(SHORT));
    assert!(waiter.poll_with(&nested()).is_pending());
    let result = block_on(SEMAPHORE.acquire().timeout(SHORT * 2));
    assert_eq!(kind(result), ErrorKind::TimedOut);
    assert_eq!(waiter.refused(), ErrorKind::TimedOut);
    assert_at_rest(&SEMAPHORE, 0);
}

/// Inside a runtime it is tokio's time, so what is said of it can be compared exactly.
#[cfg(feature = "tokio")]
mod paused {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::{Instant, sleep};
    use tollgate::{Clock, ErrorKind, Quota, RateLimiter, Semaphore, all};

    use crate::support::{assert_at_rest, kind};

    const SHORT: Duration = Duration::from_millis(250);

    #[tokio::test(start_paused = true)]
    async fn time_runs_from_the_first_poll_that_waits() {
        let semaphore = Semaphore::new(1);
        let held = semaphore.try_acquire().unwrap();
        let wait = semaphore.acquire().timeout(SHORT);
        sleep(4 * SHORT).await;
        let begun = Instant::now();
        assert_eq!(kind(wait.await), ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), SHORT);
        drop(held);
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_part_refuses_what_will_not_fit_into_the_time_left() {
        let semaphore = Arc::new(Semaphore::new(1));
        let limiter = RateLimiter::new(Quota::per_second(1)).clock(Clock::tokio());
        limiter.try_acquire().unwrap();
        let held = Arc::clone(&semaphore).try_acquire_owned().unwrap();
        tokio::spawn(async move {
            sleep(SHORT).await;
            drop(held);
        });
        let begun = Instant::now();
        let both = all((&semaphore, &limiter));
        let refused = both.acquire().timeout(3 * SHORT).await.unwrap_err();
        assert_eq!(begun.elapsed(), SHORT);
        assert_eq!(refused.kind(), ErrorKind::TimedOut);
        assert_eq!(refused.retry_after(), Some(3 * SHORT));
        assert_eq!(refused.part(), Some(1));
        assert_at_rest(&semaphore, 1);
    }
}

/// Runtimes that have no timer, that are blocked by the wait, or that go away.
#[cfg(feature = "tokio")]
mod runtimes {
    use std::task::{Context, Waker};
    use std::time::Duration;

    use tokio::runtime::{Builder, Runtime};
    use tollgate::{ErrorKind, Semaphore, Waiting};

    use crate::support::{Waiter, assert_at_rest, kind};

    const SHORT: Duration = Duration::from_millis(3);
    const LONG: Duration = Duration::from_secs(3600);

    fn with_timer() -> Runtime {
        Builder::new_current_thread().enable_time().build().unwrap()
    }

    fn without_timer() -> Runtime {
        Builder::new_current_thread().build().unwrap()
    }

    #[test]
    fn what_is_ready_needs_no_timer() {
        let semaphore = Semaphore::new(1);
        without_timer().block_on(async {
            drop(semaphore.acquire().timeout(SHORT).await.unwrap());
            semaphore.wait_idle().timeout(SHORT).await.unwrap();
            let refused = semaphore.acquire_many(2).timeout(SHORT).await;
            assert_eq!(kind(refused), ErrorKind::ExceedsCapacity);
            let _held = semaphore.try_acquire().unwrap();
            let refused = semaphore.acquire().timeout(Duration::ZERO).await;
            assert_eq!(kind(refused), ErrorKind::TimedOut);
        });
        assert_at_rest(&semaphore, 1);
    }

    /// A thread that has entered a runtime without driving it may block.
    #[test]
    fn a_blocking_wait_inside_a_runtime_uses_a_timer_that_it_does_not_block() {
        let semaphore = Semaphore::new(1);
        let _held = semaphore.try_acquire().unwrap();
        for runtime in [with_timer(), without_timer()] {
            let _inside = runtime.enter();
            let result = semaphore.acquire().timeout(SHORT).wait();
            assert_eq!(kind(result), ErrorKind::TimedOut);
            let result = semaphore.wait_idle().timeout(SHORT).timeout(LONG).wait();
            assert_eq!(kind(result), ErrorKind::TimedOut);
            let token = tokio_util::sync::CancellationToken::new();
            let result = semaphore.acquire().cancel_on(&token).timeout(SHORT).wait();
            assert_eq!(kind(result), ErrorKind::TimedOut);
            let result = semaphore.acquire().timeout(SHORT).cancel_on(&token).wait();
            assert_eq!(kind(result), ErrorKind::TimedOut);
        }
    }

    #[test]
    fn a_wait_may_move_from_one_live_runtime_to_another() {
        let semaphore = Semaphore::new(1);
        let held = semaphore.try_acquire().unwrap();
        let (first, second) = (with_timer(), with_timer());
        let mut waiter = {
            let _inside = first.enter();
            Waiter::parked(semaphore.acquire().timeout(LONG))
        };
        second.block_on(async {
            assert!(waiter.is_pending());
            drop(held);
            drop(waiter.granted());
        });
        assert_at_rest(&semaphore, 1);
    }

    /// A runtime that no thread drives has a timer that does not advance.
    #[test]
    fn a_wait_that_began_in_a_runtime_times_out_when_its_thread_blocks() {
        let runtime = with_timer();
        let _inside = runtime.enter();
        let semaphore = Semaphore::new(0);
        let mut waiting = Box::pin(semaphore.acquire().timeout(SHORT));
        let mut context = Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        let result = Waiting::new(waiting).timeout(LONG).wait();
        assert_eq!(kind(result), ErrorKind::TimedOut);
        assert_at_rest(&semaphore, 0);
    }
}

/// Cancelling a wait by a token: wakers, tasks and threads. Sequences of calls are rows of
/// `model/scenarios.rs`, and what holds for a wait for any throttle is in `contracts/conformance/endings.rs`.
#[cfg(feature = "tokio")]
mod cancel {
    use std::sync::Arc;
    use std::task::Waker;
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
}
