//! [`AdaptiveSemaphore`]: a semaphore whose limit a controller changes.
//!
//! It owns nothing of the protocol: permits and waiters are those of [`Semaphore`], and the
//! [`Sampler`] chooses the calls to measure. The clock is read when a measured caller receives its
//! permit and when its call ends, so the time in the semaphore's own queue is not counted.

mod acquire;

use std::ops::RangeInclusive;
use std::sync::Arc;

use tollgate::semaphore::WaitIdle;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Clock, Semaphore};

pub(super) use self::acquire::Acquire;
pub use self::acquire::AdaptivePermit;
use super::controller::{Controller, Gradient};
use super::sampler::{AdaptiveSnapshot, Sampler};
use crate::TOO_LATE;
use crate::debug::debug_as;

/// Limits concurrency to what the other side can handle, and adapts the limit to latencies.
///
/// A [`Controller`] sees how long calls take at the present limit, and how many of them fail
/// because of overload, and sets the next limit. Everything else is the same as for a
/// [`Semaphore`]: a caller acquires a permit, waiting in a queue if necessary, and drops it when
/// its call has ended. The controller finds the limit from the outcome that the caller reports:
///
/// | the permit is | the call |
/// |---|---|
/// | dropped | succeeded, and its latency is a sample |
/// | [`overloaded`](AdaptivePermit::overloaded) | failed because the other side is overloaded: a timeout, 429, 503 |
/// | [`ignore`](AdaptivePermit::ignore)d | is not measured: the input was refused, the answer came from a cache |
/// | dropped while panicking | is not measured |
///
/// Use one for each remote resource, because calls of two resources have unrelated latencies. Hold
/// the permit for exactly the call: the caller's work before and after it would count as latency.
///
/// # Fairness
///
/// First-in first-out; all of [`Semaphore#fairness`](Semaphore#fairness) applies.
///
/// # Cancel safety
///
/// The same as for a [`Semaphore`](Semaphore#cancel-safety): a dropped future leaves the queue, and
/// a permit that it was granted goes to the next waiter. A cancelled caller that holds a permit
/// drops it, and its latency until then is a sample; use [`ignore`](AdaptivePermit::ignore) if the
/// reason is the caller's own.
///
/// # What is measured
///
/// The samples of a window are its first calls: with the default controller about 100 at a limit of 20, and 300
/// at 1,000. A window ends when each of them has ended or has reached the age of the controller's
/// [cut](Controller::cut), and then counts with the cut. So a window shows the slow calls as well, whatever the limit is,
/// and a call that hangs delays its window by about one cut, as long as other calls end. Other calls are not measured: acquiring
/// their permits costs one relaxed load more than with a [`Semaphore`], and dropping them a look at the clock. A sample that
/// finds another thread adding one is dropped and [counted](AdaptiveSnapshot::lost_samples). A change of the
/// limit is exact, and takes no permit from a holder.
///
/// # Calls that never end
///
/// A call that never ends holds its permit for ever, as with every semaphore. Here the limit may fall to the number of such
/// calls: the default controller halves it now and then for a probe, and each overload lowers it. Then they hold
/// all permits, no call ends any more, and the limit stays where it is. One such call can stop a limit of 2. So give
/// each call a timeout, or [`limits`](Self::limits) whose least limit is above the number of calls that may hang.
///
/// # Examples
///
/// ```
/// use std::sync::LazyLock;
/// use tollgate_adaptive::AdaptiveSemaphore;
///
/// static DATABASE: LazyLock<AdaptiveSemaphore> = LazyLock::new(AdaptiveSemaphore::default);
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let permit = DATABASE.acquire().await?;
/// // Query the database.
/// drop(permit);
/// assert_eq!(DATABASE.snapshot().window.samples(), 1);
/// # Ok(())
/// # }
/// ```
///
/// A custom controller:
///
/// ```
/// use tollgate_adaptive::{AdaptiveSemaphore, Controller, SampleWindow, Target};
///
/// /// Admits one more after each window without overload.
/// struct OneMore;
///
/// impl Controller for OneMore {
///     fn initial(&self) -> Target {
///         Target { limit: 2.0, samples: 4 }
///     }
///
///     fn update(&mut self, window: &SampleWindow) -> Target {
///         let limit = window.limit() + if window.overloaded() == 0 { 1.0 } else { -1.0 };
///         Target { limit, samples: 4 }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let backend = AdaptiveSemaphore::new(OneMore).limits(1..=100);
/// for _ in 0..4 {
///     let permit = backend.acquire().await?;
///     // Call the backend.
///     drop(permit);
/// }
/// assert_eq!(backend.snapshot().permits.limit, 3);
///
/// for _ in 0..4 {
///     // The backend answers with the status 503.
///     backend.acquire().await?.overloaded();
/// }
/// assert_eq!(backend.snapshot().permits.limit, 2);
/// # Ok(())
/// # }
/// ```
pub struct AdaptiveSemaphore {
    pub(super) semaphore: Semaphore,
    pub(super) sampler: Sampler,
}

/// Construction. Options are set before the first use: an option panics while a call is measured, and
/// after the first sample.
impl AdaptiveSemaphore {
    /// Creates a semaphore whose limit `controller` finds, from 1 to 1000.
    ///
    /// It is not a `const fn`, because it boxes the controller: a `static` needs a
    /// [`LazyLock`](std::sync::LazyLock). [`default`](Self::default) uses the default controller.
    ///
    /// # Panics
    ///
    /// Panics if the controller's initial limit is not a finite number above 0.
    #[track_caller]
    pub fn new(controller: impl Controller + 'static) -> Self {
        let semaphore = Self {
            semaphore: Semaphore::new(0),
            sampler: Sampler::new(Box::new(controller)),
        };
        semaphore.limits(1..=1000)
    }

