//! [`SlidingWindow`]: the calls of the previous window count in proportion to the part of that
//! window within the last period, as if they had come evenly.
//!
//! The windows begin at the multiples of the period. `most` is the limit in a period, `previous` is
//! the number of admitted calls in the window before, `count` is that in this one, and `elapsed` is
//! the time that has passed in it:
//!
//! 1. `cost` more are admitted if
//!    `previous * (period - elapsed) + (count + cost) * period <= most * period`, in whole numbers.
//! 2. The due tick is the first tick at which this holds if nothing else is charged. It is in this
//!    window while `previous` fades; or in the next window, where `count` has become `previous` and
//!    fades.
//! 3. A forced charge may make `count` more than `most`. The excess belongs to the windows after
//!    this one.
//! 4. A `now` before the beginning of the window counts as that beginning, so it admits less.
//! 5. Decisions without the lock count in a [word](SlidingWindow::word): while a window lasts, a
//!    charge changes nothing but `count`. The rest is [parameters](SlidingWindow::params). Only the
//!    holder of the lock changes them, and begins the next window.
//! 6. The word is the ticket of the newest charge, and every other change takes a ticket too. So
//!    the word only grows, and identifies one state: an exchange that was prepared in an earlier
//!    state fails.

use super::gcra::Tat;
use super::params::{LAST_TICK, MAX_TAT, Params, clamped, tick_or_never};
use super::promise::Promise;
use super::quota_change::QuotaChange;
use super::rule::{Receipt, Rule, earliest_of};
use crate::time::Tick;

/// A tick that is never reached, from which some periods can be counted on.
const NEVER: i64 = 1 << 61;

/// The largest count of a window.
pub(super) const MAX_COUNT: u64 = (1 << 48) - 1;

/// The admitted calls of each window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlidingWindow {
    most: u64,
    /// The period in nanoseconds.
    period: u64,
    /// The tick at which this window began. It is before the epoch if the state is of an earlier clock.
    start: i64,
    /// A tick at which a window begins whatever the period is, perhaps before the epoch.
    origin: i64,
    /// Admitted in the previous window.
    previous: u64,
    /// Admitted in this window.
    count: u64,
    /// The ticket of the newest charge, less the count. Every change other than of the count
    /// changes it.
    ticket: u64,
}

/// The parts of a state that do not follow from the quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(super) struct WindowParts {
    pub(super) start: i64,
    pub(super) origin: i64,
    pub(super) previous: u64,
    pub(super) count: u64,
}

impl SlidingWindow {
    pub(crate) fn new(promise: &Promise) -> Self {
        Self {
            most: promise.batch.count(),
            period: promise.batch.period_nanos(),
            start: 0,
            origin: 0,
            previous: 0,
            count: 0,
            ticket: 0,
        }
    }

    /// Returns the word: the last 60 bits of the ticket of the newest charge.
    #[inline(always)]
    pub(crate) fn word(&self) -> Tat {
        Tat::from_units(self.ticket.wrapping_add(self.count) & MAX_TAT)
    }

    /// Returns the state with this word.
    #[inline(always)]
    pub(crate) fn with(self, word: Tat) -> Self {
        let count = word.end().wrapping_sub(self.ticket) & MAX_TAT;
        Self { count, ..self }
    }

    /// Returns the state at a tick, perhaps in a later window, for a change beyond the count.
    fn changing(self, now: u64) -> Self {
        let this = self.at(now);
        let ticket = this.ticket.wrapping_add(1);
        Self { ticket, ..this }
    }

    /// Returns a saved state of the same quota, with a later word.
    pub(crate) fn restored(self, saved: &Self) -> Self {
        let ticket = self.ticket.wrapping_add(self.count).wrapping_add(1);
        Self { ticket, ..*saved }
    }

    /// Creates the state of a limit at some moment, from the parts that [`parts`](Self::parts) returns.
    pub(super) fn of_parts(promise: &Promise, parts: WindowParts) -> Self {
        let WindowParts {
            start,
            origin,
            previous,
            count,
        } = parts;
        Self {
            start,
            origin,
            previous,
            count,
            ..Self::new(promise)
        }
    }

