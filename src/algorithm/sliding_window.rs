//! [`SlidingWindow`]: what was admitted in the previous window counts in proportion to the part of
//! that window within the last period, as if it had come evenly.
//!
//! The windows begin at the multiples of the period. `most` is the limit in a period, `previous`
//! was admitted in the window before, and `count` in this one, and `elapsed` is the time that has
//! passed in it:
//!
//! 1. `cost` more are admitted if
//!    `previous * (period - elapsed) + (count + cost) * period <= most * period`, in whole numbers.
//! 2. The due tick is the first at which this holds if nothing else is charged: in this window as
//!    `previous` fades; or in the next, where `count` has become `previous` and fades.
//! 3. A forced charge may make `count` more than `most`. The excess belongs to the windows after
//!    this one.
//! 4. A `now` before the beginning of the window counts as that beginning, and so admits less.

use super::params::{clamped, tick_or_never};
use super::promise::Promise;
use super::quota_change::QuotaChange;
use super::rule::{Receipt, Rule, earliest_of};
use crate::quota::Quota;
use crate::time::Tick;

pub(super) const fn promise(quota: Quota) -> Result<Promise, &'static str> {
    match Promise::whole_count(quota) {
        Ok(_) if quota.count() > LARGEST_COUNT => {
            Err("a sliding window has a count of at most 2^47")
        }
        Ok(promise) => Ok(promise.in_any_period(2 * quota.count() - 1)),
        Err(reason) => Err(reason),
    }
}

/// The largest count of a quota.
const LARGEST_COUNT: u64 = 1 << 47;

/// The largest count of a window.
const MAX_COUNT: u64 = (1 << 48) - 1;

/// The admitted calls, by windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlidingWindow {
    most: u64,
    /// The period in nanoseconds.
    period: u64,
    /// The tick at which this window began.
    start: u64,
    /// Admitted in the previous window.
    previous: u64,
    /// Admitted in this window.
    count: u64,
    /// Charged in all windows: the tickets.
    total: u64,
}

impl SlidingWindow {
    pub(crate) fn new(promise: &Promise) -> Self {
        Self {
            most: promise.batch.count(),
            period: promise.batch.period_nanos(),
            start: 0,
            previous: 0,
            count: 0,
            total: 0,
        }
    }

    /// Returns the state at a tick, perhaps in a later window.
    fn at(self, now: u64) -> Self {
        if now < self.start || now - self.start < self.period {
            return self;
        }
        let passed = (now - self.start) / self.period;
        // Each window takes its part of the excess over the limit.
        let before = self
            .count
            .saturating_sub((passed - 1).saturating_mul(self.most));
        Self {
            start: self.start + passed * self.period,
            previous: before.min(self.most),
            count: before.saturating_sub(self.most),
            ..self
        }
    }

    /// Returns the next window, if `more` is admitted in this one.
    fn next(self, more: u64) -> Self {
        Self {
            start: self.start.saturating_add(self.period),
            previous: self.count + more,
            count: 0,
            ..self
        }
    }

    /// Returns what counts at a tick, rounded up.
    fn used(self, now: u64) -> u64 {
        let this = self.at(now);
        let left = self.period - now.saturating_sub(this.start);
        let before = u128::from(this.previous) * u128::from(left);
        // The result is at most `previous`.
        let before = before.div_ceil(u128::from(self.period)) as u64;
        this.count.saturating_add(before)
    }

    /// Returns the first nanosecond from which on `cost` fits, which is at most the limit.
    fn first(self, cost: u64) -> u64 {
        let (this, elapsed) = self.fitting(cost);
        this.start.saturating_add(elapsed)
    }

