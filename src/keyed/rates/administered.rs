//! What goes through all keys, shard by shard.

use std::fmt;
use std::hash::{BuildHasher, Hash};

use super::super::Keyed;
use super::super::map::{Cleared, Shard};
use super::Rates;
use super::side::{Side, Terms};
use super::state::State;
use super::word::Word;
use crate::quota::Quota;
use crate::rate::{DedicatedLimiter, RateLimiter};
use crate::sync::lock;
use crate::time::Tick;

/// Of all keys.
impl<K, S> Keyed<K, RateLimiter, S> {
    /// How many keys are kept: those that were used and have not been dropped, also if they owe
    /// nothing any more.
    pub fn len(&self) -> usize {
        self.map.begun().map_or(0, |state| state.map.len())
    }

    /// Whether no key is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys are kept at the most.
    pub fn capacity(&self) -> usize {
        self.map.max_keys
    }
}

/// Of all keys; these go through them shard by shard, and take the longer the more there are. Calls
/// for keys of other shards go on meanwhile.
impl<K, S> Keyed<K, RateLimiter, S>
where
    K: Hash + Eq,
    S: BuildHasher + Default + Clone,
{
    /// Forgets the keys for which `keep` says `false`, and with them what they owe. A key whose
    /// callers wait, or that is [kept](Keyed#memory) for what was given back, stays.
    ///
    /// `keep` is called under no lock, with copies of the keys, and may use the map. Keys that come
    /// meanwhile may not be seen, nor those that are moved to make room for them.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Keyed, Quota, RateLimiter};
    ///
    /// let users = Keyed::<u64, RateLimiter>::new(Quota::per_hour(1)).clock(Clock::manual());
    /// users.key(&1).try_acquire()?;
    /// users.key(&2).try_acquire()?;
    /// users.retain(|user| *user == 1);
    /// assert_eq!(users.len(), 1);
    /// users.key(&2).try_acquire()?;
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn retain(&self, mut keep: impl FnMut(&K) -> bool)
    where
        K: Clone,
    {
        if let Some(state) = self.map.begun() {
            let now = state.now();
            let copy = |_: &Side, key: &K, _: &Word| Some(key.clone());
            let mut forget = |key: &K| !keep(key);
            state.map.clear(copy, &mut forget, |shard, number| {
                state.forget(shard, number, now)
            });
        }
    }

    /// Drops the keys that have fully recovered, and gives back what memory that leaves unused.
    pub fn shrink(&self)
    where
        K: Clone,
    {
        if let Some(state) = self.map.begun() {
            let now = state.now();
            let copy = |side: &Side, key: &K, word: &Word| {
                // Limiters that are not needed any more have been taken back.
                let paid = |debt| side.terms.paid_off(debt) <= now;
                let recovered = state.has_own() || word.debt().is_none_or(paid);
                recovered.then(|| key.clone())
            };
            state.map.clear(copy, &mut |_| true, |shard, number| {
                let retired = state.retire(shard, number, now);
                let released = state.forget_recovered(shard, number, now);
                (released.0, released.1.or(retired))
            });
        }
    }

    /// Changes the quota of all keys. What they spent stays spent, and everybody in
    /// line is due by the new one; see [`RateLimiter::set_quota`].
    ///
    /// Windows of keys begin at the multiples of their length since the epoch of the clock, also those
    /// of the new quota. So where the period changes, a [`FixedWindow`](crate::Algorithm::FixedWindow)
    /// and a [`SubInterval`](crate::Algorithm::SubInterval) promise what they do before and after it,
    /// but not across.
    ///
    /// A key goes by the new quota as soon as its shard has been gone through, and all do when this
    /// returns. It changes nothing for keys that have [their own](Self::quotas).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Keyed, Quota, RateLimiter};
    ///
    /// let users = Keyed::<u64, RateLimiter>::new(Quota::per_hour(4).burst(4)).clock(Clock::manual());
    /// users.key(&1).try_acquire()?;
    /// users.set_quota(Quota::per_hour(8).burst(8));
    /// assert_eq!(users.key(&1).available(), 6);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If the quota does not fit the [algorithm](Self::algorithm).
    #[track_caller]
    pub fn set_quota(&self, quota: Quota) {
        let state = self.map.state();
        state.enter_runtime();
        *lock(&state.terms) = Terms::new(state.template.algorithm(), quota);
        for shard in 0..state.map.shards() {
            for line in state.take_terms_over(shard) {
                state.tell_quota(&line);
            }
        }
    }

    /// The quota of all keys that have not their own.
    pub fn quota(&self) -> Quota {
        let begun = self.map.begun();
        begun.map_or(self.map.quota, |state| lock(&state.terms).quota)
    }

    /// Admits nobody any more, whatever the key. Everybody in line gets
    /// [`Closed`](crate::ErrorKind::Closed), and so does everybody who comes later.
    pub fn close(&self) {
        let state = self.map.state();
        for shard in 0..state.map.shards() {
            let mut shard = state.map.lock_shard(shard);
            shard.closed = true;
            let lines: Vec<DedicatedLimiter> = shard.side.cold.lines.iter().cloned().collect();
            drop(shard);
            for line in lines {
                line.limiter().close();
            }
        }
    }

    /// Whether it was [closed](Self::close).
    pub fn is_closed(&self) -> bool {
        let begun = self.map.begun();
        begun.is_some_and(|state| state.map.lock_shard(state.map.shards() - 1).closed)
    }
}