    /// Sets the range of the limit, 1 to 1000 by default. With a range of one number the limit is
    /// fixed.
    ///
    /// # Panics
    ///
    /// Panics after the first use, and if the range is empty, begins with 0, or ends above
    /// [`Semaphore::MAX_PERMITS`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_adaptive::AdaptiveSemaphore;
    ///
    /// let backend = AdaptiveSemaphore::default().limits(2..=8).max_waiters(100);
    /// assert_eq!(backend.snapshot().permits.limit, 8);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn limits(self, range: RangeInclusive<usize>) -> Self {
        let (min, max) = range.into_inner();
        assert!(
            0 < min && min <= max && max <= Semaphore::MAX_PERMITS,
            "limits must be a range within 1..={}, but they are {min}..={max}",
            Semaphore::MAX_PERMITS
        );
        let mut semaphore = self.unused();
        let permits = semaphore.sampler.set_limits((min, max));
        semaphore.semaphore.set_permits(permits);
        semaphore
    }

    /// Bounds the queue, see [`Semaphore::max_waiters`].
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    #[must_use]
    #[track_caller]
    pub fn max_waiters(self, max_waiters: usize) -> Self {
        let mut semaphore = self.unused();
        semaphore.semaphore = semaphore.semaphore.max_waiters(max_waiters);
        semaphore
    }

    /// Sets the clock that measures latencies and runs the timeouts of waiters.
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    #[must_use]
    #[track_caller]
    pub fn clock(self, clock: impl Into<Clock>) -> Self {
        let mut semaphore = self.unused();
        semaphore.sampler.clock = clock.into();
        semaphore
    }

    /// Returns the semaphore unchanged, for an option.
    #[track_caller]
    fn unused(self) -> Self {
        assert!(!self.sampler.is_used(), "{TOO_LATE}");
        self
    }
}

/// Acquiring. There is no `acquire_many`, because a latency belongs to one piece of work.
impl AdaptiveSemaphore {
    /// Waits for a permit.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing; see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// [`Closed`](tollgate::ErrorKind::Closed), and [`QueueFull`](tollgate::ErrorKind::QueueFull) with
    /// [`max_waiters`](Self::max_waiters).
    #[inline]
    pub fn acquire(&self) -> Waiting<Acquire<&Self>> {
        Waiting::new(Acquire::new(self))
    }

    /// Waits for a permit that shares the semaphore, so it can move into a task.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing; see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// The same as for [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate_adaptive::AdaptiveSemaphore;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let backend = Arc::new(AdaptiveSemaphore::default());
    /// let permit = Arc::clone(&backend).acquire_owned().await?;
    /// tokio::spawn(async move { drop(permit) }).await?;
    /// assert_eq!(backend.snapshot().permits.in_use, 0);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire_owned(self: Arc<Self>) -> Waiting<Acquire<Arc<Self>>> {
        Waiting::new(Acquire::new(self))
    }

    /// Takes a permit without waiting.
    ///
    /// # Errors
    ///
    /// [`NoPermits`](tollgate::ErrorKind::NoPermits) if the limit is reached or there are waiters, and
    /// [`Closed`](tollgate::ErrorKind::Closed).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::ErrorKind;
    /// use tollgate_adaptive::AdaptiveSemaphore;
    ///
    /// let backend = AdaptiveSemaphore::default().limits(1..=1);
    /// let permit = backend.try_acquire()?;
    /// assert_eq!(backend.try_acquire().unwrap_err().kind(), ErrorKind::NoPermits);
    /// // The answer came from a cache.
    /// permit.ignore();
    /// assert_eq!(backend.snapshot().window.samples(), 0);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn try_acquire(&self) -> Result<AdaptivePermit<&Self>, AcquireError> {
        AdaptivePermit::try_new(self)
    }

    /// Takes a permit that shares the semaphore, without waiting.
    ///
    /// # Errors
    ///
    /// The same as for [`try_acquire`](Self::try_acquire).
    #[inline]
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<AdaptivePermit<Arc<Self>>, AcquireError> {
        AdaptivePermit::try_new(self)
    }
}

/// Closing and observing.
impl AdaptiveSemaphore {
    /// Returns the state of the semaphore and of the window.
    pub fn snapshot(&self) -> AdaptiveSnapshot {
        self.sampler.snapshot(self.semaphore.snapshot())
    }

    /// Closes the semaphore: every waiter and every later caller gets
    /// [`Closed`](tollgate::ErrorKind::Closed). Permits that are held stay valid.
    pub fn close(&self) {
        self.semaphore.close();
    }

    /// Returns whether the semaphore is closed.
    pub fn is_closed(&self) -> bool {
        self.semaphore.is_closed()
    }

    /// Waits until all permits have been returned, see [`Semaphore::wait_idle`]. A timeout of this
    /// wait runs on tokio's time or the system's, not on the clock of the semaphore.
    pub fn wait_idle(&self) -> Waiting<WaitIdle<&Semaphore>> {
        self.semaphore.wait_idle()
    }
}

/// Returns a semaphore with the default [`Gradient`], whose limit begins at 20.
impl Default for AdaptiveSemaphore {
    fn default() -> Self {
        Self::new(Gradient::default())
    }
}

debug_as! {
    [] AdaptiveSemaphore, self, let permits = self.semaphore.snapshot() => AdaptiveSemaphore {
        limit: permits.limit, in_use: permits.in_use, waiting: permits.waiting,
        closed: self.is_closed(), ..
    }
}
