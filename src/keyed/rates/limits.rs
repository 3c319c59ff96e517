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

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hashbrown::HashTable;

use super::super::kind::{Decided, Entry, KeyLimit, KeyStatus, LockedEntry};
use super::super::shard::{Shard, spread};
use super::slot::{QuotaParams, RateSlot, ShardState, WithQuota};
use crate::algorithm::{Algorithm, Ledger, QuotaChange, Receipt, Restored, Tat, fresh_generation};
use crate::error::{AcquireError, ErrorKind};
use crate::quota::Quota;
use crate::rate::Charge;
use crate::status::{Decision, LimitStatus};
use crate::throttle::Polling;
use crate::time::{Counter, Tick};
use crate::wait::remaining_timeout;
use crate::{RateLimiter, Throttle};

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
    has_quotas: bool,
    /// The quotas that keys share; a place keeps the first quota that maps to it.
    shared: [OnceLock<Arc<QuotaParams>>; SHARED],
}

/// The ledger of a key without a limiter, at one moment.
pub(super) struct LedgerSnapshot {
    pub(super) ledger: Ledger,
    pub(super) now: Tick,
    closed: bool,
    /// The maximum cost of one call.
    max_units: u64,
}

impl LedgerSnapshot {
    /// Returns the decision that a call would get.
    pub(super) fn decision(&mut self, cost: u64) -> Decision {
        let due = if self.closed || cost > self.max_units {
            Tick::from_nanos(u64::MAX)
        } else if cost == 0 {
            self.now
        } else {
            self.ledger.due(0, cost)
        };
        self.ledger.decision(self.now, due)
    }
}

impl Rates {
    #[inline]
    fn now(&self) -> Tick {
        match self.counter {
            Some(counter) => counter.now(),
            None => self.pattern.now(),
        }
    }

    /// Returns the parameters of a quota.
    ///
    /// # Panics
    ///
    /// Panics if the quota does not fit the algorithm.
    fn quota_params(&self, quota: Quota) -> QuotaParams {
        let config = &self.pattern.config;
        let params = config.algorithm.promise(quota).params();
        let params = params.starting(config.origin.get().unwrap_or(0));
        QuotaParams { quota, params }
    }

