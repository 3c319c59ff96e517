//! A sliding window as one would write it down: two counts, and time that goes from one window to
//! the next.

use super::LAST_TICK;

#[derive(Clone, Debug)]
pub(crate) struct Window {
    most: u64,
    period: u64,
    /// Which multiple of the period this window begins at.
    number: u64,
    previous: u64,
    count: u64,
}

impl Window {
    pub(crate) fn new(most: u64, period: u64) -> Self {
        Self {
            most,
            period,
            number: 0,
            previous: 0,
            count: 0,
        }
    }

    /// The next window: what is beyond the limit belongs to it.
    fn next(&mut self) {
        self.previous = self.count.min(self.most);
        self.count -= self.previous;
        self.number += 1;
    }

    fn at(&self, now: u64) -> Self {
        let mut this = self.clone();
        while this.number < now / self.period {
            if this.previous == 0 && this.count == 0 {
                this.number = now / self.period;
            } else {
                this.next();
            }
        }
        this
    }

    /// `previous * (period - elapsed)` of this window.
    fn left(&self, now: u64) -> u128 {
        let elapsed = now - self.number * self.period;
        u128::from(self.previous) * u128::from(self.period - elapsed)
    }

    pub(crate) fn used(&self, now: u64) -> u64 {
        let this = self.at(now);
        let left = this.left(now).div_ceil(u128::from(this.period));
        this.count + u64::try_from(left).expect("at most the limit")
    }

    pub(crate) fn fits(&self, now: u64, cost: u64) -> bool {
        let this = self.at(now);
        let period = u128::from(this.period);
        let asked = (u128::from(this.count) + u128::from(cost)) * period;
        this.left(now) + asked <= u128::from(this.most) * period
    }

    /// The first tick from `now` on at which so many fit: in the first window at whose end they do,
    /// and there by halves, since within a window it only gets less.
    pub(crate) fn earliest(&self, now: u64, cost: u64) -> Option<u64> {
        let mut from = now;
        loop {
            let end = u128::from(from / self.period + 1) * u128::from(self.period);
            let mut to = u64::try_from(end - 1).unwrap_or(LAST_TICK).min(LAST_TICK);
            if self.fits(to, cost) {
                while from < to {
                    let middle = from + (to - from) / 2;
                    if self.fits(middle, cost) {
                        to = middle;
                    } else {
                        from = middle + 1;
                    }
                }
                return Some(from);
            }
            if to == LAST_TICK {
                return None;
            }
            from = to + 1;
        }
    }

    /// When nothing counts any more; a past tick if it is so.
    pub(crate) fn reset(&self) -> u64 {
        let mut this = self.clone();
        if (this.previous, this.count) == (0, 0) {
            return 0;
        }
        while (this.previous, this.count) != (0, 0) {
            this.next();
        }
        this.number.saturating_mul(this.period)
    }

    pub(crate) fn book(&mut self, now: u64, cost: u64) -> u64 {
        *self = self.at(now);
        self.count += cost;
        cost
    }

    /// In this window it is less. Of an earlier one each full window since has taken the limit; of
    /// the rest first what is left of the window before is less, then what is beyond it.
    pub(crate) fn refund(&mut self, at: u64, cost: u64, now: u64) {
        *self = self.at(now);
        let mut cost = cost;
        let mut number = at / self.period;
        if number < self.number {
            while number + 1 < self.number && cost > 0 {
                cost -= cost.min(self.most);
                number += 1;
            }
            let before = cost.min(self.previous);
            self.previous -= before;
            cost -= before;
        }
        self.count -= cost.min(self.count);
    }

    /// As much counts as `owed`; of that, what was of the window before fades on, in whole numbers,
    /// at most the limit.
    pub(crate) fn change(&mut self, most: u64, period: u64, owed: u64, now: u64) {
        let (this, used) = (self.at(now), u128::from(self.used(now)));
        let left = u128::from(period - now % period);
        let fading = (used - u128::from(this.count).min(used)) * u128::from(owed);
        let fading = fading.checked_div(used).unwrap_or(0);
        let previous = (fading * u128::from(period) / left).min(u128::from(most));
        let counts = (previous * left).div_ceil(u128::from(period));
        *self = Self {
            most,
            period,
            number: now / period,
            previous: u64::try_from(previous).expect("at most the limit"),
            count: u64::try_from(u128::from(owed).saturating_sub(counts)).expect("at most owed"),
        };
    }
}
