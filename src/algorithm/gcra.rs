//! [`Gcra`]: the generic cell rate algorithm, in its virtual scheduling form: ITU-T recommendation
//! I.371, annex A; also known as a leaky bucket used as a meter.
//!
//! The whole state is one number, a [`Tat`]: the unit at which all charges are paid off. It is the
//! *theoretical arrival time* of the recommendation, and the end of the backlog. Time pays off one
//! unit at a time, and the backlog is at most the tolerance, which is the burst. A token bucket, a
//! fixed window and sub-intervals are the same value with other [parameters](Params): a clock that
//! advances in steps.
//!
//! 1. A charge starts at the end of the backlog or now, whichever is later: so after any pause, no
//!    more than a burst is available.
//! 2. A charge that ends after now plus the tolerance is not admitted. So the charges admitted from
//!    unit `a` to unit `b` amount to at most `b - a` plus the tolerance.
//! 3. With a `now` that is earlier than a previous one, it admits less, never more.
//! 4. Costs and times are counted in units, and rounded so that no call is admitted early.
//! 5. A change of the quota rounds the backlog up, and starts it at the next whole unit. So it
//!    makes nothing available: neither the rest of a token nor the fraction of a unit that has
//!    passed. If nothing is owed, the time since then is carried over, rounded down. So if the spent
//!    number is kept, the end of the backlog, in tokens from now, never falls by a change.
//! 6. A waiter that is granted at its due tick is charged within the nanosecond that ends there, so
//!    fractions of a nanosecond do not add up over a queue. The charge begins after the units that
//!    had passed a nanosecond earlier, so a grant that is late gains no fraction.
//! 7. A backlog beyond the burst means that the clock was set back, unless it was made so: by a
//!    forced charge, or by a change to a lower burst.

use super::params::{MAX_TAT, Params, clamped};
use super::promise::Promise;
use super::quota_change::{QuotaChange, saturated};
use super::refunds::Refunds;
use super::rule::{OfOthers, Receipt, Rule};
use crate::time::Tick;

/// The lateness of a waiter for which the limiter makes up, if no `max` was chosen.
const CATCH_UP: Tick = Tick::from_nanos(10_000_000);

/// The unit at which the backlog ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tat(u64);

impl Tat {
    pub(crate) const fn from_units(unit: u64) -> Self {
        Self(if unit > MAX_TAT { MAX_TAT } else { unit })
    }

    #[inline]
    pub(crate) const fn end(self) -> u64 {
        self.0
    }

    /// Returns the backlog at a unit.
    pub(crate) const fn backlog_at(self, now: u64) -> u64 {
        self.0.saturating_sub(now)
    }

    /// Takes `price` units now, or returns the first unit at which it could. The price must not
    /// exceed the tolerance.
    #[inline(always)]
    pub(crate) const fn take(self, params: &Params, now: u64, price: u64) -> Result<Self, u64> {
        let start = if self.0 > now { self.0 } else { now };
        // The sums are of less than 2^60, 2^59 and 2^59. They wrap only with parameters that were
        // read while they changed; the word has then changed too, and nothing uses them.
        let (end, last) = (
            start.wrapping_add(price),
            now.wrapping_add(params.burst_tolerance),
        );
        if end <= last {
            Ok(Self(end))
        } else {
            Err(end.wrapping_sub(params.burst_tolerance))
        }
    }

    /// Returns the receipt of a charge that has led to this state.
    #[inline(always)]
    pub(crate) const fn receipt(self, at: Tick, cost: u64, owed: u64) -> Receipt {
        Receipt {
            ticket: self.0,
            generation: 0,
            cost,
            at,
            owed,
        }
    }

