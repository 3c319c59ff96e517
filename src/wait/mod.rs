//! The future of every wait, with the methods that end it early: by a token or after a timeout.
//!
//! All futures that wait are wrapped in [`Waiting`], and only this type has these methods and the one that blocks
//! a thread. The first two wrap the inner future in a `CancelOn` and a [`Timeout`], so they combine in any order,
//! and callers import no trait to wait.

#[cfg(feature = "tokio")]
use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
#[cfg(feature = "tokio")]
use tokio_util::sync::CancellationToken;

use crate::error::AcquireError;

mod block;
#[cfg(feature = "tokio")]
mod cancel_on;
mod hints;
mod timeout;

pub(crate) use self::block::{assert_may_block, block_on, is_blocking};
#[cfg(feature = "tokio")]
pub use self::cancel_on::CancelOn;
pub(crate) use self::hints::{
    Arrival, arrival_on, is_entrant, poll_entrant, remaining_timeout, report_arrival, report_clock,
    without_hint,
};
pub use self::timeout::Timeout;

/// The result of polling a wait.
pub(crate) type Polled<P> = Poll<Result<P, AcquireError>>;

/// A boxed wait.
pub(crate) type BoxFuture<'a, P> =
    Pin<Box<dyn Future<Output = Result<P, AcquireError>> + Send + 'a>>;

pin_project! {
    /// A wait, as returned by every `acquire` and by [`Throttle::enter`](crate::Throttle::enter).
    ///
    /// Await it, or first add [`cancel_on`](Self::cancel_on) or [`timeout`](Self::timeout); or
    /// block the thread with [`wait`](Self::wait). The methods combine in any order. `F` is the
    /// future that waits; it joins the queue of its throttle at its first poll.
    ///
    /// # Cancel safety
    ///
    /// The same as for `F`: dropping a wait loses no permit and no slot of time.
    ///
    /// # In a struct
    ///
    /// A struct names the wait that it stores by the throttle, whose
    /// [`Enter`](crate::Throttle::Enter) is `F`:
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::throttle::All;
    /// use tollgate::wait::{Timeout, Waiting};
    /// use tollgate::{RateLimiter, Semaphore, Throttle};
    ///
    /// /// A connection that may wait for its throttle.
    /// struct Connection<T: Throttle> {
    ///     throttle: T,
    ///     waiting: Option<Waiting<T::Enter>>,
    /// }
    ///
    /// type Both = All<(Arc<Semaphore>, Arc<RateLimiter>)>;
    /// type WaitForBoth = Waiting<Timeout<<Both as Throttle>::Enter>>;
    /// ```
    ///
    /// To poll it there, pin it in a box, `Pin<Box<Waiting<T::Enter>>>`, or ask for `T::Enter: Unpin`, as the
    /// waits of this crate's limits are before `cancel_on` and `timeout`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{AcquireError, Throttle};
    ///
    /// /// Enters any throttle, and waits for 20 ms at most.
    /// async fn enter_soon<T: Throttle>(throttle: &T) -> Result<T::Permit, AcquireError> {
    ///     throttle.enter().timeout(Duration::from_millis(20)).await
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let paused = tollgate::Semaphore::new(0);
    /// assert!(enter_soon(&&paused).await.is_err());
    /// # }
    /// ```
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct Waiting<F> {
        #[pin]
        future: F,
    }
}

impl<F> Waiting<F> {
    /// Creates a wait from a future, for a custom [`Throttle`](crate::Throttle).
    #[inline(always)]
    pub const fn new(future: F) -> Self {
        Self { future }
    }

