//! What a map keeps for a key of a rate, and a shard for all its keys.
//!
//! 1. The debt of a key is in its slot, under the lock of its shard. While the slot says so, it is
//!    instead in a dedicated limiter, which calls use without that lock.
//! 2. A key has a dedicated limiter while the end of its debt is not enough state: it has waiters,
//!    or a charge other than the last may be refunded and is not paid off yet. On tokio's time it
//!    always has one, because the end of its debt is another in each runtime.
//! 3. On other clocks, the list of a shard contains the hash of each key with such a limiter, and
//!    each hash at most once. A hash whose key has no limiter any more is removed from the list at
//!    its next check.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::algorithm::{Algorithm, Params, Receipt, Tat, fresh_generation};
use crate::decision::Decision;
use crate::error::AcquireError;
use crate::quota::Quota;
use crate::rate::{Charge, QuotaChange, RateLimiter};
use crate::snapshot::Snapshot;
use crate::time::{Tick, wait_for};

/// 16 bytes.
pub struct RateSlot(pub(super) Kept);

pub(super) enum Kept {
    /// A key under the quota of all keys.
    Common { hash: u32, debt: Tat },
    /// A key with its own quota.
    Own { hash: u32, own: Box<Own> },
    /// A key with its own limiter.
    Dedicated {
        hash: u32,
        limiter: Arc<RateLimiter>,
    },
}

/// A key with its own quota.
pub(super) struct Own {
    pub(super) debt: Tat,
    pub(super) terms: Arc<Terms>,
    /// Distinguishes charges under this quota from earlier ones.
    pub(super) generation: u64,
}

/// The state of a shard beside its entries.
pub struct ShardState {
    /// The terms of all keys without their own quota.
    pub(super) terms: Terms,
    /// The generation of current charges.
    pub(super) generation: u64,
    /// The hashes of keys with their own limiters.
    pub(super) dedicated: BTreeSet<u32>,
    /// The hash that was checked last.
    looked_at: u32,
}

/// A quota, in all forms that calls need.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub(super) quota: Quota,
    pub(super) limits: Params,
    /// What happens to debts when the quota changes.
    carry: QuotaChange,
}

/// The debt of a key without its own limiter, and the terms to read it.
pub(super) struct KeyState<'a> {
    pub(super) debt: &'a mut Tat,
    pub(super) terms: &'a Terms,
    pub(super) generation: u64,
}

/// The moment and the policy of a read of a key.
pub(super) struct Look {
    pub(super) now: Tick,
    pub(super) closed: bool,
    /// Whether calls above the burst are admitted.
    pub(super) overdraft: bool,
}

impl Terms {
    /// # Panics
    ///
    /// Panics if the quota does not fit the algorithm.
    #[track_caller]
    pub(super) fn new(algorithm: Algorithm, quota: Quota) -> Self {
        Self {
            quota,
            limits: algorithm.promise(quota).params(),
            carry: algorithm.on_change(),
        }
    }

    /// Returns whether two quotas are the same rate, perhaps in different terms.
    pub(super) fn are(&self, other: &Self) -> bool {
        self.limits == other.limits
    }

    /// Returns the tick at which a debt is paid off.
    pub(super) fn paid_off(&self, debt: Tat) -> Tick {
        self.limits.tick_at(debt.end())
    }

    /// Converts a debt to other terms.
    pub(super) fn carry(&self, debt: Tat, to: &Self, now: Tick) -> Tat {
        debt.carry(self.carry, &self.limits, &to.limits, now)
    }
}

