//! Going on from the states of the keys of another map.
//!
//! The windows of all keys of a map begin together, so they have one origin: that of the state that was read last.

use std::cmp::Reverse;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use super::super::Keyed;
use super::super::kind::KeyLimit;
use super::slot::RateSlot;
use crate::RateLimiter;
use crate::algorithm::{Ledger, LimiterState, Origin, RestoreError, fresh_generation};
use crate::time::Tick;

/// The states of all keys.
impl<K: Hash + Eq, S: BuildHasher> Keyed<K, RateLimiter, S> {
    /// Returns the keys with a backlog and their states, for [`restore`](Self::restore). See [`RateLimiter::state`].
    ///
    /// The keys of one shard are read at once, under its lock. No lock is held between two calls of the iterator. Keys
    /// that are inserted in the meantime may be missed.
    ///
    /// # Examples
    ///
    /// See [`restore`](Self::restore).
    pub fn states(&self) -> impl Iterator<Item = (K, LimiterState)>
    where
        K: Clone,
    {
        let map = self.map.get().into_iter();
        let found = map.flat_map(|map| {
            let algorithm = map.state.algorithm();
            map.read(move |slot, shard, now| {
                let is_idle = RateLimiter::is_idle(&map.state, shard, slot, now);
                let state = |slot: &mut RateSlot| match slot.word(shard) {
                    Ok(word) => Ok(word.ledger(algorithm).state(now)),
                    Err(limiter) => Err(Arc::clone(limiter)),
                };
                (!is_idle).then(|| state(slot))
            })
        });
        // A limiter that is asked may wake its waiters, so it is asked under no lock of the map.
        found.map(|(key, state)| (key, state.unwrap_or_else(|limiter| limiter.state())))
    }

    /// Begins with the [states](Self::states) of the keys of another map, the last of which was read `elapsed` ago. See
    /// [`RateLimiter::restore`], also for `elapsed`.
    ///
    /// Every key goes on as if the map had never been dropped; a key that was read before the last one owes a little
    /// more, by the time between them. All windows of the map end when those of the other map would have ended; if
    /// no key owes anything, they begin at the epoch of the clock. A key
    /// whose [quota](Self::quotas) is another one now carries over what it has spent, like in
    /// [`requota`](Self::requota). If there are more keys than [`max_keys`](Self::max_keys), the map keeps those whose
    /// backlog takes longest to be paid off.
    ///
    /// # Errors
    ///
    /// - [`Algorithm`](RestoreError::Algorithm), if one is the state of another algorithm.
    ///
    /// # Panics
    ///
    /// Panics after the first use. An option after it panics, too.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Keyed, Quota, RateLimiter};
    ///
    /// let users = || {
    ///     let each = RateLimiter::new(Quota::per_minute(2).burst(2)).clock(Clock::manual());
    ///     Keyed::<String, _>::new(each)
    /// };
    /// let before = users();
    /// before.key("ann").try_acquire_many(2)?;
    /// let states: Vec<_> = before.states().collect();
    ///
    /// // In another process.
    /// let after = users().restore(states, Duration::from_secs(10))?;
    /// let refused = after.key("ann").try_acquire().unwrap_err();
    /// assert_eq!(refused.retry_after(), Some(Duration::from_secs(20)));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn restore(
        mut self,
        states: impl IntoIterator<Item = (K, LimiterState)>,
        elapsed: Duration,
    ) -> Result<Self, RestoreError> {
        self.first_use = self.first_use.assert_ahead();
        let states: Vec<_> = states.into_iter().collect();
        let algorithm = self.pattern.config.algorithm;
        let now = self.pattern.config.clock.now();
        if let Some((_, last)) = states.iter().max_by_key(|(_, state)| state.read_at()) {
            let last = last.restored(algorithm, elapsed)?;
            self.pattern.config.origin = Origin::at(last.origin_at(now));
        }
        let mut found = Vec::with_capacity(states.len());
        for (key, state) in states {
            let restored = state.restored(algorithm, elapsed)?;
            let own = self.setting_of.as_ref().map(|quota_of| quota_of(&key));
            let how = self.quota_change.unwrap_or_else(|| algorithm.on_change());
            let quota = (own.unwrap_or_else(|| self.setting()), how);
            let origin = self.pattern.config.origin;
            let generation = fresh_generation();
            let ledger = Ledger::restored(&restored, quota, origin, now, generation);
            let (word, params) = (ledger.word(), ledger.params());
            if word.end() > params.units_at(now) {
                let paid_off = params.tick_at(word.end());
                let owes = word.backlog_at(params.units_at(now));
                let is_overdrawn = owes > params.burst_tolerance;
                let until = if is_overdrawn {
                    paid_off
                } else {
                    Tick::default()
                };
                found.push((paid_off, until, key, own, word, restored, quota));
            }
        }
        found.sort_by_key(|(paid_off, ..)| Reverse(*paid_off));
        let map = self.map();
        for (_, until, key, own, word, restored, quota) in found {
            let hash = map.hash(&key);
            map.insert_first(key, hash, |shard| {
                shard.overdrawn_until = shard.overdrawn_until.max(until);
                map.state
                    .restored_slot(shard, hash, own, word, restored, quota)
            });
        }
        Ok(self)
    }
}
