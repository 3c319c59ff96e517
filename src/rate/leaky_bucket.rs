//! [`LeakyBucket`]: a line that is let through at a fixed rate.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::acquire::Acquire;
use super::charge::Charge;
use super::limiter::RateLimiter;
use super::observe::Snapshot;
use super::options::MissedTickBehavior;
use crate::error::AcquireError;
use crate::quota::Quota;
use crate::time::Clock;
use crate::wait::Waiting;

/// A queue of bounded length, out of which one is released at a time, evenly spaced.
///
/// A call joins the queue, or is refused at once when that is full. A timer releases those in it
/// one by one, in the order in which they came. When the queue is empty and has been for as long as
/// one takes, the next call goes at once; however long it has been idle, there is never a burst.
/// This is the leaky bucket as a queue, as in traffic shaping; as a meter it is the
/// [`RateLimiter`], and this is one with a burst of 1 whose line is the point. For costs,
/// reservations, or headers about how it stands, take a `RateLimiter` with a burst of 1 and
/// [`max_waiters`](RateLimiter::max_waiters).
///
/// # Fairness
///
/// Strictly first-in first-out, as with the [`RateLimiter`](RateLimiter#fairness).
///
/// # Cancel safety
///
/// As with the [`RateLimiter`](RateLimiter#cancel-safety): dropping a waiting future frees its
/// place at once, and everybody behind it moves up by one.
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
    limiter: RateLimiter,
    /// The same one, for owned futures.
    owned: OnceLock<Arc<RateLimiter>>,
    capacity: usize,
}

/// Making one.
impl LeakyBucket {
    /// A bucket out of which `rate` are released, and in which `capacity` may wait.
    ///
    /// The one that is released at once does not count: with a capacity of 0 nobody ever waits.
    ///
    /// # Panics
    ///
    /// If the rate has a [burst](Quota::burst): a leaky bucket has none.
    #[track_caller]
    pub const fn new(rate: Quota, capacity: usize) -> Self {
        if rate.max_burst() != 1 {
            panic!("a leaky bucket has no burst, but its rate has one");
        }
        Self {
            limiter: RateLimiter::new(rate).max_waiters(capacity),
            owned: OnceLock::new(),
            capacity,
        }
    }

    /// What happens when the timer is late. See [`RateLimiter::missed_tick`]. With
    /// [`MissedTickBehavior::Delay`] no two are ever released closer together than the rate says.
    #[must_use]
    pub fn missed_tick(mut self, missed_tick: MissedTickBehavior) -> Self {
        self.limiter = self.limiter.missed_tick(missed_tick);
        self
    }

    /// The clock that it lives by. See [`RateLimiter::clock`].
    #[must_use]
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.limiter = self.limiter.clock(clock);
        self
    }
}

/// Using it.
impl LeakyBucket {
    /// Joins the queue, and waits to be released.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// [`QueueFull`](crate::ErrorKind::QueueFull) at once, with the time until the next is
    /// released, and [`Closed`](crate::ErrorKind::Closed).
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    #[inline]
    pub fn acquire(&self) -> Waiting<Acquire<&RateLimiter>> {
        self.limiter.acquire()
    }

    /// As [`acquire`](Self::acquire), with a future that may move into a task.
    #[inline]
    pub fn acquire_owned(self: Arc<Self>) -> Waiting<Acquire<Arc<RateLimiter>>> {
        let limiter = || Arc::new(RateLimiter::of_shared(Arc::clone(self.limiter.shared())));
        Arc::clone(self.owned.get_or_init(limiter)).acquire_owned()
    }

    /// Is released at once, or not at all.
    ///
    /// # Errors
    ///
    /// [`RateLimited`](crate::ErrorKind::RateLimited), with the time after which the queue would be empty,
    /// and [`Closed`](crate::ErrorKind::Closed).
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

    /// Changes the rate at once, also for those in the queue.
    ///
    /// # Panics
    ///
    /// If the rate has a [burst](Quota::burst).
    #[track_caller]
    pub fn set_rate(&self, rate: Quota) {
        let burst = rate.max_burst();
        assert!(
            burst == 1,
            "a leaky bucket has no burst, but its rate has one of {burst}"
        );
        self.limiter.set_quota(rate);
    }

    /// The rate, as it is now.
    pub fn rate(&self) -> Quota {
        self.limiter.quota()
    }

    /// How many may wait.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many are waiting.
    pub fn waiting(&self) -> usize {
        self.limiter.waiting()
    }

    /// How the bucket stands.
    pub fn snapshot(&self) -> Snapshot {
        self.limiter.snapshot()
    }

    /// Releases nobody any more. Everybody who waits gets [`Closed`](crate::ErrorKind::Closed), and
    /// so does everybody who comes later.
    pub fn close(&self) {
        self.limiter.close();
    }

    /// Whether it was [closed](Self::close).
    pub fn is_closed(&self) -> bool {
        self.limiter.is_closed()
    }
}

impl fmt::Debug for LeakyBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeakyBucket")
            .field("rate", &format_args!("{}", self.rate()))
            .field("capacity", &self.capacity)
            .field("waiting", &self.waiting())
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
