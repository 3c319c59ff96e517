//! The limits of all keys of a rate, in use: how the map decides calls under the lock of a shard.
//!
//! 1. The clock is read before the lock only for a key that is found there: an older time admits
//!    less, never more. For a key that is inserted, perhaps again, it is read under the lock,
//!    because the earlier debt of the key may be forgotten.
//! 2. The quota of a key, if it has its own, is computed before the lock, when the key is inserted.
//! 3. The times of two runtimes need not agree, so a debt on tokio's time is no single word. There
//!    a key has a limiter from its insertion to its removal, which has a state for each runtime. It
//!    is not in the list of its shard, so it is never reclaimed into a word.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::super::contents::{Contents, Entered, Limits};
use super::super::map::{Held, Shard, spread};
use super::slot::{Kept, KeyState, Own, RateSlot, ShardState, Terms};
use super::{Options, QuotaOf};
use crate::algorithm::{Tat, fresh_generation};
use crate::error::{AcquireError, ErrorKind};
use crate::quota::Quota;
use crate::rate::{Acquire, Charge, Config, RateLimiter};
use crate::sync::{Mutex, lock};
use crate::time::{Counter, Tick};
use crate::wait::remaining_timeout;

/// The number of quotas that keys share.
const SHARED: usize = 16;

/// What all keys have in common.
pub struct Rates<K> {
    pub(super) template: Config,
    /// The counter of the system clock, if that is the clock.
    counter: Option<Counter>,
    quota_of: Option<QuotaOf<K>>,
    /// Slots for the shared terms of quotas; a slot keeps the first quota that maps to it.
    shared: [OnceLock<Arc<Terms>>; SHARED],
    /// The terms that apply to all keys, once their shards have adopted them. This lock is always
    /// taken last.
    pub(super) terms: Mutex<Terms>,
}

impl<K> Rates<K> {
    pub(super) fn refuses_oversize(&self) -> bool {
        self.template.refuses_oversize()
    }

    pub(super) fn new(options: &Options<K>) -> Self {
        let template = options.template.template();
        Self {
            counter: template.clock.counter(),
            quota_of: options.quota_of.clone(),
            shared: Default::default(),
            terms: Mutex::new(Terms::new(template.algorithm, options.quota)),
            template,
        }
    }

    /// Returns whether keys have quotas of their own.
    #[inline]
    pub(super) fn has_own(&self) -> bool {
        self.quota_of.is_some()
    }