impl<K, S> State<K, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// Lets a shard go by the terms of now, and says which limiters have to be told.
    fn take_terms_over(&self, shard: usize) -> Vec<DedicatedLimiter> {
        let mut shard = self.map.lock_shard(shard);
        // Under the lock, so that no shard goes back to what was set before.
        let terms = *lock(&self.terms);
        let now = self.now();
        let Shard { table, side, .. } = &mut *shard;
        if self.has_own() {
            side.terms = terms;
            return Vec::new();
        }
        if side.terms.are(&terms) {
            side.terms = terms;
            return side.cold.lines.iter().cloned().collect();
        }
        for number in table.all() {
            let word = table.get_mut(number);
            if let Some(debt) = word.debt() {
                *word = Word::owes(side.terms.carry(debt, &terms, now));
            }
        }
        side.scale_folded(self.template.algorithm(), &terms, now);
        side.terms = terms;
        side.begin_generation();
        side.cold.lines.iter().cloned().collect()
    }

    /// Lets a limiter go by the quota of now. It wakes callers, who may set another one, so no lock
    /// is held: whoever comes too late with an old one finds that out, and tells it the new one.
    fn tell_quota(&self, line: &DedicatedLimiter) {
        loop {
            let quota = lock(&self.terms).quota;
            line.limiter().set_quota(quota);
            if lock(&self.terms).quota == quota {
                return;
            }
        }
    }

    /// Takes an entry out, unless it has a limiter that is needed.
    fn forget(
        &self,
        shard: &mut Shard<K, Word, Side>,
        number: usize,
        now: Tick,
    ) -> Cleared<K, Word, DedicatedLimiter> {
        let retired = self.retire(shard, number, now);
        if shard.table.get(number).debt().is_none() {
            return (None, retired);
        }
        (self.map.take(&mut shard.table, number), retired)
    }

    /// Takes an entry out if it owes nothing.
    fn forget_recovered(
        &self,
        shard: &mut Shard<K, Word, Side>,
        number: usize,
        now: Tick,
    ) -> Cleared<K, Word, DedicatedLimiter> {
        let terms = self.terms_of(&shard.side, number);
        let debt = shard.table.get(number).debt();
        if debt.is_some_and(|debt| terms.paid_off(debt) <= now) {
            self.forget(shard, number, now)
        } else {
            (None, None)
        }
    }
}

impl<K, S> fmt::Debug for Rates<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed")
            .field("quota", &format_args!("{}", self.quota))
            .field("max_keys", &self.max_keys)
            .field("at_cap", &self.at_cap)
            .field("len", &self.begun().map_or(0, |state| state.map.len()))
            .finish_non_exhaustive()
    }
}
