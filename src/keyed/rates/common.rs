//! The limits of all keys of a rate, in use: how calls decide under the lock of a shard.
//!
//! 1. The clock is read before the lock only for a key that is found there: an older time admits
//!    less, never more. For a key that came, or came again, it is read under the lock: what the key
//!    owed before may be forgotten.
//! 2. The quota of a key, if it has its own, is asked for when the key comes, before the lock.

use std::sync::{Arc, OnceLock};

use hashbrown::HashTable;

use super::super::contents::{Contents, Evictability, Slot};
use super::super::map::{Entry, Held, spread};
use super::shard_state::{ShardState, Terms};
use super::slot::{Kept, Own, RateSlot};
use crate::algorithm::Tat;
use crate::error::AcquireError;
use crate::quota::Quota;
use crate::rate::{Charge, DedicatedLimiter, Template};
use crate::sync::{Mutex, lock};
use crate::time::{Clock, Counter, LastRuntime, Tick};
use crate::wait::remaining_timeout;

/// How many quotas are shared by the keys that have them.
const SHARED: usize = 16;

/// Returns the quota of a key.
pub(super) type QuotaOf<K> = Arc<dyn Fn(&K) -> Quota + Send + Sync>;

/// What all keys have in common.
pub struct Rates<K> {
    pub(super) template: Template,
    /// The clock of the system, if it is that.
    counter: Option<Counter>,
    quota_of: Option<QuotaOf<K>>,
    /// Where the terms of a quota would be, whatever is there.
    shared: [OnceLock<Arc<Terms>>; SHARED],
    /// What applies to all keys, as soon as their shards have taken it over. The last lock that is
    /// taken.
    pub(super) terms: Mutex<Terms>,
    /// The runtimes in which it was used, if it lives on their time.
    last_runtime: Mutex<LastRuntime>,
}

/// A charge, or the limiter that decides about it.
pub(super) type Entered = Result<Charge, DedicatedLimiter>;

impl<K> Rates<K> {
    pub(super) fn new(template: Template, quota: Quota, quota_of: Option<QuotaOf<K>>) -> Self {
        let terms = Terms::new(template.algorithm(), quota);
        Self {
            counter: template.clock().counter(),
            template,
            quota_of,
            shared: Default::default(),
            terms: Mutex::new(terms),
            last_runtime: Mutex::new(LastRuntime::default()),
        }
    }

    pub(super) fn clock(&self) -> &Clock {
        self.template.clock()
    }

    /// Whether keys have quotas of their own.
    #[inline]
    pub(super) fn has_own(&self) -> bool {
        self.quota_of.is_some()
    }

    /// Whether the map lives on the time of runtimes and was used before, but not in that of this
    /// call.
    #[inline]
    pub(super) fn enters_another_runtime(&self) -> bool {
        self.counter.is_none() && self.clock().is_of_runtime() && {
            lock(&self.last_runtime).enter_runtime()
        }
    }

    /// The terms of a quota, which many keys may share.
    fn terms_of(&self, quota: Quota) -> Arc<Terms> {
        let new = || Arc::new(Terms::new(self.template.algorithm(), quota));
        let mixed = quota.count() ^ quota.period_nanos().rotate_left(21);
        let mixed = (mixed ^ quota.max_burst().rotate_left(42)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let shared = self.shared[(mixed >> 60) as usize % SHARED].get_or_init(new);
        if shared.quota == quota {
            Arc::clone(shared)
        } else {
            new()
        }
    }

    /// The slot of a key that has this debt and, if any, these terms of its own.
    fn slot_of(state: &mut ShardState, own: Option<Arc<Terms>>, debt: Tat, hash: u32) -> RateSlot {
        let Some(terms) = own else {
            return RateSlot(Kept::Common { hash, debt });
        };
        let generation = state.begin_generation();
        let own = Box::new(Own {
            debt,
            terms,
            generation,
        });
        RateSlot(Kept::Own { hash, own })
    }

    /// Decides a call for which no entry is needed: one that costs nothing, or is never admitted.
    pub(super) fn decide_absent(
        &self,
        state: &ShardState,
        cost: u64,
        now: Tick,
    ) -> Option<Result<Entered, AcquireError>> {
        let limits = &state.terms.limits;
        if cost == 0 {
            let charge = (state.terms).charge(Tat::from_units(0), state.generation, 0, now);
            return Some(Ok(Ok(charge)));
        }
        // A quota of its own is not known yet.
        let never = limits.units_of(cost) > limits.burst_tolerance && !self.has_own();
        (never && self.template.refuses_oversize())
            .then(|| Err(AcquireError::exceeds_capacity(limits.burst())))
    }

    /// Decides a call.
    pub(super) fn decide(
        &self,
        mut held: Held<'_, Self>,
        cost: u64,
        mut now: Tick,
        waits: bool,
    ) -> Result<Entered, AcquireError> {
        let mut word = match held.slot.word(held.state) {
            Ok(word) => word,
            Err(dedicated) => return Ok(Err(dedicated.clone())),
        };
        if word.is_astray(now) {
            self.clock().correct();
            now = self.now();
        }
        match word.take(cost, now) {
            Ok(charge) => return Ok(Ok(charge)),
            Err(None) if self.template.refuses_oversize() => {
                let burst = word.terms.limits.burst();
                return Err(AcquireError::exceeds_capacity(burst));
            }
            // The limiter lets it go when nothing is owed.
            Err(None) => {}
            Err(Some(due)) if !waits => return Err(self.template.limited(due, now)),
            Err(Some(due)) => {
                let after = due.saturating_since(now);
                // In the order of a limiter.
                if let Some(full) = self.template.queue_full(after) {
                    return Err(full);
                }
                if remaining_timeout().is_some_and(|left| after > left) {
                    return Err(AcquireError::would_take(after));
                }
            }
        }
        Ok(Err(self.dedicate(&mut held)))
    }

    /// Returns the limiter of a key, which is given one if it has none.
    pub(super) fn dedicate(&self, held: &mut Held<'_, Self>) -> DedicatedLimiter {
        let word = match held.slot.word(held.state) {
            Ok(word) => word,
            Err(dedicated) => return dedicated.clone(),
        };
        let dedicated = (self.template).promote(word.terms.quota, word.generation, *word.debt);
        if held.closed {
            // It is for a refund; nobody has joined it.
            dedicated.limiter().close();
        }
        let hash = held.slot.hash();
        held.state.dedicated.push_back(hash);
        held.slot.0 = Kept::Dedicated {
            hash,
            limiter: dedicated.clone(),
        };
        dedicated
    }

    /// Takes the limiter of an entry back, if it is not needed any more.
    fn reclaim(
        &self,
        slot: &mut RateSlot,
        state: &mut ShardState,
        now: Tick,
    ) -> Option<DedicatedLimiter> {
        let Kept::Dedicated { hash, limiter } = &slot.0 else {
            return None;
        };
        let (debt, quota) = limiter.try_reclaim(now)?;
        // Another change of the quota of all keys is on its way: it counts in other units.
        if !self.has_own() && quota != state.terms.quota {
            return None;
        }
        let own = self.has_own().then(|| self.terms_of(quota));
        let word = Self::slot_of(state, own, debt, *hash);
        match std::mem::replace(slot, word).0 {
            Kept::Dedicated { limiter, .. } => Some(limiter),
            Kept::Common { .. } | Kept::Own { .. } => None,
        }
    }
}

impl<K> Contents for Rates<K> {
    type Key = K;
    type Slot = RateSlot;
    type ShardState = ShardState;
    type Asked = Option<Arc<Terms>>;
    type Shared = DedicatedLimiter;
    type Leftover = [Option<DedicatedLimiter>; 2];