impl KeyState<'_> {
    /// Charges, or returns the tick from which the charge is possible: `None` if it never is,
    /// because it exceeds the burst.
    #[inline(always)]
    pub(super) fn take(&mut self, cost: u64, now: Tick) -> Result<Charge, Option<Tick>> {
        let limits = &self.terms.limits;
        let (unit, price) = (limits.units_at(now), limits.units_of(cost));
        if price > limits.burst_tolerance {
            return Err(None);
        }
        let owed = if cost == 0 {
            self.debt.backlog_at(unit)
        } else {
            let taken = self.debt.take(limits, unit, price);
            *self.debt = taken.map_err(|due| Some(self.terms.limits.tick_at(due)))?;
            // It ends after this unit, so this does not wrap.
            self.debt.end().wrapping_sub(unit)
        };
        Ok(Charge::from(Receipt {
            ticket: self.debt.end(),
            generation: self.generation,
            cost,
            at: now,
            owed,
        }))
    }

    /// Returns the error of a call that asks for more than the burst.
    #[cold]
    #[inline(never)]
    pub(super) fn exceeds_capacity(&self) -> AcquireError {
        AcquireError::exceeds_capacity(self.terms.limits.burst())
    }

    /// Refunds up to `cost` of a charge. Returns `false` if a limiter has to do it, because later
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

    /// Returns whether the debt is larger than any charge can make it, which means that the clock
    /// was set back.
    pub(super) fn is_astray(&self, now: Tick) -> bool {
        let limits = &self.terms.limits;
        self.debt.backlog_at(limits.units_at(now)) > limits.burst_tolerance
    }

    /// Returns the decision that a call would get, without charging it.
    pub(super) fn peek(&self, cost: u64, look: &Look) -> Decision {
        let debt = &mut self.debt.clone();
        let due = match (KeyState { debt, ..*self }).take(cost, look.now) {
            _ if look.closed => Tick::from_nanos(u64::MAX),
            Ok(_) => look.now,
            Err(Some(due)) => due,
            Err(None) if look.overdraft => self.terms.paid_off(*self.debt),
            Err(None) => Tick::from_nanos(u64::MAX),
        };
        self.decision(*self.debt, look.now, wait_for(due, look.now))
    }

    pub(super) fn snapshot(&self, look: &Look) -> Snapshot {
        let (decision, limits) = (self.peek(0, look), &self.terms.limits);
        let owed = self.debt.backlog_at(limits.units_at(look.now));
        Snapshot {
            limit: decision.limit,
            in_use: limits.backlog(owed),
            available: decision.remaining,
            // A key with waiters has its own limiter.
            waiting: 0,
            oldest_wait: None,
        }
    }

    /// Returns the decision just after a charge, or that of now if that is no longer known.
    pub(super) fn decision_after(&self, charge: &Charge, look: &Look) -> Decision {
        let made = charge.receipt();
        if made.generation != self.generation {
            return self.peek(0, look);
        }
        let end = Tat::from_units(self.terms.limits.units_at(made.at) + made.owed);
        self.decision(end, made.at, Duration::ZERO)
    }

    fn decision(&self, debt: Tat, now: Tick, retry_after: Duration) -> Decision {
        let (terms, limits) = (self.terms, &self.terms.limits);
        let owed = debt.backlog_at(limits.units_at(now));
        Decision {
            limit: limits.burst(),
            remaining: limits.tokens(limits.burst_tolerance.saturating_sub(owed)),
            retry_after,
            reset_after: terms.paid_off(debt).saturating_since(now),
            at: now,
        }
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
    ) -> Result<KeyState<'a>, &'a Arc<RateLimiter>> {
        match &mut self.0 {
            Kept::Common { hash, debt } => Ok(KeyState {
                generation: state.generation_of(*hash),
                debt,
                terms: &state.terms,
            }),
            Kept::Own { own, .. } => Ok(KeyState {
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
            generation: fresh_generation(),
            dedicated: BTreeSet::new(),
            looked_at: 0,
        }
    }

    /// Returns the generation of the charges of a key under the quota of all keys, so that another
    /// key of the shard refunds none of them.
    #[inline(always)]
    pub(super) fn generation_of(&self, hash: u32) -> u64 {
        self.generation ^ u64::from(hash)
    }

    #[cfg(test)]
    pub(crate) fn listed(&self) -> usize {
        self.dedicated.len()
    }

    /// Returns the next hash of the list, in round-robin order.
    pub(super) fn next_dedicated(&mut self) -> Option<u32> {
        let after =
            (self.looked_at.checked_add(1)).and_then(|from| self.dedicated.range(from..).next());
        self.looked_at = *after.or_else(|| self.dedicated.first())?;
        Some(self.looked_at)
    }
}
