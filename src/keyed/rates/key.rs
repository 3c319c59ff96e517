//! The methods of one key of a rate.

use super::super::acquire::{Acquire, Begun, Enter, sealed::Sealed};
use super::super::handle::{Address, Handle};
use crate::decision::Decision;
use crate::error::AcquireError;
use crate::quota::Quota;
use crate::rate::{AcquireOwned, Charge, RateLimiter, Reservation};
use crate::wait::Waiting;

/// One key of a map of rate limiters, with the methods of [`RateLimiter`].
///
/// While the [map is full](crate::WhenFull), all methods that would charge a key that is not kept
/// fail with [`TooManyKeys`](crate::ErrorKind::TooManyKeys).
impl<A: Address<RateLimiter>> Handle<RateLimiter, A> {
    /// Charges 1 now, or nothing. See [`RateLimiter::try_acquire`].
    ///
    /// # Errors
    ///
    /// As [`RateLimiter::try_acquire`], and [`TooManyKeys`](crate::ErrorKind::TooManyKeys) if there is
    /// no room for another key.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use tollgate::{Clock, Keyed, Quota};
    ///
    /// let users = Keyed::<u64, _>::rate_limiters(Quota::per_second(10)).clock(Clock::manual());
    /// let users = Arc::new(users);
    /// users.key(&7).try_acquire()?;
    /// let rejected = Arc::clone(&users).key_owned(7).try_acquire().unwrap_err();
    /// assert_eq!(rejected.retry_after(), Some(Duration::from_millis(100)));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn try_acquire(&self) -> Result<Charge, AcquireError> {
        self.try_acquire_many(1)
    }

    /// Charges `n` now, or nothing.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    #[inline]
    pub fn try_acquire_many(&self, n: u64) -> Result<Charge, AcquireError> {
        self.try_take(n)
    }

    /// Waits in the queue of the key, and charges 1. See [`RateLimiter::acquire`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [`Keyed`](crate::Keyed#cancel-safety).
    ///
    /// # Errors
    ///
    /// As [`RateLimiter::acquire`], and [`TooManyKeys`](crate::ErrorKind::TooManyKeys) if there is no
    /// room for another key.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Keyed, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let users = Keyed::<u64, _>::rate_limiters(Quota::per_second(1000));
    /// let ann = users.key(&7);
    /// let (first, second) = tokio::try_join!(ann.acquire(), ann.acquire())?;
    /// assert!(second.at().saturating_since(first.at()).as_nanos() >= 999_999);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire(&self) -> Waiting<Acquire<Self>> {
        self.acquire_many(1)
    }

    /// Waits in the queue of the key, and charges `n`, all at once.
    ///
    /// # Cancel safety, errors
    ///
    /// As [`acquire`](Self::acquire).
    #[inline]
    pub fn acquire_many(&self, n: u64) -> Waiting<Acquire<Self>> {
        Waiting::new(Acquire::new(self.clone(), n))
    }

    /// Takes a place in the queue of the key now. See [`RateLimiter::reserve`].
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    pub fn reserve(&self) -> Result<Waiting<Reservation>, AcquireError> {
        self.reserve_many(1)
    }

    /// Takes a place in the queue of the key now, for a call that costs `n`.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    pub fn reserve_many(&self, n: u64) -> Result<Waiting<Reservation>, AcquireError> {
        self.dedicated()?.limiter().reserve_many(n)
    }

    /// Charges `n` at once, whatever the debt is. See [`RateLimiter::charge`].
    ///
    /// # Errors
    ///
    /// [`TooManyKeys`](crate::ErrorKind::TooManyKeys) if there is no room for another key, and
    /// [`Closed`](crate::ErrorKind::Closed). Nothing is charged then.
    pub fn charge(&self, n: u64) -> Result<Charge, AcquireError> {
        let charged = self.charge_word(n)?;
        Ok(charged.unwrap_or_else(|dedicated| dedicated.limiter().charge(n)))
    }

    /// Gives back a charge of this key. See [`RateLimiter::refund`].
    ///
    /// After the key was [evicted](crate::WhenFull) or [dropped](crate::Keyed::retain) with its debt,
    /// the charge must not be refunded: it might give back what the key was charged since.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Keyed, Quota};
    ///
    /// let users = Keyed::<u64, _>::rate_limiters(Quota::per_hour(1)).clock(Clock::manual());
    /// let charge = users.key(&7).try_acquire()?;
    /// users.key(&7).refund(charge);
    /// users.key(&7).try_acquire()?;
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn refund(&self, charge: Charge) {
        self.refund_up_to(&charge, charge.cost());
    }

    /// Corrects the cost of a charge of this key. See [`RateLimiter::settle`].
    ///
    /// # Errors
    ///
    /// As [`charge`](Self::charge), if there is more to be charged.
    pub fn settle(&self, charge: Charge, actual: u64) -> Result<(), AcquireError> {
        match actual.checked_sub(charge.cost()) {
            Some(0) => Ok(()),
            Some(more) => self.charge(more).map(drop),
            None => {
                self.refund_up_to(&charge, charge.cost() - actual);
                Ok(())
            }
        }
    }

    /// Returns the decision that a call of cost 1 would get, without charging it. Whether there is
    /// room for another key is not part of it.
    pub fn peek(&self) -> Decision {
        self.peek_many(1)
    }

    /// Returns the decision that a call of cost `n` would get, without charging it.
    pub fn peek_many(&self, n: u64) -> Decision {
        self.look(
            |limiter| limiter.peek_many(n),
            |word, look| look.peek(word, n),
        )
    }

    /// Returns the decision just after a charge. See [`RateLimiter::decision`].
    pub fn decision(&self, charge: &Charge) -> Decision {
        self.look(
            |limiter| limiter.decision(charge),
            |word, look| look.decision(word, charge),
        )
    }

    /// Returns how much a call could be charged now, if nobody waited.
    pub fn available(&self) -> u64 {
        self.look(RateLimiter::available, |word, look| {
            look.peek(word, 0).remaining
        })
    }

    /// Returns the quota of the key.
    pub fn quota(&self) -> Quota {
        self.look(RateLimiter::quota, |word, _| word.terms.quota)
    }

    /// Returns how many callers wait for this key.
    pub fn waiting(&self) -> usize {
        self.look(RateLimiter::waiting, |_, _| 0)
    }
}

impl<A: Address<RateLimiter>> Sealed for Handle<RateLimiter, A> {}

impl<A: Address<RateLimiter>> Enter for Handle<RateLimiter, A> {
    type Permit = Charge;
    type Cost = u64;
    type Wait = AcquireOwned;

    #[inline]
    fn begin(&self, cost: u64) -> Result<Begun<Charge, AcquireOwned>, AcquireError> {
        Ok(match self.enter(cost, true)? {
            Ok(charge) => Begun::Entered(charge),
            Err(dedicated) => Begun::Wait(dedicated.acquire(cost).into_inner()),
        })
    }
}