    /// Returns the parameters of a quota, which many keys may share.
    fn shared_params(&self, quota: Quota) -> Arc<QuotaParams> {
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

    /// Carries the state of a key over to another quota. Returns the tick until which the key owes
    /// more than the burst by this.
    fn carry(
        &self,
        tat: &mut Tat,
        how: Option<QuotaChange>,
        old: &QuotaParams,
        new: &QuotaParams,
    ) -> Tick {
        let (now, new) = (self.now(), &new.params);
        let how = how.unwrap_or_else(|| self.pattern.config.algorithm.on_change());
        *tat = tat.carry(how, &old.params, new, now);
        if tat.backlog_at(new.units_at(now)) > new.burst_tolerance {
            new.tick_at(tat.end())
        } else {
            Tick::default()
        }
    }

    /// Changes the entries of a shard without a limiter to the current quota of all keys.
    pub(super) fn adopt_quota<K>(
        &self,
        shard: &mut Shard<K, RateLimiter>,
        how: Option<QuotaChange>,
    ) {
        // This is read under the lock, so that no shard returns to an earlier quota.
        let new = self.quota_params(self.pattern.quota());
        let Shard { table, state, .. } = shard;
        let old = std::mem::replace(&mut state.limit, new);
        if self.has_quotas || old.params == new.params {
            return;
        }
        for entry in table {
            if let RateSlot::Word { tat, .. } = &mut entry.slot {
                let until = self.carry(tat, how, &old, &new);
                state.overdrawn_until = state.overdrawn_until.max(until);
            }
        }
        state.generation = fresh_generation();
    }

    /// Returns the slot of a key with its own quota.
    fn slot_with(&self, quota: Quota, tat: Tat, hash: u32) -> RateSlot {
        let state = WithQuota {
            tat,
            limit: self.shared_params(quota),
            generation: fresh_generation(),
        };
        let state = Box::new(state);
        RateSlot::WithQuota { hash, state }
    }

    /// Returns the slot of a new key with a limiter.
    fn slot_of_runtimes(&self, quota: Quota, hash: u32) -> RateSlot {
        let algorithm = self.pattern.config.algorithm;
        let origin = self.pattern.config.origin;
        let ledger = Ledger::new(algorithm, quota, origin, fresh_generation());
        let limiter = self.pattern.promote(ledger);
        RateSlot::Limiter { hash, limiter }
    }

    /// Returns the algorithm of all keys.
    pub(super) fn algorithm(&self) -> Algorithm {
        self.pattern.config.algorithm
    }

    /// Returns the slot of a key that goes on from a state: with this word, or on tokio's time with a limiter.
    pub(super) fn restored_slot(
        &self,
        shard: &mut ShardState,
        hash: u32,
        own: Option<Quota>,
        tat: Tat,
        restored: Restored,
        quota: (Quota, QuotaChange),
    ) -> RateSlot {
        if self.pattern.config.clock.is_of_runtime() {
            let limiter = self.pattern.promote_restored(restored, quota);
            return RateSlot::Limiter { hash, limiter };
        }
        match own {
            Some(quota) => self.slot_with(quota, tat, hash),
            None => RateSlot::Word {
                number: shard.next_number(),
                hash,
                tat,
            },
        }
    }

    /// Returns the ledger of an entry, or its limiter.
    pub(super) fn ledger(
        &self,
        entry: LockedEntry<'_, RateLimiter>,
    ) -> Result<LedgerSnapshot, Arc<RateLimiter>> {
        let (word, config) = (
            entry.slot.word(entry.state).map_err(Arc::clone)?,
            &self.pattern.config,
        );
        Ok(LedgerSnapshot {
            ledger: word.ledger(config.algorithm),
            now: self.now(),
            closed: entry.closed,
            max_units: config.most(word.limit.params.burst()),
        })
    }

    /// Returns the limiter of an entry, and creates it if there is none.
    #[inline(never)]
    pub(super) fn limiter_of(&self, entry: LockedEntry<'_, RateLimiter>) -> Arc<RateLimiter> {
        let ledger = match entry.slot.word(entry.state) {
            Ok(word) => word.ledger(self.pattern.config.algorithm),
            Err(limiter) => return limiter.clone(),
        };
        self.promote(entry, ledger)
    }

    /// Gives an entry a limiter with this ledger.
    fn promote(&self, entry: LockedEntry<'_, RateLimiter>, ledger: Ledger) -> Arc<RateLimiter> {
        let hash = RateLimiter::hash(entry.slot);
        let limiter = self.pattern.promote(ledger);
        if entry.closed {
            // The limiter serves a refund; no caller has joined it.
            limiter.close();
        }
        entry.state.with_limiters.insert(hash);
        *entry.slot = RateSlot::Limiter {
            hash,
            limiter: limiter.clone(),
        };
        limiter
    }

    /// Gives back up to `cost` of a charge of an entry. Returns the limiter of the entry if that
    /// has to do it. The word of the entry keeps no refunds, so it can only take back the last
    /// charge.
    pub(super) fn refund(
        &self,
        entry: LockedEntry<'_, RateLimiter>,
        charge: &Receipt,
        cost: u64,
    ) -> Option<Arc<RateLimiter>> {
        let word = match entry.slot.word(entry.state) {
            Ok(word) => word,
            Err(limiter) => return Some(limiter.clone()),
        };
        let is_last = charge.ticket == word.tat.end();
        let mut ledger = word.ledger(self.pattern.config.algorithm);
        ledger.give_back(charge, cost, self.now());
        if is_last {
            *word.tat = ledger.word();
        } else if ledger.first_ticket() > 0 {
            self.promote(entry, ledger);
        }
        None
    }

    /// Does the same as [`idle_after`](KeyLimit::idle_after) for a key with a limiter.
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
        let (unneeded, hash) = (limiter.clone(), *hash);
        *slot = if self.has_quotas {
            self.slot_with(quota, tat, hash)
        } else if quota == state.limit.quota {
            let number = state.next_number();
            RateSlot::Word { number, hash, tat }
        } else {
            // Another change of the quota of all keys is in progress, and the limiter counts in
            // other units.
            return None;
        };
        Some(unneeded)
    }
}

impl KeyLimit for RateLimiter {
    type Permit = Charge;
    type Setting = Quota;
    type Limiter = Arc<Self>;
    type MapState = Rates;
    type ShardState = ShardState;
    type Slot = RateSlot;

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

    fn map_state(&self, has_quotas: bool) -> Rates {
        Rates {
            counter: self.config.clock.counter(),
            pattern: self.handle(),
            has_quotas,
            shared: Default::default(),
        }
    }

