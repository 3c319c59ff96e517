//! Waits under a timeout or a token: on the clock of a limiter, which knows beforehand whether a wait will
//! fit, on tokio's paused time, and without any runtime. Sequences of calls are rows of `model/scenarios.rs`.

use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

#[cfg(feature = "tokio")]
use futures::FutureExt;
use futures::TryFutureExt;
use futures::executor::block_on;
use futures::future::join_all;
use tollgate::rate::Charge;
use tollgate::throttle::BoxThrottle;
use tollgate::time::ManualClock;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Clock, ErrorKind, LeakyBucket, Quota, RateLimiter, Semaphore, all};

#[cfg(feature = "tokio")]
use crate::support::Counter;
use crate::support::foreign::calls_when_dropped;
use crate::support::{Waiter, assert_at_rest, kind, poll_once};

const SECOND: Duration = Duration::from_secs(1);
const NANOSECOND: Duration = Duration::from_nanos(1);
const SHORT: Duration = Duration::from_millis(3);
const LONG: Duration = Duration::from_secs(3600);

/// The futures' executor drives no timer: the process's timer must wake it.
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

/// A waker that owns another timed wait, like a task: dropping the one drops the other, which locks
/// the timer again.
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
    // Cancelled.
    drop(waiter);
    // Fired.
    let mut waiter = Waiter::new(SEMAPHORE.acquire().timeout(SHORT));
    assert!(waiter.poll_with(&nested()).is_pending());
    let result = block_on(SEMAPHORE.acquire().timeout(SHORT * 2));
    assert_eq!(kind(result), ErrorKind::TimedOut);
    assert_eq!(waiter.refused(), ErrorKind::TimedOut);
    assert_at_rest(&SEMAPHORE, 0);
}

/// Inside a runtime the clock is tokio's, so the tests are exact.
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

/// Runtimes that have no timer, that the wait blocks, or that end.
#[cfg(feature = "tokio")]
mod runtimes {
    use std::task::{Context, Waker};
    use std::time::Duration;

    use tokio::runtime::{Builder, Runtime};
    use tollgate::wait::Waiting;
    use tollgate::{ErrorKind, Semaphore};

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

/// Also while the wait is kept after it has ended.
#[cfg(feature = "tokio")]
#[test]
fn a_wait_with_a_token_or_a_timeout_wakes_the_waker_that_polled_last_and_keeps_none() {
    for by_token in [true, false] {
        let (semaphore, counter) = (Semaphore::new(1), Arc::new(Counter::default()));
        let (token, held) = (token(), semaphore.try_acquire().unwrap());
        let wait = || {
            let wait = semaphore.acquire();
            if by_token {
                wait.cancel_on(&token).boxed_local()
            } else {
                wait.timeout(LONG).boxed_local()
            }
        };
        let waker = Waker::from(Arc::clone(&counter));
        let (mut waiter, mut dropped) = (Waiter::parked(wait()), Waiter::new(wait()));
        assert!(waiter.poll_with(&waker).is_pending() && dropped.poll_with(&waker).is_pending());
        drop((dropped, waker));
        if by_token {
            token.cancel();
            assert_eq!(waiter.refused(), ErrorKind::Cancelled);
        } else {
            drop(held);
            drop(waiter.granted());
        }
        assert_eq!((waiter.wakes(), counter.count()), (0, 1));
        assert_eq!(Arc::strong_count(&counter), 1);
    }
}

/// Returns a limiter of one a second, with one owed.
fn owed(clock: &ManualClock) -> Arc<RateLimiter> {
    let limiter = Arc::new(RateLimiter::new(Quota::per_second(1)).clock(clock));
    limiter.try_acquire().unwrap();
    limiter
}

/// Prolongs a wait that would fit, so that only its timeout can end it, after a second.
#[track_caller]
fn ends_by_its_clock<F, T>(wait: impl FnOnce(Arc<RateLimiter>) -> F)
where
    F: Future<Output = Result<T, AcquireError>>,
    T: Debug,
{
    let clock = Clock::manual();
    let limiter = owed(&clock);
    let mut waiter = Waiter::parked(wait(Arc::clone(&limiter)));
    limiter.charge(5);
    clock.advance(SECOND - NANOSECOND);
    assert!(waiter.is_pending());
    assert_eq!((waiter.wakes(), limiter.snapshot().waiting), (0, 1));
    clock.advance(NANOSECOND);
    assert_eq!(waiter.wakes(), 1);
    assert_eq!(waiter.refused(), ErrorKind::TimedOut);
    assert_eq!(limiter.snapshot().waiting, 0);
    // The wait was charged nothing: the debt is the earlier one.
    assert_eq!(
        limiter.try_acquire().unwrap_err().retry_after(),
        Some(5 * SECOND)
    );
}

type Wait = Pin<Box<dyn Future<Output = Result<(), AcquireError>>>>;

/// A wait for a limiter with a timeout, beside a free semaphore.
type Way = fn(Arc<RateLimiter>, &Arc<Semaphore>, Duration) -> Wait;

fn boxed<T: 'static>(wait: impl Future<Output = Result<T, AcquireError>> + 'static) -> Wait {
    Box::pin(wait.map_ok(drop))
}