    /// Returns the end of the same backlog under other parameters; or the unit in the past at which
    /// it ended, rounded up. It does not give out a unit that has begun to pass, so a change makes
    /// nothing available; but nothing is carried over to or from a quota without a limit.
    pub(crate) const fn carry(
        self,
        how: QuotaChange,
        old: &Params,
        new: &Params,
        now: Tick,
    ) -> Self {
        if old.is_unlimited() || new.is_unlimited() {
            return Self::from_units(new.units_at(now));
        }
        let passed = old.units_at(now);
        let owed = how.carried(self.backlog_at(passed), old, new);
        let idle = passed.saturating_sub(self.0) as u128 * new.emission_interval as u128;
        let idle = saturated(idle / old.emission_interval as u128);
        let end = new.units_after(now).saturating_add(owed);
        Self::from_units(end.saturating_sub(idle))
    }

    /// Removes `units` from the backlog.
    pub(crate) const fn give(self, units: u64) -> Self {
        Self(self.0.saturating_sub(units))
    }

    /// Returns the first tick at which `cost` fits after `behind` units have been charged before it. A cost
    /// above the burst fits when the backlog is empty.
    const fn due_after(self, params: &Params, behind: u64, cost: u64) -> Tick {
        let start = self.0.saturating_add(behind);
        let price = params.units_of(cost);
        let room = params.burst_tolerance.saturating_sub(price);
        params.tick_at(start.saturating_sub(room))
    }

    /// Returns the unit at which the charge of a waiter begins that became due within the nanosecond that ends
    /// at this tick.
    const fn grant_start(self, params: &Params, at: Tick) -> u64 {
        let passed = params.units_at(at);
        let before = Tick::from_nanos(at.as_nanos().saturating_sub(1));
        let is_within = params.units_at(before) < self.0 && self.0 < passed;
        if is_within && !params.is_stepped() {
            self.0
        } else {
            passed
        }
    }

    /// Charges the part of `cost` that fits before the end of time, from the unit `start` on, and returns that
    /// part too. A charge of 0 changes nothing.
    const fn charge_part(self, params: &Params, start: u64, cost: u64) -> (Self, u64) {
        let start = if cost > 0 && start > self.0 {
            start
        } else {
            self.0
        };
        let room = params.tokens(MAX_TAT.saturating_sub(start));
        let cost = if cost < room { cost } else { room };
        (Self::from_units(start + params.units_of(cost)), cost)
    }
}

/// The tick at which steps begin even after a change, if there is one. It takes as much memory as a tick.
#[derive(Clone, Copy)]
pub(crate) struct Origin(i64);

impl Origin {
    /// A step that has begun goes on.
    pub(crate) const NONE: Self = Self(i64::MIN);

    pub(crate) const fn at(tick: i64) -> Self {
        Self(tick)
    }

    pub(crate) const fn get(self) -> Option<i64> {
        match self {
            Self(i64::MIN) => None,
            Self(tick) => Some(tick),
        }
    }
}

/// The state of a rule that decides by its backlog.
pub(crate) struct Gcra {
    /// Whether steps begin at multiples of their length since `params.start` even after a change.
    pub(super) aligned: bool,
    pub(super) params: Params,
    pub(super) tat: Tat,
    pub(super) refunds: Refunds,
    /// The end of the newest backlog that was beyond the burst when it was made.
    pub(super) overdrawn: Tat,
}

impl Gcra {
    pub(crate) fn new(promise: &Promise, origin: Origin) -> Self {
        Self {
            aligned: origin.get().is_some(),
            ..Self::of_word(
                promise.params().starting(origin.get().unwrap_or(0)),
                Tat::from_units(0),
                Tat::from_units(0),
            )
        }
    }

    /// Creates the rule of a key, whose whole state is a word. A backlog that ends by `overdrawn`
    /// may be beyond the burst.
    pub(crate) fn of_word(params: Params, tat: Tat, overdrawn: Tat) -> Self {
        Self {
            aligned: true,
            params,
            tat,
            refunds: Refunds::default(),
            overdrawn,
        }
    }

    /// Creates the rule of a state at some moment.
    pub(super) fn of_state(
        promise: &Promise,
        end: u64,
        start: i64,
        refunded: u64,
        now: Tick,
    ) -> Self {
        let (params, tat) = (promise.params().starting(start), Tat::from_units(end));
        let mut rule = Self {
            aligned: false,
            ..Self::of_word(params, tat, Tat::from_units(0))
        };
        rule.refunds.total = refunded;
        rule.note_overdraft(now);
        rule
    }