    /// Returns what a state has beside its quota and its tickets.
    pub(super) fn parts(&self) -> WindowParts {
        WindowParts {
            start: self.start,
            origin: self.origin,
            previous: self.previous,
            count: self.count,
        }
    }

    /// Returns the beginning and the length of the window at a tick.
    pub(super) fn window_at(&self, now: u64) -> (i64, u64) {
        (self.at(now).start, self.period)
    }

    /// Moves the state along the time by this number of nanoseconds, to a tick.
    pub(super) fn shift(&mut self, by: i64, now: Tick) {
        self.start = self.start.saturating_add(by);
        self.origin = self.origin.saturating_add(by);
        *self = self.at(clamped(now));
    }

    /// Returns everything except the word, as [parameters](Self::of_word). They do not count in
    /// steps.
    pub(crate) fn params(&self) -> Params {
        Params {
            step: self.previous,
            start: self.start,
            stride: self.period,
            ..Params::stepped(1, 1, self.most)
        }
    }

    /// Returns the base ticket of the word.
    pub(crate) fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Returns the state with this word. If the parameters were read while they changed, it is
    /// arbitrary.
    #[inline(always)]
    pub(crate) fn of_word(params: &Params, ticket: u64, word: Tat) -> Self {
        Self {
            most: params.burst_tolerance,
            period: params.stride,
            start: params.start,
            // No decision needs it.
            origin: 0,
            previous: params.step,
            count: 0,
            ticket,
        }
        .with(word)
    }

    /// Returns the word after a charge and its receipt, or the tick at which the charge is due if
    /// that is later. Returns `None` if the holder of the lock has to decide: in another window, or
    /// for a cost that is never due.
    #[inline(always)]
    pub(crate) fn try_charge(
        mut self,
        now: Tick,
        cost: u64,
    ) -> Option<Result<(Tat, Receipt), Tick>> {
        let nanos = clamped(now);
        // This does not hold if the clock was set back.
        if cost == 0 || cost > self.most || (nanos as i64) < self.start {
            return None;
        }
        let due = self.first(cost);
        if due > nanos as i64 {
            let due = due as u64;
            return (due <= LAST_TICK).then_some(Err(Tick::from_nanos(due)));
        }
        (since(nanos, self.start) < self.period).then(|| {
            self.count += cost;
            Ok((self.word(), self.receipt(now, cost)))
        })
    }

    /// Returns the receipt of the newest charge.
    #[inline(always)]
    fn receipt(&self, at: Tick, cost: u64) -> Receipt {
        Receipt {
            ticket: self.ticket.wrapping_add(self.count),
            cost,
            at,
            ..Receipt::default()
        }
    }

    /// Returns the state at a tick, perhaps in a later window.
    fn at(self, now: u64) -> Self {
        let passed = self.elapsed(now) / self.period;
        if passed == 0 {
            return self;
        }
        // Each window takes its part of the excess over the limit.
        let paid = (passed - 1).saturating_mul(self.most);
        let before = self.count.saturating_sub(paid);
        let count = before.saturating_sub(self.most);
        Self {
            start: self.start + (passed * self.period) as i64,
            previous: before.min(self.most),
            count,
            // The next ticket is one more than that of the newest charge.
            ticket: self.ticket.wrapping_add(self.count - count + 1),
            ..self
        }
    }

    /// Returns the next window, if `more` is admitted in this one.
    fn next(self, more: u64) -> Self {
        Self {
            start: self.start.wrapping_add(self.period as i64),
            previous: self.count + more,
            count: 0,
            ..self
        }
    }

    /// Returns the time that has passed in this window at a tick.
    fn elapsed(self, now: u64) -> u64 {
        (now as i64).saturating_sub(self.start).max(0) as u64
    }

    /// Returns the counted cost at a tick, rounded up.
    fn used(self, now: u64) -> u64 {
        let this = self.at(now);
        let left = self.period - this.elapsed(now);
        let before = scaled_up(this.previous, left, self.period);
        this.count.saturating_add(before)
    }

    /// Returns the part of a call by which [`used`](Self::used) is rounded up, times the period.
    fn rounded_up(self, now: u64) -> u128 {
        let left = self.period - self.elapsed(now);
        let [previous, left, period] = [self.previous, left, self.period].map(u128::from);
        (previous * left).next_multiple_of(period) - previous * left
    }

