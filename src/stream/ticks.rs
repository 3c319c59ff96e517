//! [`Ticks`]: a stream that yields at the rate of a limiter.
//!
//! It is one wait after the other: a future of `acquire`, that is made new when it was ready. So
//! what holds for that holds here, the line and its order included, and there is no timer besides.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use futures_util::stream::FusedStream;

use crate::error::AcquireError;
use crate::rate::{Acquire, AcquireOwned, Charge, LeakyBucket, RateLimiter};
use crate::wait::Waiting;

/// A stream that yields a [`Charge`] each time that a rate limiter or a leaky bucket lets it go.
/// Made by [`RateLimiter::ticks`] and [`LeakyBucket::ticks`]. Needs the feature `stream`.
///
/// It is the generator of signals that was proposed below "Throttling requests - Java" (S.
/// Solyanik, 2008): a thread of its own, that writes to a channel at the rate, and whoever wants to
/// make a call reads one first. Here nothing runs while nobody asks: there is neither a thread nor a
/// channel, and ticks that nobody waited for are not stored, but as the burst of the limiter. With
/// a burst of 1, the default, they are evenly spaced.
///
/// # Fairness
///
/// For each tick it joins the line of the limiter at the end, as
/// [`acquire`](RateLimiter::acquire) does, when it is polled; between two ticks, while the task is
/// at work, it has no place there. So several streams of one limiter, and others who acquire, take
/// turns. When there is nothing to wait for it never yields to the executor.
///
/// # The end
///
/// It ends when the limiter refuses: when that is [closed](RateLimiter::close), which also ends a
/// wait, or when its line is [full](RateLimiter::max_waiters). Which it was
/// [`refused`](Self::refused) tells. It is fused: afterwards there is always `None`.
///
/// # Cancel safety
///
/// Dropping a wait for the next tick loses nothing: the stream keeps its place, and a tick that was
/// charged meanwhile is yielded next. Dropping the stream leaves the line, and a tick that was
/// charged and not yielded is refunded. A charge that was yielded stays charged, as any other,
/// unless it is [refunded](RateLimiter::refund).
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
pub struct Ticks<'a>(Repeated<Acquire<&'a RateLimiter>>);

/// As [`Ticks`], for a stream that may move into a task: made by [`RateLimiter::ticks_owned`] and
/// [`LeakyBucket::ticks_owned`].
#[must_use = "a stream does nothing unless it is polled"]
pub struct TicksOwned(Repeated<AcquireOwned>);

/// One wait after the other.
struct Repeated<A> {
    acquire: Waiting<A>,
    /// Why there is no further one.
    refused: Option<AcquireError>,
}

macro_rules! ticks {
    ([$($generics:tt)*] $ticks:ty, $name:literal, $acquire:ty) => {
        impl<$($generics)*> $ticks {
            fn new(acquire: Waiting<$acquire>) -> Self {
                Self(Repeated {
                    acquire,
                    refused: None,
                })
            }

            /// Why it has ended, if it has: [`Closed`](crate::ErrorKind::Closed) or
            /// [`QueueFull`](crate::ErrorKind::QueueFull).
            pub fn refused(&self) -> Option<&AcquireError> {
                self.0.refused.as_ref()
            }
        }

        impl<$($generics)*> Stream for $ticks {
            type Item = Charge;

            fn poll_next(
                mut self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<Option<Charge>> {
                let this = &mut self.0;
                if this.refused.is_some() {
                    return Poll::Ready(None);
                }
                Poll::Ready(match ready!(Pin::new(&mut this.acquire).poll(context)) {
                    Ok(charge) => {
                        this.acquire.inner_mut().renew();
                        Some(charge)
                    }
                    Err(error) => {
                        this.refused = Some(error);
                        None
                    }
                })
            }
        }

        impl<$($generics)*> FusedStream for $ticks {
            fn is_terminated(&self) -> bool {
                self.0.refused.is_some()
            }
        }

        impl<$($generics)*> fmt::Debug for $ticks {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name)
                    .field("refused", &self.0.refused)
                    .finish_non_exhaustive()
            }
        }
    };
}

ticks!(['a] Ticks<'a>, "Ticks", Acquire<&'a RateLimiter>);
ticks!([] TicksOwned, "TicksOwned", AcquireOwned);

/// As a stream. Needs the feature `stream`.
impl RateLimiter {
    /// A stream that yields when a call may go, once for each call, at the rate of the limiter. See
    /// [`Ticks`] for its order, how it ends, and what dropping it does.
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
        Ticks::new(self.acquire())
    }

    /// As [`ticks`](Self::ticks), with a stream that may move into a task.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use futures::StreamExt;
    /// use tollgate::{Quota, RateLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = Arc::new(RateLimiter::new(Quota::per_second(1000)));
    /// let ticks = Arc::clone(&limiter).ticks_owned();
    /// assert_eq!(tokio::spawn(ticks.take(5).count()).await?, 5);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ticks_owned(self: Arc<Self>) -> TicksOwned {
        TicksOwned::new(self.acquire_owned())
    }
}

/// As a stream. Needs the feature `stream`.
impl LeakyBucket {
    /// A stream that yields each time that it is released. See [`Ticks`]. It takes one place in the
    /// queue, so it ends at once if it finds that full.
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
        Ticks::new(self.acquire())
    }

    /// As [`ticks`](Self::ticks), with a stream that may move into a task.
    pub fn ticks_owned(self: Arc<Self>) -> TicksOwned {
        TicksOwned::new(self.acquire_owned())
    }
}
