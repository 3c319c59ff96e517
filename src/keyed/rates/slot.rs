//! What is kept for a key of a rate, and for all keys of a shard.
//!
//! 1. The debt of a key is in its slot, under the lock of its shard, or, while the slot says so, in a
//!    limiter of its own, which is used without that lock.
//! 2. A key has a limiter of its own while more has to be known than the end of its debt: somebody
//!    waits, or a charge that is not paid off yet may be refunded and is not the last one.
//! 3. Each such limiter is in the list of its shard, by the hash of its key, so once at most. A hash
//!    whose key has none any more is taken off the list when it is next looked at.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::algorithm::{Algorithm, InverseParams, Params, Receipt, Tat};
use crate::decision::{Decision, wait_for};
use crate::quota::Quota;
use crate::rate::{Charge, DedicatedLimiter, QuotaChange};
use crate::time::Tick;

/// Generations of charges leave room for those that a limiter begins by itself.
const GENERATION: u64 = 1 << 32;

/// 16 bytes.
pub struct RateSlot(pub(super) Kept);

pub(super) enum Kept {
    /// A key that goes by the quota of all keys.
    Common { hash: u32, debt: Tat },
    /// A key that has a quota of its own.
    Own { hash: u32, own: Box<Own> },
    /// A key that has a limiter of its own.
    Dedicated {
        hash: u32,
        limiter: DedicatedLimiter,
    },
}

/// A key that has a quota of its own.
pub(super) struct Own {
    pub(super) debt: Tat,
    pub(super) terms: Arc<Terms>,
    /// Tells charges under this quota from earlier ones.
    pub(super) generation: u64,
}

/// Beside the entries of a shard.
pub struct ShardState {
    /// The quota of all keys that have no quota of their own.
    pub(super) terms: Terms,
    /// The generation of the charges that are made now.
    pub(super) generation: u64,
    /// The hashes of keys that have limiters of their own.
    pub(super) dedicated: BTreeSet<u32>,
    /// The one that was looked at last.
    looked_at: u32,
}

/// A quota, in all forms that are needed.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub(super) quota: Quota,
    pub(super) limits: Params,
    inverse: InverseParams,
    /// What happens to debts when the quota changes.
    carry: QuotaChange,
}

/// The debt of a key that has no limiter of its own, and how to read it.
pub(super) struct Word<'a> {
    pub(super) debt: &'a mut Tat,
    pub(super) terms: &'a Terms,
    pub(super) generation: u64,
}

/// A moment at which a key is looked at.
pub(super) struct Look {
    pub(super) now: Tick,
    pub(super) closed: bool,
    /// Whether calls of more than the burst are admitted.
    pub(super) overdraft: bool,
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

    /// The tick at which a debt is paid off.
    pub(super) fn paid_off(&self, debt: Tat) -> Tick {
        self.inverse.tick_at(debt.end())
    }

    /// The same debt under other terms.
    pub(super) fn carry(&self, debt: Tat, to: &Self, now: Tick) -> Tat {
        self.carry.tat(debt, &self.limits, &to.limits, now)
    }
}

