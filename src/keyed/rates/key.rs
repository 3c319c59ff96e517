//! The methods that only keys of rate limiters have.

use std::hash::{BuildHasher, Hash};

use super::super::contents::Contents;
use super::super::key::Key;
use super::slot::{KeyState, Look};
use crate::algorithm::Tat;
use crate::decision::Decision;
use crate::error::AcquireError;
use crate::limit_status::LimitStatus;
use crate::quota::Quota;
use crate::rate::{Charge, RateLimiter, Reservation};
use crate::snapshot::Snapshot;
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
        match self.with_entry(None, |rates, held, _| Ok(Err(rates.dedicate(held))))? {
            Err(dedicated) => dedicated.reserve_many(n),
            Ok(_) => unreachable!("nothing was charged"),
        }
    }

    /// Charges `n` at once, whatever the debt is. See [`RateLimiter::charge`].
    ///
    /// # Errors
    ///
    /// [`TooManyKeys`](crate::ErrorKind::TooManyKeys) if there is no room for another key, and
    /// [`Closed`](crate::ErrorKind::Closed). Nothing is charged in either case.
    pub fn charge(&self, n: u64) -> Result<Charge, AcquireError> {
        let charged = self.with_entry(None, |rates, held, now| {
            let word = held.slot.word(held.state).ok();
            Ok(match word.and_then(|mut word| word.take(n, now).ok()) {
                Some(charge) => Ok(charge),
                None => Err(rates.dedicate(held)),
            })
        })?;
        Ok(charged.unwrap_or_else(|dedicated| dedicated.charge(n)))
    }

    /// Refunds a charge of this key. See [`RateLimiter::refund`].
    ///
    /// A charge of another key or of another map is not given back, except that of a key whose 32-bit
    /// hash is the same.
    ///
    /// After the key was [evicted](crate::WhenFull) or [dropped](crate::Keyed::retain) with its
    /// debt, the charge must not be refunded: that might refund later charges of the key.
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
        self.look(
            |limiter| limiter.peek_many(n),
            |word, look| word.peek(n, look),
        )
    }

    /// Returns the decision just after a charge. See [`RateLimiter::decision`].
    pub fn decision(&self, charge: &Charge) -> Decision {
        self.look(
            |limiter| limiter.decision(charge),
            |word, look| word.decision_after(charge, look),
        )
    }

    /// Returns the state of the key at one moment. See [`RateLimiter::snapshot`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Keyed, Quota};
    ///
    /// let users = Keyed::<u64, _>::rate_limiters(Quota::per_hour(1).burst(3)).clock(Clock::manual());
    /// users.key(&7).try_acquire()?;
    /// let snapshot = users.key(&7).snapshot();
    /// assert_eq!((snapshot.limit, snapshot.in_use, snapshot.waiting), (3, 1, 0));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        self.look(RateLimiter::snapshot, |word, look| word.snapshot(look))
    }

    /// Returns the quota of the key.
    pub fn quota(&self) -> Quota {
        self.look(RateLimiter::quota, |word, _| word.terms.quota)
    }

    /// Returns what adapters take at once, and the most that one call may ask for now.
    pub(super) fn chunk_and_max_units(&self) -> (u64, u64) {
        self.look(
            |limiter| (limiter.chunk_units(), limiter.max_units()),
            |word, look| {
                let burst = word.terms.limits.burst();
                let most = if look.overdraft { u64::MAX } else { burst };
                (word.terms.quota.chunk(burst), most)
            },
        )
    }

    /// Refunds up to `cost` of a charge.
    fn refund_up_to(&self, charge: &Charge, cost: u64) {
        let (map, key) = (self.map(), self.key());
        let now = map.contents.now();
        let hash = map.hash(key);
        let mut shard = map.lock(hash);
        // A key that is not in the map has no debt to refund.
        let Some(held) = shard.find(hash, key) else {
            return;
        };
        if let Ok(mut word) = held.slot.word(held.state) {
            if word.refund(charge, cost, now) {
                return;
            }
        }
        let dedicated = map.contents.dedicate(held);
        drop(shard);
        dedicated.refund_part(charge, cost);
    }

    /// Returns the quota, and the decision that a call of cost 1 would get, of one moment.
    pub(super) fn status(&self) -> LimitStatus {
        self.look(RateLimiter::status, |word, look| LimitStatus::Rate {
            quota: word.terms.quota,
            decision: word.peek(1, look),
        })
    }

    /// Reads the state of the key without changing it.
    fn look<R>(
        &self,
        of_limiter: impl FnOnce(&RateLimiter) -> R,
        of_word: impl FnOnce(&KeyState<'_>, &Look) -> R,
    ) -> R {
        let (map, key) = (self.map(), self.key());
        let rates = &map.contents;
        let now = rates.now();
        let hash = map.hash(key);
        let mut shard = map.lock(hash);
        let look = Look {
            now,
            closed: shard.closed,
            overdraft: !rates.refuses_oversize(),
        };
        let (terms, generation) = (shard.state.terms, shard.state.generation_of(hash));
        match shard.find(hash, key).map(|held| held.slot.word(held.state)) {
            Some(Ok(word)) => return of_word(&word, &look),
            Some(Err(dedicated)) => {
                let dedicated = dedicated.clone();
                drop(shard);
                return of_limiter(&dedicated);
            }
            None => drop(shard),
        }
        let own = (rates.has_own()).then(|| rates.ask(&key.to_owned()));
        let word = KeyState {
            debt: &mut Tat::from_units(0),
            terms: own.as_ref().and_then(Option::as_deref).unwrap_or(&terms),
            generation,
        };
        of_word(&word, &look)
    }
}
