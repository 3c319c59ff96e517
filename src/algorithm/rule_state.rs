//! [`RuleState`]: one of the rules, and its state outside the lock.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::choice::Algorithm;
use super::gcra::{Gcra, Origin, Tat};
use super::params::{Params, clamped, tick_or_never};
use super::promise::Promise;
use super::refunds::Refunds;
use super::rule::Rule;
use super::sliding_log::{self, Ring, SlidingLog};
use super::sliding_window::{SlidingWindow, WindowParts};
use crate::quota::Quota;
use crate::time::Tick;

/// The rule of a limiter. It has a tag, because otherwise each use would compute the variant from
/// the capacity of a vector in the log.
#[repr(u8)]
pub(crate) enum RuleState {
    Gcra(Gcra),
    SlidingWindow(SlidingWindow),
    SlidingLog(SlidingLog),
}

impl RuleState {
    /// Creates a rule without charges. With an `origin`, windows begin at multiples of their
    /// length since that tick, even after the quota has changed.
    pub(crate) fn new(algorithm: Algorithm, quota: Quota, origin: Origin) -> Self {
        let promise = &algorithm.promise(quota);
        match algorithm {
            Algorithm::SlidingWindow => Self::SlidingWindow(SlidingWindow::new(promise)),
            Algorithm::SlidingLog => Self::SlidingLog(SlidingLog::new(promise.batch)),
            Algorithm::Gcra
            | Algorithm::TokenBucket
            | Algorithm::FixedWindow
            | Algorithm::SubInterval { .. } => Self::Gcra(Gcra::new(promise, origin)),
        }
    }

    /// Returns whether the word decides, without the lock. Support for dense parameters would cost
    /// every decision more instructions, and nothing has to be decided without a limit.
    pub(crate) fn is_in_word(&self) -> bool {
        match self {
            Self::Gcra(gcra) => !gcra.params.is_dense() && !gcra.params.is_unlimited(),
            Self::SlidingWindow(_) => true,
            Self::SlidingLog(_) => false,
        }
    }

