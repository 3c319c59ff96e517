//! The slot of a key of a rate, and the state that a shard keeps for all its keys.
//!
//! 1. The [`Tat`] of a key is in its slot, under the lock of its shard. While the key has a limiter
//!    of its own, it is there instead, and calls use the limiter without that lock.
//! 2. A key has a limiter while its `Tat` is not enough state: it has waiters, or a charge other
//!    than the last may be refunded and is not paid off yet. On tokio's time it always has one,
//!    because its `Tat` differs between runtimes.
//! 3. An entry takes the next [number](EntryNumber) of its shard when it is created, for an
//!    insertion or for a reader of a key without one, and when its limiter is reclaimed. The number
//!    is part of the generation of its charges. So a charge that was made before that, and is
//!    perhaps paid off or forgiven, refunds nothing, and other keys keep their numbers.
//! 4. A backlog beyond the burst means that the clock was set back, unless a change to a lower burst
//!    made it so. The shard knows when the last backlog of that kind ends: until then, a key that
//!    ends no later asks no clock.
//! 5. On other clocks, the list of a shard contains the hash of each key with such a limiter, and
//!    each hash at most once. A hash whose key no longer has a limiter is removed from the list at
//!    its next check.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::RateLimiter;
use crate::algorithm::{Algorithm, Gcra, Ledger, Params, Receipt, Rule, Tat, fresh_generation};
use crate::quota::Quota;
use crate::rate::Charge;
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
    WithQuota { hash: u32, state: Box<WithQuota> },
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
/// same key if exactly a multiple of this many entries of the shard were created or reclaimed since.
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
    pub(super) limit: Arc<QuotaParams>,
    /// Distinguishes charges under this quota from earlier ones.
    pub(super) generation: u64,
}

/// The state of a shard beside its entries.
pub struct ShardState {
    /// The quota of all keys without their own quota.
    pub(super) limit: QuotaParams,
    /// The generation of current charges.
    pub(super) generation: u64,
    /// No key owes more than the burst after this tick because its quota was changed.
    pub(super) overdrawn_until: Tick,
    /// The number of the last entry that was created or reclaimed.
    last_number: EntryNumber,
    /// The hashes of keys with limiters.
    pub(in crate::keyed) with_limiters: BTreeSet<u32>,
    /// The hash that was checked last.
    last_checked: u32,
}

/// A quota, in every form that calls need.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuotaParams {
    pub(super) quota: Quota,
    /// Two quotas with the same rate are equal, even in different terms.
    pub(super) params: Params,
}

/// The state of a key without a limiter, and its quota.
pub(in crate::keyed) struct Word<'a> {
    pub(super) tat: &'a mut Tat,
    pub(super) limit: &'a QuotaParams,
    generation: u64,
    overdrawn_until: Tick,
}

impl Word<'_> {
    /// Charges, or returns the first tick at which the charge is possible: `None` if it never is,
    /// because it exceeds the burst.
    #[inline(always)]
    pub(super) fn take(&mut self, cost: u64, now: Tick) -> Result<Charge, Option<Tick>> {
        let params = &self.limit.params;
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
            generation: self.generation,
            ..self.tat.receipt(now, cost, owed)
        }))
    }

    /// Returns whether the key owes nothing.
    #[inline]
    pub(super) fn is_idle(&self, now: Tick) -> bool {
        self.tat.end() <= self.limit.params.units_at(now)
    }

    /// Returns the tick from which on the key owes nothing.
    pub(super) fn reset(&self) -> Tick {
        self.limit.params.tick_at(self.tat.end())
    }

    /// Returns whether the clock seems to have been set back.
    pub(in crate::keyed) fn is_ahead_of(&self, now: Tick) -> bool {
        self.rule().is_ahead_of(now)
    }

    /// Returns a ledger with this state.
    pub(super) fn ledger(&self, algorithm: Algorithm) -> Ledger {
        Ledger::of_word(algorithm, self.rule(), self.limit.quota, self.generation)
    }

    fn rule(&self) -> Gcra {
        let params = self.limit.params;
        let overdrawn = Tat::from_units(params.units_at(self.overdrawn_until));
        Gcra::of_word(params, *self.tat, overdrawn)
    }
}

impl RateSlot {
    /// Returns the state of the key, or its limiter.
    #[inline]
    pub(in crate::keyed) fn word<'a>(
        &'a mut self,
        shard: &'a ShardState,
    ) -> Result<Word<'a>, &'a Arc<RateLimiter>> {
        let (tat, limit, generation) = match self {
            // The low half of the generation of the shard is zero.
            Self::Word { number, tat, .. } => (
                tat,
                &shard.limit,
                shard.generation ^ u64::from(number.get()),
            ),
            Self::WithQuota { state, .. } => (&mut state.tat, &*state.limit, state.generation),
            Self::Limiter { limiter, .. } => return Err(limiter),
        };
        Ok(Word {
            tat,
            limit,
            generation,
            overdrawn_until: shard.overdrawn_until,
        })
    }
}

impl ShardState {
    pub(super) fn new(limit: QuotaParams) -> Self {
        Self {
            limit,
            generation: fresh_generation(),
            overdrawn_until: Tick::default(),
            last_number: EntryNumber::default(),
            with_limiters: BTreeSet::new(),
            last_checked: 0,
        }
    }

    /// Returns the number of an entry that is created or reclaimed.
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