    /// Returns the window in which `cost` fits, and the time from its beginning.
    fn fitting(self, cost: u64) -> (Self, u64) {
        let mut this = self;
        if this.count > self.most {
            // Skips the windows that the excess over the limit fills.
            let passed = (this.count - 1) / self.most;
            this.start = this
                .start
                .saturating_add(passed.saturating_mul(self.period));
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

    /// Returns when `previous` has faded enough in this window that `cost` fits.
    fn faded(self, cost: u64) -> Option<u64> {
        let free = self.most.checked_sub(self.count)?.checked_sub(cost)?;
        let Some(over) = self.previous.checked_sub(free).filter(|over| *over > 0) else {
            return Some(0);
        };
        let elapsed = u128::from(over) * u128::from(self.period);
        let elapsed = elapsed.div_ceil(u128::from(self.previous)) as u64;
        (elapsed < self.period).then_some(elapsed)
    }

    /// Returns the first nanosecond at which `total` could have been admitted one by one: no call
    /// after them can be admitted earlier.
    fn first_behind(self, mut total: u128) -> u64 {
        let mut this = self;
        // Exact as long as earlier calls matter; then at most a whole window each time.
        for _ in 0..2 {
            let (next, _) = this.fitting(1);
            let room = self.most - next.count;
            // At the end of the window, the rest that fades is always less than one.
            let most = if next.previous > 0 { room - 1 } else { room };
            if total <= u128::from(most) {
                return next.first(total as u64);
            }
            total -= u128::from(most);
            this = next.next(most);
        }
        let windows = (total - 1) / u128::from(self.most);
        let nanos = windows.saturating_mul(u128::from(self.period));
        this.start
            .saturating_add(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the first nanosecond at which nothing counts any more.
    fn empty(self) -> u64 {
        let windows = match (self.count, self.previous) {
            (0, 0) => return 0,
            (0, _) => 1,
            // The next windows take the excess over the limit, and it fades in one more.
            (count, _) => 1 + count.div_ceil(self.most),
        };
        self.start
            .saturating_add(windows.saturating_mul(self.period))
    }
}

impl Rule for SlidingWindow {
    fn capacity(&self) -> u64 {
        self.most
    }

    fn due(&self, behind: u128, cost: u64) -> Tick {
        tick_or_never(match (cost > self.most, behind) {
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
        self.total = self.total.wrapping_add(fitted);
        Receipt {
            ticket: self.total,
            cost: fitted,
            // The window may begin later, at the end of a pause. A refund finds it by this tick.
            at: at.max(Tick::from_nanos(self.start)),
            ..Receipt::default()
        }
    }

    fn give_back(&mut self, receipt: &Receipt, cost: u64, now: Tick) -> u64 {
        *self = self.at(clamped(now));
        let at = receipt.at.as_nanos();
        if at >= self.start {
            let given = cost.min(self.count);
            self.count -= given;
            return given;
        }
        // Each window since has taken its part of the excess over the limit. What counts for longer
        // is given back last, because it may be of another charge.
        let passed = self.start / self.period - at / self.period;
        let over = (passed - 1).saturating_mul(self.most);
        let before = cost.saturating_sub(over).min(self.previous);
        let beyond = cost.saturating_sub(over.saturating_add(before));
        let beyond = beyond.min(self.count);
        self.previous -= before;
        self.count -= beyond;
        before + beyond
    }

    fn charge_as_of(&mut self, hold: &Receipt, cost: u64, now: Tick) {
        *self = self.at(clamped(now));
        let at = clamped(hold.at);
        let cost = cost.min(MAX_COUNT.saturating_sub(self.count));
        if at >= self.start {
            self.count += cost;
        } else if self.start - at <= self.period {
            let fits = cost.min(self.most.saturating_sub(self.previous));
            self.previous += fits;
            self.count += cost - fits;
        }
    }

    fn backlog(&mut self, now: Tick) -> u64 {
        self.used(clamped(now))
    }

    fn reset(&self) -> Tick {
        tick_or_never(self.empty())
    }

    fn earliest(&self, now: Tick, most: Option<u64>) -> Tick {
        earliest_of(now, most, self.most, self.period)
    }

    fn is_ahead_of(&self, now: Tick) -> bool {
        clamped(now) < self.start || self.count > self.most
    }

    /// Keeps the part of what was spent that belongs to the previous window, which goes on to fade.
    fn change(&mut self, promise: &Promise, how: QuotaChange, now: Tick) -> bool {
        let (new, now) = (Self::new(promise), clamped(now));
        if (new.most, new.period) == (self.most, self.period) {
            return false;
        }
        let (this, used) = (self.at(now), self.used(now));
        let owed = how.kept(used, self.most, new.most).min(MAX_COUNT);
        let scaled = |part: u64, of: u64, by: u64| {
            let scaled = u128::from(part) * u128::from(by) / u128::from(of);
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        let start = now - now % new.period;
        let previous = match used {
            0 => 0,
            // Rounded down, so that in doubt it is in this window, where it counts for longer.
            _ => {
                let fading = scaled(used - this.count.min(used), used, owed);
                scaled(fading, new.period - (now - start), new.period).min(new.most)
            }
        };
        *self = Self {
            start,
            previous,
            ..new
        };
        self.count = owed.saturating_sub(self.used(now));
        true
    }
}