    /// Returns the terms of a quota, which many keys may share.
    fn terms_of(&self, quota: Quota) -> Arc<Terms> {
        let new = || Arc::new(Terms::new(self.template.algorithm, quota));
        let mixed = quota.count() ^ quota.period_nanos().rotate_left(21);
        let mixed = (mixed ^ quota.max_burst().rotate_left(42)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let shared = self.shared[(mixed >> 60) as usize % SHARED].get_or_init(new);
        match shared.quota == quota {
            true => Arc::clone(shared),
            false => new(),
        }
    }

    /// Returns the slot of a key with this debt and, if any, its own terms.
    fn slot_of(own: Option<Arc<Terms>>, debt: Tat, hash: u32) -> RateSlot {
        let Some(terms) = own else {
            return RateSlot(Kept::Common { hash, debt });
        };
        let own = Own {
            debt,
            terms,
            generation: fresh_generation(),
        };
        let own = Box::new(own);
        RateSlot(Kept::Own { hash, own })
    }

    /// Returns the limiter of a key, and creates it if there is none.
    #[inline(never)]
    pub(super) fn dedicate(&self, held: Held<'_, Self>) -> Arc<RateLimiter> {
        let hash = held.slot.hash();
        let word = match held.slot.word(held.state) {
            Ok(word) => word,
            Err(dedicated) => return dedicated.clone(),
        };
        let limiter = (self.template).promote(word.terms.quota, word.generation, *word.debt);
        if held.closed {
            // It serves a refund; no caller has joined it.
            limiter.close();
        }
        held.state.dedicated.insert(hash);
        held.slot.0 = Kept::Dedicated {
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
        let Kept::Dedicated { hash, limiter } = &slot.0 else {
            return None;
        };
        let (debt, quota) = limiter.try_reclaim(now)?;
        // Another change of the quota of all keys is in progress, and the limiter counts in other
        // units.
        if !self.has_own() && quota != state.terms.quota {
            return None;
        }
        let own = self.has_own().then(|| self.terms_of(quota));
        let (unneeded, hash) = (limiter.clone(), *hash);
        *slot = Self::slot_of(own, debt, hash);
        Some(unneeded)
    }
}

impl<K> Contents for Rates<K> {
    type Key = K;
    type Slot = RateSlot;
    type ShardState = ShardState;
    type Asked = Option<Arc<Terms>>;
    type Shared = Arc<RateLimiter>;

    #[inline]
    fn hash(slot: &RateSlot) -> u32 {
        slot.hash()
    }

    fn shard_state(&self) -> ShardState {
        ShardState::new(*lock(&self.terms))
    }

    fn ask(&self, key: &K) -> Self::Asked {
        let quota_of = self.quota_of.as_ref()?;
        Some(self.terms_of(quota_of(key)))
    }

    fn slot(&self, state: &mut ShardState, asked: &Self::Asked, hash: u32) -> RateSlot {
        let debt = Tat::from_units(0);
        if !self.template.clock.is_of_runtime() {
            return Self::slot_of(asked.clone(), debt, hash);
        }
        let quota = asked.as_ref().map_or(state.terms.quota, |own| own.quota);
        let limiter = self.template.promote(quota, fresh_generation(), debt);
        RateSlot(Kept::Dedicated { hash, limiter })
    }

    fn idle_after(&self, slot: &mut RateSlot, state: &ShardState, now: Tick) -> Option<u64> {
        match slot.word(state) {
            Err(dedicated) if self.template.clock.is_of_runtime() => {
                dedicated.idle_after(self.now().saturating_since(now))
            }
            Err(dedicated) => dedicated.try_reclaim(now).map(|_| 0),
            Ok(word) => {
                let at = word.terms.paid_off(*word.debt);
                Some(at.as_nanos().saturating_sub(now.as_nanos()))
            }
        }
    }

    fn tidy(&self, shard: &mut Shard<Self>, now: Tick) -> [Option<Arc<RateLimiter>>; 2] {
        let Shard { table, state, .. } = shard;
        [(); 2].map(|()| {
            let hash = state.next_dedicated()?;
            let of_hash = table.iter_hash_mut(spread(hash));
            let mut dedicated = of_hash
                .map(|entry| &mut entry.slot)
                .filter(|slot| slot.hash() == hash && matches!(slot.0, Kept::Dedicated { .. }));
            let reclaimed = (dedicated.next()).map(|slot| self.reclaim(slot, state, now));
            // Kept if the limiter is still needed, or if another key with the same hash has one.
            if !matches!(reclaimed, Some(None)) && dedicated.next().is_none() {
                state.dedicated.remove(&hash);
            }
            reclaimed.flatten()
        })
    }

    fn too_many_keys(&self, after: Option<u64>) -> AcquireError {
        match after.map(Duration::from_nanos) {
            Some(after) => AcquireError::too_many_keys(self.template.jittered(after)),
            None => AcquireError::new(ErrorKind::TooManyKeys),
        }
    }

    #[inline]
    fn now(&self) -> Tick {
        match self.counter {
            Some(counter) => counter.now(),
            None => self.template.clock.now(),
        }
    }
}

impl<K> Limits for Rates<K> {
    type Permit = Charge;
    type Cost = u64;
    type Wait = Acquire<Arc<RateLimiter>>;

    fn decide_absent(
        &self,
        state: &ShardState,
        cost: u64,
        now: Tick,
    ) -> Option<Result<Charge, AcquireError>> {
        let mut word = KeyState {
            debt: &mut Tat::from_units(0),
            terms: &state.terms,
            generation: state.generation,
        };
        let refuses = !self.has_own() && self.refuses_oversize();
        match word.take(cost, now) {
            Ok(charge) if cost == 0 => Some(Ok(charge)),
            // The key's own quota, if there are any, is not known yet.
            Err(_) if refuses => Some(Err(word.exceeds_capacity())),
            _ => None,
        }
    }

    #[inline(always)]
    fn decide(
        &self,
        held: Held<'_, Self>,
        cost: u64,
        now: Tick,
        waits: bool,
    ) -> Result<Entered<Self>, AcquireError> {
        let mut word = match held.slot.word(held.state) {
            Ok(word) => word,
            Err(dedicated) => return Ok(Err(dedicated.clone())),
        };
        if let Ok(charge) = word.take(cost, now) {
            return Ok(Ok(charge));
        }
        // It rejects only at a tick that was read under the lock of the shard: others may have
        // charged at later ones than the first.
        let now = self.now();
        match word.take(cost, now) {
            Ok(charge) => return Ok(Ok(charge)),
            Err(None) if self.refuses_oversize() => return Err(word.exceeds_capacity()),
            // The limiter admits it once there is no debt.
            Err(None) => {}
            // The limiter corrects the clock.
            Err(Some(_)) if word.is_astray(now) => {}
            Err(Some(due)) if !waits => return Err(self.template.limited(due, now)),
            Err(Some(due)) => {
                let after = due.saturating_since(now);
                // In the same order as in a limiter.
                if self.template.max_waiters == 0 {
                    return Err(AcquireError::queue_full(self.template.jittered(after)));
                }
                if remaining_timeout().is_some_and(|left| after > left) {
                    return Err(AcquireError::would_take(after));
                }
            }
        }
        Ok(Err(self.dedicate(held)))
    }

    fn shared(slot: &RateSlot) -> Option<Arc<RateLimiter>> {
        match &slot.0 {
            Kept::Dedicated { limiter, .. } => Some(limiter.clone()),
            Kept::Common { .. } | Kept::Own { .. } => None,
        }
    }

    fn try_shared(dedicated: Arc<RateLimiter>, cost: u64) -> Result<Charge, AcquireError> {
        dedicated.try_acquire_many(cost)
    }

    fn wait_for_shared(dedicated: Arc<RateLimiter>, cost: u64) -> Acquire<Arc<RateLimiter>> {
        Acquire::new(dedicated, cost)
    }

    fn tick(&self, charge: Option<&Charge>) -> Option<Tick> {
        Some(charge.map_or_else(|| self.now(), Charge::at))
    }

    fn wait_as_of(dedicated: Arc<RateLimiter>, cost: u64, tick: Tick) -> Acquire<Arc<RateLimiter>> {
        Acquire::as_of(dedicated, cost, tick)
    }

    fn waiting(dedicated: &Arc<RateLimiter>) -> usize {
        dedicated.waiting()
    }

    fn close(dedicated: &Arc<RateLimiter>) {
        dedicated.close();
    }

    fn requota(&self, held: Held<'_, Self>, asked: &Self::Asked, now: Tick) {
        let (Kept::Own { own, .. }, Some(terms)) = (&mut held.slot.0, asked) else {
            return;
        };
        if !own.terms.are(terms) {
            own.debt = own.terms.carry(own.debt, terms, now);
            own.generation = fresh_generation();
        }
        own.terms = Arc::clone(terms);
    }

    fn reset(dedicated: &Arc<RateLimiter>, asked: &Self::Asked) {
        if let Some(terms) = asked {
            dedicated.set_quota(terms.quota);
        }
    }
}