impl Word<'_> {
    /// The debt after a charge, or the tick from which on that is possible: `None` if it never is, as
    /// more is asked for than the burst.
    #[inline(always)]
    fn decide(&self, cost: u64, now: Tick) -> Result<Tat, Option<Tick>> {
        let limits = &self.terms.limits;
        let (unit, price) = (limits.units_at(now), limits.units_of(cost));
        match cost {
            0 => Ok(*self.debt),
            _ if price > limits.burst_tolerance => Err(None),
            _ => (self.debt.take(limits, unit, price))
                .map_err(|due| Some(self.terms.inverse.tick_at(due))),
        }
    }

    /// Charges, or returns the tick from which on that is possible, if it is.
    #[inline(always)]
    pub(super) fn take(&mut self, cost: u64, now: Tick) -> Result<Charge, Option<Tick>> {
        *self.debt = self.decide(cost, now)?;
        Ok(self.charge(cost, now))
    }

    /// The charge that ends where the debt now ends.
    #[inline(always)]
    fn charge(&self, cost: u64, now: Tick) -> Charge {
        Charge::from(Receipt {
            ticket: self.debt.end(),
            generation: self.generation,
            cost,
            at: now,
            owed: self.debt.backlog_at(self.terms.limits.units_at(now)),
        })
    }

    /// Gives back up to `cost` of a charge. Returns `false` if that is left to a limiter: later
    /// charges have to be known.
    pub(super) fn refund(&mut self, charge: &Charge, cost: u64, now: Tick) -> bool {
        let (made, limits) = (charge.receipt(), &self.terms.limits);
        let unit = limits.units_at(now);
        let units = limits.units_of(cost).min(self.debt.backlog_at(unit));
        let units = units.min(made.ticket.saturating_sub(unit));
        if made.generation != self.generation || units == 0 {
            return true;
        }
        let is_last = made.ticket == self.debt.end();
        if is_last {
            *self.debt = self.debt.give(units);
        }
        is_last
    }

    /// Whether the debt is larger than any charge makes it: then the clock was set back.
    pub(super) fn is_astray(&self, now: Tick) -> bool {
        let limits = &self.terms.limits;
        self.debt.backlog_at(limits.units_at(now)) > limits.burst_tolerance
    }

    /// The decision about a call that is not made.
    pub(super) fn peek(&self, cost: u64, look: &Look) -> Decision {
        let due = match self.decide(cost, look.now) {
            _ if look.closed => Tick::from_nanos(u64::MAX),
            Ok(_) => look.now,
            Err(Some(due)) => due,
            Err(None) if look.overdraft => self.terms.paid_off(*self.debt),
            Err(None) => Tick::from_nanos(u64::MAX),
        };
        self.decision(*self.debt, look.now, wait_for(due, look.now))
    }

    /// The decision just after a charge; `None` if that is not known any more.
    pub(super) fn decision_after(&self, charge: &Charge) -> Option<Decision> {
        let made = charge.receipt();
        let end = Tat::from_units(self.terms.limits.units_at(made.at) + made.owed);
        (made.generation == self.generation).then(|| self.decision(end, made.at, Duration::ZERO))
    }

    fn decision(&self, debt: Tat, now: Tick, retry_after: Duration) -> Decision {
        let (terms, limits) = (self.terms, &self.terms.limits);
        let owed = debt.backlog_at(limits.units_at(now));
        Decision::new(limits, owed, terms.paid_off(debt), now, retry_after)
    }
}

impl RateSlot {
    #[inline]
    pub(super) fn hash(&self) -> u32 {
        match &self.0 {
            Kept::Common { hash, .. } | Kept::Own { hash, .. } | Kept::Dedicated { hash, .. } => {
                *hash
            }
        }
    }

    /// Returns the debt of the key, or its limiter.
    #[inline]
    pub(super) fn word<'a>(
        &'a mut self,
        state: &'a ShardState,
    ) -> Result<Word<'a>, &'a DedicatedLimiter> {
        match &mut self.0 {
            Kept::Common { debt, .. } => Ok(Word {
                debt,
                terms: &state.terms,
                generation: state.generation,
            }),
            Kept::Own { own, .. } => Ok(Word {
                debt: &mut own.debt,
                terms: &own.terms,
                generation: own.generation,
            }),
            Kept::Dedicated { limiter, .. } => Err(limiter),
        }
    }
}

impl ShardState {
    pub(super) fn new(terms: Terms) -> Self {
        Self {
            terms,
            generation: 0,
            dedicated: BTreeSet::new(),
            looked_at: 0,
        }
    }

    /// Begins to tell charges from earlier ones.
    pub(super) fn begin_generation(&mut self) -> u64 {
        self.generation = self.generation.wrapping_add(GENERATION);
        self.generation
    }

    #[cfg(test)]
    pub(crate) fn listed(&self) -> usize {
        self.dedicated.len()
    }

    /// Returns the next hash of the list, each in turn.
    pub(super) fn next_dedicated(&mut self) -> Option<u32> {
        let after =
            (self.looked_at.checked_add(1)).and_then(|from| self.dedicated.range(from..).next());
        self.looked_at = *after.or_else(|| self.dedicated.first())?;
        Some(self.looked_at)
    }
}