const WAYS: &[Way] = &[
    |limiter, _, time| boxed(limiter.acquire_owned().timeout(time)),
    |limiter, _, time| boxed(limiter.acquire_owned().timeout(time).timeout(9 * SECOND)),
    |limiter, _, time| boxed(limiter.acquire_owned().timeout(9 * SECOND).timeout(time)),
    |limiter, _, time| boxed(limiter.reserve().unwrap().timeout(time)),
    |limiter, _, time| boxed(BoxThrottle::new(limiter).acquire().timeout(time)),
    |limiter, _, time| boxed(limiter.cost_owned(1).acquire().timeout(time)),
    |limiter, slot, time| boxed(all((slot.clone(), limiter)).acquire().timeout(time)),
    |limiter, slot, time| {
        let inner = BoxThrottle::new(all((slot.clone(), limiter)));
        let outer = all((inner, Some(slot.clone())));
        boxed(outer.acquire().timeout(time))
    },
    |limiter, _, time| {
        let wait = async move { limiter.acquire().into_inner().await };
        boxed(Waiting::new(wait).timeout(time))
    },
    #[cfg(feature = "tokio")]
    |limiter, _, time| boxed(limiter.acquire_owned().cancel_on(token()).timeout(time)),
    #[cfg(feature = "tokio")]
    |limiter, _, time| boxed(limiter.acquire_owned().timeout(time).cancel_on(token())),
    #[cfg(feature = "tokio")]
    |limiter, _, time| {
        let inside = limiter.acquire_owned().cancel_on(token()).timeout(time);
        boxed(inside.cancel_on(token()).timeout(9 * SECOND))
    },
];

#[cfg(feature = "tokio")]
fn token() -> tokio_util::sync::CancellationToken {
    tokio_util::sync::CancellationToken::new()
}

#[test]
fn timeout_ends_by_the_clock_of_the_limiter_or_at_once_whatever_is_in_between() {
    let slot = Arc::new(Semaphore::new(1));
    for way in WAYS {
        ends_by_its_clock(|limiter| way(limiter, &slot, SECOND));
        for too_short in [SECOND - NANOSECOND, Duration::ZERO] {
            is_refused_at_once(|limiter| way(limiter, &slot, too_short));
        }
    }
    // It has its place already when the timeout is added.
    ends_by_its_clock(|limiter| {
        let mut wait = limiter.acquire_owned();
        assert!(poll_once(&mut wait).is_pending());
        wait.timeout(SECOND)
    });
    assert_eq!(slot.available_permits(), 1);
}

/// Asserts a refusal at the first poll, without a trace.
#[track_caller]
fn is_refused_at_once<F, T>(wait: impl FnOnce(Arc<RateLimiter>) -> F)
where
    F: Future<Output = Result<T, AcquireError>>,
    T: Debug,
{
    let clock = Clock::manual();
    let limiter = owed(&clock);
    let mut waiter = Waiter::new(wait(Arc::clone(&limiter)));
    assert_eq!(waiter.refused(), ErrorKind::TimedOut);
    assert_eq!((limiter.snapshot().waiting, waiter.wakes()), (0, 0));
    assert_eq!(limiter.peek().retry_after, Some(SECOND));
    clock.advance(SECOND);
    limiter.try_acquire().unwrap();
}

#[test]
fn a_refusal_at_once_says_how_long_the_wait_would_have_been() {
    let clock = Clock::manual();
    let limiter = owed(&clock);
    let _waiting = Waiter::parked(limiter.acquire());
    let refused = limiter.acquire().timeout(SECOND).wait().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TimedOut);
    assert_eq!(refused.retry_after(), Some(2 * SECOND));
    assert_eq!(
        refused.to_string(),
        "the wait would be longer than the timeout: 2s"
    );
    // A wait that has waited knows nothing more.
    let mut waiter = Waiter::parked(limiter.acquire().timeout(3 * SECOND));
    limiter.charge(5);
    clock.advance(3 * SECOND);
    let refused = waiter.output().unwrap_err();
    assert_eq!(refused.retry_after(), None);
    assert_eq!(refused.to_string(), "timed out while waiting");
}

