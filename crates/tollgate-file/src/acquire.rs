//! [`Acquire`], the future of all calls that wait; and the queue of a process, whose head alone tries a file.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tollgate::semaphore::Permit;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Clock, Gate, Semaphore};

/// The future of `acquire` and similar methods.
///
/// It joins the queue of its process at its first poll, on any executor. The head of the queue sleeps on the timer
/// thread of `tollgate` between its tries.
///
/// # Cancel safety
///
/// If it is dropped while it waits, it leaves the queue, and the next waiter of its process becomes the head. It
/// has taken nothing before it is ready.
///
/// # Panics
///
/// Panics if it is polled again after completion.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<P> {
    clock: Clock,
    future: Pin<Box<dyn Future<Output = Result<P, AcquireError>> + Send>>,
}

impl<P> Acquire<P> {
    pub(crate) fn new(
        clock: &Clock,
        future: impl Future<Output = Result<P, AcquireError>> + Send + 'static,
    ) -> Waiting<Self> {
        let (clock, future) = (clock.clone(), Box::pin(future));
        Waiting::new(Self { clock, future })
    }
}

impl<P> Future for Acquire<P> {
    type Output = Result<P, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.future.as_mut().poll(context);
        if polled.is_pending() {
            Waiting::report_clock(&self.clock);
        }
        Poll::Ready(ready!(polled))
    }
}

impl<P> fmt::Debug for Acquire<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").finish_non_exhaustive()
    }
}

/// The waiters of one limit in this process, first-in first-out.
pub(crate) struct Line {
    head: Semaphore,
    pub(crate) clock: Clock,
}

impl Line {
    pub(crate) fn new(clock: Clock) -> Self {
        let head = Semaphore::new(1);
        Self { head, clock }
    }

    /// Waits until the caller is the head, and stays it while it keeps the permit.
    pub(crate) async fn join(&self) -> Result<Permit<&Semaphore>, AcquireError> {
        self.head.acquire().await
    }

    /// Makes the caller the head, unless others wait: another thread is done within microseconds if it does not.
    pub(crate) fn try_join(&self) -> Option<Permit<&Semaphore>> {
        briefly(&self.clock, || Ok(self.head.try_acquire().ok()))
            .unwrap_or_else(|never: Infallible| match never {})
    }

    /// Returns whether there is a head.
    pub(crate) fn is_busy(&self) -> bool {
        self.head.available_permits() == 0
    }

    /// Sleeps on the clock.
    pub(crate) async fn sleep(&self, duration: Duration) {
        let gate = Gate::new().clock(&self.clock);
        gate.block_for(duration);
        // It ends when the gate opens, and has no other end.
        let _ = gate.acquire_owned().await;
    }
}

/// Calls `attempt` up to eight times within 50 µs, until it succeeds: the holder of a lock needs a few
/// microseconds.
pub(crate) fn briefly<T, E>(
    clock: &Clock,
    mut attempt: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let begun = clock.now();
    for _ in 0..8 {
        let done = attempt()?;
        if done.is_some() || clock.now().saturating_since(begun) > Duration::from_micros(50) {
            return Ok(done);
        }
        std::thread::yield_now();
    }
    Ok(None)
}