    /// Returns the first nanosecond at which `cost` fits; `cost` is at most the limit.
    #[inline(always)]
    fn first(self, cost: u64) -> i64 {
        let (this, elapsed) = self.fitting(cost);
        this.start.wrapping_add(elapsed as i64)
    }

    /// Returns the window in which `cost` fits, and the time from its beginning.
    #[inline(always)]
    fn fitting(self, cost: u64) -> (Self, u64) {
        let mut this = self;
        if this.count > self.most {
            // Skips the windows that the excess over the limit fills.
            let passed = (this.count - 1) / self.most;
            this.start = later(this.start, passed, self.period);
            this.previous = self.most;
            this.count -= passed * self.most;
        }
        loop {
            if let Some(elapsed) = this.faded(cost) {
                return (this, elapsed);
            }
            this = this.next(0);
        }
    }

    /// Returns the time at which `previous` has faded enough in this window that `cost` fits.
    #[inline(always)]
    fn faded(self, cost: u64) -> Option<u64> {
        let free = self.most.checked_sub(self.count)?.checked_sub(cost)?;
        let Some(over) = self.previous.checked_sub(free).filter(|over| *over > 0) else {
            return Some(0);
        };
        let elapsed = scaled_up(over, self.period, self.previous);
        (elapsed < self.period).then_some(elapsed)
    }

    /// Returns the first nanosecond at which `total` could have been admitted one by one: no call
    /// after them can be admitted earlier.
    fn first_behind(self, mut total: u128) -> i64 {
        let mut this = self;
        // This is exact as long as earlier calls matter; after that each step is at most a whole
        // window.
        for _ in 0..2 {
            let (next, _) = this.fitting(1);
            let room = self.most - next.count;
            // At the end of the window, the fading rest is always less than one.
            let most = if next.previous > 0 { room - 1 } else { room };
            if total <= u128::from(most) {
                return next.first(total as u64);
            }
            total -= u128::from(most);
            this = next.next(most);
        }
        let windows = (total - 1) / u128::from(self.most);
        let windows = u64::try_from(windows).unwrap_or(u64::MAX);
        later(this.start, windows, self.period)
    }

    /// Returns the first nanosecond at which nothing counts any more.
    fn empty(self) -> i64 {
        let windows = match (self.count, self.previous) {
            (0, 0) => return 0,
            (0, _) => 1,
            // The next windows take the excess over the limit, and it fades in one more.
            (count, _) => 1 + count.div_ceil(self.most),
        };
        later(self.start, windows, self.period)
    }
}

/// Returns the beginning of the window that is this number of windows later, at most [`NEVER`].
#[inline(never)]
fn later(start: i64, windows: u64, period: u64) -> i64 {
    let nanos = windows.saturating_mul(period).min(NEVER as u64);
    start.saturating_add(nanos as i64).min(NEVER)
}

/// Returns the time from a tick, perhaps before the epoch, until a later one.
#[inline(always)]
fn since(now: u64, start: i64) -> u64 {
    now.wrapping_sub(start as u64)
}

/// Returns a tick for what is due then: a tick before the epoch has come already.
fn tick(nanos: i64) -> Tick {
    tick_or_never(nanos.max(0) as u64)
}

/// Returns `part * by / of`, rounded up, where `part` or `by` is at most `of`.
#[inline(always)]
fn scaled_up(part: u64, by: u64, of: u64) -> u64 {
    match part.checked_mul(by) {
        Some(product) => product.div_ceil(of),
        None => (u128::from(part) * u128::from(by)).div_ceil(u128::from(of)) as u64,
    }
}

impl Rule for SlidingWindow {
    fn capacity(&self) -> u64 {
        self.most
    }

    fn due(&self, behind: u128, cost: u64) -> Tick {
        tick(match (cost > self.most, behind) {
            (true, 0) => self.empty(),
            (true, _) => self.empty().max(self.first_behind(behind)),
            (false, 0) => self.first(cost),
            (false, _) => self.first_behind(behind + u128::from(cost)),
        })
    }