    /// Returns the inner future, without the methods of this type.
    ///
    /// A throttle that wraps another one polls this future, so that the inner throttle sees how
    /// much is left of a [timeout](Waiting::remaining_timeout) around both.
    #[inline(always)]
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Waiting<F> {
    /// Ends the wait with [`Cancelled`](crate::ErrorKind::Cancelled) when `token` is cancelled; the
    /// inner future is then dropped.
    ///
    /// A token that is already cancelled wins at once, even when the caller need not wait, and
    /// nothing is taken. A caller that need not wait only checks the token; the wait registers with
    /// it only if it has to wait. If a permit and a cancellation coincide, exactly one is observed,
    /// and a permit that is not observed goes to the next waiter.
    ///
    /// Takes `&token`, or the token itself where the future must be `'static`. A token needs no
    /// runtime. Requires the feature `tokio`, a default.
    ///
    /// # Cancel safety
    ///
    /// The same as for the future that it is added to.
    ///
    /// # Examples
    ///
    /// ```
    /// use tokio_util::sync::CancellationToken;
    /// use tollgate::{ErrorKind, Semaphore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let semaphore = Semaphore::new(1);
    /// let token = CancellationToken::new();
    /// token.cancel();
    /// let refused = semaphore.acquire().cancel_on(&token).await;
    /// assert_eq!(refused.unwrap_err().kind(), ErrorKind::Cancelled);
    /// # }
    /// ```
    #[cfg(feature = "tokio")]
    #[inline]
    #[doc(alias = "run_until_cancelled")]
    pub fn cancel_on<C>(self, token: C) -> Waiting<CancelOn<F, C>>
    where
        F: Future<Output: Outcome>,
        C: Borrow<CancellationToken>,
    {
        let (future, cancelled) = (Some(self.future), None);
        Waiting::new(CancelOn {
            future,
            token,
            cancelled,
        })
    }

    /// Ends the wait with [`TimedOut`](crate::ErrorKind::TimedOut) after `duration`; the inner
    /// future is then dropped.
    ///
    /// The timeout runs from the first poll that has to wait; a call that need not wait reads no
    /// clock. A timeout of zero ends the wait as soon as it begins.
    ///
    /// For a rate limiter or a gate, the timeout runs on its [clock](crate::Clock). If the throttle
    /// knows that the wait will not fit, it refuses at once, and the caller takes no place in the
    /// queue. The parts of [`all`](crate::all) do the same with the time that is left when they are
    /// entered. For other throttles the timeout runs on tokio's time inside a tokio runtime, rounded
    /// up to milliseconds, so that tests with paused time just work. Elsewhere, and under
    /// [`wait`](Self::wait), it runs on the system clock, on a timer thread that serves the whole
    /// process.
    ///
    /// The result is not `Unpin`: pin it with [`std::pin::pin`] to poll it by reference, for example in
    /// `select!`.
    ///
    /// # Cancel safety
    ///
    /// The same as for the future that it is added to.
    ///
    /// # Panics
    ///
    /// Panics if it has to wait inside a tokio runtime that was built without its timer, or if it
    /// has to wait elsewhere and the system cannot start the timer thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{ErrorKind, Semaphore};
    ///
    /// let semaphore = Semaphore::new(0);
    /// let refused = semaphore.acquire().timeout(Duration::from_millis(2)).wait();
    /// assert_eq!(refused.unwrap_err().kind(), ErrorKind::TimedOut);
    /// ```
    #[inline]
    pub fn timeout(self, duration: Duration) -> Waiting<Timeout<F>>
    where
        F: Future<Output: Outcome>,
    {
        Waiting::new(Timeout::new(self.future, duration))
    }

    /// Blocks the thread until the future is ready. The thread is parked meanwhile.
    ///
    /// Do not call this in asynchronous code: it would block the executor. A wait on a [manual
    /// clock](crate::time::ManualClock) waits for another thread to advance the clock. It may be called in the
    /// destructor of a thread-local.
    ///
    /// # Panics
    ///
    /// With debug assertions and the feature `tokio`, panics on a thread that drives a tokio
    /// runtime, even if it need not wait: inside a task, and inside `Runtime::block_on`. The message is that
    /// of tokio's own `blocking_` methods and does not name this one, but its location is this call. Release
    /// builds check nothing: there the call blocks the executor. In asynchronous code, use `.await`; in
    /// blocking code that it calls, move the call into `spawn_blocking`, where it is allowed, as it is inside
    /// `block_in_place` and on other threads.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::Semaphore::new(1);
    /// std::thread::scope(|scope| {
    ///     for _ in 0..4 {
    ///         scope.spawn(|| {
    ///             let _permit = semaphore.acquire().wait().unwrap();
    ///             // One thread at a time is here.
    ///         });
    ///     }
    /// });
    /// assert_eq!(semaphore.available_permits(), 1);
    /// ```
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    #[doc(alias = "blocking_acquire")]
    #[doc(alias = "blocking_acquire_many")]
    #[doc(alias = "blocking_acquire_owned")]
    #[doc(alias = "blocking_acquire_many_owned")]
    #[doc(alias = "acquire_blocking")]
    #[doc(alias = "acquire_arc_blocking")]
    pub fn wait(self) -> F::Output {
        assert_may_block();
        block_on(self)
    }
}

impl<F: Future> Future for Waiting<F> {
    type Output = F::Output;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let future = self.project().future;
        // The caller may itself be polled by a timeout, which does not apply to this wait.
        hints::without_hint(|| future.poll(context))
    }
}

/// Gives access to the methods of the future, for example how long a reservation has to wait.
impl<F> Deref for Waiting<F> {
    type Target = F;

    #[inline]
    fn deref(&self) -> &F {
        &self.future
    }
}

impl<F: fmt::Debug> fmt::Debug for Waiting<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.future.fmt(f)
    }
}

/// The output of a future that can have combinators: a `Result`, or `()`.
///
/// It appears only in the bounds of [`Timeout`] and of `CancelOn`; callers need not name it.
///
/// With a combinator the output is a `Result` in either case, because the combinator may end the
/// wait. The trait is sealed.
pub trait Outcome: sealed::Sealed {
    /// The type of a successful output.
    type Ok;

    /// Converts the output to a result.
    ///
    /// # Errors
    ///
    /// Returns the error of the output, if it has one.
    fn into_result(self) -> Result<Self::Ok, AcquireError>;
}

impl<T> Outcome for Result<T, AcquireError> {
    type Ok = T;

    #[inline]
    fn into_result(self) -> Self {
        self
    }
}

impl Outcome for () {
    type Ok = ();

    #[inline]
    fn into_result(self) -> Result<(), AcquireError> {
        Ok(())
    }
}

mod sealed {
    use crate::error::AcquireError;

    pub trait Sealed {}

    impl<T> Sealed for Result<T, AcquireError> {}
    impl Sealed for () {}
}
