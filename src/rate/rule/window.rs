//! The [sliding window](Windows) of a limiter.
//!
//! The value of the word is how many were admitted in this window, in 48 bits, and in 12 the number
//! of the window, so that there is no other with the same value. When it began, and how many were
//! admitted in the one before, is written while the word is held; then an epoch begins. So an
//! exchange of the word proves that they belonged to the value, as it does for the limits.
//!
//! A decision without the lock is one in this window. The first one in the next takes the lock, and
//! begins it.

use super::{span, tokens_in};
use crate::algorithm::{WindowRule, Windows};
use crate::quota::Quota;
use crate::rate::cell::Seen;
use crate::rate::core::{Core, Decided};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::time::{Counter, Tick};

const COUNT_BITS: u32 = 48;
const MOST_COUNT: u64 = (1 << COUNT_BITS) - 1;
const NUMBER_BITS: u32 = 60 - COUNT_BITS;

/// What is beside the word.
pub(crate) struct WindowMemory {
    /// By which tries are decided, if there is nothing else to be heeded.
    pub(in crate::rate) plain: Option<Counter>,
    most: AtomicU64,
    period: AtomicU64,
    start: AtomicU64,
    previous: AtomicU64,
}

impl Core {
    #[inline(always)]
    pub(in crate::rate) fn decide_by_window(
        &self,
        memory: &WindowMemory,
        cost: u64,
        now: Tick,
    ) -> Decided {
        let seen = self.cell.load();
        let (rule, windows) = (memory.rule(), memory.windows(seen));
        let limits = self.limits.load::<true>();
        if seen.is_held() || cost == 0 || cost > rule.most {
            return Decided::Held;
        }
        let unit = limits.at(now);
        let elapsed = match unit.checked_sub(windows.start) {
            Some(elapsed) if elapsed < rule.period => elapsed,
            // In another window; or the clock was set back.
            _ => return Decided::Held,
        };
        if windows.fits(rule, elapsed, cost) {
            let charge = self.remembered(0, now, cost);
            // The number of the window stays.
            if self.cell.exchange(seen, seen.value() + cost) {
                Decided::Charged(charge)
            } else {
                Decided::Lost
            }
        } else if self.cell.is_still(seen) {
            let due = self.tick_at(windows.due(rule, cost));
            Decided::Limited { due, now }
        } else {
            Decided::Lost
        }
    }
}

impl WindowMemory {
    pub(super) fn new(quota: Quota, plain: Option<Counter>) -> Self {
        Self {
            plain,
            most: AtomicU64::new(quota.count()),
            period: AtomicU64::new(quota.period_nanos()),
            start: AtomicU64::new(0),
            previous: AtomicU64::new(0),
        }
    }

    fn rule(&self) -> WindowRule {
        WindowRule {
            most: self.most.load(Ordering::Relaxed),
            period: self.period.load(Ordering::Relaxed),
        }
    }

    fn windows(&self, seen: Seen) -> Windows {
        Windows {
            start: self.start.load(Ordering::Relaxed),
            previous: self.previous.load(Ordering::Relaxed),
            count: seen.value() & MOST_COUNT,
        }
    }

    /// Only held.
    fn write(&self, seen: Seen, windows: Windows) -> Seen {
        let number = windows.start / self.rule().period % (1 << NUMBER_BITS);
        let seen = seen.with(number << COUNT_BITS | windows.count);
        if windows == self.windows(seen) {
            return seen;
        }
        // After `HELD`, for those who confirm what they have read.
        fence(Ordering::Release);
        self.start.store(windows.start, Ordering::Relaxed);
        self.previous.store(windows.previous, Ordering::Relaxed);
        seen.next_epoch()
    }

    pub(super) fn due(&self, seen: Seen, before: u128, cost: u64, alone: bool) -> u64 {
        let (rule, windows) = (self.rule(), self.windows(seen));
        let total = before + u128::from(cost);
        match (alone, before) {
            (true, 0) => windows.reset(rule),
            (true, _) => windows.reset(rule).max(windows.earliest(rule, before)),
            (false, 0) => windows.due(rule, cost.min(rule.most)),
            (false, _) => windows.earliest(rule, total),
        }
    }

    pub(super) fn due_behind(
        &self,
        seen: Seen,
        others: impl Iterator<Item = u64>,
        cost: u64,
    ) -> u64 {
        let rule = self.rule();
        let due = |windows: Windows, cost| {
            if cost > rule.most {
                windows.reset(rule)
            } else {
                windows.due(rule, cost)
            }
        };
        let then = |windows: Windows, cost| {
            let at = due(windows, cost);
            windows.book(rule, at, cost, MOST_COUNT).0
        };
        due(others.fold(self.windows(seen), then), cost)
    }

    /// Only held.
    pub(super) fn book(&self, seen: Seen, unit: u64, cost: u64) -> (Seen, u64) {
        let windows = self.windows(seen);
        let (windows, fitted) = windows.book(self.rule(), unit, cost, MOST_COUNT);
        (self.write(seen, windows), fitted)
    }

    pub(super) fn owed(&self, seen: Seen, unit: u64) -> u64 {
        self.windows(seen).used(self.rule(), unit)
    }

    pub(super) fn reset(&self, seen: Seen) -> u64 {
        self.windows(seen).reset(self.rule())
    }

    pub(super) fn looks_behind(&self, seen: Seen, unit: u64) -> bool {
        let windows = self.windows(seen);
        unit < windows.start || windows.count > self.rule().most
    }

    /// Only held.
    pub(super) fn take_back(&self, seen: Seen, at: Tick, cost: u64, unit: u64) -> (Seen, u64) {
        let rule = self.rule();
        let mut windows = self.windows(seen).at(rule, unit);
        let given = if at.as_nanos() >= windows.start {
            let given = cost.min(windows.count);
            windows.count -= given;
            given
        } else {
            // Of what was beyond the limit each window since has taken its part. What counts for
            // longer is given back last: it may be of another charge.
            let passed = windows.start / rule.period - at.as_nanos() / rule.period;
            let over = (passed - 1).saturating_mul(rule.most);
            let before = cost.saturating_sub(over).min(windows.previous);
            let beyond = cost.saturating_sub(over.saturating_add(before));
            let beyond = beyond.min(windows.count);
            windows.previous -= before;
            windows.count -= beyond;
            before + beyond
        };
        (self.write(seen, windows), given)
    }

    pub(super) fn has_period(&self, quota: Quota) -> bool {
        self.rule().period == quota.period_nanos()
    }

    /// Only held.
    pub(super) fn change(&self, seen: Seen, quota: Quota, owed: u64, unit: u64) -> Seen {
        let (old, windows) = (self.rule(), self.windows(seen));
        let new = WindowRule {
            most: quota.count(),
            period: quota.period_nanos(),
        };
        let changed = windows.change(old, new, owed.min(MOST_COUNT), unit);
        self.most.store(new.most, Ordering::Relaxed);
        self.period.store(new.period, Ordering::Relaxed);
        self.write(seen, changed)
    }

    /// Only held.
    pub(super) fn forget(&self, seen: Seen) -> Seen {
        self.write(seen, Windows::default())
    }

    pub(super) fn span(&self, tokens: u64) -> u64 {
        let rule = self.rule();
        span(tokens, rule.most, rule.period)
    }

    pub(super) fn tokens_in(&self, nanos: u64) -> u64 {
        let rule = self.rule();
        tokens_in(nanos, rule.most, rule.period)
    }
}
