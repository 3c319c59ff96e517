//! The limits of all keys of a rate, in use: how the map decides calls under the lock of a shard.
//!
//! 1. The clock is read before the lock only for a key that is found there: an older time admits
//!    less, never more. For a key that is inserted, perhaps again, the clock is read under the
//!    lock, because the earlier backlog of the key may be forgotten.
//! 2. The quota of a key, if it has its own, is computed before the lock, when the key is inserted.
//! 3. The times of two runtimes need not agree, so on tokio's time the state of a key is not a
//!    single word. There a key has a limiter from its insertion to its removal, with a state for
//!    each runtime. The limiter is not in the list of its shard, so it is never reclaimed into a
//!    word.

use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::super::by_key::kind::{Decided, KeyLimit};
use super::super::key::Key;
use super::super::shard::{Contents, Held, Shard, spread};
use super::slot::{KeyState, RateSlot, Reading, ShardState, Terms, WithQuota, Word};
use crate::RateLimiter;
use crate::algorithm::{Rule, Tat, fresh_generation};
use crate::error::{AcquireError, ErrorKind};
use crate::quota::Quota;
use crate::rate::{Acquire, Charge};
use crate::status::LimitStatus;
use crate::throttle::Weighted;
use crate::time::{Counter, Tick};
use crate::wait::remaining_timeout;

/// The number of quotas that keys share.
const SHARED: usize = 16;

/// The state of a key that has spent nothing.
const UNUSED: Tat = Tat::from_units(0);

/// The state common to all keys.
pub struct Rates {
    /// Has the options, and the quota of all keys without their own quota, once their shards have
    /// adopted it. Its lock is always taken last.
    pattern: RateLimiter,
    /// The counter of the system clock, if the map uses that clock.
    counter: Option<Counter>,
    /// Whether keys have quotas of their own.
    has_own: bool,
    /// Slots for the shared terms of quotas; a slot keeps the first quota that maps to it.
    shared: [OnceLock<Arc<Terms>>; SHARED],
}

impl Rates {
    /// Returns the terms of a quota.
    ///
    /// # Panics
    ///
    /// Panics if the quota does not fit the algorithm.
    fn terms(&self, quota: Quota) -> Terms {
        let params = self.pattern.config.algorithm.promise(quota).params();
        Terms { quota, params }
    }

    /// Converts the state of a key to other terms.
    fn carry(&self, tat: Tat, old: &Terms, new: &Terms, now: Tick) -> Tat {
        let how = self.pattern.config.algorithm.on_change();
        tat.carry(how, &old.params, &new.params, now)
    }

    /// Returns the slot of a key with this state and, if any, its own terms.
    fn slot_of(own: Option<Arc<Terms>>, tat: Tat, hash: u32) -> RateSlot {
        let Some(terms) = own else {
            return RateSlot::Word { hash, tat };
        };
        let own = WithQuota {
            tat,
            terms,
            generation: fresh_generation(),
        };
        let own = Box::new(own);
        RateSlot::WithQuota { hash, own }
    }

    /// Returns the limiter of a key, and creates it if there is none.
    #[inline(never)]
    pub(super) fn limiter_of(&self, held: Held<'_, Self>) -> Arc<RateLimiter> {
        let hash = Self::hash(held.slot);
        let word = match held.slot.word(held.state) {
            Ok(word) => word,
            Err(limiter) => return limiter.clone(),
        };
        let limiter = (self.pattern).promote(word.terms.quota, word.generation, *word.tat);
        if held.closed {
            // The limiter serves a refund; no caller has joined it.
            limiter.close();
        }
        held.state.listed.insert(hash);
        *held.slot = RateSlot::Limiter {
            hash,
            limiter: limiter.clone(),
        };
        limiter
    }

    /// Removes the limiter of an entry, if it is no longer needed.
    fn reclaim(
        &self,
        slot: &mut RateSlot,
        state: &ShardState,
        now: Tick,
    ) -> Option<Arc<RateLimiter>> {
        let RateSlot::Limiter { hash, limiter } = slot else {
            return None;
        };
        let (tat, quota) = limiter.try_reclaim(now)?;
        // Another change of the quota of all keys is in progress, and the limiter counts in other
        // units.
        if !self.has_own && quota != state.terms.quota {
            return None;
        }
        let own = self.has_own.then(|| self.own(quota));
        let (unneeded, hash) = (limiter.clone(), *hash);
        *slot = Self::slot_of(own, tat, hash);
        Some(unneeded)
    }
}

impl Contents for Rates {
    type Slot = RateSlot;
    type ShardState = ShardState;
    type Setting = Quota;
    type Own = Arc<Terms>;
    type Limiter = RateLimiter;

    #[inline]
    fn hash(slot: &RateSlot) -> u32 {
        match slot {
            RateSlot::Word { hash, .. }
            | RateSlot::WithQuota { hash, .. }
            | RateSlot::Limiter { hash, .. } => *hash,
        }
    }

