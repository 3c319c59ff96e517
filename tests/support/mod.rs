//! What the test files share: futures that are polled by hand, with wakers that count.
//!
//! Nothing here knows how a throttle works; it only polls, drops and counts.

#![allow(
    dead_code,
    reason = "every test file is a crate of its own and uses a part"
)]

pub(crate) mod audit;
pub(crate) mod foreign;
pub(crate) mod random;
pub(crate) mod scenarios;
pub(crate) mod scripted;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use tollgate::adaptive::{Controller, SampleWindow, Target};
use tollgate::{AcquireError, ErrorKind, Semaphore};

/// A runtime on this thread, whose time stands still until everybody waits for it.
pub(crate) fn paused_runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
}

/// What this comes to; it fails instead of hanging if it does not end.
///
/// It ends in milliseconds. How long it may take decides only when the test fails.
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

/// A controller whose limit stays, in windows of one call.
pub(crate) struct Fixed(pub(crate) f64);

impl Controller for Fixed {
    fn initial(&self) -> Target {
        let (limit, samples) = (self.0, 1);
        Target { limit, samples }
    }

    fn update(&mut self, _: &SampleWindow) -> Target {
        self.initial()
    }
}

/// Counts how often it was woken.
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

/// A future that is polled by hand, and how often it was woken.
pub(crate) struct Waiter<F> {
    future: Pin<Box<F>>,
    counter: Arc<Counter>,
}

impl<F: Future> Waiter<F> {
    /// Not polled yet.
    pub(crate) fn new(future: F) -> Self {
        Self {
            future: Box::pin(future),
            counter: Arc::default(),
        }
    }

    /// Polled once, and waiting.
    #[track_caller]
    pub(crate) fn parked(future: F) -> Self {
        let mut waiter = Self::new(future);
        assert!(waiter.poll().is_pending(), "it did not have to wait");
        waiter
    }

    /// The same with a waker that is not its own.
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

    /// Polls with a waker that is not its own.
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

    /// What it came to; it must be ready.
    #[track_caller]
    pub(crate) fn output(&mut self) -> F::Output {
        match self.poll() {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("still waiting"),
        }
    }

    /// How often it was woken.
    pub(crate) fn wakes(&self) -> usize {
        self.counter.count()
    }

    /// Its future, as it is; what `mem::forget` needs.
    pub(crate) fn into_future(self) -> Pin<Box<F>> {
        self.future
    }
}

impl<T: Debug, F: Future<Output = Result<T, AcquireError>>> Waiter<F> {
    /// What it was given; it must have been let in.
    #[track_caller]
    pub(crate) fn granted(&mut self) -> T {
        match self.output() {
            Ok(permit) => permit,
            Err(error) => panic!("refused: {error}"),
        }
    }

    /// Why it was refused; it must have been.
    #[track_caller]
    pub(crate) fn refused(&mut self) -> ErrorKind {
        kind(self.output())
    }
}

/// Polls once, with a waker that does nothing.
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Why it was refused; it must have been.
#[track_caller]
pub(crate) fn kind<T: Debug>(result: Result<T, AcquireError>) -> ErrorKind {
    result.expect_err("it was let in").kind()
}

/// Everything has come back, nobody waits, and the whole limit can be had.
#[track_caller]
pub(crate) fn assert_at_rest(semaphore: &Semaphore, permits: usize) {
    assert_eq!(semaphore.permits(), permits);
    assert_eq!(semaphore.available_permits(), permits);
    assert_eq!(semaphore.snapshot().waiting, 0);
    if !semaphore.is_closed() {
        let all = u32::try_from(permits).expect("small in tests");
        drop(semaphore.try_acquire_many(all).expect("the line is open"));
    }
    assert!(poll_once(&mut semaphore.wait_idle()).is_ready());
}

/// Lets others run, whatever the executor.
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

/// How a property is tried.
pub(crate) mod cases {
    use proptest::prelude::ProptestConfig;

    /// With so many random cases; the environment variable `PROPTEST_CASES` is heeded instead, if it is
    /// set. Writes no file when a case fails: the case is in the message.
    pub(crate) fn cases(cases: u32) -> ProptestConfig {
        ProptestConfig {
            cases,
            failure_persistence: None,
            // As many as the variable may ask for.
            max_global_rejects: u32::MAX,
            max_local_rejects: u32::MAX,
            ..ProptestConfig::default()
        }
    }
}
