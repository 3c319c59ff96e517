//! What a shard of rates keeps beside its entries.

use std::time::Duration;

use super::super::map::Size;
use super::super::table::Home;
use super::lines::Lines;
use super::word::Word;
use crate::algorithm::{Algorithm, InverseParams, Params, Tat};
use crate::decision::Decision;
use crate::quota::Quota;
use crate::rate::{DedicatedLimiter, QuotaChange};
use crate::time::Tick;

/// One key in so many has an overflow cell, when keys are [folded](crate::AtCap::Fold).
const KEYS_OF_A_CELL: usize = 8;

/// Generations of charges leave room for those that a limiter begins by itself.
const GENERATION: u64 = 1 << 32;

/// A quota, in all forms that are needed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) quota: Quota,
    pub(super) limits: Params,
    pub(super) inverse: InverseParams,
    /// What becomes of what is owed when they change.
    carry: QuotaChange,
}

/// Beside the entries of a shard.
pub(super) struct Side {
    /// What applies to all keys, if there is nothing for each.
    pub(super) terms: Terms,
    /// Of the charges that are made now.
    pub(super) generation: u64,
    pub(super) cold: Box<Cold>,
}

/// What most calls do without.
pub(super) struct Cold {
    pub(super) lines: Lines,
    /// The ticks until which something is owed by keys that have been evicted.
    folded: Box<[u64]>,
    /// For each entry its own quota, and the generation of its charges.
    own: Option<Box<[Own]>>,
}

/// What applies to one key.
#[derive(Clone, Copy)]
struct Own {
    quota: Quota,
    generation: u64,
}

impl Terms {
    /// For an algorithm that keeps no more than a word.
    ///
    /// # Panics
    ///
    /// If the quota does not fit it.
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

    /// Whether they say the same, perhaps in other words.
    pub(super) fn are(&self, other: &Self) -> bool {
        self.limits == other.limits && self.inverse == other.inverse
    }

    /// How a key stands that has this debt.
    pub(super) fn decision(&self, debt: Tat, now: Tick, retry_after: Duration) -> Decision {
        let owed = debt.backlog_at(self.limits.units_at(now));
        Decision::new(&self.limits, owed, self.paid_off(debt), now, retry_after)
    }

    /// When a debt is paid off.
    pub(super) fn paid_off(&self, debt: Tat) -> Tick {
        self.inverse.tick_at(debt.end())
    }

    /// The debt that is paid off at this tick, or as much as can be owed. Where time goes in steps,
    /// and the tick is between two, as it may be by another quota's, at the later one.
    fn owed_until(&self, tick: Tick, now: Tick) -> Tat {
        let most = self.limits.units_at(now) + self.limits.burst_tolerance;
        let before = Tick::from_nanos(tick.as_nanos().saturating_sub(1));
        let until = match self.limits.step {
            0 => self.limits.units_at(tick),
            step => self.limits.units_at(before) + step,
        };
        Tat::from_units(until.min(most))
    }

    /// The same under other terms, as `set_quota` has it.
    pub(super) fn carry(&self, debt: Tat, to: &Self, now: Tick) -> Tat {
        self.carry.tat(debt, &self.limits, &to.limits, now)
    }
}

impl Side {
    pub(super) fn new(terms: Terms, size: Size, folds: bool, own: bool) -> Self {
        let cells = if folds {
            size.entries.div_ceil(KEYS_OF_A_CELL)
        } else {
            0
        };
        let nobody = Own {
            quota: terms.quota,
            generation: 0,
        };
        Self {
            terms,
            generation: 0,
            cold: Box::new(Cold {
                lines: Lines::new(),
                folded: vec![0; cells].into_boxed_slice(),
                own: own.then(|| vec![nobody; size.numbers].into_boxed_slice()),
            }),
        }
    }

    /// Begins to tell charges from earlier ones, unless there were 2^32 generations since.
    pub(super) fn begin_generation(&mut self) -> u64 {
        self.generation = self.generation.wrapping_add(GENERATION);
        self.generation
    }

    /// What applies to an entry that has a quota of its own.
    pub(super) fn own(&self, number: usize) -> Option<(Quota, u64)> {
        let own = &self.cold.own.as_ref()?[number];
        Some((own.quota, own.generation))
    }

    /// A quota for an entry; a charge from before is not one of this entry any more.
    pub(super) fn set_own(&mut self, number: usize, quota: Quota) {
        let generation = self.begin_generation();
        if let Some(all) = &mut self.cold.own {
            all[number] = Own { quota, generation };
        }
    }

    /// An entry has another number now.
    pub(super) fn renumber(&mut self, word: Word, from: usize, to: usize) {
        if let Some(own) = &mut self.cold.own {
            own[to] = own[from];
        }
        if let Some(slot) = word.slot() {
            self.cold.lines.renumber(slot, to);
        }
    }

    /// Of which generation the charges of an entry are.
    pub(super) fn generation_of(&self, number: usize) -> u64 {
        self.own(number).map_or(self.generation, |(_, own)| own)
    }

    /// Keeps in mind until when somebody owes that is evicted.
    pub(super) fn fold(&mut self, home: Home, until: Tick) {
        let cells = self.cold.folded.len();
        if cells > 0 {
            let cell = &mut self.cold.folded[home.number() as usize % cells];
            *cell = until.as_nanos().max(*cell);
        }
    }

    /// What somebody owes that comes from nowhere.
    pub(super) fn unfolded(&self, home: Home, terms: &Terms, now: Tick) -> Tat {
        let cells = self.cold.folded.len();
        if cells == 0 {
            return Tat::from_units(0);
        }
        let until = self.cold.folded[home.number() as usize % cells];
        if until <= now.as_nanos() {
            return Tat::from_units(0);
        }
        terms.owed_until(Tick::from_nanos(until), now)
    }

    /// Nobody that was evicted owes anything any more.
    pub(super) fn forget_folded(&mut self) {
        self.cold.folded.fill(0);
    }

    /// What was evicted is owed for longer or shorter by as much as all takes longer or shorter.
    pub(super) fn scale_folded(&mut self, _algorithm: Algorithm, to: &Terms, now: Tick) {
        let whole = |terms: &Terms| {
            u128::from(
                terms
                    .inverse
                    .tick_at(terms.limits.burst_tolerance)
                    .as_nanos(),
            )
        };
        let (old, new) = (whole(&self.terms).max(1), whole(to));
        for cell in &mut self.cold.folded {
            let left = Tick::from_nanos(*cell).saturating_since(now).as_nanos();
            let scaled = (left * new).div_ceil(old);
            let scaled = Duration::from_nanos(u64::try_from(scaled).unwrap_or(u64::MAX));
            *cell = now.saturating_add(scaled).as_nanos();
        }
    }

    /// Gives an entry a limiter of its own.
    pub(super) fn put_line(&mut self, number: usize, line: DedicatedLimiter) -> Word {
        Word::promoted(self.cold.lines.put(line, number))
    }
}
