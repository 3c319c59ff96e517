//! What is kept for a key of a rate.
//!
//! 1. The debt of a key is in its slot, under the lock of its shard, or, while the slot says so, in a
//!    limiter of its own, which is used without that lock.
//! 2. A key has a limiter of its own while more has to be known than the end of its debt: somebody
//!    waits, or a charge that is not paid off yet may be refunded and is not the last one.

use std::sync::Arc;

use super::super::contents::Slot;
use super::shard_state::{ShardState, Terms};
use crate::algorithm::Tat;
use crate::rate::{Charge, DedicatedLimiter};
use crate::time::Tick;

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

/// The debt of a key that has no limiter of its own, and how to read it.
pub(super) struct Word<'a> {
    pub(super) debt: &'a mut Tat,
    pub(super) terms: &'a Terms,
    pub(super) generation: u64,
}

impl Word<'_> {
    /// Charges, or returns the tick from which on that is possible: `None` if it never is, as more is
    /// asked for than the burst.
    #[inline]
    pub(super) fn take(&mut self, cost: u64, now: Tick) -> Result<Charge, Option<Tick>> {
        let limits = &self.terms.limits;
        let (unit, price) = (limits.units_at(now), limits.units_of(cost));
        if price > limits.burst_tolerance {
            return Err(None);
        }
        if cost > 0 {
            let taken = self.debt.take(limits, unit, price);
            *self.debt = taken.map_err(|due| Some(self.terms.inverse.tick_at(due)))?;
        }
        Ok(self.charge(cost, now))
    }

    /// The charge that ends where the debt now ends.
    #[inline]
    pub(super) fn charge(&self, cost: u64, now: Tick) -> Charge {
        self.terms.charge(*self.debt, self.generation, cost, now)
    }

    /// Whether the debt is larger than any charge makes it: then the clock was set back.
    pub(super) fn is_astray(&self, now: Tick) -> bool {
        let limits = &self.terms.limits;
        self.debt.backlog_at(limits.units_at(now)) > limits.burst_tolerance
    }
}

impl Slot for RateSlot {
    #[inline]
    fn hash(&self) -> u32 {
        match &self.0 {
            Kept::Common { hash, .. } | Kept::Own { hash, .. } | Kept::Dedicated { hash, .. } => {
                *hash
            }
        }
    }
}

impl RateSlot {
    /// Returns the debt of the key, or its limiter.
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