    fn charge(&mut self, at: Tick, cost: u64) -> Receipt {
        *self = self.at(clamped(at));
        let fitted = cost.min(MAX_COUNT.saturating_sub(self.count));
        self.count += fitted;
        // The window may begin later, at the end of a pause. A refund finds the window by this
        // tick.
        self.receipt(at.max(tick(self.start)), fitted)
    }

    fn give_back(&mut self, receipt: &Receipt, cost: u64, now: Tick) -> u64 {
        *self = self.changing(clamped(now));
        let at = clamped(receipt.at) as i64;
        if at >= self.start {
            let given = cost.min(self.count);
            self.count -= given;
            self.ticket = self.ticket.wrapping_add(given);
            return given;
        }
        // Each window since has taken its part of the excess over the limit. The part that counts
        // for longer is given back last, because it may belong to another charge.
        let passed = since(self.start as u64, at).div_ceil(self.period);
        let over = (passed - 1).saturating_mul(self.most);
        let before = cost.saturating_sub(over).min(self.previous);
        let beyond = cost.saturating_sub(over.saturating_add(before));
        let beyond = beyond.min(self.count);
        self.previous -= before;
        self.count -= beyond;
        self.ticket = self.ticket.wrapping_add(beyond);
        before + beyond
    }

    fn backlog(&mut self, now: Tick) -> u64 {
        self.used(clamped(now))
    }

    fn reset(&self) -> Tick {
        tick(self.empty())
    }

    fn earliest(&self, now: Tick, most: Option<u64>) -> Tick {
        earliest_of(now, most, self.most, self.period)
    }

    fn is_ahead_of(&self, now: Tick) -> bool {
        (clamped(now) as i64) < self.start
    }