#[test]
fn a_leaky_bucket_refuses_what_will_not_fit() {
    let clock = Clock::manual();
    let bucket = LeakyBucket::new(Quota::per_second(1), 5).clock(&clock);
    let _first = Waiter::new(bucket.acquire()).granted();
    let less = bucket.acquire().timeout(SECOND - NANOSECOND);
    assert_eq!(Waiter::new(less).refused(), ErrorKind::TimedOut);
    let mut fits = Waiter::parked(bucket.acquire().timeout(SECOND));
    clock.advance(SECOND);
    fits.granted();
}

#[test]
fn why_it_can_never_be_comes_before_when() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(1))
        .clock(&clock)
        .max_waiters(0);
    limiter.try_acquire().unwrap();
    let wait = |n| Waiter::new(limiter.acquire_many(n).timeout(Duration::ZERO)).refused();
    assert_eq!(wait(2), ErrorKind::ExceedsCapacity);
    assert_eq!(wait(1), ErrorKind::QueueFull);
    limiter.close();
    assert_eq!(wait(1), ErrorKind::Closed);
}

type Output = Result<Charge, AcquireError>;

/// An executor that polls where it is woken.
struct Inline {
    future: Mutex<Option<Pin<Box<dyn Future<Output = Output> + Send>>>>,
    output: Mutex<Option<Output>>,
}

impl Inline {
    fn spawn(future: impl Future<Output = Output> + Send + 'static) -> Arc<Self> {
        let inline = Arc::new(Self {
            future: Mutex::new(Some(Box::pin(future))),
            output: Mutex::default(),
        });
        Arc::clone(&inline).wake();
        inline
    }
}

impl Wake for Inline {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        // These tests have no wake during the poll.
        let Ok(mut future) = self.future.try_lock() else {
            return;
        };
        let polled = future
            .as_mut()
            .map(|future| future.as_mut().poll(&mut Context::from_waker(&waker)));
        if let Some(Poll::Ready(output)) = polled {
            *future = None;
            *self.output.lock().unwrap() = Some(output);
        }
    }
}

/// The timeout of a waiter behind the head is set before the alarm of the limiter is, for the same
/// tick.
#[test]
fn what_fits_exactly_is_granted_wherever_it_is_polled() {
    let clock = Clock::manual();
    let limiter = owed(&clock);
    let tasks = [1, 2, 3].map(|number| {
        Inline::spawn(
            Arc::clone(&limiter)
                .acquire_owned()
                .timeout(number * SECOND),
        )
    });
    clock.advance(5 * SECOND);
    for (task, number) in tasks.iter().zip(1..) {
        let output = task.output.lock().unwrap().take();
        let charge = output.expect("it is over").expect("it fits");
        assert_eq!(charge.at().as_nanos(), number * 1_000_000_000);
    }
}

#[cfg(feature = "tokio")]
#[tokio::test(start_paused = true)]
async fn what_fits_exactly_is_granted_on_the_time_of_tokio() {
    let limiter = Arc::new(RateLimiter::new(Quota::per_second(1)).clock(Clock::tokio()));
    let begun = tokio::time::Instant::now();
    limiter.try_acquire().unwrap();
    let less = limiter
        .acquire()
        .timeout(SECOND - Duration::from_millis(1))
        .await;
    assert_eq!(kind(less), ErrorKind::TimedOut);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    let tasks = [1, 2, 3].map(|number| {
        let wait = Arc::clone(&limiter)
            .acquire_owned()
            .timeout(number * SECOND);
        tokio::spawn(async move { wait.await.map(|_| begun.elapsed()) })
    });
    for (task, number) in tasks.into_iter().zip(1..) {
        assert_eq!(task.await.unwrap(), Ok(number * SECOND));
    }
}

#[cfg(feature = "tokio")]
#[tokio::test(start_paused = true)]
async fn a_timeout_of_a_limiter_on_the_time_of_tokio_is_exact() {
    let limiter = RateLimiter::new(Quota::per_second(1)).clock(Clock::tokio());
    limiter.try_acquire().unwrap();
    let begun = tokio::time::Instant::now();
    let delays = async { limiter.charge(5) };
    let (refused, _) = tokio::join!(limiter.acquire().timeout(SECOND), delays);
    assert_eq!(kind(refused), ErrorKind::TimedOut);
    assert_eq!(begun.elapsed(), SECOND);
}

/// Waits for an hour on another limiter: a shorter timeout would refuse it.
#[track_caller]
fn an_unrelated_limiter_lets_wait(clock: &ManualClock) {
    let limiter = RateLimiter::new(Quota::per_hour(1)).clock(clock);
    limiter.try_acquire().unwrap();
    let mut waiter = Waiter::parked(limiter.acquire());
    clock.advance(3600 * SECOND);
    waiter.granted();
}