    fn shard_state(&self) -> ShardState {
        ShardState::new(self.terms(self.pattern.quota()))
    }

    /// Returns the terms of a quota, which many keys may share.
    fn own(&self, quota: Quota) -> Arc<Terms> {
        let new = || Arc::new(self.terms(quota));
        let mixed = quota.count() ^ quota.period_nanos().rotate_left(21);
        let mixed = (mixed ^ quota.max_burst().rotate_left(42)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let shared = self.shared[(mixed >> 60) as usize % SHARED].get_or_init(new);
        if shared.quota == quota {
            Arc::clone(shared)
        } else {
            new()
        }
    }

    fn slot(&self, state: &ShardState, own: Option<&Arc<Terms>>, hash: u32) -> RateSlot {
        if !self.pattern.config.clock.is_of_runtime() {
            return self.unused(state, own, hash);
        }
        let quota = own.map_or(state.terms.quota, |own| own.quota);
        let limiter = self.pattern.promote(quota, fresh_generation(), UNUSED);
        RateSlot::Limiter { hash, limiter }
    }

    /// Returns a word on every clock, because nobody has spent anything in any runtime.
    fn unused(&self, _: &ShardState, own: Option<&Arc<Terms>>, hash: u32) -> RateSlot {
        Self::slot_of(own.cloned(), UNUSED, hash)
    }

    fn idle_after(&self, slot: &mut RateSlot, state: &ShardState, now: Tick) -> Option<u64> {
        match slot.word(state) {
            Err(limiter) if self.pattern.config.clock.is_of_runtime() => {
                limiter.idle_after(self.now().saturating_since(now))
            }
            Err(limiter) => limiter.try_reclaim(now).map(|_| 0),
            Ok(word) => {
                let at = word.rule().reset();
                Some(at.as_nanos().saturating_sub(now.as_nanos()))
            }
        }
    }

    fn limiter(slot: &RateSlot) -> Option<&Arc<RateLimiter>> {
        match slot {
            RateSlot::Limiter { limiter, .. } => Some(limiter),
            RateSlot::Word { .. } | RateSlot::WithQuota { .. } => None,
        }
    }

    fn tidy<K>(&self, shard: &mut Shard<K, Self>, now: Tick) -> [Option<Arc<RateLimiter>>; 2] {
        let Shard { table, state, .. } = shard;
        [(); 2].map(|()| {
            let hash = state.next_listed()?;
            let of_hash = table.iter_hash_mut(spread(hash));
            let mut with_limiters = of_hash
                .map(|entry| &mut entry.slot)
                .filter(|slot| Self::hash(slot) == hash && Self::limiter(slot).is_some());
            let reclaimed = (with_limiters.next()).map(|slot| self.reclaim(slot, state, now));
            // The hash is kept if the limiter is still needed, or if another key with the same hash
            // has one.
            if !matches!(reclaimed, Some(None)) && with_limiters.next().is_none() {
                state.listed.remove(&hash);
            }
            reclaimed.flatten()
        })
    }

    fn renew<K>(&self, shard: &mut Shard<K, Self>) {
        // This is read under the lock, so that no shard returns to earlier terms.
        let terms = self.terms(self.pattern.quota());
        let old = std::mem::replace(&mut shard.state.terms, terms);
        if self.has_own || old.params == terms.params {
            return;
        }
        let now = self.now();
        for entry in &mut shard.table {
            if let RateSlot::Word { tat, .. } = &mut entry.slot {
                *tat = self.carry(*tat, &old, &terms, now);
            }
        }
        shard.state.generation = fresh_generation();
    }

    fn renew_own(&self, held: Held<'_, Self>, terms: &Arc<Terms>, now: Tick) {
        let RateSlot::WithQuota { own, .. } = held.slot else {
            return;
        };
        if own.terms.params != terms.params {
            own.tat = self.carry(own.tat, &own.terms, terms, now);
            own.generation = fresh_generation();
        }
        own.terms = Arc::clone(terms);
    }

    fn jittered(&self, after: Duration) -> Duration {
        self.pattern.config.jittered(after)
    }

    #[inline]
    fn now(&self) -> Tick {
        match self.counter {
            Some(counter) => counter.now(),
            None => self.pattern.now(),
        }
    }
}

impl KeyLimit for RateLimiter {
    type Permit = Charge;
    type Cost = u64;
    type Wait = Acquire<Arc<Self>>;
    type Setting = Quota;
    type Contents = Rates;
    type State = KeyState;

    const SETTING: &'static str = "quota";

    #[track_caller]
    fn into_pattern(self) -> Self {
        let algorithm = self.config.algorithm;
        assert!(
            algorithm.keeps_a_word(),
            "a limit by key cannot use {algorithm}, which keeps more than one word"
        );
        self.aligned()
    }

