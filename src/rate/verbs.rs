//! The acquiring methods of a [`RateLimiter`], and later changes of a charge.

use std::sync::Arc;

use super::acquire::Acquire;
use super::charge::Charge;
use super::limiter::RateLimiter;
use super::reservation::Reservation;
use crate::error::AcquireError;
use crate::time::Tick;
use crate::wait::Waiting;

/// Acquiring.
///
/// The methods differ in how much they ask for (`_many`), and in whether they wait (`try_` does
/// not). Everything else is added to the future: `cancel_on`, [`timeout`](Waiting::timeout),
/// [`wait`](Waiting::wait). The `_owned` futures do not borrow the limiter; a [`Charge`] never
/// does.
///
/// Requesting 0 completes immediately unless the limiter is closed.
impl RateLimiter {
    /// Waits for its turn, and charges 1.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// - [`Closed`](crate::ErrorKind::Closed), if the limiter is or becomes closed;
    /// - [`QueueFull`](crate::ErrorKind::QueueFull), see [`max_waiters`](Self::max_waiters);
    /// - [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity), if the call asks for more than the
    ///   burst, unless [`oversize`](Self::oversize) allows it: immediately for a new call, and at
    ///   the head of the queue for a waiter that joined before the quota changed.
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
    #[doc(alias = "until_ready")]
    #[doc(alias = "until_ready_with_jitter")]
    #[doc(alias = "acquire_one")]
    pub fn acquire(&self) -> Waiting<Acquire<&Self>> {
        self.acquire_many(1)
    }

    /// Waits for its turn, and charges `n`, all at once. The burst must be at least `n`, unless the
    /// limiter allows an [overdraft](RateLimiter::oversize).
    ///
    /// # Cancel safety, errors
    ///
    /// Same as [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Quota, RateLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let bytes = RateLimiter::new(Quota::bytes_per_second(20_000_000));
    /// let charge = bytes.acquire_many(64 * 1024).await?;
    /// assert_eq!(charge.cost(), 65_536);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    #[doc(alias = "until_n_ready")]
    #[doc(alias = "until_n_ready_with_jitter")]
    pub fn acquire_many(&self, n: u64) -> Waiting<Acquire<&Self>> {
        Waiting::new(Acquire::new(self, n))
    }

    /// Waits like [`acquire`](Self::acquire), with a future that can move into a task. For another cost
    /// than 1, see [`cost_owned`](Self::cost_owned).
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
        Waiting::new(Acquire::new(self, 1))
    }

    /// Returns the tick of a charge, or the current one.
    pub(crate) fn tick_of(&self, charge: Option<&Charge>) -> Tick {
        charge.map_or_else(|| self.shared().clock().now(), Charge::at)
    }

    /// Charges 1 now, or fails.
    ///
    /// # Errors
    ///
    /// - [`RateLimited`](crate::ErrorKind::RateLimited), with the time after which the call would
    ///   be admitted if no other call came. The time is exact: one nanosecond earlier is too early.
    ///   Also while there are waiters, which go first; it is a nanosecond while more of them are due
    ///   than [one call serves](Self#long-queues). Behind a queue with
    ///   [`MissedTickBehavior::Delay`](crate::MissedTickBehavior::Delay), or with another
    ///   [algorithm](RateLimiter::algorithm) than the default, it is the earliest time; a
    ///   [reservation](Self::reserve) has the exact one;
    /// - [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity), if the call asks for more than the
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
    #[doc(alias = "check")]
    pub fn try_acquire(&self) -> Result<Charge, AcquireError> {
        self.try_acquire_many(1)
    }

    /// Charges `n` now, or fails.
    ///
    /// # Errors
    ///
    /// Same as [`try_acquire`](Self::try_acquire).
    #[inline(always)]
    #[doc(alias = "check_n")]
    pub fn try_acquire_many(&self, n: u64) -> Result<Charge, AcquireError> {
        self.shared().try_charge(n, n)
    }

    /// Joins the queue now, to wait later or only to know the delay.
    ///
    /// See [`Reservation`]. This is *wait time reserved*; [`try_acquire`](Self::try_acquire)
    /// returns when to retry, without a place in the queue.
    ///
    /// # Errors
    ///
    /// Same as [`acquire`](Self::acquire).
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

    /// Joins the queue now, for a call of cost `n`. See [`reserve`](Self::reserve).
    ///
    /// # Errors
    ///
    /// Same as [`acquire`](Self::acquire).
    pub fn reserve_many(&self, n: u64) -> Result<Waiting<Reservation>, AcquireError> {
        Reservation::new(self.handle(), n).map(Waiting::new)
    }
}

/// Other charges.
impl RateLimiter {
    /// Charges `n` immediately, whatever the backlog is: for a cost that is known only afterwards.
    /// No call is refused for it, but all later calls, and all waiters, wait until it has been paid
    /// off.
    ///
    /// The backlog saturates, at the earliest, where the [time of a limiter](Self) ends: after nine
    /// years, or after two at 16 per nanosecond.
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
    #[doc(alias = "initial")]
    pub fn charge(&self, n: u64) -> Charge {
        self.here().lock_on_time().charge(n)
    }

    /// Refunds a charge whose call was not made after all.
    ///
    /// Time pays charges off in the order in which they were made, and what it has paid off of this
    /// one is not given back. So a refund right after the charge gives back all of it, and a later
    /// one perhaps a part. It harms neither the calls that have been admitted since nor the promise
    /// of the quota (except for the microsecond by which the clocks of two threads may disagree).
    /// Charges may be refunded in any order. Waiters are due that much earlier. A charge from
    /// before a [`set_quota`](Self::set_quota) or a [pause](Self::pause_for) is not given back, nor
    /// is a charge of another limiter.
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

    /// Corrects the cost of a charge to the actual one: gives back the excess, like
    /// [`refund`](Self::refund), or charges what is missing, like [`charge`](Self::charge).
    ///
    /// Settle soon, because what time has paid off meanwhile is not given back. Where a
    /// [`refund`](Self::refund) gives nothing back, for example after a
    /// [`set_quota`](Self::set_quota), neither does this, but what is missing is charged.
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
