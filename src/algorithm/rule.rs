//! [`Rule`]: the one interface of all algorithms, and [`RuleState`], which is one of them.
//!
//! Times are ticks of the limiter's clock, costs are tokens. A rule never reads a clock: every call
//! that needs the time takes it as an argument. With an older time than one that was seen, a rule
//! admits less, never more.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::gcra::Gcra;
use super::params::{clamped, tick_or_never};
use super::sliding_log::{self, Ring, SlidingLog};
use super::sliding_window::SlidingWindow;
use super::{Algorithm, InverseParams, Params, QuotaChange, Tat};
use crate::quota::Quota;
use crate::time::Tick;

/// What a limiter charged for one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// The position of the charge among all charges of its rule, by which the rule finds it again.
    pub(crate) ticket: u64,
    /// The [generation](fresh_generation) of the charge. The rule leaves that to the limiter.
    pub(crate) generation: u64,
    pub(crate) cost: u64,
    pub(crate) at: Tick,
    /// The backlog just after the charge, if the rule knows it: in its own units.
    pub(crate) owed: u64,
}

/// Returns a number for the charges that a limiter makes from now on: no other limiter of the
/// process has it, and the limiter did not have it before. So a limiter recognizes a receipt of
/// another limiter, or from before its charges were numbered again. The low half is zero, for the
/// hash of a key.
pub(crate) fn fresh_generation() -> u64 {
    // Not a modelled one: a model may run the limiters of many executions.
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed).rotate_left(32)
}

/// How one algorithm decides.
pub(crate) trait Rule {
    /// Returns the most that can be charged at once.
    fn capacity(&self) -> u64;

    /// Returns the first tick at which `cost` fits after `behind` has been charged before it, each
    /// part of it when it is due: exact if `behind` is 0, and the earliest possible otherwise. A
    /// cost above the capacity fits when the backlog is empty. Never is the last tick.
    fn due(&self, behind: u128, cost: u64) -> Tick;

    /// Charges at a tick, whatever the backlog is. The cost of the receipt is the part that there
    /// was room for.
    fn charge(&mut self, at: Tick, cost: u64) -> Receipt;

    /// Does the same as [`charge`](Self::charge), for a waiter that became due within the
    /// nanosecond that ends at this tick.
    fn grant(&mut self, at: Tick, cost: u64) -> Receipt {
        self.charge(at, cost)
    }

    /// Spends what is available at a tick, which may be in the future, except for one token.
    fn spend_burst(&mut self, at: Tick) {
        let free = self.capacity().saturating_sub(self.backlog(at));
        if free > 1 {
            self.charge(at, free - 1);
        }
    }

    /// Gives back up to `cost` of a charge, except what time has paid off, and returns how much
    /// that was, in units of the rule.
    fn give_back(&mut self, receipt: &Receipt, cost: u64, now: Tick) -> u64;

    /// Returns the tokens that are missing from the capacity at a tick, rounded up.
    fn backlog(&mut self, now: Tick) -> u64;

    /// Returns the first tick at which the backlog is empty.
    fn reset(&self) -> Tick;

    /// Returns the backlog just after a charge, and the tick at which that was, or will be, paid
    /// off; or what the rule still knows of this.
    fn after(&mut self, receipt: &Receipt) -> (u64, Tick) {
        (self.backlog(receipt.at), self.reset())
    }

    /// Returns the earliest tick for the charge of a late waiter, if at most `most` tokens are made
    /// up for. The default is as many as come in 10 ms, and at least one.
    fn earliest(&self, now: Tick, most: Option<u64>) -> Tick;

    /// Returns whether the clock seems to have been set back.
    fn is_ahead_of(&self, now: Tick) -> bool;

    /// Changes the quota, and returns `false` if it means the same as before.
    fn change(&mut self, quota: Quota, how: QuotaChange, now: Tick) -> bool;

    /// Forgets all charges.
    fn clear(&mut self);

    /// Forgets all receipts so far, which can no longer be refunded.
    fn forget_receipts(&mut self) {}
}

/// The rule of a limiter.
pub(crate) enum RuleState {
    Gcra(Gcra),
    SlidingWindow(SlidingWindow),
    SlidingLog(SlidingLog),
}

impl RuleState {
    /// Creates a rule to which nothing was charged. With `aligned`, windows begin at the multiples
    /// of their length also after the quota has changed.
    pub(crate) fn new(algorithm: Algorithm, quota: Quota, aligned: bool) -> Self {
        match algorithm {
            Algorithm::SlidingWindow => Self::SlidingWindow(SlidingWindow::new(quota)),
            Algorithm::SlidingLog => Self::SlidingLog(SlidingLog::new(quota)),
            _ => Self::Gcra(Gcra::new(algorithm, quota, aligned)),
        }
    }

    /// Returns the rule whose whole state is a word, which decisions without the lock change as
    /// well.
    fn gcra(&self) -> Option<&Gcra> {
        match self {
            Self::Gcra(gcra) => Some(gcra),
            _ => None,
        }
    }

    /// Returns whether it can be decided by the word, without the lock. Dense parameters would take more
    /// instructions of every decision.
    pub(crate) fn is_in_word(&self) -> bool {
        self.gcra().is_some_and(|gcra| !gcra.params.is_dense())
    }

    /// Stops all decisions without the lock: takes over the word as they have left it.
    pub(crate) fn lock(&mut self, tat: Tat) {
        match self {
            Self::Gcra(gcra) => gcra.tat = tat,
            Self::SlidingLog(log) => log.lock(),
            Self::SlidingWindow(_) => {}
        }
    }

