//! The limits of all keys, in use: how calls find what is owed, and decide.
//!
//! 1. What a key owes is in its entry, under the lock of its shard, or, while the entry says so, in
//!    a limiter of its own, which is used without that lock.
//! 2. The clock is read before the lock. An older time admits less, never more.
//! 3. The quota of a key, if it has one of its own, is asked for before the lock. What was owed
//!    under another one is carried over when the key is used next.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, OnceLock};

use super::super::at_cap::AtCap;
use super::super::map::{Guard, Map, Shard};
use super::newcomer::Newcomer;
use super::side::{Side, Terms};
use super::word::Word;
use crate::algorithm::{Algorithm, Receipt, Tat};
use crate::error::{AcquireError, ErrorKind};
use crate::quota::Quota;
use crate::rate::{Charge, DedicatedLimiter, Template};
use crate::sync::{Mutex, lock};
use crate::time::{Clock, Counter, LastRuntime, Tick};
use crate::wait::remaining_timeout;

/// How many quotas are remembered in the form in which they are needed.
const REMEMBERED: usize = 16;

/// Says what quota a key has.
pub(super) type QuotaOf<K> = Arc<dyn Fn(&K) -> Quota + Send + Sync>;

pub(super) struct State<K, S> {
    pub(super) map: Map<K, Word, Side, S>,
    pub(super) template: Template,
    /// The clock of the system, if it is that.
    counter: Option<Counter>,
    pub(super) at_cap: AtCap,
    own: Option<Own<K>>,
    /// What applies to all keys, as soon as their shards have taken it over. The last lock that is
    /// taken.
    pub(super) terms: Mutex<Terms>,
    /// The runtime in which it was used last, if it runs on tokio's time.
    last_runtime: Mutex<LastRuntime>,
}

/// Quotas of single keys.
struct Own<K> {
    quota_of: QuotaOf<K>,
    /// Where a quota would be, whatever is there.
    remembered: [OnceLock<Terms>; REMEMBERED],
}

/// A key, and what was found out about it before the lock.
pub(super) struct Asked<'a, K, Q: ?Sized> {
    pub(super) key: &'a Q,
    pub(super) hash: u64,
    /// If the key has terms of its own: they, and the key as it would be kept.
    own: Option<(Terms, K)>,
}

/// How a call got on.
pub(super) enum Entered {
    Charged(Charge),
    /// That is for the limiter of the key, which had this quota first.
    Line(DedicatedLimiter, Quota),
}

/// How things stand for a key.
pub(super) enum Found {
    Debt {
        debt: Tat,
        terms: Terms,
        /// Of the charges that are told from earlier ones.
        generation: u64,
        closed: bool,
    },
    Line(DedicatedLimiter),
}

impl<K, Q: ?Sized> Asked<'_, K, Q> {
    /// The terms of the key, if it has some of its own.
    pub(super) fn own_terms(&self) -> Option<Terms> {
        self.own.as_ref().map(|(terms, _)| *terms)
    }
}

impl<K> Own<K> {
    fn terms(&self, algorithm: Algorithm, quota: Quota) -> Terms {
        let mixed = quota.count() ^ quota.period_nanos().rotate_left(21);
        let mixed = (mixed ^ quota.max_burst().rotate_left(42)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let remembered = &self.remembered[(mixed >> 60) as usize % REMEMBERED];
        let terms = remembered.get_or_init(|| Terms::new(algorithm, quota));
        if terms.quota == quota {
            *terms
        } else {
            Terms::new(algorithm, quota)
        }
    }
}

impl<K, S> State<K, S> {
    pub(super) fn new(
        template: Template,
        quota: Quota,
        max_keys: usize,
        at_cap: AtCap,
        quota_of: Option<QuotaOf<K>>,
        hasher: S,
    ) -> Self {
        let folds = at_cap == AtCap::Fold;
        let terms = Terms::new(template.algorithm(), quota);
        let map = Map::new(max_keys, hasher, |size| {
            Side::new(terms, size, folds, quota_of.is_some())
        });
        let own = |quota_of| Own {
            quota_of,
            remembered: Default::default(),
        };
        Self {
            map,
            counter: template.clock().counter(),
            template,
            at_cap,
            own: quota_of.map(own),
            terms: Mutex::new(terms),
            last_runtime: Mutex::new(LastRuntime::default()),
        }
    }

