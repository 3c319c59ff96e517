//! [`Ticks`]: yields items at the rate of a limiter.
//!
//! It runs one `enter` after another. So it has the queue and the order of the throttle, and no timer of
//! its own.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use futures_util::stream::FusedStream;

use pin_project::pin_project;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Throttle};

/// A stream that yields a permit each time a throttle admits it: the [`Charge`](tollgate::rate::Charge) of a rate
/// limiter or a leaky bucket. [`ThrottleStreamExt::ticks`] creates it.
///
/// It is the signal generator proposed below "Throttling requests - Java" (S. Solyanik,
/// 2008): a thread that writes to a channel at the rate, while each caller reads from the channel
/// before a call. This stream needs neither a thread nor a channel, and nothing runs between two polls.
/// Unused ticks accumulate only up to the burst of the limiter; with a burst of 1, the default,
/// ticks are evenly spaced.
///
/// # Fairness
///
/// For each tick the stream joins the end of the limiter's queue when it is polled, like
/// [`acquire`](tollgate::RateLimiter::acquire). Between two ticks, while the task processes one, it is not
/// queued. So several streams of one limiter, and other callers, take turns. The stream never yields to
/// the executor while it does not have to wait.
///
/// # The end
///
/// The stream ends when the limiter rejects it: when the limiter is [closed](tollgate::RateLimiter::close),
/// which also ends a wait, or when its queue is [full](tollgate::RateLimiter::max_waiters).
/// [`refused`](Self::refused) returns the error. The stream is fused: after its end it always
/// yields `None`.
///
/// # Cancel safety
///
/// Dropping a wait for the next tick loses nothing: the stream keeps its position in the queue, and
/// a tick that was charged meanwhile is yielded next. Dropping the stream removes it from the
/// queue, and refunds a tick that was charged and not yielded. A charge that was yielded stays
/// charged, like any other, unless it is [refunded](tollgate::RateLimiter::refund).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use futures::StreamExt;
/// use tokio::time::Instant;
/// use tollgate::{Clock, Quota, RateLimiter};
/// use tollgate_io::stream::ThrottleStreamExt;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let limiter = RateLimiter::new(Quota::per_second(10)).clock(Clock::tokio());
/// let start = Instant::now();
/// let mut requests = ["one", "two", "three"].into_iter();
///
/// let mut ticks = limiter.ticks();
/// while let Some(charge) = ticks.next().await {
///     // A signal: one request may start.
///     match requests.next() {
///         Some(request) => println!("{request} at {:?}", charge.at()),
///         None => limiter.close(),
///     }
/// }
/// assert_eq!(start.elapsed(), Duration::from_millis(300));
/// # }
/// ```
#[must_use = "a stream does nothing unless it is polled"]
#[pin_project]
pub struct Ticks<T: Throttle> {
    throttle: T,
    #[pin]
    enter: Option<Waiting<T::Enter>>,
    /// The error that ended the stream.
    refused: Option<AcquireError>,
}

impl<T: Throttle> Ticks<T> {
    /// Returns the error that ended the stream, if it has ended, such as [`Closed`](tollgate::ErrorKind::Closed) or
    /// [`QueueFull`](tollgate::ErrorKind::QueueFull).
    pub fn refused(&self) -> Option<&AcquireError> {
        self.refused.as_ref()
    }
}

impl<T: Throttle> Stream for Ticks<T> {
    type Item = T::Permit;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T::Permit>> {
        let mut this = self.project();
        if this.refused.is_some() {
            return Poll::Ready(None);
        }
        if this.enter.is_none() {
            this.enter.set(Some(this.throttle.enter()));
        }
        let enter = this.enter.as_mut().as_pin_mut();
        let entered = ready!(enter.expect("it was made above").poll(context));
        this.enter.set(None);
        Poll::Ready(match entered {
            Ok(permit) => Some(permit),
            Err(error) => {
                *this.refused = Some(error);
                None
            }
        })
    }
}

impl<T: Throttle> FusedStream for Ticks<T> {
    fn is_terminated(&self) -> bool {
        self.refused.is_some()
    }
}

impl<T: Throttle> fmt::Debug for Ticks<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticks")
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}

/// Adds [`ticks`](Self::ticks) to throttles.
pub trait ThrottleStreamExt: Throttle {
    /// Returns a stream that yields once per admission: at the rate of a limiter, or once for each release
    /// of a leaky bucket. See [`Ticks`] for its order, its end, and its cancel safety.
    ///
    /// The method borrows a limiter, or takes an `Arc` of one. A leaky bucket lends one slot of its queue,
    /// so the stream ends at once if the queue is full.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::StreamExt;
    /// use tollgate::{LeakyBucket, Quota, RateLimiter};
    /// use tollgate_io::stream::ThrottleStreamExt;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let limiter = RateLimiter::new(Quota::per_second(1000));
    /// let ticks: Vec<_> = limiter.ticks().take(3).map(|charge| charge.at()).collect().await;
    /// assert!(ticks[2].saturating_since(ticks[0]).as_nanos() >= 1_999_999);
    ///
    /// let bucket = LeakyBucket::new(Quota::per_second(1000), 10);
    /// assert_eq!(bucket.ticks().take(5).count().await, 5);
    /// # }
    /// ```
    fn ticks(self) -> Ticks<Self> {
        Ticks {
            throttle: self,
            enter: None,
            refused: None,
        }
    }
}

impl<T: Throttle> ThrottleStreamExt for T {}