    fn shard_state(rates: &Rates) -> ShardState {
        ShardState::new(rates.quota_params(rates.pattern.quota()))
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

    #[inline]
    fn slot(rates: &Rates, shard: &mut ShardState, hash: u32) -> RateSlot {
        if rates.pattern.config.clock.is_of_runtime() {
            return rates.slot_of_runtimes(shard.limit.quota, hash);
        }
        RateSlot::Word {
            number: shard.next_number(),
            hash,
            tat: UNUSED,
        }
    }

    fn slot_with(rates: &Rates, quota: Quota, hash: u32) -> RateSlot {
        if rates.pattern.config.clock.is_of_runtime() {
            return rates.slot_of_runtimes(quota, hash);
        }
        rates.slot_with(quota, UNUSED, hash)
    }

    #[inline]
    fn hash(slot: &RateSlot) -> u32 {
        match slot {
            RateSlot::Word { hash, .. }
            | RateSlot::WithQuota { hash, .. }
            | RateSlot::Limiter { hash, .. } => *hash,
        }
    }

    fn limiter(slot: &RateSlot) -> Option<&Arc<Self>> {
        match slot {
            RateSlot::Limiter { limiter, .. } => Some(limiter),
            RateSlot::Word { .. } | RateSlot::WithQuota { .. } => None,
        }
    }

    fn idle_after(
        rates: &Rates,
        shard: &ShardState,
        slot: &mut RateSlot,
        now: Tick,
    ) -> Option<u64> {
        match slot.word(shard) {
            Ok(word) => Some(word.reset().as_nanos().saturating_sub(now.as_nanos())),
            Err(limiter) => rates.limiter_idle_after(limiter, now),
        }
    }

    #[inline]
    fn is_idle(rates: &Rates, shard: &ShardState, slot: &mut RateSlot, now: Tick) -> bool {
        match slot.word(shard) {
            Ok(word) => word.is_idle(now),
            Err(limiter) => rates.limiter_idle_after(limiter, now) == Some(0),
        }
    }

    fn reclaim_limiters<K>(
        rates: &Rates,
        state: &mut ShardState,
        table: &mut HashTable<Entry<K, Self>>,
        now: Tick,
    ) -> [Option<Arc<Self>>; 2] {
        if state.with_limiters.is_empty() {
            return [None, None];
        }
        [(); 2].map(|()| {
            let hash = state.next_with_limiter()?;
            let of_hash = table.iter_hash_mut(spread(hash));
            let mut with_limiters = of_hash
                .map(|entry| &mut entry.slot)
                .filter(|slot| Self::hash(slot) == hash && Self::limiter(slot).is_some());
            let reclaimed = (with_limiters.next()).map(|slot| rates.reclaim(slot, state, now));
            // The hash is kept if the limiter is still needed, or if another key with the same hash
            // has one.
            if !matches!(reclaimed, Some(None)) && with_limiters.next().is_none() {
                state.with_limiters.remove(&hash);
            }
            reclaimed.flatten()
        })
    }

    fn replace_setting(
        rates: &Rates,
        entry: LockedEntry<'_, Self>,
        new: RateSlot,
        how: Option<QuotaChange>,
    ) {
        let (RateSlot::WithQuota { state, .. }, RateSlot::WithQuota { state: new, .. }) =
            (entry.slot, new)
        else {
            return;
        };
        if state.limit.params != new.limit.params {
            let until = rates.carry(&mut state.tat, how, &state.limit, &new.limit);
            entry.state.overdrawn_until = entry.state.overdrawn_until.max(until);
            state.generation = new.generation;
        }
        state.limit = new.limit;
    }

    fn jittered(rates: &Rates, after: Duration) -> Duration {
        rates.pattern.config.jittered(after)
    }

    #[inline]
    fn now(rates: &Rates) -> Tick {
        rates.now()
    }

    #[inline]
    fn report(rates: &Rates, charge: &Charge) {
        charge.report(&rates.pattern.config.clock);
    }

    #[inline]
    fn polling(rates: &Rates) -> Polling {
        (&rates.pattern).polling()
    }

    #[inline]
    fn decide_absent(
        rates: &Rates,
        shard: &ShardState,
        cost: u64,
        now: Tick,
    ) -> Option<Result<Decided<Self>, AcquireError>> {
        let params = &shard.limit.params;
        if cost == 0 {
            let receipt = UNUSED.receipt(now, 0, 0);
            return Some(Ok(Decided::Admitted(Charge(receipt))));
        }
        // If keys have their own quotas, the quota of this key is not known yet.
        let refuses = params.units_of(cost) > params.burst_tolerance
            && !rates.has_quotas
            && rates.pattern.config.refuses_oversize();
        refuses.then(|| Err(AcquireError::exceeds_capacity(params.burst())))
    }

    #[inline(always)]
    fn take(_: &Rates, entry: &mut LockedEntry<'_, Self>, cost: u64, now: Tick) -> Option<Charge> {
        let mut word = entry.slot.word(entry.state).ok()?;
        word.take(cost, now).ok()
    }

    #[inline(never)]
    fn decide(
        rates: &Rates,
        entry: LockedEntry<'_, Self>,
        cost: u64,
        waits: bool,
    ) -> Result<Decided<Self>, AcquireError> {
        let mut word = match entry.slot.word(entry.state) {
            Ok(word) => word,
            Err(limiter) => return Ok(Decided::ByLimiter(limiter.clone())),
        };
        // Others may have charged at ticks later than the first one.
        let (mut now, options) = (rates.now(), &rates.pattern.config);
        let mut taken = word.take(cost, now);
        if matches!(taken, Err(Some(_))) && word.is_ahead_of(now) {
            options.clock.correct();
            now = rates.now();
            taken = word.take(cost, now);
        }
        match taken {
            Ok(charge) => return Ok(Decided::Admitted(charge)),
            Err(None) if options.refuses_oversize() => {
                return Err(AcquireError::exceeds_capacity(word.limit.params.burst()));
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
        Ok(Decided::ByLimiter(rates.limiter_of(entry)))
    }

    fn status(rates: &Rates, entry: LockedEntry<'_, Self>) -> Result<KeyStatus, Arc<Self>> {
        let mut key = rates.ledger(entry)?;
        let (quota, decision) = (key.ledger.quota(), key.decision(1));
        Ok(KeyStatus {
            status: LimitStatus::Rate { quota, decision },
            chunk_units: quota.chunk(decision.limit),
            max_units: key.max_units,
        })
    }
}