    fn contents(&self, has_own: bool) -> Rates {
        Rates {
            counter: self.config.clock.counter(),
            pattern: self.handle(),
            has_own,
            shared: Default::default(),
        }
    }

    fn pattern(rates: &Rates) -> &Self {
        &rates.pattern
    }

    fn setting(&self) -> Quota {
        self.quota()
    }

    #[track_caller]
    fn set(&self, quota: Quota) {
        self.set_quota(quota);
    }

    fn close(&self) {
        self.close();
    }

    fn try_acquire(self: Arc<Self>, cost: u64) -> Result<Charge, AcquireError> {
        self.try_acquire_many(cost)
    }

    fn wait(self: Arc<Self>, cost: u64, as_of: Option<Tick>) -> Acquire<Arc<Self>> {
        match as_of {
            Some(tick) => Acquire::as_of(self, cost, tick),
            None => Acquire::new(self, cost),
        }
    }

    fn tick(rates: &Rates, charge: Option<&Charge>) -> Option<Tick> {
        Some(charge.map_or_else(|| rates.now(), Charge::at))
    }

    fn decide_absent(
        rates: &Rates,
        state: &ShardState,
        cost: u64,
        now: Tick,
    ) -> Option<Result<Decided<Self>, AcquireError>> {
        let mut word = Word {
            tat: &mut UNUSED.clone(),
            terms: &state.terms,
            generation: state.generation,
        };
        let refuses = !rates.has_own && rates.pattern.config.refuses_oversize();
        match word.take(cost, now) {
            Ok(charge) if cost == 0 => Some(Ok(Decided::Admitted(charge))),
            // If keys have their own quotas, the quota of this key is not known yet.
            Err(_) if refuses => Some(Err(word.exceeds_capacity())),
            _ => None,
        }
    }

    #[inline(always)]
    fn decide(
        rates: &Rates,
        held: Held<'_, Rates>,
        cost: u64,
        now: Tick,
        waits: bool,
    ) -> Result<Decided<Self>, AcquireError> {
        let mut word = match held.slot.word(held.state) {
            Ok(word) => word,
            Err(limiter) => return Ok(Decided::ByLimiter(limiter.clone())),
        };
        if let Ok(charge) = word.take(cost, now) {
            return Ok(Decided::Admitted(charge));
        }
        // It rejects only at a tick that was read under the lock of the shard: others may have
        // charged at ticks later than the first one.
        let (mut now, options) = (rates.now(), &rates.pattern.config);
        let mut taken = word.take(cost, now);
        if matches!(taken, Err(Some(_))) && word.rule().is_ahead_of(now) {
            // The clock was set back, or more than the burst is owed since a change of the quota.
            options.clock.correct();
            now = rates.now();
            taken = word.take(cost, now);
        }
        match taken {
            Ok(charge) => return Ok(Decided::Admitted(charge)),
            Err(None) if options.refuses_oversize() => {
                return Err(word.exceeds_capacity());
            }
            // The limiter admits the call once everything is paid off.
            Err(None) => {}
            Err(Some(due)) if !waits => {
                return Err(options.limited(due, now));
            }
            Err(Some(due)) => {
                let after = due.saturating_since(now);
                // The checks have the same order as in a limiter.
                if options.max_waiters == 0 {
                    let after = options.jittered(after);
                    return Err(AcquireError::after(ErrorKind::QueueFull, after));
                }
                if remaining_timeout().is_some_and(|left| after > left) {
                    return Err(AcquireError::would_take(after));
                }
            }
        }
        Ok(Decided::ByLimiter(rates.limiter_of(held)))
    }

    fn state(rates: &Rates, held: Held<'_, Rates>) -> KeyState {
        let word = match held.slot.word(held.state) {
            Ok(word) => word,
            Err(limiter) => return KeyState::Limiter(limiter.clone()),
        };
        let limit = word.terms.params.burst();
        KeyState::Word(Reading {
            rule: word.rule(),
            quota: word.terms.quota,
            generation: word.generation,
            now: rates.now(),
            closed: held.closed,
            limit,
            most: rates.pattern.config.most(limit),
        })
    }

    fn status(state: KeyState) -> LimitStatus {
        match state {
            KeyState::Word(mut reading) => LimitStatus::Rate {
                quota: reading.quota,
                decision: reading.peek(1),
            },
            KeyState::Limiter(limiter) => limiter.status(),
        }
    }

    fn chunk_and_max_units(state: KeyState) -> (u64, u64) {
        match state {
            KeyState::Word(reading) => reading.chunk_and_max_units(),
            KeyState::Limiter(limiter) => (limiter.chunk_units(), limiter.max_units()),
        }
    }

    fn settle<Q, S>(key: &Key<'_, Self, Q, S>, charge: Charge, used: u64)
    where
        Q: Hash + Eq + ToOwned + ?Sized,
        S: BuildHasher,
    {
        // It fails only if the map has no room for the key, and then the key owes nothing.
        let _ = key.settle(charge, used);
    }
}
