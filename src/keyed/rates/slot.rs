//! The slot of a key of a rate, and the state that a shard keeps for all its keys.
//!
//! 1. The [`Tat`] of a key is in its slot, under the lock of its shard. While the key has a limiter
//!    of its own, it is there instead, and calls use the limiter without that lock.
//! 2. A key has a limiter while its `Tat` is not enough state: it has waiters, or a charge other
//!    than the last may be refunded and is not paid off yet. On tokio's time it always has one,
//!    because its `Tat` differs between runtimes.
//! 3. An entry takes the next [number](EntryNumber) of its shard when it is inserted, and when its
//!    limiter is reclaimed. The number is part of the generation of its charges. So a charge that
//!    was made before that, and is perhaps paid off or forgiven, refunds nothing, and other keys
//!    keep their numbers.
//! 4. On other clocks, the list of a shard contains the hash of each key with such a limiter, and
//!    each hash at most once. A hash whose key no longer has a limiter is removed from the list at
//!    its next check.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::RateLimiter;
use crate::algorithm::{Gcra, Params, Receipt, Rule, Tat, fresh_generation};
use crate::error::AcquireError;
use crate::quota::Quota;
use crate::rate::Charge;
use crate::status::{Decision, Snapshot};
use crate::time::Tick;

/// The entry of a key without the key: 16 bytes.
pub enum RateSlot {
    /// The state of a key under the quota of all keys.
    Word {
        number: EntryNumber,
        hash: u32,
        tat: Tat,
    },
    /// The state of a key with its own quota.
    WithQuota { hash: u32, own: Box<WithQuota> },
    /// The limiter of a key.
    Limiter {
        hash: u32,
        limiter: Arc<RateLimiter>,
    },
}

// A number larger than this would take more memory for each key.
const _: () = assert!(size_of::<RateSlot>() == 16);

/// The number of an entry among those of its shard, from 1 to 2^24 - 1.
///
/// Then numbers begin again. A late refund of an entry that was dropped is taken for one of the
/// same key if exactly a multiple of this many entries were inserted into the shard or reclaimed
/// since.
#[derive(Clone, Copy, Default)]
pub struct EntryNumber([u8; 3]);

impl EntryNumber {
    /// The last number: there is no room for more than 24 bits.
    const LAST: u32 = (1 << 24) - 1;

    #[inline]
    fn get(self) -> u32 {
        let [first, second, third] = self.0;
        u32::from_le_bytes([first, second, third, 0])
    }

    /// Returns the number after this one. No entry has the number 0.
    #[inline]
    fn next(self) -> Self {
        let next = match self.get() {
            Self::LAST => 1,
            number => number + 1,
        };
        let [first, second, third, _] = next.to_le_bytes();
        Self([first, second, third])
    }
}

/// The state of a key with its own quota.
pub struct WithQuota {
    pub(super) tat: Tat,
    pub(super) terms: Arc<QuotaParams>,
    /// Distinguishes charges under this quota from earlier ones.
    pub(super) generation: u64,
}

/// The state of a shard beside its entries.
pub struct ShardState {
    /// The terms of all keys without their own quota.
    pub(super) terms: QuotaParams,
    /// The generation of current charges.
    pub(super) generation: u64,
    /// The number of the last entry that was inserted or reclaimed.
    last_number: EntryNumber,
    /// The hashes of keys with limiters.
    pub(in crate::keyed) with_limiters: BTreeSet<u32>,
    /// The hash that was checked last.
    last_checked: u32,
}

/// A quota, in every form that calls need.
#[derive(Clone, Copy, Debug)]
pub struct QuotaParams {
    pub(super) quota: Quota,
    /// Two quotas with the same rate are equal, even in different terms.
    pub(super) params: Params,
}

/// The state of a key without a limiter, and the terms to read it.
pub(super) struct Word<'a> {
    pub(super) tat: &'a mut Tat,
    pub(super) terms: &'a QuotaParams,
    pub(super) generation: u64,
}

impl Word<'_> {
    /// Charges, or returns the first tick at which the charge is possible: `None` if it never is,
    /// because it exceeds the burst.
    #[inline(always)]
    pub(super) fn take(&mut self, cost: u64, now: Tick) -> Result<Charge, Option<Tick>> {
        let params = &self.terms.params;
        let (unit, price) = (params.units_at(now), params.units_of(cost));
        if price > params.burst_tolerance {
            return Err(None);
        }
        let owed = if cost == 0 {
            self.tat.backlog_at(unit)
        } else {
            let taken = self.tat.take(params, unit, price);
            *self.tat = taken.map_err(|due| Some(params.tick_at(due)))?;
            // It ends after this unit, so this does not wrap.
            self.tat.end().wrapping_sub(unit)
        };
        Ok(Charge(Receipt {
            ticket: self.tat.end(),
            generation: self.generation,
            cost,
            at: now,
            owed,
        }))
    }

    /// Returns whether a cost exceeds the burst.
    #[inline]
    pub(super) fn is_above_burst(&self, cost: u64) -> bool {
        let params = &self.terms.params;
        params.units_of(cost) > params.burst_tolerance
    }

    /// Returns whether the key owes nothing.
    #[inline]
    pub(super) fn is_idle(&self, now: Tick) -> bool {
        self.tat.end() <= self.terms.params.units_at(now)
    }

    /// Returns the error of a call that asks for more than the burst.
    #[cold]
    #[inline(never)]
    pub(super) fn exceeds_capacity(&self) -> AcquireError {
        AcquireError::exceeds_capacity(self.terms.params.burst())
    }

    /// Refunds up to `cost` of a charge. Returns `false` if a limiter has to do it, because the
    /// refund depends on later charges.
    pub(super) fn refund(&mut self, charge: &Charge, cost: u64, now: Tick) -> bool {
        let (made, params) = (&charge.0, &self.terms.params);
        let unit = params.units_at(now);
        let units = params.units_of(cost).min(self.tat.backlog_at(unit));
        let units = units.min(made.ticket.saturating_sub(unit));
        if made.generation != self.generation || units == 0 {
            return true;
        }
        let is_last = made.ticket == self.tat.end();
        if is_last {
            *self.tat = self.tat.give(units);
        }
        is_last
    }

    /// Returns the rule with this state. The rule decides everything else.
    pub(super) fn rule(&self) -> Gcra {
        Gcra::of_word(self.terms.params, *self.tat)
    }
}