    /// Stops all decisions without the lock: takes over the word in the state in which they left
    /// it.
    pub(crate) fn lock(&mut self, tat: Tat) {
        match self {
            Self::Gcra(gcra) => gcra.tat = tat,
            Self::SlidingLog(log) => log.lock(),
            Self::SlidingWindow(window) => *window = window.with(tat),
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
        match self {
            Self::Gcra(gcra) => gcra.tat,
            Self::SlidingWindow(window) => window.word(),
            Self::SlidingLog(_) => Tat::from_units(0),
        }
    }

    /// Returns the parameters of decisions without the lock, or at least the capacity.
    pub(crate) fn params(&self) -> Params {
        match self {
            Self::Gcra(gcra) => gcra.params,
            Self::SlidingWindow(window) => window.params(),
            Self::SlidingLog(log) => Params::stepped(1, 1, log.capacity()),
        }
    }

    /// Returns the state, for [`restore`](Self::restore).
    pub(crate) fn save(&self) -> Saved {
        match self {
            Self::Gcra(gcra) => Saved::Word(gcra.tat),
            Self::SlidingWindow(window) => Saved::Window(*window),
            Self::SlidingLog(log) => Saved::Log(log.save()),
        }
    }

    /// Returns to a saved state of the same quota. Earlier charges can no longer be refunded.
    pub(crate) fn restore(&mut self, saved: &Saved, now: Tick) {
        match (self, saved) {
            (Self::Gcra(gcra), Saved::Word(tat)) => gcra.tat = *tat,
            (Self::SlidingWindow(window), Saved::Window(saved)) => *window = window.restored(saved),
            (Self::SlidingLog(log), Saved::Log(saved)) => {
                log.restore(saved, log.biased(clamped(now)));
            }
            _ => {}
        }
    }

    /// Creates the rule of a state at some moment.
    pub(super) fn of_owed(owed: &Owed, promise: &Promise, now: Tick) -> Self {
        match owed {
            Owed::Backlog {
                end,
                start,
                refunded,
            } => Self::Gcra(Gcra::of_state(promise, *end, *start, *refunded, now)),
            Owed::Window(parts) => Self::SlidingWindow(SlidingWindow::of_parts(promise, *parts)),
            Owed::Log {
                ticks,
                ahead,
                ticket,
            } => {
                let (ticks, ahead) = (ticks.clone(), *ahead);
                let charges = sliding_log::Saved { ticks, ahead };
                let now = clamped(now);
                Self::SlidingLog(SlidingLog::of_charges(
                    promise.batch,
                    &charges,
                    *ticket,
                    now,
                ))
            }
        }
    }

    /// Returns what is owed.
    pub(super) fn owed(&self) -> Owed {
        self.owed_of(&self.save())
    }

    /// Returns what was owed in a saved state.
    pub(super) fn owed_of(&self, saved: &Saved) -> Owed {
        match (self, saved) {
            (Self::SlidingLog(log), Saved::Log(saved)) => Owed::Log {
                ticks: saved.ticks.clone(),
                ahead: saved.ahead,
                ticket: log.ticket(),
            },
            (_, Saved::Window(window)) => Owed::Window(window.parts()),
            (Self::Gcra(gcra), Saved::Word(tat)) => Owed::Backlog {
                end: tat.end(),
                start: gcra.params.start,
                refunded: gcra.refunds.total,
            },
            _ => unreachable!("a rule returns to states of its own kind"),
        }
    }

    /// Moves everything along the time by this number of nanoseconds, to a tick.
    pub(super) fn shift(&mut self, by: i64, now: Tick) {
        match self {
            Self::Gcra(gcra) => gcra.shift(by, now),
            Self::SlidingWindow(window) => window.shift(by, now),
            Self::SlidingLog(log) => log.shift(by, clamped(now)),
        }
    }

    /// Makes steps begin at this tick, even after a change, if the rule has steps.
    pub(super) fn align(&mut self, origin: i64, now: Tick) {
        if let Self::Gcra(gcra) = self {
            gcra.align(origin, now);
        }
    }

    /// Counts in the units of another quota, if the rule decides by the end of the backlog.
    pub(super) fn change_units(&mut self, old: &Params, new: Params, now: Tick) {
        if let Self::Gcra(gcra) = self {
            gcra.change_units(old, new, now);
        }
    }

    /// Returns the beginning and the length of the window or step at a tick, if there are any.
    pub(super) fn window_at(&self, now: Tick) -> Option<(i64, u64)> {
        match self {
            Self::Gcra(gcra) => gcra.window_at(now),
            Self::SlidingWindow(window) => Some(window.window_at(clamped(now))),
            Self::SlidingLog(_) => None,
        }
    }

    /// Moves the end of the backlog, if the rule decides by that.
    pub(crate) fn delay(&mut self, units: u64) {
        if let Self::Gcra(gcra) = self {
            gcra.delay(units);
        }
    }

    /// Ends the idle time, if the rule decides by the end of the backlog and nothing is owed.
    pub(crate) fn raise(&mut self, now: Tick) {
        if let Self::Gcra(gcra) = self {
            gcra.raise(now);
        }
    }

    /// Charges units during a pause, for which the burst is spent.
    pub(crate) fn owe(&mut self, now: Tick, units: u64) {
        match self {
            Self::Gcra(_) => self.delay(units),
            _ if units == 0 => {}
            Self::SlidingWindow(_) | Self::SlidingLog(_) => _ = self.charge(now, units),
        }
    }

    /// Begins to foresee charges, while decisions without the lock are stopped.
    pub(crate) fn forecast(&self) -> Forecast<'_> {
        match self {
            // Refunds affect only other refunds.
            Self::Gcra(gcra) => Forecast::Copy(Self::Gcra(Gcra {
                refunds: Refunds::default(),
                ..*gcra
            })),
            Self::SlidingWindow(window) => Forecast::Copy(Self::SlidingWindow(*window)),
            Self::SlidingLog(log) => Forecast::OfLog(log.forecast()),
        }
    }

