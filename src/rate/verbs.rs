//! How a [`RateLimiter`] is acquired, and how a charge is changed afterwards.

use std::sync::Arc;

use super::acquire::Acquire;
use super::charge::Charge;
use super::limiter::RateLimiter;
use super::reservation::Reservation;
use super::shared::Shared;
use crate::error::AcquireError;
use crate::wait::Waiting;

/// Acquiring.
///
/// The verbs differ in how much they ask for (`_many`), and in whether they wait (`try_` does not).
/// All else is added to the future: `cancel_on`, [`timeout`](Waiting::timeout),
/// [`wait`](Waiting::wait). The `_owned` futures do not borrow the limiter; a [`Charge`] never
/// does.
///
/// To ask for 0 never waits, and fails only if the limiter is closed.
impl RateLimiter {
    /// Waits its turn, and is charged 1.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// - [`Closed`](crate::ErrorKind::Closed), when the limiter is or gets closed;
    /// - [`QueueFull`](crate::ErrorKind::QueueFull), see [`max_waiters`](Self::max_waiters);
    /// - [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity), when more is asked for than the
    ///   burst, unless [`oversize`](Self::oversize) says otherwise: at once for a newcomer, and at
    ///   the head of the line for one who was there when the quota changed.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Quota, RateLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let limiter = RateLimiter::new(Quota::per_second(1000));
    /// let (first, second) = tokio::try_join!(limiter.acquire(), limiter.acquire())?;
    /// let apart = second.at().saturating_since(first.at());
    /// assert!(apart.as_nanos() >= 999_999);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire(&self) -> Waiting<Acquire<&Self>> {
        self.acquire_many(1)
    }

    /// Waits its turn, and is charged `n`, all at once.
    ///
    /// # Cancel safety, errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Quota, RateLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let bytes = RateLimiter::new(Quota::per_second(20_000_000).burst(1_000_000));
    /// let charge = bytes.acquire_many(64 * 1024).await?;
    /// assert_eq!(charge.cost(), 65_536);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire_many(&self, n: u64) -> Waiting<Acquire<&Self>> {
        Waiting::new(Acquire::new(self, n))
    }

    /// As [`acquire`](Self::acquire), with a future that may move into a task.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{Quota, RateLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = Arc::new(RateLimiter::new(Quota::per_second(1000)));
    /// tokio::spawn(Arc::clone(&limiter).acquire_owned()).await??;
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire_owned(self: Arc<Self>) -> Waiting<Acquire<Arc<Self>>> {
        self.acquire_many_owned(1)
    }

    /// As [`acquire_many`](Self::acquire_many), with a future that may move into a task.
    #[inline]
    pub fn acquire_many_owned(self: Arc<Self>, n: u64) -> Waiting<Acquire<Arc<Self>>> {
        Waiting::new(Acquire::new(self, n))
    }

    /// Is charged 1 now, or nothing.
    ///
    /// # Errors
    ///
    /// - [`RateLimited`](crate::ErrorKind::RateLimited), with the time after which it would be admitted if
    ///   nobody else came: exactly, one nanosecond earlier is too early. Also while others wait,
    ///   who go first. Behind a line that goes by [`MissedTickBehavior::Delay`](crate::MissedTickBehavior::Delay),
    ///   or by another [algorithm](RateLimiter::algorithm) than the default, it is the earliest
    ///   time; a [reservation](Self::reserve) knows it exactly;
    /// - [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity), when more is asked for than the
    ///   burst;
    /// - [`Closed`](crate::ErrorKind::Closed).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let clock = Clock::manual();
    /// let limiter = RateLimiter::new(Quota::per_second(10).burst(2)).clock(&clock);
    /// limiter.try_acquire()?;
    /// limiter.try_acquire()?;
    ///
    /// let refused = limiter.try_acquire().unwrap_err();
    /// assert_eq!(refused.retry_after(), Some(Duration::from_millis(100)));
    /// clock.advance(Duration::from_millis(100));
    /// limiter.try_acquire()?;
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline(always)]
    pub fn try_acquire(&self) -> Result<Charge, AcquireError> {
        self.try_acquire_many(1)
    }

    /// Is charged `n` now, or nothing.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    #[inline(always)]
    pub fn try_acquire_many(&self, n: u64) -> Result<Charge, AcquireError> {
        self.shared().try_charge(n, n)
    }

    /// Takes a place in line now, to be waited for, or only to know how long it would take.
    ///
    /// See [`Reservation`]. This is *wait time reserved*; to be told when to try again, without a
    /// place in line, is what [`try_acquire`](Self::try_acquire) does.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10)).clock(Clock::manual());
    /// let first = limiter.reserve()?;
    /// let second = limiter.reserve()?;
    /// assert_eq!(first.delay(), Duration::ZERO);
    /// assert_eq!(second.delay(), Duration::from_millis(100));
    ///
    /// // Given up, so the one behind it is due now.
    /// drop(first);
    /// assert_eq!(second.delay(), Duration::ZERO);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn reserve(&self) -> Result<Waiting<Reservation>, AcquireError> {
        self.reserve_many(1)
    }

    /// Takes a place in line now, for a call that costs `n`. See [`reserve`](Self::reserve).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    pub fn reserve_many(&self, n: u64) -> Result<Waiting<Reservation>, AcquireError> {
        Reservation::new(Arc::clone(self.shared()), n).map(Waiting::new)
    }
}

