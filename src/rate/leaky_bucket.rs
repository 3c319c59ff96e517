//! [`LeakyBucket`]: a queue that is released at a fixed rate.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::acquire::{Acquire, Limiter};
use super::charge::Charge;
use super::limiter::RateLimiter;
use super::options::MissedTickBehavior;
use super::runtimes::States;
use crate::error::AcquireError;
use crate::quota::Quota;
use crate::status::Snapshot;
use crate::time::Clock;
use crate::wait::Waiting;

/// A queue of bounded length that releases its waiters one at a time, evenly spaced.
///
/// A call joins the queue, or is refused immediately if the queue is full. A timer releases the
/// waiters one by one, in the order of their arrival. A call is released immediately if the queue
/// is empty and the last release is at least one interval ago; however long the bucket has been
/// idle, it never releases a burst. This is the leaky bucket as a queue, the one of traffic
/// shaping. The leaky bucket as a meter is the [`RateLimiter`]; this type is a `RateLimiter` with a
/// burst of 1, used for its queue. For costs, reservations, or headers, use a `RateLimiter` with a
/// burst of 1 and [`max_waiters`](RateLimiter::max_waiters).
///
/// # Fairness
///
/// Strictly first-in first-out, like the [`RateLimiter`](RateLimiter#fairness).
///
/// # Cancel safety
///
/// The same as for the [`RateLimiter`](RateLimiter#cancel-safety): dropping a waiting future frees its
/// place immediately, and every waiter behind it moves up by one.
///
/// # Examples
///
#[cfg_attr(feature = "tokio", doc = "```")]
#[cfg_attr(not(feature = "tokio"), doc = "```text")]
/// use std::time::Duration;
/// use tokio::time::Instant;
/// use tollgate::{Clock, ErrorKind, LeakyBucket, Quota};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let bucket = LeakyBucket::new(Quota::per_second(1), 2).clock(Clock::tokio());
/// let start = Instant::now();
/// let (first, second, third, fourth) = tokio::join!(
///     bucket.acquire(),
///     bucket.acquire(),
///     bucket.acquire(),
///     bucket.acquire(),
/// );
/// assert_eq!(third?.at().saturating_since(first?.at()), Duration::from_secs(2));
/// assert_eq!(fourth.unwrap_err().kind(), ErrorKind::QueueFull);
/// assert_eq!(start.elapsed(), Duration::from_secs(2));
/// # second?;
/// # Ok(())
/// # }
/// ```
pub struct LeakyBucket {
    pub(super) limiter: RateLimiter,
}

/// Construction and options.
impl LeakyBucket {
    /// Creates a bucket that releases calls at `rate`, and in which up to `capacity` calls may
    /// wait.
    ///
    /// A call that is released immediately does not count: with a capacity of 0 no call ever waits.
    ///
    /// # Panics
    ///
    /// Panics if the rate has a [burst](Quota::burst), because a leaky bucket has none, or is
    /// [unlimited](Quota::UNLIMITED).
    #[track_caller]
    pub const fn new(rate: Quota, capacity: usize) -> Self {
        assert!(!rate.is_unlimited(), "a leaky bucket cannot be unlimited");
        assert!(
            rate.max_burst() == 1,
            "a leaky bucket has no burst, but its rate has one"
        );
        Self {
            limiter: RateLimiter::new(rate).max_waiters(capacity),
        }
    }

    /// Sets the behavior when the timer is late. See [`RateLimiter::missed_tick`]. With
    /// [`MissedTickBehavior::Delay`] no two calls are ever released closer together than the rate
    /// allows.
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    #[must_use]
    #[track_caller]
    pub fn missed_tick(mut self, missed_tick: MissedTickBehavior) -> Self {
        self.limiter = self.limiter.missed_tick(missed_tick);
        self
    }

    /// Sets the clock. See [`RateLimiter::clock`].
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    #[must_use]
    #[track_caller]
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.limiter = self.limiter.clock(clock);
        self
    }
}