    /// Moves the state along the time by this number of nanoseconds, to a tick. If nanoseconds are no whole
    /// units, a part of a unit more is owed.
    pub(super) fn shift(&mut self, by: i64, now: Tick) {
        let (params, nanos) = (&self.params, Tick::from_nanos(by.unsigned_abs()));
        if params.is_stepped() {
            self.params = params.starting(params.start.saturating_add(by));
            let owed = self.tat.backlog_at(self.params.units_at(now));
            let (begin, _) = self.window_at(now).unwrap_or_default();
            self.params = self.params.starting(begin);
            self.tat = Tat::from_units(self.params.units_at(now).saturating_add(owed));
        } else if by < 0 {
            self.tat = self.tat.give(params.units_at(nanos));
        } else {
            self.tat = Tat::from_units(self.tat.end().saturating_add(params.units_after(nanos)));
        }
        self.note_overdraft(now);
    }

    /// Makes steps begin at this tick from now on, and after every change. The number of units that are owed stays.
    pub(super) fn align(&mut self, origin: i64, now: Tick) {
        let owed = self.tat.backlog_at(self.params.units_at(now));
        self.aligned = true;
        if self.params.is_stepped() {
            self.params = self.params.starting(origin);
            self.tat = Tat::from_units(self.params.units_at(now).saturating_add(owed));
            self.note_overdraft(now);
        }
    }

    /// Returns the beginning and the length of the step at a tick, if time advances in steps.
    pub(super) fn window_at(&self, now: Tick) -> Option<(i64, u64)> {
        let params = &self.params;
        params
            .is_stepped()
            .then(|| (params.step_begun(now), params.stride))
    }

    /// Counts in the units of another quota. The backlog ends at the same time, or within the next two nanoseconds.
    pub(super) fn change_units(&mut self, old: &Params, new: Params, now: Tick) {
        self.tat = Tat::from_units(new.units_after(old.tick_at(self.tat.end())));
        self.params = new;
        self.overdrawn = Tat::from_units(0);
        self.note_overdraft(now);
    }

    /// Moves the end of the backlog.
    pub(super) fn delay(&mut self, units: u64) {
        if units > 0 {
            self.tat = Tat::from_units(self.tat.end().saturating_add(units));
            self.overdrawn = self.tat;
        }
    }

    /// Ends the idle time, if nothing is owed.
    pub(super) fn raise(&mut self, now: Tick) {
        self.tat = Tat::from_units(self.tat.end().max(self.params.units_at(now)));
    }

    fn charge_from(&mut self, start: u64, at: Tick, cost: u64) -> Receipt {
        let (tat, cost) = self.tat.charge_part(&self.params, start, cost);
        self.tat = tat;
        Receipt {
            ticket: self.tat.end() + self.refunds.total,
            generation: 0,
            cost,
            at,
            owed: self.note_overdraft(at),
        }
    }

    /// Returns the backlog after a charge or a change, and remembers its end if it is beyond the
    /// burst.
    fn note_overdraft(&mut self, now: Tick) -> u64 {
        let owed = self.tat.backlog_at(self.params.units_at(now));
        if owed > self.params.burst_tolerance {
            self.overdrawn = self.tat;
        }
        owed
    }
}

impl Rule for Gcra {
    fn capacity(&self) -> u64 {
        self.params.burst()
    }

    fn due(&self, behind: u128, cost: u64) -> Tick {
        let behind = behind.saturating_mul(u128::from(self.params.emission_interval));
        let behind = u64::try_from(behind).unwrap_or(u64::MAX);
        self.tat.due_after(&self.params, behind, cost)
    }

    fn charge(&mut self, at: Tick, cost: u64) -> Receipt {
        self.charge_from(self.params.units_at(at), at, cost)
    }

    fn grant(&mut self, at: Tick, cost: u64) -> Receipt {
        self.charge_from(self.tat.grant_start(&self.params, at), at, cost)
    }

