//! What is charged otherwise than by entering, and given back.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

use super::Rates;
use super::state::{Asked, Entered, Found, charge};
use super::word::Word;
use crate::algorithm::Tat;
use crate::decision::Decision;
use crate::error::AcquireError;
use crate::quota::Quota;
use crate::rate::{Charge, RateLimiter, Reservation};
use crate::time::Tick;
use crate::wait::Waiting;

impl<K, S> Rates<K, S>
where
    K: Hash + Eq,
    S: BuildHasher + Default + Clone,
{
    /// Takes a place in the line of a key.
    pub(super) fn reserve<Q>(
        &self,
        key: &Q,
        cost: u64,
    ) -> Result<Waiting<Reservation>, AcquireError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let state = self.state();
        let asked = state.ask(key);
        let (own, now) = (asked.own_terms(), state.now());
        let entered = state.with_entry(asked, now, |shard, number| {
            let terms = state.carry(shard, number, own, now);
            state.line(shard, number, &terms)
        })?;
        match state.renewed(entered, own) {
            Entered::Line(line, _) => line.limiter().reserve_many(cost),
            Entered::Charged(_) => unreachable!("it was sent to the line"),
        }
    }

    /// Takes so much, whatever is owed.
    pub(super) fn charge<Q>(&self, key: &Q, cost: u64) -> Result<Charge, AcquireError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let state = self.state();
        let asked = state.ask(key);
        let (own, now) = (asked.own_terms(), state.now());
        let entered = state.with_entry(asked, now, |shard, number| {
            let terms = state.carry(shard, number, own, now);
            if let Some(debt) = shard.table.get(number).debt() {
                let unit = terms.limits.units_at(now);
                let (debt, cost) = debt.charge(&terms.limits, unit, cost);
                if debt.backlog_at(unit) <= terms.limits.burst_tolerance {
                    *shard.table.get_mut(number) = Word::owes(debt);
                    let generation = shard.side.generation_of(number);
                    return Entered::Charged(charge(debt, &terms, generation, cost, now));
                }
            }
            state.line(shard, number, &terms)
        })?;
        Ok(match state.renewed(entered, own) {
            Entered::Charged(charge) => charge,
            Entered::Line(line, _) => line.limiter().charge(cost),
        })
    }

    /// Takes back up to `cost` of a charge.
    pub(super) fn refund<Q>(&self, key: &Q, charge: &Charge, cost: u64)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let state = self.state();
        let asked = state.ask(key);
        let (own, now) = (asked.own_terms(), state.now());
        let mut shard = state.map.lock(asked.hash);
        // A key that is not there owes nothing that could be given back.
        let Some(number) = state.find(&shard, &asked) else {
            return;
        };
        let terms = state.carry(&mut shard, number, own, now);
        if let Some(debt) = shard.table.get(number).debt() {
            let made = *charge.receipt();
            if made.generation != shard.side.generation_of(number) {
                return;
            }
            let unit = terms.limits.units_at(now);
            let units = terms.limits.units_of(cost).min(debt.backlog_at(unit));
            let units = units.min(made.ticket.saturating_sub(unit));
            if units == 0 {
                return;
            }
            if made.ticket == debt.end() {
                // The last charge: nothing has to be known of it for those before it.
                *shard.table.get_mut(number) = Word::owes(debt.give(units));
                return;
            }
        }
        let entered = state.line(&mut shard, number, &terms);
        drop(shard);
        if let Entered::Line(line, _) = state.renewed(entered, own) {
            line.refund(charge, cost);
        }
    }

    pub(super) fn settle<Q>(&self, key: &Q, charge: Charge, actual: u64) -> Result<(), AcquireError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        match actual.checked_sub(charge.cost()) {
            Some(0) => Ok(()),
            Some(more) => self.charge(key, more).map(drop),
            None => {
                self.refund(key, &charge, charge.cost() - actual);
                Ok(())
            }
        }
    }

    /// How a key stands for a call that costs so much.
    pub(super) fn peek<Q>(&self, key: &Q, cost: u64) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.look(
            key,
            |limiter| limiter.peek_many(cost),
            |stands| stands.peek(cost),
        )
    }

    pub(super) fn available<Q>(&self, key: &Q) -> u64
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.look(key, RateLimiter::available, |stands| {
            stands.peek(0).remaining
        })
    }

    pub(super) fn waiting<Q>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.look(key, RateLimiter::waiting, |_| 0)
    }

    /// How a key stood just after a charge, or how it stands now.
    pub(super) fn stood<Q>(&self, key: &Q, charge: &Charge) -> Decision
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let after = |stands: &Stands<'_, K, S>| {
            let made = *charge.receipt();
            if made.generation == stands.generation {
                let terms = &stands.terms;
                let end = Tat::from_units(terms.limits.units_at(made.at) + made.owed);
                terms.decision(end, made.at, Duration::ZERO)
            } else {
                stands.peek(0)
            }
        };
        self.look(key, |limiter| limiter.decision(charge), after)
    }

    pub(super) fn quota_of_key<Q>(&self, key: &Q) -> Quota
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.look(key, RateLimiter::quota, |stands| stands.terms.quota)
    }

    fn look<Q, R>(
        &self,
        key: &Q,
        of_line: impl FnOnce(&RateLimiter) -> R,
        of_debt: impl FnOnce(&Stands<'_, K, S>) -> R,
    ) -> R
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let state = self.state();
        let asked: Asked<'_, K, Q> = state.ask(key);
        let now = state.now();
        match state.look(&asked, now) {
            Found::Line(line) => of_line(line.limiter()),
            Found::Debt {
                debt,
                terms,
                generation,
                closed,
            } => of_debt(&Stands {
                rates: self,
                debt,
                terms,
                generation,
                closed,
                now,
            }),
        }
    }
}

/// How a key stands that has no limiter of its own.
struct Stands<'a, K, S> {
    rates: &'a Rates<K, S>,
    debt: Tat,
    terms: super::side::Terms,
    generation: u64,
    closed: bool,
    now: Tick,
}

impl<K, S: Default + Clone> Stands<'_, K, S> {
    fn peek(&self, cost: u64) -> Decision {
        let limits = &self.terms.limits;
        let price = limits.units_of(cost);
        let oversize = price > limits.burst_tolerance;
        let refused = oversize && self.rates.state().template.refuses_oversize();
        let due = if self.closed || refused {
            None
        } else if cost == 0 {
            Some(self.now)
        } else if oversize {
            Some(self.terms.paid_off(self.debt))
        } else {
            let due = self.debt.end().saturating_add(price);
            let due = due.saturating_sub(limits.burst_tolerance);
            Some(self.terms.inverse.tick_at(due))
        };
        let retry_after = due.map_or(Duration::MAX, |due| due.saturating_since(self.now));
        self.terms.decision(self.debt, self.now, retry_after)
    }
}
