//! What the methods of a key of a rate have in common.

use std::time::Duration;

use super::super::contents::Contents;
use super::super::handle::{Address, Handle};
use super::super::map::{Map, Shard};
use super::common::{Entered, Rates};
use super::slot::{Kept, Word};
use crate::algorithm::Tat;
use crate::decision::Decision;
use crate::error::AcquireError;
use crate::rate::{Charge, DedicatedLimiter, RateLimiter};
use crate::time::Tick;

impl<K, S> Map<Rates<K>, S> {
    /// Forgets all debts when the map is used in another runtime than before and lives on their
    /// time, as a [`RateLimiter`] does. To be called before the clock is read, and under no lock.
    #[inline]
    pub(super) fn enter_runtime(&self) {
        if self.contents.enters_another_runtime() {
            self.restart();
        }
    }

    #[cold]
    fn restart(&self) {
        for mut shard in self.each_shard() {
            let Shard { table, state, .. } = &mut *shard;
            let common = state.begin_generation();
            for entry in table.iter_mut() {
                match &mut entry.slot.0 {
                    Kept::Common { debt, .. } => *debt = Tat::from_units(0),
                    Kept::Own { own, .. } => {
                        own.debt = Tat::from_units(0);
                        own.generation = common;
                    }
                    // A limiter sees to it itself.
                    Kept::Dedicated { .. } => {}
                }
            }
        }
    }
}

impl<A: Address<RateLimiter>> Handle<RateLimiter, A> {
    /// The map, in the runtime of this call.
    #[inline]
    fn map(&self) -> &Map<Rates<A::Key>, A::Hasher> {
        let map = self.address.keyed().map();
        map.enter_runtime();
        map
    }

    /// Charges now, or not at all. What nearly every call needs is here: one hash, one look at the
    /// clock, one lock.
    #[inline]
    pub(super) fn try_take(&self, cost: u64) -> Result<Charge, AcquireError> {
        let (map, key) = (self.map(), self.address.query());
        let hash = map.hash(key);
        let now = map.contents.now();
        let mut shard = map.lock(hash);
        if let Some(held) = shard.find(hash, key).filter(|held| !held.closed) {
            if let Ok(mut word) = held.slot.word(held.state) {
                match word.take(cost, now) {
                    Ok(charge) => return Ok(charge),
                    Err(Some(due)) if !word.is_astray(now) => {
                        drop(shard);
                        return Err(map.contents.template.limited(due, now));
                    }
                    Err(_) => {}
                }
            }
        }
        drop(shard);
        self.try_slowly(cost)
    }

    #[inline(never)]
    fn try_slowly(&self, cost: u64) -> Result<Charge, AcquireError> {
        match self.enter(cost, false)? {
            Ok(charge) => Ok(charge),
            Err(dedicated) => dedicated.limiter().try_acquire_many(cost),
        }
    }

    /// Charges now, or is rejected, or has to ask the limiter of the key.
    pub(super) fn enter(&self, cost: u64, waits: bool) -> Result<Entered, AcquireError> {
        let map = self.map();
        let (rates, now) = (&map.contents, map.contents.now());
        map.with_entry(
            self.address.query(),
            now,
            |state| rates.decide_absent(state, cost, now),
            // Not as of before the lock: what the key owed then may be forgotten since.
            |held| rates.decide(held, cost, rates.now(), waits),
        )?
    }

    /// Returns the limiter of the key, which is given one if it has none.
    pub(super) fn dedicated(&self) -> Result<DedicatedLimiter, AcquireError> {
        let map = self.map();
        let (rates, now) = (&map.contents, map.contents.now());
        map.with_entry(
            self.address.query(),
            now,
            |_| None,
            |mut held| rates.dedicate(&mut held),
        )
    }

    /// Charges, whatever the debt is, unless it has to ask the limiter of the key.
    pub(super) fn charge_word(&self, cost: u64) -> Result<Entered, AcquireError> {
        let map = self.map();
        let (rates, now) = (&map.contents, map.contents.now());
        map.with_entry(
            self.address.query(),
            now,
            |_| None,
            |mut held| {
                let now = rates.now();
                if let Ok(word) = held.slot.word(held.state) {
                    let limits = &word.terms.limits;
                    let unit = limits.units_at(now);
                    let (debt, cost) = word.debt.charge(limits, unit, cost);
                    if debt.backlog_at(unit) <= limits.burst_tolerance {
                        *word.debt = debt;
                        return Ok(word.charge(cost, now));
                    }
                }
                Err(rates.dedicate(&mut held))
            },
        )
    }