    /// Allows decisions without the lock again, after the word was published.
    pub(crate) fn unlock(&self) {
        if let Self::SlidingLog(log) = self {
            log.unlock();
        }
    }

    /// Returns the ring that decides calls of cost 1 without the lock, if the word does not.
    pub(crate) fn ring(&self) -> Option<&Arc<Ring>> {
        match self {
            Self::SlidingLog(log) => Some(log.ring()),
            _ => None,
        }
    }

    /// Returns the word, for decisions without the lock.
    pub(crate) fn tat(&self) -> Tat {
        self.gcra().map_or(Tat::from_units(0), |gcra| gcra.tat)
    }

    /// Returns the parameters of decisions without the lock, or at least the capacity.
    pub(crate) fn params(&self) -> (Params, InverseParams) {
        match self.gcra() {
            Some(gcra) => (gcra.params, gcra.inverse),
            None => (
                Params::stepped(1, 1, self.capacity()),
                InverseParams::stepped(1, 1),
            ),
        }
    }

    /// Begins to foresee charges, while decisions without the lock are stopped.
    pub(crate) fn forecast(&self) -> Forecast<'_> {
        match self {
            Self::Gcra(gcra) => Forecast::Gcra(gcra.without_refunds()),
            Self::SlidingWindow(window) => Forecast::SlidingWindow(*window),
            Self::SlidingLog(log) => {
                Forecast::SlidingLog(sliding_log::forecast::Forecast::new(log))
            }
        }
    }

    /// Returns the refunded units, from which tickets of decisions without the lock count.
    pub(crate) fn refunded(&self) -> u64 {
        self.gcra().map_or(0, |gcra| gcra.refunds.total())
    }
}

impl Deref for RuleState {
    type Target = dyn Rule;

    fn deref(&self) -> &(dyn Rule + 'static) {
        match self {
            Self::Gcra(rule) => rule,
            Self::SlidingWindow(rule) => rule,
            Self::SlidingLog(rule) => rule,
        }
    }
}

impl DerefMut for RuleState {
    fn deref_mut(&mut self) -> &mut (dyn Rule + 'static) {
        match self {
            Self::Gcra(rule) => rule,
            Self::SlidingWindow(rule) => rule,
            Self::SlidingLog(rule) => rule,
        }
    }
}

/// What a rule will admit after charges that are foreseen. It takes no copy of a log, which may be long.
pub(crate) enum Forecast<'a> {
    Gcra(Gcra),
    SlidingWindow(SlidingWindow),
    SlidingLog(sliding_log::forecast::Forecast<'a>),
}

impl Forecast<'_> {
    /// Does the same as [`Rule::due`].
    pub(crate) fn due(&self, behind: u128, cost: u64) -> Tick {
        match self {
            Self::Gcra(gcra) => gcra.due(behind, cost),
            Self::SlidingWindow(window) => window.due(behind, cost),
            Self::SlidingLog(log) => tick_or_never(log.due(behind, cost)),
        }
    }

    /// Foresees what [`Rule::grant`] charges at the tick when a call is due.
    pub(crate) fn grant(&mut self, at: Tick, cost: u64) {
        match self {
            Self::Gcra(gcra) => _ = gcra.grant(at, cost),
            Self::SlidingWindow(window) => _ = window.grant(at, cost),
            Self::SlidingLog(log) => log.charge(clamped(at), cost),
        }
    }
}

/// Here, because a loom model compiles the log alone.
impl Rule for SlidingLog {
    fn capacity(&self) -> u64 {
        self.len()
    }

    fn due(&self, behind: u128, cost: u64) -> Tick {
        tick_or_never(self.due(behind, cost))
    }

    fn charge(&mut self, at: Tick, cost: u64) -> Receipt {
        let (ticket, cost, charged) = self.charge(clamped(at), cost);
        Receipt {
            ticket,
            cost,
            at: at.max(Tick::from_nanos(charged)),
            ..Receipt::default()
        }
    }

    fn spend_burst(&mut self, at: Tick) {
        self.spend_burst(clamped(at));
    }

    fn give_back(&mut self, receipt: &Receipt, cost: u64, now: Tick) -> u64 {
        self.give_back(receipt.ticket, cost, clamped(now))
    }

    fn backlog(&mut self, now: Tick) -> u64 {
        self.backlog(clamped(now))
    }

    fn reset(&self) -> Tick {
        tick_or_never(self.reset())
    }

    fn earliest(&self, now: Tick, most: Option<u64>) -> Tick {
        earliest_of(now, most, self.len(), self.period())
    }

    fn is_ahead_of(&self, now: Tick) -> bool {
        self.is_ahead_of(clamped(now))
    }

    fn change(&mut self, quota: Quota, how: QuotaChange, now: Tick) -> bool {
        let changes = (self.len(), self.period()) != (quota.count(), quota.period_nanos());
        if changes {
            let scales = how == QuotaChange::Proportional;
            self.change(quota, scales, clamped(now));
        }
        changes
    }

    fn clear(&mut self) {
        self.clear();
    }
}

/// Returns the earliest tick for the charge of a late waiter, like [`Rule::earliest`], if `count`
/// tokens come in a period.
pub(super) fn earliest_of(now: Tick, most: Option<u64>, count: u64, period: u64) -> Tick {
    let (count, period) = (u128::from(count), u128::from(period));
    let most = most.map_or((10_000_000 * count / period).max(1), u128::from);
    let nanos = most.saturating_mul(period).div_ceil(count);
    let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
    Tick::from_nanos(clamped(now).saturating_sub(nanos))
}