impl RateSlot {
    /// Returns the state of the key, or its limiter.
    #[inline]
    pub(super) fn word<'a>(
        &'a mut self,
        state: &'a ShardState,
    ) -> Result<Word<'a>, &'a Arc<RateLimiter>> {
        match self {
            Self::Word { number, tat, .. } => Ok(Word {
                // The low half of the generation of the shard is zero.
                generation: state.generation ^ u64::from(number.get()),
                tat,
                terms: &state.terms,
            }),
            Self::WithQuota { own, .. } => Ok(Word {
                tat: &mut own.tat,
                terms: &own.terms,
                generation: own.generation,
            }),
            Self::Limiter { limiter, .. } => Err(limiter),
        }
    }
}

impl ShardState {
    pub(super) fn new(terms: QuotaParams) -> Self {
        Self {
            terms,
            generation: fresh_generation(),
            last_number: EntryNumber::default(),
            with_limiters: BTreeSet::new(),
            last_checked: 0,
        }
    }

    /// Returns the number of an entry that is inserted or reclaimed.
    #[inline]
    pub(super) fn next_number(&mut self) -> EntryNumber {
        self.last_number = self.last_number.next();
        self.last_number
    }

    /// Returns the next hash of the list, in round-robin order.
    pub(super) fn next_with_limiter(&mut self) -> Option<u32> {
        let after = (self.last_checked.checked_add(1))
            .and_then(|from| self.with_limiters.range(from..).next());
        self.last_checked = *after.or_else(|| self.with_limiters.first())?;
        Some(self.last_checked)
    }
}

/// The state of a key.
pub enum KeyState {
    Word(WordSnapshot),
    Limiter(Arc<RateLimiter>),
}

/// A copy of the state of a key without a limiter.
pub struct WordSnapshot {
    pub(super) rule: Gcra,
    pub(super) quota: Quota,
    pub(super) generation: u64,
    pub(super) now: Tick,
    pub(super) closed: bool,
    /// The maximum charge at once: the burst.
    pub(super) limit: u64,
    /// The maximum cost of one call.
    pub(super) most: u64,
}

impl WordSnapshot {
    /// Returns the decision that a call would get.
    pub(super) fn peek(&mut self, cost: u64) -> Decision {
        let (limit, now) = (self.limit, self.now);
        let due = if self.closed || cost > self.most {
            Tick::from_nanos(u64::MAX)
        } else if cost == 0 {
            now
        } else {
            self.rule.due(0, cost)
        };
        Decision::at(now, limit, self.rule.backlog(now), due, self.rule.reset())
    }

    /// Returns the decision just after a charge, or the current one if that decision is no longer
    /// known.
    pub(super) fn decision_after(&mut self, charge: &Charge) -> Decision {
        let made = &charge.0;
        if made.generation != self.generation {
            let retry_after = Some(Duration::ZERO);
            return Decision {
                retry_after,
                ..self.peek(0)
            };
        }
        let (backlog, reset) = self.rule.after(made);
        Decision::at(
            made.at,
            self.rule.capacity(),
            backlog,
            Tick::default(),
            reset,
        )
    }

    pub(super) fn snapshot(&mut self) -> Snapshot {
        let decision = self.peek(0);
        Snapshot {
            limit: decision.limit,
            in_use: self.rule.backlog(self.now),
            available: decision.remaining,
            // A key with waiters has a limiter.
            waiting: 0,
            oldest_wait: None,
        }
    }

    /// Returns the chunk size for adapters, and the maximum cost of one call now.
    pub(super) fn chunk_and_max_units(&self) -> (u64, u64) {
        (self.quota.chunk(self.limit), self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_after_the_last_number_is_the_first() {
        let number = |number: u32| {
            let [first, second, third, _] = number.to_le_bytes();
            EntryNumber([first, second, third])
        };
        assert_eq!(EntryNumber::default().next().get(), 1);
        assert_eq!(number(0x00ff_ffff).get(), EntryNumber::LAST);
        assert_eq!(number(0x0001_ffff).next().get(), 0x0002_0000);
        assert_eq!(number(EntryNumber::LAST).next().get(), 1);
    }
}
