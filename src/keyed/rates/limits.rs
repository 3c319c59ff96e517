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
use super::slot::{
    EntryNumber, KeyState, QuotaParams, RateSlot, ShardState, WithQuota, Word, WordSnapshot,
};
use crate::RateLimiter;
use crate::algorithm::{QuotaChange, Rule, Tat, fresh_generation};
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
    shared: [OnceLock<Arc<QuotaParams>>; SHARED],
}

impl Rates {
    /// Returns the terms of a quota.
    ///
    /// # Panics
    ///
    /// Panics if the quota does not fit the algorithm.
    fn quota_params(&self, quota: Quota) -> QuotaParams {
        let params = self.pattern.config.algorithm.promise(quota).params();
        QuotaParams { quota, params }
    }

    /// Converts the state of a key to other terms.
    fn carry(
        &self,
        tat: Tat,
        how: Option<QuotaChange>,
        old: &QuotaParams,
        new: &QuotaParams,
    ) -> Tat {
        let how = how.unwrap_or_else(|| self.pattern.config.algorithm.on_change());
        tat.carry(how, &old.params, &new.params, self.now())
    }

    /// Returns the slot of a key with this state and, if any, its own terms.
    fn slot_of(
        own: Option<Arc<QuotaParams>>,
        number: EntryNumber,
        tat: Tat,
        hash: u32,
    ) -> RateSlot {
        let Some(terms) = own else {
            return RateSlot::Word { number, hash, tat };
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
        held.state.with_limiters.insert(hash);
        *held.slot = RateSlot::Limiter {
            hash,
            limiter: limiter.clone(),
        };
        limiter
    }

    /// Does the same as [`idle_after`](Contents::idle_after) for a key with a limiter.
    #[inline(never)]
    fn limiter_idle_after(&self, limiter: &Arc<RateLimiter>, now: Tick) -> Option<u64> {
        limiter.idle_after(self.now().saturating_since(now))
    }

    /// Removes the limiter of an entry, if it is no longer needed.
    fn reclaim(
        &self,
        slot: &mut RateSlot,
        state: &mut ShardState,
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
        let own = self.has_own.then(|| self.convert(quota));
        let (unneeded, hash) = (limiter.clone(), *hash);
        *slot = Self::slot_of(own, state.next_number(), tat, hash);
        Some(unneeded)
    }
}

impl Contents for Rates {
    type Slot = RateSlot;
    type ShardState = ShardState;
    type Setting = Quota;
    type Own = Arc<QuotaParams>;
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
        ShardState::new(self.quota_params(self.pattern.quota()))
    }

    /// Returns the terms of a quota, which many keys may share.
    fn convert(&self, quota: Quota) -> Arc<QuotaParams> {
        let new = || Arc::new(self.quota_params(quota));
        let mixed = quota.count() ^ quota.period_nanos().rotate_left(21);
        let mixed = (mixed ^ quota.max_burst().rotate_left(42)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let shared = self.shared[(mixed >> 60) as usize % SHARED].get_or_init(new);
        if shared.quota == quota {
            Arc::clone(shared)
        } else {
            new()
        }
    }

    #[inline]
    fn slot(&self, state: &mut ShardState, own: Option<&Arc<QuotaParams>>, hash: u32) -> RateSlot {
        if !self.pattern.config.clock.is_of_runtime() {
            return Self::slot_of(own.cloned(), state.next_number(), UNUSED, hash);
        }
        let quota = own.map_or(state.terms.quota, |own| own.quota);
        let limiter = self.pattern.promote(quota, fresh_generation(), UNUSED);
        RateSlot::Limiter { hash, limiter }
    }

    /// Returns a word on every clock, because nobody has spent anything in any runtime.
    fn unused(&self, _: &mut ShardState, own: Option<&Arc<QuotaParams>>, hash: u32) -> RateSlot {
        Self::slot_of(own.cloned(), EntryNumber::default(), UNUSED, hash)
    }

    #[inline]
    fn is_idle(&self, slot: &mut RateSlot, state: &ShardState, now: Tick) -> bool {
        match slot.word(state) {
            Ok(word) => word.is_idle(now),
            Err(limiter) => self.limiter_idle_after(limiter, now) == Some(0),
        }
    }

    fn idle_after(&self, slot: &mut RateSlot, state: &ShardState, now: Tick) -> Option<u64> {
        match slot.word(state) {
            Ok(word) => {
                let at = word.rule().reset();
                Some(at.as_nanos().saturating_sub(now.as_nanos()))
            }
            Err(limiter) => self.limiter_idle_after(limiter, now),
        }
    }

    fn limiter(slot: &RateSlot) -> Option<&Arc<RateLimiter>> {
        match slot {
            RateSlot::Limiter { limiter, .. } => Some(limiter),
            RateSlot::Word { .. } | RateSlot::WithQuota { .. } => None,
        }
    }

    fn reclaim_limiters<K>(
        &self,
        shard: &mut Shard<K, Self>,
        now: Tick,
    ) -> [Option<Arc<RateLimiter>>; 2] {
        let Shard { table, state, .. } = shard;
        if state.with_limiters.is_empty() {
            return [None, None];
        }
        [(); 2].map(|()| {
            let hash = state.next_with_limiter()?;
            let of_hash = table.iter_hash_mut(spread(hash));
            let mut with_limiters = of_hash
                .map(|entry| &mut entry.slot)
                .filter(|slot| Self::hash(slot) == hash && Self::limiter(slot).is_some());
            let reclaimed = (with_limiters.next()).map(|slot| self.reclaim(slot, state, now));
            // The hash is kept if the limiter is still needed, or if another key with the same hash
            // has one.
            if !matches!(reclaimed, Some(None)) && with_limiters.next().is_none() {
                state.with_limiters.remove(&hash);
            }
            reclaimed.flatten()
        })
    }

    fn renew<K>(&self, shard: &mut Shard<K, Self>, how: Option<QuotaChange>) {
        // This is read under the lock, so that no shard returns to earlier terms.
        let terms = self.quota_params(self.pattern.quota());
        let old = std::mem::replace(&mut shard.state.terms, terms);
        if self.has_own || old.params == terms.params {
            return;
        }
        for entry in &mut shard.table {
            if let RateSlot::Word { tat, .. } = &mut entry.slot {
                *tat = self.carry(*tat, how, &old, &terms);
            }
        }
        shard.state.generation = fresh_generation();
    }

    fn renew_own(&self, held: Held<'_, Self>, terms: &Arc<QuotaParams>, how: Option<QuotaChange>) {
        let RateSlot::WithQuota { own, .. } = held.slot else {
            return;
        };
        if own.terms.params != terms.params {
            own.tat = self.carry(own.tat, how, &own.terms, terms);
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
    fn set(&self, quota: Quota, how: Option<QuotaChange>) {
        match how {
            Some(how) => self.set_quota_with(quota, how),
            None => self.set_quota(quota),
        }
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

    #[inline]
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
        if cost == 0 {
            return word.take(0, now).ok().map(|it| Ok(Decided::Admitted(it)));
        }
        // If keys have their own quotas, the quota of this key is not known yet.
        let refuses =
            word.is_above_burst(cost) && !rates.has_own && rates.pattern.config.refuses_oversize();
        refuses.then(|| Err(word.exceeds_capacity()))
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
        KeyState::Word(WordSnapshot {
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