    /// It is exact to the unit, because charges of whole tokens would leave a fraction available.
    fn spend_burst(&mut self, at: Tick) {
        let params = &self.params;
        // Without a limit there is no burst to spend.
        if !params.is_unlimited() {
            let spent = params.units_at(at) + params.burst_tolerance - params.emission_interval;
            self.tat = Tat::from_units(self.tat.end().max(spent));
        }
    }

    fn give_back(&mut self, receipt: &Receipt, cost: u64, now: Tick) -> u64 {
        let units = self.params.units_of(cost);
        let unpaid = self.tat.backlog_at(self.params.units_at(now));
        let newest = self.tat.end() + self.refunds.total;
        let given = self.refunds.give(newest, receipt.ticket, units, unpaid);
        self.tat = self.tat.give(given);
        given
    }

    fn backlog(&mut self, now: Tick) -> u64 {
        let units = self.tat.backlog_at(self.params.units_at(now));
        self.params.backlog(units)
    }

    fn reset(&self) -> Tick {
        self.params.tick_at(self.tat.end())
    }

    fn after(&mut self, receipt: &Receipt) -> (u64, Tick) {
        let end = self.params.units_at(receipt.at) + receipt.owed;
        let reset = self.params.tick_at(end.min(MAX_TAT));
        (self.params.backlog(receipt.owed), reset)
    }

    fn earliest(&self, now: Tick, most: Option<u64>) -> Tick {
        let params = &self.params;
        let in_time = || params.tokens(params.starting(0).units_at(CATCH_UP)).max(1);
        let units = params.units_of(most.unwrap_or_else(in_time));
        let earliest = params.units_at(now).saturating_sub(units);
        // It is never between two steps, because a part of a batch would already be available
        // there.
        params.tick_at(earliest)
    }

    fn is_ahead_of(&self, now: Tick) -> bool {
        // No call that asked has led to more than the burst.
        self.tat.end() > self.overdrawn.end()
            && self.tat.backlog_at(self.params.units_at(now)) > self.params.burst_tolerance
    }

    fn change(&mut self, promise: &Promise, how: QuotaChange, now: Tick) {
        let (params, old) = (promise.params(), self.params);
        // The backlog that is carried over counts for all of the step that continues.
        let begun = old.start_after_change(self.aligned, now);
        self.params = params.starting(begun);
        self.tat = self.tat.carry(how, &old, &self.params, now);
        self.overdrawn = Tat::from_units(0);
        self.note_overdraft(now);
    }

    fn follow(&mut self, windows: bool, end: Tick, now: Tick, earlier: u64) -> OfOthers {
        let (params, period) = (self.params, self.params.stride);
        if !windows || !params.is_stepped() {
            return OfOthers::Charged;
        }
        let (end, passed, now_nanos) = (clamped(end), params.units_at(now), clamped(now));
        let own = clamped(params.tick_at(passed + 1));
        // The end of one of its windows that is nearest to the own end; or the next one, if any end
        // will do.
        let to_own = (own.saturating_sub(end) + period / 2) / period;
        let windows = match own.checked_sub(earlier) {
            Some(_) => to_own,
            None => (now_nanos + 1).saturating_sub(end).div_ceil(period),
        };
        let next = end + windows * period;
        if !self.aligned && next > now_nanos && next >= own.saturating_sub(earlier) {
            let spent = self.tat.backlog_at(passed);
            self.params = params.starting(next as i64 - period as i64);
            let tat = Tat::from_units(self.params.units_at(now) + spent);
            // Tickets continue as before.
            self.refunds.total += self.tat.end().saturating_sub(tat.end());
            self.tat = tat;
            self.note_overdraft(now);
        }
        OfOthers::Growing {
            end: self.params.tick_at(self.params.units_at(now) + 1),
            is_of_this: windows == 0 && end > now_nanos,
        }
    }

    fn forget_receipts(&mut self) {
        self.refunds = Refunds::default();
    }
}

#[cfg(test)]
mod random_inputs;
#[cfg(test)]
mod tests;
