//! What one does with one key of a rate.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use super::super::acquire::{Acquire, Begun, Enter, sealed::Sealed};
use super::super::handle::{Key, OwnedKey};
use super::state::Entered;
use crate::decision::Decision;
use crate::error::AcquireError;
use crate::quota::Quota;
use crate::rate::{AcquireOwned, Charge, RateLimiter, Reservation};
use crate::wait::Waiting;

macro_rules! verbs {
    ([$($generics:tt)*] $handle:ty, [$($bounds:tt)*]) => {
        /// Rates.
        ///
        /// As the methods of [`RateLimiter`], for one key. While there is no room for it, as
        /// [there are as many keys as there may be](crate::AtCap), all of them that would charge it
        /// refuse with [`TooManyKeys`](crate::ErrorKind::TooManyKeys).
        impl<$($generics)*> $handle
        where
            $($bounds)*
        {
            /// Is charged 1 now, or nothing. See [`RateLimiter::try_acquire`].
            ///
            /// # Errors
            ///
            /// As [`RateLimiter::try_acquire`], and [`TooManyKeys`](crate::ErrorKind::TooManyKeys) if
            /// there is no room for another key.
            ///
            /// # Examples
            ///
            /// ```
            /// use std::sync::Arc;
            /// use std::time::Duration;
            /// use tollgate::{Clock, Keyed, Quota, RateLimiter};
            ///
            /// let users = Keyed::<u64, RateLimiter>::new(Quota::per_second(10)).clock(Clock::manual());
            /// let users = Arc::new(users);
            /// users.key(&7).try_acquire()?;
            /// let refused = Arc::clone(&users).key_owned(7).try_acquire().unwrap_err();
            /// assert_eq!(refused.retry_after(), Some(Duration::from_millis(100)));
            /// # Ok::<_, tollgate::AcquireError>(())
            /// ```
            #[inline]
            pub fn try_acquire(&self) -> Result<Charge, AcquireError> {
                self.try_acquire_many(1)
            }

            /// Is charged `n` now, or nothing.
            ///
            /// # Errors
            ///
            /// As [`try_acquire`](Self::try_acquire).
            #[inline]
            pub fn try_acquire_many(&self, n: u64) -> Result<Charge, AcquireError> {
                self.keyed.map.try_take::<_>(self.key(), n)
            }

            /// Waits its turn in the line of the key, and is charged 1. See
            /// [`RateLimiter::acquire`].
            ///
            /// # Cancel safety
            ///
            /// Dropping the future loses nothing, see [`Keyed`](crate::Keyed#cancel-safety).
            ///
            /// # Errors
            ///
            /// As [`RateLimiter::acquire`], and [`TooManyKeys`](crate::ErrorKind::TooManyKeys) if there
            /// is no room for another key.
            ///
            /// # Examples
            ///
            /// ```
            /// use tollgate::{Keyed, Quota, RateLimiter};
            ///
            /// # #[tokio::main(flavor = "current_thread")]
            /// # async fn main() -> Result<(), tollgate::AcquireError> {
            /// let users = Keyed::<u64, RateLimiter>::new(Quota::per_second(1000));
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

            /// Waits its turn in the line of the key, and is charged `n`, all at once.
            ///
            /// # Cancel safety, errors
            ///
            /// As [`acquire`](Self::acquire).
            #[inline]
            pub fn acquire_many(&self, n: u64) -> Waiting<Acquire<Self>> {
                Waiting::new(Acquire::new(self.clone(), n))
            }

            /// Takes a place in the line of the key now. See [`RateLimiter::reserve`].
            ///
            /// # Errors
            ///
            /// As [`acquire`](Self::acquire).
            pub fn reserve(&self) -> Result<Waiting<Reservation>, AcquireError> {
                self.reserve_many(1)
            }

            /// Takes a place in the line of the key now, for a call that costs `n`.
            ///
            /// # Errors
            ///
            /// As [`acquire`](Self::acquire).
            pub fn reserve_many(&self, n: u64) -> Result<Waiting<Reservation>, AcquireError> {
                self.keyed.map.reserve(self.key(), n)
            }

            /// Charges `n` at once, whatever is owed. See [`RateLimiter::charge`].
            ///
            /// # Errors
            ///
            /// [`TooManyKeys`](crate::ErrorKind::TooManyKeys) if there is no room for another key, and
            /// [`Closed`](crate::ErrorKind::Closed). Nothing is charged then.
            pub fn charge(&self, n: u64) -> Result<Charge, AcquireError> {
                self.keyed.map.charge(self.key(), n)
            }

            /// Gives back a charge of this key. See [`RateLimiter::refund`]. After the key was
            /// [evicted](crate::AtCap) or [forgotten](crate::Keyed::retain) with what it owed, it
            /// must not be refunded: what the key was charged since might be given back for it.
            ///
            /// # Examples
            ///
            /// ```
            /// use tollgate::{Clock, Keyed, Quota, RateLimiter};
            ///
            /// let users = Keyed::<u64, RateLimiter>::new(Quota::per_hour(1)).clock(Clock::manual());
            /// let charge = users.key(&7).try_acquire()?;
            /// users.key(&7).refund(charge);
            /// users.key(&7).try_acquire()?;
            /// # Ok::<_, tollgate::AcquireError>(())
            /// ```
            pub fn refund(&self, charge: Charge) {
                let cost = charge.cost();
                self.keyed.map.refund(self.key(), &charge, cost);
            }

            /// Corrects the cost of a charge of this key. See [`RateLimiter::settle`].
            ///
            /// # Errors
            ///
            /// As [`charge`](Self::charge), if there is more to be charged.
            pub fn settle(&self, charge: Charge, actual: u64) -> Result<(), AcquireError> {
                self.keyed.map.settle(self.key(), charge, actual)
            }

            /// How the key stands for a call that costs 1, which is not made. Whether there is room
            /// for another key is not part of it.
            pub fn peek(&self) -> Decision {
                self.peek_many(1)
            }

            /// How the key stands for a call that costs `n`, which is not made.
            pub fn peek_many(&self, n: u64) -> Decision {
                self.keyed.map.peek(self.key(), n)
            }

            /// How the key stood just after a charge. See [`RateLimiter::decision`].
            pub fn decision(&self, charge: &Charge) -> Decision {
                self.keyed.map.stood(self.key(), charge)
            }

            /// What could be had at once, if nobody waited.
            pub fn available(&self) -> u64 {
                self.keyed.map.available(self.key())
            }

            /// The quota of the key.
            pub fn quota(&self) -> Quota {
                self.keyed.map.quota_of_key(self.key())
            }

            /// How many wait for this key.
            pub fn waiting(&self) -> usize {
                self.keyed.map.waiting(self.key())
            }
        }

        impl<$($generics)*> Sealed for $handle {}

        impl<$($generics)*> Enter for $handle
        where
            $($bounds)*
        {
            type Permit = Charge;
            type Cost = u64;
            type Wait = AcquireOwned;

            #[inline]
            fn begin(&self, cost: u64) -> Result<Begun<Charge, AcquireOwned>, AcquireError> {
                self.keyed.map.begin_to_wait(self.key(), cost)
            }
        }
    };
}

verbs!(
    ['a, K, Q: ?Sized, S] Key<'a, K, RateLimiter, Q, S>,
    [
        K: Hash + Eq + Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K>,
        S: BuildHasher + Default + Clone,
    ]
);

verbs!(
    [K, S] OwnedKey<K, RateLimiter, S>,
    [K: Hash + Eq + Clone, S: BuildHasher + Default + Clone,]
);

impl<K, S> super::Rates<K, S>
where
    K: Hash + Eq,
    S: BuildHasher + Default + Clone,
{
    /// Takes so much now, or begins to wait.
    pub(super) fn begin_to_wait<Q>(
        &self,
        key: &Q,
        cost: u64,
    ) -> Result<Begun<Charge, AcquireOwned>, AcquireError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let state = self.state();
        Ok(match state.enter(state.ask(key), cost, true)? {
            Entered::Charged(charge) => Begun::Entered(charge),
            Entered::Line(line, _) => Begun::Wait(line.acquire(cost).into_inner()),
        })
    }
}
