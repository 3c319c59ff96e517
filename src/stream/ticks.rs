//! [`Ticks`]: a stream that yields at the rate of a limiter.
//!
//! It runs one `acquire` after another: the future is renewed each time it completes. So it has the
//! queue and the order of `acquire`, and no timer of its own.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use futures_util::stream::FusedStream;

use crate::error::AcquireError;
use crate::rate::{Acquire, Charge, LeakyBucket, Limiter, RateLimiter};

/// A stream that yields a [`Charge`] each time a rate limiter or a leaky bucket admits it. Created
/// by [`RateLimiter::ticks`] and [`LeakyBucket::ticks`]. Needs the feature `stream`.
///
/// It is the signal generator that was proposed below "Throttling requests - Java" (S. Solyanik,
/// 2008): a thread that writes to a channel at the rate, and each caller reads from the channel
/// before a call. Here there is neither a thread nor a channel, and nothing runs between two polls.
/// Unused ticks accumulate only up to the burst of the limiter; with a burst of 1, the default,
/// ticks are evenly spaced.
///
/// # Fairness
///
/// For each tick the stream joins the end of the limiter's queue when it is polled, like
/// [`acquire`](RateLimiter::acquire). Between two ticks, while the task processes one, it is not
/// queued. So several streams of one limiter, and other callers, take turns. While it does not have
/// to wait, it never yields to the executor.
///
/// # The end
///
/// The stream ends when the limiter rejects it: when the limiter is [closed](RateLimiter::close),
/// which also ends a wait, or when its queue is [full](RateLimiter::max_waiters).
/// [`refused`](Self::refused) returns the error. The stream is fused: after its end it always
/// yields `None`.
///
/// # Cancel safety
///
/// Dropping a wait for the next tick loses nothing: the stream keeps its position in the queue, and
/// a tick that was charged meanwhile is yielded next. Dropping the stream removes it from the
/// queue, and refunds a tick that was charged and not yielded. A charge that was yielded stays
/// charged, like any other, unless it is [refunded](RateLimiter::refund).
///
/// # Examples
///
#[cfg_attr(feature = "tokio", doc = "```")]
#[cfg_attr(not(feature = "tokio"), doc = "```text")]
/// use std::time::Duration;
/// use futures::StreamExt;
/// use tokio::time::Instant;
/// use tollgate::{Clock, Quota, RateLimiter};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let limiter = RateLimiter::new(Quota::per_second(10)).clock(Clock::tokio());
/// let start = Instant::now();
/// let mut requests = ["one", "two", "three"].into_iter();
///
/// let mut ticks = limiter.ticks();
/// while let Some(charge) = ticks.next().await {
///     // A signal: one request may go.
///     match requests.next() {
///         Some(request) => println!("{request} at {:?}", charge.at()),
///         None => limiter.close(),
///     }
/// }
/// assert_eq!(start.elapsed(), Duration::from_millis(300));
/// # }
/// ```
#[must_use = "a stream does nothing unless it is polled"]
pub struct Ticks<'a> {
    acquire: Acquire<&'a RateLimiter>,
    /// Why the stream has ended.
    refused: Option<AcquireError>,
}

impl<'a> Ticks<'a> {
    fn new(acquire: Acquire<&'a RateLimiter>) -> Self {
        Self {
            acquire,
            refused: None,
        }
    }

    /// Returns why the stream has ended, if it has: [`Closed`](crate::ErrorKind::Closed) or
    /// [`QueueFull`](crate::ErrorKind::QueueFull).
    pub fn refused(&self) -> Option<&AcquireError> {
        self.refused.as_ref()
    }
}

impl Stream for Ticks<'_> {
    type Item = Charge;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Charge>> {
        if self.refused.is_some() {
            return Poll::Ready(None);
        }
        Poll::Ready(match ready!(Pin::new(&mut self.acquire).poll(context)) {
            Ok(charge) => {
                self.acquire.renew();
                Some(charge)
            }
            Err(error) => {
                self.refused = Some(error);
                None
            }
        })
    }
}

impl FusedStream for Ticks<'_> {
    fn is_terminated(&self) -> bool {
        self.refused.is_some()
    }
}

impl fmt::Debug for Ticks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticks")
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}

/// Conversion to a stream. Needs the feature `stream`.
impl RateLimiter {
    /// Returns a stream that yields once per admission, at the rate of the limiter. See [`Ticks`]
    /// for its order, its end, and its cancel safety.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::StreamExt;
    /// use tollgate::{Quota, RateLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let limiter = RateLimiter::new(Quota::per_second(1000));
    /// let ticks: Vec<_> = limiter.ticks().take(3).map(|charge| charge.at()).collect().await;
    /// assert!(ticks[2].saturating_since(ticks[0]).as_nanos() >= 1_999_999);
    /// # }
    /// ```
    pub fn ticks(&self) -> Ticks<'_> {
        Ticks::new(self.acquire().into_inner())
    }
}

/// Conversion to a stream. Needs the feature `stream`.
impl LeakyBucket {
    /// Returns a stream that yields once for each release. See [`Ticks`]. It takes one slot of the
    /// queue, so it ends at once if the queue is full.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::StreamExt;
    /// use tollgate::{LeakyBucket, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let bucket = LeakyBucket::new(Quota::per_second(1000), 10);
    /// assert_eq!(bucket.ticks().take(5).count().await, 5);
    /// # }
    /// ```
    pub fn ticks(&self) -> Ticks<'_> {
        Ticks::new(self.limiter().acquire().into_inner())
    }
}