    fn shard_state(&self) -> ShardState {
        ShardState::new(*lock(&self.terms))
    }

    fn ask(&self, key: &K) -> Self::Asked {
        let quota_of = self.quota_of.as_ref()?;
        Some(self.terms_of(quota_of(key)))
    }

    fn slot(&self, state: &mut ShardState, asked: &Self::Asked, hash: u32) -> RateSlot {
        Self::slot_of(state, asked.clone(), Tat::from_units(0), hash)
    }

    fn evictability(&self, slot: &mut RateSlot, state: &ShardState, now: Tick) -> Evictability {
        match slot.word(state) {
            Err(dedicated) => match dedicated.try_reclaim(now) {
                Some(_) => Evictability::Idle,
                None => Evictability::InUse,
            },
            Ok(word) => match word.terms.paid_off(*word.debt) {
                at if at <= now => Evictability::Idle,
                at => Evictability::IdleAfter(at.as_nanos() - now.as_nanos()),
            },
        }
    }

    fn tidy(
        &self,
        table: &mut HashTable<Entry<Self>>,
        state: &mut ShardState,
        hash: u32,
        now: Tick,
    ) -> Self::Leftover {
        let another = state.dedicated.pop_front();
        // Without another there is none at all.
        let own = another.filter(|another| *another != hash).map(|_| hash);
        [own, another].map(|hash| {
            let hash = hash?;
            let mut entries = table.iter_hash_mut(spread(hash));
            let entry = entries.find(|entry| {
                entry.slot.hash() == hash && matches!(entry.slot.0, Kept::Dedicated { .. })
            })?;
            let reclaimed = self.reclaim(&mut entry.slot, state, now);
            if reclaimed.is_none() && another == Some(hash) {
                // It is still needed, and somebody has to look after it again.
                state.dedicated.push_back(hash);
            }
            reclaimed
        })
    }

    fn too_many_keys(&self, after: Option<u64>) -> AcquireError {
        self.template.no_room(after)
    }

    fn shared(slot: &RateSlot) -> Option<DedicatedLimiter> {
        match &slot.0 {
            Kept::Dedicated { limiter, .. } => Some(DedicatedLimiter::clone(limiter)),
            Kept::Common { .. } | Kept::Own { .. } => None,
        }
    }

    fn close(dedicated: DedicatedLimiter) {
        dedicated.limiter().close();
    }

    fn requota(&self, held: Held<'_, Self>, asked: &Self::Asked, now: Tick) {
        let (Kept::Own { own, .. }, Some(terms)) = (&mut held.slot.0, asked) else {
            return;
        };
        if !own.terms.are(terms) {
            own.debt = own.terms.carry(own.debt, terms, now);
            own.generation = held.state.begin_generation();
        }
        own.terms = Arc::clone(terms);
    }

    fn reset(dedicated: DedicatedLimiter, asked: &Self::Asked) {
        if let Some(terms) = asked {
            dedicated.limiter().set_quota(terms.quota);
        }
    }

    #[inline]
    fn now(&self) -> Tick {
        match self.counter {
            Some(counter) => counter.now(),
            None => self.clock().now(),
        }
    }
}