    /// Takes back up to `cost` of a charge.
    pub(super) fn refund_up_to(&self, charge: &Charge, cost: u64) {
        let (map, key) = (self.map(), self.address.query());
        let now = map.contents.now();
        let hash = map.hash(key);
        let mut shard = map.lock(hash);
        // A key that is not there has no debt that could be given back.
        let Some(mut held) = shard.find(hash, key) else {
            return;
        };
        if let Ok(word) = held.slot.word(held.state) {
            let made = *charge.receipt();
            if made.generation != word.generation {
                return;
            }
            let limits = &word.terms.limits;
            let unit = limits.units_at(now);
            let units = limits.units_of(cost).min(word.debt.backlog_at(unit));
            let units = units.min(made.ticket.saturating_sub(unit));
            if units == 0 {
                return;
            }
            if made.ticket == word.debt.end() {
                // The last charge: nothing has to be known of it for those before it.
                *word.debt = word.debt.give(units);
                return;
            }
        }
        let dedicated = map.contents.dedicate(&mut held);
        drop(shard);
        dedicated.refund(charge, cost);
    }

    /// Looks at the key, and changes nothing.
    pub(super) fn look<R>(
        &self,
        of_limiter: impl FnOnce(&RateLimiter) -> R,
        of_word: impl FnOnce(&Word<'_>, &Look<'_, A::Key>) -> R,
    ) -> R {
        let (map, key) = (self.map(), self.address.query());
        let rates = &map.contents;
        let now = rates.now();
        let hash = map.hash(key);
        let mut shard = map.lock(hash);
        let (terms, generation) = (shard.state.terms, shard.state.generation);
        let look = Look {
            rates,
            closed: shard.closed,
            now,
        };
        match shard.find(hash, key).map(|held| held.slot.word(held.state)) {
            Some(Ok(word)) => return of_word(&word, &look),
            Some(Err(dedicated)) => {
                let dedicated = dedicated.clone();
                drop(shard);
                return of_limiter(dedicated.limiter());
            }
            None => drop(shard),
        }
        let own = (rates.has_own()).then(|| rates.ask(&key.to_owned()));
        let word = Word {
            debt: &mut Tat::from_units(0),
            terms: own.as_ref().and_then(Option::as_deref).unwrap_or(&terms),
            generation,
        };
        of_word(&word, &look)
    }
}

/// A moment at which a key is looked at.
pub(super) struct Look<'a, K> {
    rates: &'a Rates<K>,
    closed: bool,
    now: Tick,
}

impl<K> Look<'_, K> {
    /// The decision about a call that is not made.
    pub(super) fn peek(&self, word: &Word<'_>, cost: u64) -> Decision {
        let (terms, debt, limits) = (word.terms, *word.debt, &word.terms.limits);
        let price = limits.units_of(cost);
        let oversize = price > limits.burst_tolerance;
        let refused = oversize && self.rates.template.refuses_oversize();
        let due = if self.closed || refused {
            None
        } else if cost == 0 {
            Some(self.now)
        } else if oversize {
            Some(terms.paid_off(debt))
        } else {
            let due = debt.end().saturating_add(price);
            Some(
                terms
                    .inverse
                    .tick_at(due.saturating_sub(limits.burst_tolerance)),
            )
        };
        let retry_after = due.map_or(Duration::MAX, |due| due.saturating_since(self.now));
        terms.decision(debt, self.now, retry_after)
    }

    /// The decision just after a charge, or that of now.
    pub(super) fn decision(&self, word: &Word<'_>, charge: &Charge) -> Decision {
        let made = *charge.receipt();
        if made.generation != word.generation {
            return self.peek(word, 0);
        }
        let end = Tat::from_units(word.terms.limits.units_at(made.at) + made.owed);
        word.terms.decision(end, made.at, Duration::ZERO)
    }
}
