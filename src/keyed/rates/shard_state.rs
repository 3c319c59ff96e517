//! What a shard of rates keeps beside its entries.

use std::collections::VecDeque;
use std::time::Duration;

use crate::algorithm::{Algorithm, InverseParams, Params, Receipt, Tat};
use crate::decision::Decision;
use crate::quota::Quota;
use crate::rate::{Charge, QuotaChange};
use crate::time::Tick;

/// Generations of charges leave room for those that a limiter begins by itself.
const GENERATION: u64 = 1 << 32;

/// A quota, in all forms that are needed.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub(super) quota: Quota,
    pub(super) limits: Params,
    pub(super) inverse: InverseParams,
    /// What happens to debts when the quota changes.
    carry: QuotaChange,
}

/// Beside the entries of a shard.
pub struct ShardState {
    /// The quota of all keys that have no quota of their own.
    pub(super) terms: Terms,
    /// The generation of the charges that are made now.
    pub(super) generation: u64,
    /// The hashes of keys that have, or had, limiters of their own, the oldest first.
    pub(super) dedicated: VecDeque<u32>,
}

impl Terms {
    /// # Panics
    ///
    /// If the quota does not fit the algorithm.
    #[track_caller]
    pub(super) fn new(algorithm: Algorithm, quota: Quota) -> Self {
        algorithm.check_or_panic(quota);
        let (limits, inverse) = algorithm.params(quota);
        Self {
            quota,
            limits,
            inverse,
            carry: QuotaChange::by(algorithm),
        }
    }

    /// Whether two quotas are the same rate, perhaps in other words.
    pub(super) fn are(&self, other: &Self) -> bool {
        self.limits == other.limits && self.inverse == other.inverse
    }

    /// The decision about a key with this debt.
    pub(super) fn decision(&self, debt: Tat, now: Tick, retry_after: Duration) -> Decision {
        let owed = debt.backlog_at(self.limits.units_at(now));
        Decision::new(&self.limits, owed, self.paid_off(debt), now, retry_after)
    }

    /// The tick at which a debt is paid off.
    pub(super) fn paid_off(&self, debt: Tat) -> Tick {
        self.inverse.tick_at(debt.end())
    }

    /// The same debt under other terms.
    pub(super) fn carry(&self, debt: Tat, to: &Self, now: Tick) -> Tat {
        self.carry.tat(debt, &self.limits, &to.limits, now)
    }

    /// The charge that ends where the debt now ends.
    #[inline]
    pub(super) fn charge(&self, debt: Tat, generation: u64, cost: u64, now: Tick) -> Charge {
        Charge::from(Receipt {
            ticket: debt.end(),
            generation,
            cost,
            at: now,
            owed: debt.backlog_at(self.limits.units_at(now)),
        })
    }
}

impl ShardState {
    pub(super) fn new(terms: Terms) -> Self {
        Self {
            terms,
            generation: 0,
            dedicated: VecDeque::new(),
        }
    }

    /// Begins to tell charges from earlier ones.
    pub(super) fn begin_generation(&mut self) -> u64 {
        self.generation = self.generation.wrapping_add(GENERATION);
        self.generation
    }
}
