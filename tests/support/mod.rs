//! Shared helpers of the tests: manually polled futures, with wakers that count.
//!
//! Nothing here depends on the inside of a throttle; it only polls, drops and counts.

#![allow(
    dead_code,
    reason = "every test file is a crate of its own and uses a part"
)]

pub(crate) mod audit;
pub(crate) mod foreign;
pub(crate) mod random;
pub(crate) mod reference;
pub(crate) mod scenarios;
pub(crate) mod scripted;

use std::cell::Cell;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use tollgate::{AcquireError, ErrorKind, Semaphore};

/// Returns a runtime on this thread, whose time stands still until every task waits for it.
pub(crate) fn paused_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
}

/// Returns the result of a function; fails instead of hanging if it does not end.
///
/// It ends in milliseconds. The time limit only decides when the test fails.
pub(crate) fn ends<R: Send + 'static>(run: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, ended) = channel();
    let thread = thread::spawn(move || sender.send(run()));
    match ended.recv_timeout(Duration::from_secs(60)) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => panic!("it has not ended in a minute: a wake was lost"),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(payload) => std::panic::resume_unwind(payload),
            Ok(_) => unreachable!("it ended without saying so"),
        },
    }
}

thread_local! {
    static FIRST: RunsAtTheEnd = const { RunsAtTheEnd(Cell::new(None)) };
    static LAST: RunsAtTheEnd = const { RunsAtTheEnd(Cell::new(None)) };
}

/// Runs in the destructor of a thread-local.
struct RunsAtTheEnd(Cell<Option<Box<dyn FnOnce()>>>);

impl Drop for RunsAtTheEnd {
    fn drop(&mut self) {
        if let Some(run) = self.0.take() {
            run();
        }
    }
}

/// Calls `run` on a thread, and again in two destructors when that thread ends; returns the three results. A
/// panic in a destructor aborts the process.
///
/// Destructors run in an order of the platform's choice. The thread-locals that `run` uses are initialized
/// between the two, so their destructors come before one of the two in either order.
pub(crate) fn in_destructors<R: Send + 'static>(
    run: impl Fn() -> R + Send + 'static,
) -> impl Iterator<Item = R> {
    let (sender, results) = channel();
    thread::spawn(move || {
        let send = Rc::new(move || sender.send(run()).expect("somebody receives it"));
        let at_the_end = |it: &RunsAtTheEnd| {
            let send = Rc::clone(&send);
            it.0.set(Some(Box::new(move || send())));
        };
        FIRST.with(at_the_end);
        send();
        LAST.with(at_the_end);
    });
    results.into_iter()
}

/// A counter of wakes.
#[derive(Default)]
pub(crate) struct Counter(AtomicUsize);

impl Counter {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A manually polled future, and its number of wakes.
pub(crate) struct Waiter<F> {
    future: Pin<Box<F>>,
    counter: Arc<Counter>,
}

impl<F: Future> Waiter<F> {
    /// Creates one that has not been polled yet.
    pub(crate) fn new(future: F) -> Self {
        Self {
            future: Box::pin(future),
            counter: Arc::default(),
        }
    }

    /// Creates one, and polls it once; it must wait.
    #[track_caller]
    pub(crate) fn parked(future: F) -> Self {
        let mut waiter = Self::new(future);
        assert!(waiter.poll().is_pending(), "it did not have to wait");
        waiter
    }

    /// Does the same with another waker.
    #[track_caller]
    pub(crate) fn parked_with(future: F, waker: &Waker) -> Self {
        let mut waiter = Self::new(future);
        assert!(
            waiter.poll_with(waker).is_pending(),
            "it did not have to wait"
        );
        waiter
    }

    pub(crate) fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.counter));
        self.poll_with(&waker)
    }

    /// Polls with another waker.
    pub(crate) fn poll_with(&mut self, waker: &Waker) -> Poll<F::Output> {
        self.future.as_mut().poll(&mut Context::from_waker(waker))
    }

    /// Polls with a waker that also calls back when it is woken and when its last clone is dropped.
    pub(crate) fn poll_calling(
        &mut self,
        callback: impl Fn() + Clone + Send + Sync + 'static,
    ) -> Poll<F::Output> {
        let (counter, woken) = (Arc::clone(&self.counter), callback.clone());
        let wake = move || {
            counter.wake_by_ref();
            woken();
        };
        self.poll_with(&foreign::calls(wake, callback))
    }

    pub(crate) fn is_pending(&mut self) -> bool {
        self.poll().is_pending()
    }

    /// Returns the output; the future must be ready.
    #[track_caller]
    pub(crate) fn output(&mut self) -> F::Output {
        match self.poll() {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("still waiting"),
        }
    }

    /// Returns the number of wakes.
    pub(crate) fn wakes(&self) -> usize {
        self.counter.count()
    }

    /// Returns the bare future, for `mem::forget`.
    pub(crate) fn into_future(self) -> Pin<Box<F>> {
        self.future
    }
}

impl<T: Debug, F: Future<Output = Result<T, AcquireError>>> Waiter<F> {
    /// Returns the permit; the wait must have been granted.
    #[track_caller]
    pub(crate) fn granted(&mut self) -> T {
        match self.output() {
            Ok(permit) => permit,
            Err(error) => panic!("refused: {error}"),
        }
    }

    /// Returns the reason of the refusal; the wait must have been refused.
    #[track_caller]
    pub(crate) fn refused(&mut self) -> ErrorKind {
        kind(self.output())
    }
}

/// Polls once, with a waker that does nothing.
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Returns the reason of a refusal; the result must be one.
#[track_caller]
pub(crate) fn kind<T: Debug>(result: Result<T, AcquireError>) -> ErrorKind {
    result.expect_err("it was let in").kind()
}

/// Asserts that everything has come back, that there are no waiters, and that the whole limit is
/// available.
#[track_caller]
pub(crate) fn assert_at_rest(semaphore: &Semaphore, permits: usize) {
    assert_eq!(semaphore.permits(), permits);
    assert_eq!(semaphore.available_permits(), permits);
    assert_eq!(semaphore.snapshot().waiting, 0);
    if !semaphore.is_closed() {
        let all = permits as u64;
        drop(semaphore.try_acquire_many(all).expect("the line is open"));
    }
    assert!(poll_once(&mut semaphore.wait_idle()).is_ready());
}

/// Yields to other tasks, on any executor.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The settings of property tests.
pub(crate) mod cases {
    use proptest::prelude::ProptestConfig;

    /// Returns settings with this many random cases, or with those of the environment variable
    /// `PROPTEST_CASES`, if it is set. A failing case writes no file: the message contains it.
    pub(crate) fn cases(cases: u32) -> ProptestConfig {
        ProptestConfig {
            cases,
            failure_persistence: None,
            // The number that the variable may set.
            max_global_rejects: u32::MAX,
            max_local_rejects: u32::MAX,
            ..ProptestConfig::default()
        }
    }
}