    /// Returns the base ticket of decisions without the lock: for a backlog, the refunded units.
    pub(crate) fn first_ticket(&self) -> u64 {
        match self {
            Self::Gcra(gcra) => gcra.refunds.total,
            Self::SlidingWindow(window) => window.ticket(),
            Self::SlidingLog(_) => 0,
        }
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

/// What time pays off, as numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub(super) enum Owed {
    /// A rule that decides by the end of the backlog.
    Backlog {
        /// The unit at which the backlog ends.
        end: u64,
        /// The tick from which steps are counted.
        start: i64,
        /// The refunded units.
        refunded: u64,
    },
    Window(WindowParts),
    Log {
        /// The ticks of the charges, rising, perhaps before the epoch.
        ticks: Vec<i64>,
        /// The number of charges that still wait for a free slot.
        ahead: u64,
        /// The ticket of the newest charge.
        ticket: u64,
    },
}

/// The state of a rule at some moment.
pub(crate) enum Saved {
    Word(Tat),
    Window(SlidingWindow),
    Log(sliding_log::Saved),
}

/// A forecast of the decisions of a rule after foreseen charges. It does not copy a log, because a
/// log may be long.
pub(crate) enum Forecast<'a> {
    Copy(RuleState),
    OfLog(sliding_log::Forecast<'a>),
}

impl Forecast<'_> {
    /// Does the same as [`Rule::due`].
    pub(crate) fn due(&self, behind: u128, cost: u64) -> Tick {
        match self {
            Self::Copy(rule) => rule.due(behind, cost),
            Self::OfLog(it) => tick_or_never(it.log().unbiased(it.due(behind, cost))),
        }
    }

    /// Foresees the charge that [`Rule::grant`] makes at the tick when a call is due.
    pub(crate) fn grant(&mut self, at: Tick, cost: u64) {
        match self {
            Self::Copy(rule) => _ = rule.grant(at, cost),
            Self::OfLog(it) => it.charge(it.log().biased(clamped(at)), cost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::quota_change::QuotaChange;
    use super::*;

    /// No limiter on a manual clock shows this: only the system clock can be set back.
    #[test]
    fn is_ahead_of_a_tick_before_the_newest_charge_is_true() {
        let [now, before] = [100, 50].map(|secs| Tick::from_nanos(secs * 1_000_000_000));
        for &algorithm in Algorithm::all() {
            let quota = Quota::per_second(10).burst(10);
            let mut rule = RuleState::new(algorithm, quota, Origin::NONE);
            rule.lock(rule.tat());
            let capacity = rule.capacity();
            rule.charge(now, capacity);
            assert!(!rule.is_ahead_of(now), "{algorithm}");
            assert!(rule.is_ahead_of(before), "{algorithm}");
            // Nothing more is admitted there, and less in doubt.
            assert!(rule.backlog(before) >= capacity, "{algorithm}");
            assert!(rule.due(0, 1) > now, "{algorithm}");
        }
    }

    /// A backlog that no call asked for does not mean that the clock was set back.
    #[test]
    fn is_ahead_of_with_a_backlog_beyond_the_burst_is_false() {
        let now = Tick::from_nanos(100_000_000_000);
        let keep = QuotaChange::KeepSpent;
        for &algorithm in Algorithm::all() {
            let quota = |count| Quota::per_second(count).burst(count);
            let mut rule = RuleState::new(algorithm, quota(50), Origin::NONE);
            rule.lock(rule.tat());
            let capacity = rule.capacity();
            rule.charge(now, capacity);
            rule.change(&algorithm.promise(quota(5)), keep, now);
            assert!(
                rule.due(0, 1) > now && !rule.is_ahead_of(now),
                "{algorithm}"
            );
            rule.charge(now, 3 * capacity);
            assert!(!rule.is_ahead_of(now), "{algorithm}");
        }
    }
}