/// Acquiring, changes at run time, and observation.
impl LeakyBucket {
    /// Joins the queue, and waits until the call is released.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// - [`QueueFull`](crate::ErrorKind::QueueFull), immediately, with the time until the next
    ///   release;
    /// - [`Closed`](crate::ErrorKind::Closed);
    /// - [`RuntimeEnded`](crate::ErrorKind::RuntimeEnded), like
    ///   [`RateLimiter::acquire`](crate::RateLimiter::acquire).
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    #[inline]
    pub fn acquire(&self) -> Waiting<Acquire<&Self>> {
        Waiting::new(Acquire::new(self, 1))
    }

    /// Waits like [`acquire`](Self::acquire), with a future that can move into a task.
    #[inline]
    pub fn acquire_owned(self: Arc<Self>) -> Waiting<Acquire<Arc<Self>>> {
        Waiting::new(Acquire::new(self, 1))
    }

    /// Acquires immediately, or fails.
    ///
    /// # Errors
    ///
    /// - [`RateLimited`](crate::ErrorKind::RateLimited), with the time after which the queue would
    ///   be empty;
    /// - [`Closed`](crate::ErrorKind::Closed).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, LeakyBucket, Quota};
    ///
    /// let bucket = LeakyBucket::new(Quota::per_second(10), 5).clock(Clock::manual());
    /// bucket.try_acquire()?;
    /// let refused = bucket.try_acquire().unwrap_err();
    /// assert_eq!(refused.retry_after(), Some(Duration::from_millis(100)));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn try_acquire(&self) -> Result<Charge, AcquireError> {
        self.limiter.try_acquire()
    }

    /// Gives back the slot of a call that was not made after all, if its time has not passed. See
    /// [`RateLimiter::refund`].
    pub fn refund(&self, charge: Charge) {
        self.limiter.refund(charge);
    }

    /// Changes the rate immediately, including for calls in the queue.
    ///
    /// # Panics
    ///
    /// Panics if the rate has a [burst](Quota::burst), or is [unlimited](Quota::UNLIMITED).
    #[track_caller]
    pub fn set_rate(&self, rate: Quota) {
        assert!(!rate.is_unlimited(), "a leaky bucket cannot be {rate}");
        let burst = rate.max_burst();
        assert!(
            burst == 1,
            "a leaky bucket has no burst, but its rate has one of {burst}"
        );
        self.limiter.set_quota(rate);
    }

    /// Pauses the bucket: releases no call, queued or new, for `duration` from now, and then
    /// releases calls one at a time. See [`RateLimiter::pause_for`].
    pub fn pause_for(&self, duration: Duration) {
        self.limiter.pause_for(duration);
    }

    /// Ends a [pause](Self::pause_for) now. See [`RateLimiter::resume`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, LeakyBucket, Quota};
    ///
    /// let bucket = LeakyBucket::new(Quota::per_second(10), 5).clock(Clock::manual());
    /// bucket.pause_for(Duration::MAX);
    /// assert!(bucket.try_acquire().is_err());
    /// bucket.resume();
    /// bucket.try_acquire()?;
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn resume(&self) {
        self.limiter.resume();
    }

    /// Returns the current rate.
    pub fn rate(&self) -> Quota {
        self.limiter.quota()
    }

    /// Returns the state of the bucket at one moment.
    pub fn snapshot(&self) -> Snapshot {
        self.limiter.snapshot()
    }

    /// Closes the bucket: every waiter, and every later call, fails with
    /// [`Closed`](crate::ErrorKind::Closed).
    pub fn close(&self) {
        self.limiter.close();
    }

    /// Returns whether the bucket was [closed](Self::close).
    pub fn is_closed(&self) -> bool {
        self.limiter.is_closed()
    }
}

impl Limiter for LeakyBucket {
    #[inline(always)]
    fn states(&self) -> &States {
        self.limiter.states()
    }
}

impl fmt::Debug for LeakyBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeakyBucket")
            .field("limiter", &self.limiter)
            .field("capacity", &self.limiter.config.max_waiters)
            .finish_non_exhaustive()
    }
}