    /// Keeps the spent part that belongs to the previous window. It continues to fade.
    fn change(&mut self, promise: &Promise, how: QuotaChange, now: Tick) {
        let (new, now) = (Self::new(promise), clamped(now));
        let (this, used) = (self.changing(now), self.used(now));
        let owed = how.kept(used, self.most, new.most).min(MAX_COUNT);
        let scaled = |part: u64, of: u64, by: u64| {
            let scaled = u128::from(part) * u128::from(by) / u128::from(of);
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        let passed = (now as i64).saturating_sub(this.origin);
        let passed = passed.rem_euclid(new.period as i64) as u64;
        let previous = match used {
            0 => 0,
            _ if how == QuotaChange::KeepSpent && new.period == self.period => this.previous,
            // It is rounded down, so that in doubt the rest is in this window, where it counts for
            // longer.
            _ => {
                let fading = scaled(used - this.count.min(used), used, owed);
                scaled(fading, new.period - passed, new.period)
            }
        };
        *self = Self {
            start: now as i64 - passed as i64,
            origin: this.origin,
            previous: previous.min(new.most),
            ticket: this.ticket.wrapping_add(this.count),
            ..new
        };
        // If the estimate is rounded up by more than before, a part of a call becomes available. Then
        // everything is in this window.
        let [old_most, new_most] = match how {
            QuotaChange::Proportional => [this.most, new.most].map(u128::from),
            QuotaChange::KeepSpent => [1, 1],
        };
        let allowed = this.rounded_up(now) * u128::from(new.period) / old_most;
        if self.rounded_up(now) * u128::from(this.period) > allowed.saturating_mul(new_most) {
            self.previous = 0;
        }
        self.count = owed.saturating_sub(self.used(now));
    }

    /// Counts tickets from the word, which continues to grow.
    fn forget_receipts(&mut self) {
        self.ticket &= MAX_TAT;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::choice::Algorithm;
    use super::super::promise::LARGEST_WINDOW;
    use super::*;
    use crate::quota::Quota;

    fn quota(count: u64, period: u64) -> Promise {
        Algorithm::SlidingWindow.promise(Quota::new(count, Duration::from_nanos(period)))
    }

    /// The state that threads without the lock know.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Published {
        params: Params,
        ticket: u64,
        word: Tat,
    }

    impl Published {
        fn by(rule: &SlidingWindow) -> Self {
            Self {
                params: rule.params(),
                ticket: rule.ticket(),
                word: rule.word(),
            }
        }

        fn state(&self) -> SlidingWindow {
            SlidingWindow::of_word(&self.params, self.ticket, self.word)
        }
    }

    /// Limits up to the largest one, in periods up to a product of 98 bits.
    fn limit() -> impl Strategy<Value = (u64, u64)> {
        let count = prop_oneof![
            1..20_u64,
            1..=1_u64 << 31,
            LARGEST_WINDOW - 1..=LARGEST_WINDOW
        ];
        (count, prop_oneof![0..100_u64, 0..1_u64 << 50])
            .prop_map(|(count, more)| (count, count + more))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        /// Decisions without the lock equal those of the rule with it, and leave the same state,
        /// even with a clock that was set back, and between forced charges, refunds, pauses and
        /// changes of the quota. A word identifies one state.
        #[test]
        fn try_charge_decides_as_the_rule_does(
            limit in limit(),
            other in limit(),
            steps in prop::collection::vec((0..9_u8, 0..3_000_000_u64, 0..=1_000_000_u64), 1..60),
        ) {
            let mut rule = SlidingWindow::new(&quota(limit.0, limit.1));
            let (mut now, mut receipts, mut quotas) = (0_u64, Vec::new(), [other, limit]);
            let (mut saved, mut earlier) = (rule, Vec::new());
            for (what, time, cost) in steps {
                let part = |of: u64, by: u64| (u128::from(of) * u128::from(by) / 1_000_000) as u64;
                now = match what {
                    0 => now.saturating_sub(part(rule.period, time)),
                    _ => now + part(rule.period, time / (1 << (time % 8))),
                };
                let tick = Tick::from_nanos(now);
                let cost = part(rule.most, cost).max(1);
                match what {
                    1 => receipts.push(rule.charge(tick, cost * 2)),
                    2 if !receipts.is_empty() => {
                        let receipt = receipts.swap_remove(time as usize % receipts.len());
                        rule.give_back(&receipt, receipt.cost, tick);
                    }
                    3 => {
                        rule = rule.restored(&std::mem::replace(&mut saved, rule));
                        rule.forget_receipts();
                        receipts.clear();
                    }
                    4 => {
                        quotas.swap(0, 1);
                        rule.change(&quota(quotas[0].0, quotas[0].1), QuotaChange::KeepSpent, tick);
                        rule.forget_receipts();
                        receipts.clear();
                        saved = rule;
                    }
                    _ => {
                        let mut published = Published::by(&rule);
                        prop_assert_eq!(published.state(), rule);
                        let due = rule.due(0, cost);
                        match published.state().try_charge(tick, cost) {
                            Some(Ok((word, receipt))) => {
                                prop_assert!(due <= tick);
                                prop_assert_eq!(receipt, rule.charge(tick, cost));
                                published.word = word;
                                prop_assert_eq!(published.state(), rule);
                                prop_assert_eq!(published.word, rule.word());
                                receipts.push(receipt);
                            }
                            Some(Err(first)) => prop_assert_eq!((first, due > tick), (due, true)),
                            // The charge is in another window, or is never due.
                            None if due <= tick => {
                                let before = rule.word();
                                receipts.push(rule.charge(tick, cost));
                                prop_assert!(rule.word() != before);
                            }
                            None => prop_assert!((now as i64) < rule.start || due.is_never()),
                        }
                    }
                }
                let published = Published::by(&rule);
                let same = earlier.iter().filter(|it: &&Published| it.word == published.word);
                prop_assert!(same.clone().all(|it| *it == published), "{published:?}");
                earlier.push(published);
            }
        }
    }

    #[test]
    fn word_goes_on_from_the_last_ticket_of_60_bits() {
        let mut rule = SlidingWindow::new(&quota(10, 1 << 40));
        rule.ticket = MAX_TAT - 1;
        rule.charge(Tick::from_nanos(1), 3);
        assert_eq!(rule.word().end(), 1);
        assert_eq!(rule.with(rule.word()), rule);
        let published = Published::by(&rule);
        rule.forget_receipts();
        assert_eq!(published.state(), rule);
        rule.give_back(&Receipt::default(), 0, Tick::from_nanos(1));
        assert_eq!((rule.word().end(), rule.count), (2, 3));
    }
}
