//! The sliding window by estimate: what was admitted in the window before counts in proportion to
//! what of it still lies within the last period, as if it had come evenly.
//!
//! With `most` in a period, windows at the multiples of the period, `previous` admitted in the one
//! before, `count` in this one, of which `elapsed` has passed:
//!
//! 1. `cost` more are admitted if `previous * (period - elapsed) + (count + cost) * period <= most *
//!    period`, in whole numbers.
//! 2. Whoever is refused is told the first tick at which this holds if nobody else comes: in this
//!    window as `previous` fades; or in the next, where `count` has become `previous` and fades.
//! 3. A charge that was forced may make `count` more than `most`. What is beyond belongs to the
//!    windows after this one.
//! 4. An earlier `now` than the beginning of the window is that beginning, and so admits less.

/// How many in which time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowRule {
    pub(crate) most: u64,
    /// In nanoseconds.
    pub(crate) period: u64,
}

/// What was admitted, by windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Windows {
    /// The tick at which this window began.
    pub(crate) start: u64,
    /// Admitted in the window before this.
    pub(crate) previous: u64,
    /// Admitted in this window.
    pub(crate) count: u64,
}

impl Windows {
    /// The same at a tick, perhaps in a later window.
    pub(crate) const fn at(self, rule: WindowRule, now: u64) -> Self {
        if now < self.start || now - self.start < rule.period {
            return self;
        }
        let passed = (now - self.start) / rule.period;
        // Of what is beyond the limit each window takes its part.
        let before = self
            .count
            .saturating_sub((passed - 1).saturating_mul(rule.most));
        Self {
            start: self.start + passed * rule.period,
            previous: if before < rule.most {
                before
            } else {
                rule.most
            },
            count: before.saturating_sub(rule.most),
        }
    }

    /// Whether so many more fit, so many nanoseconds after the window began.
    #[inline]
    pub(crate) const fn fits(self, rule: WindowRule, elapsed: u64, cost: u64) -> bool {
        let Some(free) = rule.most.checked_sub(self.count) else {
            return false;
        };
        let Some(free) = free.checked_sub(cost) else {
            return false;
        };
        self.previous as u128 * (rule.period - elapsed) as u128
            <= free as u128 * rule.period as u128
    }

    /// What counts at a tick, rounded up.
    pub(crate) fn used(self, rule: WindowRule, now: u64) -> u64 {
        let this = self.at(rule, now);
        let left = rule.period - now.saturating_sub(this.start);
        let before = u128::from(this.previous) * u128::from(left);
        // Less than what it is a part of.
        let before = before.div_ceil(u128::from(rule.period)) as u64;
        this.count.saturating_add(before)
    }

    /// The first tick from which on so many fit, at most the limit; [`u64::MAX`] for never.
    pub(crate) fn due(self, rule: WindowRule, cost: u64) -> u64 {
        let (this, elapsed) = self.due_in(rule, cost);
        this.start.saturating_add(elapsed)
    }

    /// The window in which so many fit, and how long after it began.
    fn due_in(self, rule: WindowRule, cost: u64) -> (Self, u64) {
        let mut this = self;
        if this.count > rule.most {
            // It takes as many windows until what is beyond the limit has its own.
            let passed = (this.count - 1) / rule.most;
            this.start = this
                .start
                .saturating_add(passed.saturating_mul(rule.period));
            this.previous = rule.most;
            this.count -= passed * rule.most;
        }
        loop {
            if let Some(elapsed) = this.faded(rule, cost) {
                return (this, elapsed);
            }
            this = Self {
                start: this.start.saturating_add(rule.period),
                previous: this.count,
                count: 0,
            };
        }
    }

    /// When what was before has faded so far in this window that so many fit.
    fn faded(self, rule: WindowRule, cost: u64) -> Option<u64> {
        let free = rule.most.checked_sub(self.count)?.checked_sub(cost)?;
        let Some(over) = self.previous.checked_sub(free).filter(|over| *over > 0) else {
            return Some(0);
        };
        let elapsed = u128::from(over) * u128::from(rule.period);
        let elapsed = elapsed.div_ceil(u128::from(self.previous)) as u64;
        (elapsed < rule.period).then_some(elapsed)
    }

    /// The first tick at which so many could have been admitted, if they came one by one: nobody
    /// who comes after them can be admitted earlier.
    pub(crate) fn earliest(self, rule: WindowRule, total: u128) -> u64 {
        let mut this = self;
        let mut total = total;
        // Exact as long as what was admitted before this matters; then at most a whole window each
        // time.
        for _ in 0..2 {
            let (next, _) = this.due_in(rule, 1);
            let room = rule.most - next.count;
            // At the end of the window there is always less than one to fade.
            let most = if next.previous > 0 { room - 1 } else { room };
            if total <= u128::from(most) {
                return next.due(rule, total as u64);
            }
            total -= u128::from(most);
            this = Self {
                start: next.start.saturating_add(rule.period),
                previous: next.count + most,
                count: 0,
            };
        }
        let windows = (total - 1) / u128::from(rule.most);
        let nanos = windows.saturating_mul(u128::from(rule.period));
        this.start
            .saturating_add(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The first tick at which nothing counts any more.
    pub(crate) fn reset(self, rule: WindowRule) -> u64 {
        if self.count == 0 && self.previous == 0 {
            return 0;
        }
        // In the next windows what is beyond the limit, and then one in which it fades.
        let windows = match self.count {
            0 => 1,
            count => 1 + count.div_ceil(rule.most),
        };
        let nanos = windows.saturating_mul(rule.period);
        self.start.saturating_add(nanos)
    }

    /// Under another rule, with as much that counts at a tick as `owed`. What of it is of the window
    /// before goes on to fade.
    pub(crate) fn change(self, old: WindowRule, new: WindowRule, owed: u64, now: u64) -> Self {
        let this = self.at(old, now);
        let start = now - now % new.period;
        let used = self.used(old, now);
        if used == 0 {
            return Self {
                start,
                previous: 0,
                count: owed,
            };
        }
        let scaled = |part: u64, of: u64, by: u64| {
            let scaled = u128::from(part) * u128::from(by) / u128::from(of);
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        // Rounded down here, so that it is in this window in doubt, where it counts for longer.
        let fading = scaled(used - this.count.min(used), used, owed);
        let left = new.period - (now - start);
        let previous = scaled(fading, left, new.period).min(new.most);
        let counted = Self {
            start,
            previous,
            count: 0,
        };
        Self {
            count: owed.saturating_sub(counted.used(new, now)),
            ..counted
        }
    }

    /// With so many more at a tick, whatever fits. Says how many there was room for.
    pub(crate) fn book(self, rule: WindowRule, now: u64, cost: u64, room: u64) -> (Self, u64) {
        let mut this = self.at(rule, now);
        let fitted = cost.min(room.saturating_sub(this.count));
        this.count += fitted;
        (this, fitted)
    }
}