    pub(super) fn clock(&self) -> &Clock {
        self.template.clock()
    }

    #[inline]
    pub(super) fn now(&self) -> Tick {
        match self.counter {
            Some(counter) => counter.now(),
            None => self.clock().now(),
        }
    }

    /// Whether keys have quotas of their own.
    #[inline]
    pub(super) fn has_own(&self) -> bool {
        self.own.is_some()
    }

    /// Restarts a map on tokio's time that was last used in another runtime, as a
    /// [`RateLimiter`](crate::RateLimiter) restarts. Not under a lock.
    #[inline]
    pub(super) fn enter_runtime(&self) {
        if self.counter.is_none() && self.clock().is_of_runtime() {
            self.restart_in_new_runtime();
        }
    }

    #[cold]
    fn restart_in_new_runtime(&self) {
        // The lock was a temporary.
        let restarts = lock(&self.last_runtime).enter_runtime();
        if !restarts {
            return;
        }
        for mut shard in self.map.each() {
            let Shard { table, side, .. } = &mut *shard;
            for number in table.all() {
                let word = table.get_mut(number);
                // Limiters see to it themselves.
                if word.debt().is_some() {
                    *word = Word::owes(Tat::from_units(0));
                }
            }
            side.forget_folded();
            side.begin_generation();
        }
    }
}

impl<K, S> State<K, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// What can be found out about a key before the lock.
    pub(super) fn ask<'a, Q>(&self, key: &'a Q) -> Asked<'a, K, Q>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.enter_runtime();
        let own = self.own.as_ref().map(|own| {
            let owned = key.to_owned();
            (
                own.terms(self.template.algorithm(), (own.quota_of)(&owned)),
                owned,
            )
        });
        Asked {
            key,
            hash: self.map.hash(key),
            own,
        }
    }

    /// Takes so much now, or is refused; or, if it may wait, is sent to the line.
    #[cold]
    pub(super) fn enter<Q>(
        &self,
        asked: Asked<'_, K, Q>,
        cost: u64,
        waits: bool,
    ) -> Result<Entered, AcquireError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let mut now = self.now();
        let own = asked.own_terms();
        let mut retired = None;
        let mut shard = self.open(asked.hash)?;
        let Some(number) = self.find(&shard, &asked) else {
            let terms = own.unwrap_or(shard.side.terms);
            if let Some(decided) = self.without_entry(&shard, &terms, cost, now) {
                drop(shard);
                return decided;
            }
            let newcomer = self.newcomer(own, now);
            let owned = asked.own.map(|(_, owned)| owned);
            return self
                .map
                .newcomer(
                    (asked.key, asked.hash),
                    owned,
                    shard,
                    &newcomer,
                    |shard, number| self.decide(shard, number, own, cost, now, waits),
                )?
                .map(|entered| self.renewed(entered, own));
        };
        let word = *shard.table.get(number);
        let terms = own.unwrap_or(shard.side.terms);
        if word.debt().is_some_and(|debt| is_astray(debt, &terms, now)) {
            // Never so much is owed here, unless the clock was set back.
            drop(shard);
            self.clock().correct();
            now = self.now();
            return self.enter_at(asked, cost, now, waits);
        }
        retired = self.retire(&mut shard, number, now).or(retired);
        let entered = self.decide(&mut shard, number, own, cost, now, waits);
        let another = self.retire_another(&mut shard, now);
        drop(shard);
        drop((retired, another));
        Ok(self.renewed(entered?, own))
    }

    /// As [`enter`](Self::enter), with a clock that has been corrected.
    fn enter_at<Q>(
        &self,
        asked: Asked<'_, K, Q>,
        cost: u64,
        now: Tick,
        waits: bool,
    ) -> Result<Entered, AcquireError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let own = asked.own_terms();
        self.with_entry(asked, now, |shard, number| {
            self.decide(shard, number, own, cost, now, waits)
        })?
        .map(|entered| self.renewed(entered, own))
    }

    /// Goes on with the entry of a key under the lock, which is made if it is not there.
    pub(super) fn with_entry<Q, R>(
        &self,
        asked: Asked<'_, K, Q>,
        now: Tick,
        then: impl FnOnce(&mut Shard<K, Word, Side>, usize) -> R,
    ) -> Result<R, AcquireError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let mut shard = self.open(asked.hash)?;
        if let Some(number) = self.find(&shard, &asked) {
            let _retired = self.retire(&mut shard, number, now);
            let result = then(&mut shard, number);
            drop(shard);
            return Ok(result);
        }
        let (terms, owned) = asked.own.unzip();
        let newcomer = self.newcomer(terms, now);
        self.map
            .newcomer((asked.key, asked.hash), owned, shard, &newcomer, then)
    }

    /// How things stand for a key, of which nothing is changed.
    pub(super) fn look<Q>(&self, asked: &Asked<'_, K, Q>, now: Tick) -> Found
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let shard = self.map.lock(asked.hash);
        let side = &shard.side;
        let own = asked.own_terms();
        let terms = own.unwrap_or(side.terms);
        let closed = shard.closed;
        let Some(number) = self.find(&shard, asked) else {
            let debt = side.unfolded(shard.table.home(asked.hash), &terms, now);
            return Found::Debt {
                debt,
                terms,
                generation: side.generation,
                closed,
            };
        };
        let word = *shard.table.get(number);
        let before = self.terms_of(side, number);
        if let Some(debt) = word.debt() {
            let same = before.are(&terms);
            return Found::Debt {
                // As it will be when it is used.
                debt: if same {
                    debt
                } else {
                    before.carry(debt, &terms, now)
                },
                terms,
                generation: if same {
                    side.generation_of(number)
                } else {
                    u64::MAX
                },
                closed,
            };
        }
        let slot = word.slot().unwrap_or_default();
        let line = side.cold.lines.get(slot).clone();
        drop(shard);
        if own.is_some() {
            self.renew(&line, before.quota, terms.quota);
        }
        Found::Line(line)
    }

    /// Locks the shard of a key, unless nobody is admitted any more.
    pub(super) fn open(&self, hash: u64) -> Result<Guard<'_, K, Word, Side>, AcquireError> {
        let shard = self.map.lock(hash);
        if shard.closed {
            return Err(AcquireError::new(ErrorKind::Closed));
        }
        Ok(shard)
    }

    #[inline]
    pub(super) fn find<Q>(
        &self,
        shard: &Shard<K, Word, Side>,
        asked: &Asked<'_, K, Q>,
    ) -> Option<usize>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        shard
            .table
            .find(asked.hash, |other| other.borrow() == asked.key)
    }

    fn newcomer(&self, own: Option<Terms>, now: Tick) -> Newcomer<'_, K, S> {
        Newcomer {
            state: self,
            own,
            now,
        }
    }

    /// What needs no entry: what costs nothing, and what would never be admitted.
    fn without_entry(
        &self,
        shard: &Shard<K, Word, Side>,
        terms: &Terms,
        cost: u64,
        now: Tick,
    ) -> Option<Result<Entered, AcquireError>> {
        if cost == 0 {
            let generation = shard.side.generation;
            let charge = charge(Tat::from_units(0), terms, generation, 0, now);
            return Some(Ok(Entered::Charged(charge)));
        }
        let oversize = terms.limits.units_of(cost) > terms.limits.burst_tolerance;
        (oversize && self.template.refuses_oversize())
            .then(|| Err(AcquireError::exceeds_capacity(terms.limits.burst())))
    }

    /// The terms by which an entry was used last.
    pub(super) fn terms_of(&self, side: &Side, number: usize) -> Terms {
        match (side.own(number), &self.own) {
            (Some((quota, _)), Some(own)) => own.terms(self.template.algorithm(), quota),
            _ => side.terms,
        }
    }

    /// Lets what an entry owes be in its new terms.
    pub(super) fn carry(
        &self,
        shard: &mut Shard<K, Word, Side>,
        number: usize,
        own: Option<Terms>,
        now: Tick,
    ) -> Terms {
        let Shard { table, side, .. } = shard;
        let before = self.terms_of(side, number);
        let Some(after) = own.filter(|own| !own.are(&before)) else {
            return before;
        };
        let word = table.get_mut(number);
        if let Some(debt) = word.debt() {
            *word = Word::owes(before.carry(debt, &after, now));
            side.set_own(number, after.quota);
            return after;
        }
        before
    }

    /// Decides for an entry.
    fn decide(
        &self,
        shard: &mut Shard<K, Word, Side>,
        number: usize,
        own: Option<Terms>,
        cost: u64,
        now: Tick,
        waits: bool,
    ) -> Result<Entered, AcquireError> {
        let terms = self.carry(shard, number, own, now);
        let Some(debt) = shard.table.get(number).debt() else {
            return Ok(self.line(shard, number, &terms));
        };
        let generation = shard.side.generation_of(number);
        if cost == 0 {
            return Ok(Entered::Charged(charge(debt, &terms, generation, 0, now)));
        }
        let (unit, price) = (terms.limits.units_at(now), terms.limits.units_of(cost));
        if price > terms.limits.burst_tolerance {
            if self.template.refuses_oversize() {
                return Err(AcquireError::exceeds_capacity(terms.limits.burst()));
            }
            return Ok(self.line(shard, number, &terms));
        }
        match debt.take(&terms.limits, unit, price) {
            Ok(debt) => {
                *shard.table.get_mut(number) = Word::owes(debt);
                Ok(Entered::Charged(charge(
                    debt, &terms, generation, cost, now,
                )))
            }
            Err(due) => {
                let due = terms.inverse.tick_at(due);
                let after = due.saturating_since(now);
                if !waits {
                    Err(self.template.limited(due, now))
                } else if remaining_timeout().is_some_and(|left| after > left) {
                    Err(AcquireError::would_take(after))
                } else {
                    Ok(self.line(shard, number, &terms))
                }
            }
        }
    }

    /// The limiter of an entry, which is given one if it has none.
    pub(super) fn line(
        &self,
        shard: &mut Shard<K, Word, Side>,
        number: usize,
        terms: &Terms,
    ) -> Entered {
        let Shard {
            table,
            side,
            closed,
        } = shard;
        let word = table.get_mut(number);
        let slot = match word.debt() {
            None => word.slot().unwrap_or_default(),
            Some(debt) => {
                let generation = side.generation_of(number);
                let line = self.template.promote(terms.quota, generation, debt);
                if *closed {
                    // For a refund; nobody has joined.
                    line.limiter().close();
                }
                *word = side.put_line(number, line);
                word.slot().unwrap_or_default()
            }
        };
        Entered::Line(side.cold.lines.get(slot).clone(), terms.quota)
    }

    /// Has the limiter of a key go by the quota that the key has now.
    pub(super) fn renewed(&self, entered: Entered, own: Option<Terms>) -> Entered {
        if let (Entered::Line(line, first), Some(own)) = (&entered, own) {
            self.renew(line, *first, own.quota);
        }
        entered
    }

    fn renew(&self, line: &DedicatedLimiter, _first: Quota, now: Quota) {
        if line.limiter().quota() != now {
            line.limiter().set_quota(now);
        }
    }

    /// Takes the limiter of an entry back, if it is not needed any more.
    pub(super) fn retire(
        &self,
        shard: &mut Shard<K, Word, Side>,
        number: usize,
        now: Tick,
    ) -> Option<DedicatedLimiter> {
        let Shard { table, side, .. } = shard;
        let word = table.get_mut(number);
        let slot = word.slot()?;
        let (debt, quota) = side.cold.lines.get(slot).try_reclaim(now)?;
        *word = Word::owes(debt);
        if self.own.is_some() {
            side.set_own(number, quota);
        }
        side.cold.lines.take(slot)
    }

    /// The same for the entry whose turn it is, so that limiters do not become more and more.
    fn retire_another(
        &self,
        shard: &mut Shard<K, Word, Side>,
        now: Tick,
    ) -> Option<DedicatedLimiter> {
        let (_, number) = shard.side.cold.lines.next()?;
        super::super::touched::touched(1);
        self.retire(shard, number, now)
    }
}

/// More is owed than is ever owed here.
pub(super) fn is_astray(debt: Tat, terms: &Terms, now: Tick) -> bool {
    debt.backlog_at(terms.limits.units_at(now)) > terms.limits.burst_tolerance
}

/// The charge that ends where the debt now ends.
#[inline]
pub(super) fn charge(debt: Tat, terms: &Terms, generation: u64, cost: u64, now: Tick) -> Charge {
    Charge::from(Receipt {
        ticket: debt.end(),
        generation,
        cost,
        at: now,
        owed: debt.backlog_at(terms.limits.units_at(now)),
    })
}