#[test]
fn the_timeout_of_one_wait_does_not_limit_another() {
    let clock = Clock::manual();
    let limiter = owed(&clock);
    for (duration, kept) in [(SECOND, true), (SECOND, false), (NANOSECOND, false)] {
        let mut waiter = Waiter::new(limiter.acquire().timeout(duration).timeout(2 * duration));
        let _ = waiter.poll();
        let waiter = kept.then_some(waiter);
        an_unrelated_limiter_lets_wait(&clock);
        drop(waiter);
        limiter.charge(1);
    }
}

#[test]
fn a_poll_that_panics_leaves_no_timeout_behind() {
    let clock = Clock::manual();
    let panics = poll_fn(|_| -> Poll<()> { panic!("on purpose") });
    let mut waiter = Waiter::new(Waiting::new(panics).timeout(NANOSECOND).timeout(SECOND));
    assert!(catch_unwind(AssertUnwindSafe(|| waiter.poll())).is_err());
    drop(waiter);
    an_unrelated_limiter_lets_wait(&clock);
}

/// Its timeout is independent of any limiter's time.
#[track_caller]
fn a_semaphore_does_not_wait_by(clock: &ManualClock) {
    let semaphore = Semaphore::new(0);
    // In system time, in which the hour is not over yet.
    let mut waiter = Waiter::parked(semaphore.acquire().timeout(3600 * SECOND));
    clock.advance(7200 * SECOND);
    assert_eq!(waiter.wakes(), 0);
    assert!(waiter.is_pending());
}

/// This includes `select`, where another branch is ready at the same poll, or panics.
#[test]
fn a_semaphore_after_a_limiter_does_not_wait_by_its_clock() {
    let clock = Clock::manual();
    let limiter = owed(&clock);
    let once = Waiter::parked(limiter.acquire().timeout(SECOND));
    a_semaphore_does_not_wait_by(&clock);
    drop(once);
    for panics in [false, true] {
        let limiter = owed(&clock);
        let twice = Waiter::parked(limiter.acquire().timeout(SECOND).timeout(SECOND));
        a_semaphore_does_not_wait_by(&clock);
        drop(twice);
        let limiter = owed(&clock);
        let mut loses = limiter.acquire().into_inner();
        let wins = poll_fn(|context| {
            assert!(Pin::new(&mut loses).poll(context).is_pending());
            assert!(!panics, "on purpose");
            Poll::Ready(())
        });
        let mut waiter = Waiter::new(Waiting::new(wins).timeout(SECOND));
        let over = catch_unwind(AssertUnwindSafe(|| waiter.granted()));
        assert_eq!(over.is_err(), panics);
        drop(waiter);
        a_semaphore_does_not_wait_by(&clock);
    }
}

/// Calls [`an_unrelated_limiter_lets_wait`] when it is woken.
struct WaitsWhenWoken(ManualClock);

impl Wake for WaitsWhenWoken {
    fn wake(self: Arc<Self>) {
        an_unrelated_limiter_lets_wait(&self.0);
    }
}

/// A waker, a closure and another future run inside the poll of a wait with a timeout; the waits that
/// they make are independent of it.
#[test]
fn a_wait_made_inside_a_poll_with_a_timeout_is_not_refused_by_it() {
    let clock = Clock::manual();
    let inside = |run: &dyn Fn()| {
        let wait = poll_fn(|_| {
            assert_eq!(
                tollgate::wait::Waiting::remaining_timeout(),
                Some(NANOSECOND)
            );
            run();
            assert_eq!(
                tollgate::wait::Waiting::remaining_timeout(),
                Some(NANOSECOND)
            );
            Poll::Ready(())
        });
        let wait = Waiting::new(wait).timeout(NANOSECOND).timeout(SECOND);
        Waiter::new(wait).granted();
    };
    inside(&|| an_unrelated_limiter_lets_wait(&clock));
    inside(&|| Waker::from(Arc::new(WaitsWhenWoken(clock.clone()))).wake());
    inside(&|| {
        let limiter = owed(&clock);
        let reservation = limiter.reserve().unwrap();
        assert_eq!(reservation.delay(), SECOND);
        assert!(poll_once(&mut Box::pin(reservation)).is_pending());
    });
    // The poll that cancels the wait before it calls a semaphore's waker.
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut woken = Box::pin(semaphore.acquire());
    let waker = Waker::from(Arc::new(WaitsWhenWoken(clock.clone())));
    assert!(
        woken
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    let held = Mutex::new(Some(held));
    inside(&|| drop(held.lock().unwrap().take()));
}