/// Charging otherwise.
impl RateLimiter {
    /// Charges `n` at once, whatever is owed: for a cost that is known only afterwards. Nobody is
    /// refused for it, but everybody who comes next waits until it has been paid off, also those in
    /// line.
    ///
    /// What is owed saturates after some 30 years.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10)).clock(Clock::manual());
    /// limiter.charge(50);
    /// assert_eq!(limiter.peek().retry_after, Duration::from_secs(5));
    /// ```
    pub fn charge(&self, n: u64) -> Charge {
        self.shared().charge(n)
    }

    /// Gives a charge back: the call was not made after all.
    ///
    /// Charges are paid off by time in the order in which they were made, and what has been paid
    /// off of this one is not given back; so at once it is all of it, and later perhaps a part, and
    /// those who have been admitted since and the promise of the quota are not harmed (but for the
    /// microsecond by which the clocks of two threads may disagree). Charges may be given back in
    /// any order. Whoever waits is due that much earlier. A charge from before a
    /// [`set_quota`](Self::set_quota) is not given back; a charge of another limiter must not be.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_minute(1)).clock(Clock::manual());
    /// let charge = limiter.try_acquire()?;
    /// // The connection could not be opened, so nothing was asked of the server.
    /// limiter.refund(charge);
    /// limiter.try_acquire()?;
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn refund(&self, charge: Charge) {
        self.shared().refund(&charge, charge.cost());
    }

    /// Corrects the cost of a charge to what it turned out to be: gives back what was too much, as
    /// [`refund`](Self::refund) does, or charges what is missing, as [`charge`](Self::charge) does.
    ///
    /// So settle soon: what time has paid off meanwhile is not given back. After a
    /// [`set_quota`](Self::set_quota) nothing is given back, but what is missing is charged.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let bytes = RateLimiter::new(Quota::per_second(1000).burst(1000)).clock(Clock::manual());
    /// let charge = bytes.try_acquire_many(600)?;
    /// bytes.settle(charge, 250);
    /// assert_eq!(bytes.available(), 750);
    ///
    /// let charge = bytes.try_acquire_many(100)?;
    /// bytes.settle(charge, 300);
    /// assert_eq!(bytes.available(), 450);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn settle(&self, charge: Charge, actual: u64) {
        match actual.checked_sub(charge.cost()) {
            Some(0) => {}
            Some(more) => drop(self.charge(more)),
            None => self.shared().refund(&charge, charge.cost() - actual),
        }
    }
}

impl Shared {
    /// Charges `n` at once.
    pub(super) fn charge(&self, n: u64) -> Charge {
        self.lock_on_time().charge(n)
    }

    /// Gives back up to `cost` of a charge.
    pub(super) fn refund(&self, charge: &Charge, cost: u64) {
        // Whoever is overdue goes first, as of when it was due: the timer is late, and that is made
        // up for.
        self.lock_on_time().give_back(charge, cost);
    }
}
