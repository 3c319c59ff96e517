//! Limiters of keys: what [`keyed`](crate::keyed) needs of a limiter beyond its public methods.
//!
//! A key whose calls need not wait is a debt and nothing else, and its charges are made here. When
//! somebody has to wait, it is promoted to a limiter of its own, which begins with that debt. Then
//! the tickets of charges that were made before go on in it, so that they can be refunded.

use std::sync::Arc;

use super::acquire::{AcquireOwned, Entry};
use super::charge::Charge;
use super::core::Core;
use super::limiter::RateLimiter;
use super::options::{Carry, Oversize};
use crate::algorithm::{Algorithm, Debt, Limits};
use crate::error::AcquireError;
use crate::quota::Quota;
use crate::sync::{Ordering, fence};
use crate::time::{Clock, Tick};

/// What the limiters of all keys have in common.
pub(crate) struct Template(Arc<Core>);

/// The limiter of one key.
#[derive(Clone)]
pub(crate) struct Promoted(Arc<Core>);

/// Where a charge stands among those of its limiter.
pub(crate) struct Made {
    /// The end of the debt just after it, had nothing been refunded.
    pub(crate) ticket: u64,
    /// Distinguishes charges in other units, or of another limiter.
    pub(crate) generation: u64,
    pub(crate) cost: u64,
    pub(crate) at: Tick,
    /// What was owed then, in units.
    pub(crate) owed: u64,
}

impl Charge {
    #[inline]
    pub(crate) fn new(made: Made) -> Self {
        let Made {
            ticket,
            generation,
            cost,
            at,
            owed,
        } = made;
        Self {
            ticket,
            generation,
            cost,
            at,
            owed,
        }
    }

    /// Where it stands.
    pub(crate) fn made(&self) -> Made {
        Made {
            ticket: self.ticket,
            generation: self.generation,
            cost: self.cost,
            at: self.at,
            owed: self.owed,
        }
    }
}

impl Carry {
    /// What is owed under other limits.
    pub(crate) fn under(self, owed: u64, old: &Limits, new: &Limits) -> u64 {
        self.owed(
            owed,
            [old.tolerance, new.tolerance],
            [old.interval, new.interval],
        )
    }
}

impl RateLimiter {
    /// Its quota and its options, for the limiters of many keys.
    pub(crate) fn template(&self) -> Template {
        let mut config = self.options().clone();
        config.one_of_many = true;
        Template(Core::new(self.first_quota(), config))
    }
}

impl Template {
    pub(crate) fn clock(&self) -> &Clock {
        self.0.clock()
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        self.0.config.algorithm
    }

    /// Whether more than the burst is refused.
    pub(crate) fn refuses_oversize(&self) -> bool {
        self.0.config.oversize == Oversize::Refuse
    }

    /// Refused until `due`.
    pub(crate) fn limited(&self, due: Tick, now: Tick) -> AcquireError {
        self.0.limited(due, now)
    }

    /// Refused as there is no room for another key; perhaps in so many nanoseconds.
    pub(crate) fn no_room(&self, after: Option<u64>) -> AcquireError {
        match after {
            Some(nanos) => {
                let after = std::time::Duration::from_nanos(nanos);
                AcquireError::too_many_keys(self.0.jittered(after))
            }
            None => AcquireError::new(crate::error::ErrorKind::TooManyKeys),
        }
    }

    /// Refused as the line is full, if that can be of nobody; else there would be a place after this.
    pub(crate) fn queue_full(&self, after: std::time::Duration) -> Option<AcquireError> {
        let none = self.0.config.max_waiters() == 0;
        none.then(|| AcquireError::queue_full(self.0.jittered(after)))
    }

    /// A limiter that owes something already.
    pub(crate) fn promote(&self, quota: Quota, generation: u64, debt: Debt) -> Promoted {
        let core = Core::new(quota, self.0.config.clone());
        core.limits.set_generation(generation);
        let seen = core.cell.hold();
        core.cell.store(seen.with(debt.end()), false);
        Promoted(core)
    }
}

impl Promoted {
    /// Where its debt ends, if nothing would be lost by forgetting all else about it: nobody else
    /// has it, nobody is in line, it is open, and every charge that was ever made is paid off. Only
    /// where nobody can get it meanwhile.
    pub(crate) fn retired(&self, quota: Quota, now: Tick) -> Option<(Debt, Quota)> {
        if Arc::strong_count(&self.0) > 1 {
            return None;
        }
        // Pairs with the release by which others have dropped it: what they did is seen.
        fence(Ordering::Acquire);
        let core = &*self.0;
        let limits = core.limits.load::<true>();
        let unit = limits.at(now);
        if core.cell.load().debt().end() > unit {
            return None;
        }
        let lines = core.lock();
        let end = core.cell.load().debt();
        let tickets = end
            .end()
            .checked_add(core.refunded.load(Ordering::Relaxed))?;
        let idle = lines.len() == 0 && !lines.is_closed();
        (idle && tickets <= unit).then(|| (end, lines.quota().unwrap_or(quota)))
    }

    /// As the limiter that it is, which had this quota first.
    pub(crate) fn limiter(self, quota: Quota) -> RateLimiter {
        let config = self.0.config.clone();
        RateLimiter::of_core(quota, config, self.0)
    }

    #[inline]
    pub(crate) fn try_take(&self, cost: u64) -> Result<Charge, AcquireError> {
        self.0.try_take(cost)
    }

    pub(crate) fn acquire(self, cost: u64) -> AcquireOwned {
        AcquireOwned::new(self.0, cost)
    }

    pub(crate) fn reserve(self, cost: u64) -> Result<super::Reservation, AcquireError> {
        super::verbs::reserve(Entry::new(self.0, cost))
    }

    pub(crate) fn charge(&self, cost: u64) -> Charge {
        self.0.charge(cost)
    }

    pub(crate) fn refund(&self, charge: &Charge, cost: u64) {
        self.0.refund(charge, cost);
    }

    pub(crate) fn set_quota(&self, quota: Quota) {
        self.0
            .reconfigure(quota, Carry::by(self.0.config.algorithm));
    }

    pub(crate) fn close(&self) {
        self.0.close();
    }
}
