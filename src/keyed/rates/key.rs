//! The methods of keys of rate limiters only.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use super::super::by_key::{Key, Settle};
use super::super::kind::LockedEntry;
use super::limits::LedgerSnapshot;
use crate::RateLimiter;
use crate::error::AcquireError;
use crate::quota::Quota;
use crate::rate::{Charge, Reservation};
use crate::status::{Decision, Snapshot};
use crate::wait::Waiting;

/// One key of a map of rate limiters.
impl<Q: Hash + Eq + ToOwned + ?Sized, S: BuildHasher> Key<'_, RateLimiter, Q, S> {
    /// Joins the queue of the key now. See [`RateLimiter::reserve`].
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire).
    pub fn reserve(&self) -> Result<Waiting<Reservation>, AcquireError> {
        self.reserve_many(1)
    }

    /// Joins the queue of the key now, for a call of cost `n`.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire).
    pub fn reserve_many(&self, n: u64) -> Result<Waiting<Reservation>, AcquireError> {
        self.limiter()?.reserve_many(n)
    }

    /// Charges `n` immediately, with any backlog. See [`RateLimiter::charge`].
    ///
    /// # Errors
    ///
    /// [`TooManyKeys`](crate::ErrorKind::TooManyKeys) if there is no room for another key, and
    /// [`Closed`](crate::ErrorKind::Closed). Nothing is charged in either case.
    pub fn charge(&self, n: u64) -> Result<Charge, AcquireError> {
        match self.try_acquire_many(n) {
            Ok(charge) => Ok(charge),
            Err(_) => Ok(self.limiter()?.charge(n)),
        }
    }

    /// Refunds a charge of this key. See [`RateLimiter::refund`].
    ///
    /// A charge of another key or of another map is not given back, nor is a charge from before the
    /// map dropped the key: because the key had recovered, or, with its backlog, by
    /// [eviction](crate::keyed::WhenFull) or [`retain`](crate::Keyed::retain). Keys of a shard are
    /// told apart by a number of 24 bits, which each takes when it is inserted, when its limiter is
    /// dropped, and when it is read while the map does not keep it. So a refund that is too late by
    /// exactly a multiple of 16,777,215 of these events in its shard is not recognized, and may
    /// refund later charges of the key at that number.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Keyed, Quota};
    ///
    /// let users = Keyed::<u64, _>::rate_limiters(Quota::per_hour(1));
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
    /// The errors of [`charge`](Self::charge), if the actual cost is higher.
    pub fn settle(&self, charge: Charge, actual: u64) -> Result<(), AcquireError> {
        match actual.checked_sub(charge.cost()) {
            Some(0) => {}
            Some(more) => {
                self.charge(more)?;
            }
            None => self.refund_up_to(&charge, charge.cost() - actual),
        }
        Ok(())
    }

    /// Returns the decision that a call of cost 1 would get, without charging it. The decision
    /// ignores whether there is room for another key.
    pub fn peek(&self) -> Decision {
        self.peek_many(1)
    }

    /// Returns the decision that a call of cost `n` would get, without charging it.
    pub fn peek_many(&self, n: u64) -> Decision {
        match self.ledger() {
            Ok(mut key) => key.decision(n),
            Err(limiter) => limiter.peek_many(n),
        }
    }

    /// Returns the decision just after a charge. See [`RateLimiter::decision`].
    pub fn decision(&self, charge: &Charge) -> Decision {
        match self.ledger() {
            Ok(mut key) => key.ledger.decision_after(&charge.0, key.now),
            Err(limiter) => limiter.decision(charge),
        }
    }

    /// Returns the state of the key at one moment. See [`RateLimiter::snapshot`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Keyed, Quota};
    ///
    /// let users = Keyed::<u64, _>::rate_limiters(Quota::per_hour(1).burst(3));
    /// users.key(&7).try_acquire()?;
    /// let snapshot = users.key(&7).snapshot();
    /// assert_eq!((snapshot.limit, snapshot.in_use, snapshot.waiting), (3, 1, 0));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        match self.ledger() {
            Ok(mut key) => key.ledger.snapshot(key.now),
            Err(limiter) => limiter.snapshot(),
        }
    }

    /// Returns the quota of the key.
    pub fn quota(&self) -> Quota {
        match self.ledger() {
            Ok(key) => key.ledger.quota(),
            Err(limiter) => limiter.quota(),
        }
    }

    /// Returns the ledger of the key, or its limiter.
    fn ledger(&self) -> Result<LedgerSnapshot, Arc<RateLimiter>> {
        let rates = &self.map().state;
        self.read_or_new(|entry| rates.ledger(entry))
    }

    /// Returns the limiter of the key, and creates it if there is none.
    fn limiter(&self) -> Result<Arc<RateLimiter>, AcquireError> {
        let (map, key) = (self.map(), self.key());
        let hash = map.hash(key);
        let limiter_of = |entry: LockedEntry<'_, _>, _| map.state.limiter_of(entry);
        let limiter = map.with_entry(key, hash, |_, _| None, limiter_of)?;
        map.reclaim_limiters(hash);
        Ok(limiter)
    }

    /// Refunds up to `cost` of a charge.
    fn refund_up_to(&self, charge: &Charge, cost: u64) {
        let rates = &self.map().state;
        // A key that is not in the map has no backlog to refund.
        let limiter = self.read(|entry| rates.refund(entry, &charge.0, cost));
        if let Some(limiter) = limiter.flatten() {
            limiter.refund_part(charge, cost);
        }
    }
}

impl Settle for RateLimiter {
    fn settle<Q, S>(key: &Key<'_, Self, Q, S>, charge: Charge, used: u64)
    where
        Q: Hash + Eq + ToOwned + ?Sized,
        S: BuildHasher,
    {
        // It fails only if the map has no room for the key, and then the key owes nothing.
        let _ = key.settle(charge, used);
    }
}
