//! [`Forecast`]: the future decisions of a log, without a copy of it.
//!
//! 1. Positions are numbered from the head of the log. A position below the length is free when its
//!    stamp is a period old. Any other position is free a period after the charge of the position
//!    one length before it.
//! 2. The charges that are ahead come first, each as soon as its position is free; then the
//!    foreseen ones. So a forecast has to keep only the positions of each foreseen charge, and its
//!    tick. The time for a copy of the log would grow with its length, and everybody would wait for
//!    the lock.

use super::SlidingLog;

/// The present log, and later charges.
pub(crate) struct Forecast<'a> {
    log: &'a SlidingLog,
    charges: Vec<Foreseen>,
}

/// A foreseen charge: its positions run from `start` to that of the next charge, or to the end.
struct Foreseen {
    start: u128,
    end: u128,
    at: u64,
}

impl<'a> Forecast<'a> {
    /// Begins a forecast, while the log is locked.
    pub(crate) fn new(log: &'a SlidingLog) -> Self {
        let charges = Vec::new();
        Self { log, charges }
    }

    /// Returns the log, whose ticks the forecast has.
    pub(crate) fn log(&self) -> &'a SlidingLog {
        self.log
    }

    /// Does the same as [`SlidingLog::due`], after the foreseen charges.
    pub(crate) fn due(&self, behind: u128, cost: u64) -> u64 {
        let last = (behind + u128::from(cost.min(self.log.len()))).checked_sub(1);
        last.map_or(0, |last| self.free_from(self.end() + last))
    }

    /// Foresees a charge at the tick when it is due, or at the newest tick.
    pub(crate) fn charge(&mut self, at: u64, cost: u64) {
        let newest = self.charges.last().map_or(self.log.newest(), |it| it.at);
        let (start, at) = (self.end(), at.max(newest));
        let end = start + u128::from(cost);
        self.charges.push(Foreseen { start, end, at });
    }

    /// Returns the first position that is not charged.
    fn end(&self) -> u128 {
        let last = self.charges.last();
        last.map_or(u128::from(self.log.ahead), |it| it.end)
    }

    /// Returns the first tick at which a position is free, if all before it are charged as soon as
    /// possible.
    fn free_from(&self, position: u128) -> u64 {
        let len = u128::from(self.log.len());
        let Some(first) = self.charges.first() else {
            return self.log.free_from(position);
        };
        // For these positions the charge one length before is not foreseen either: it comes as soon
        // as possible.
        let unknown = (position + 1).saturating_sub(self.end() + len);
        let laps = unknown.div_ceil(len);
        let before = position - laps * len;
        let free = match before.checked_sub(len) {
            Some(charged) if charged >= first.start => {
                let number = self.charges.partition_point(|it| it.end <= charged);
                let charge = &self.charges[number];
                // Charges beyond the room of the log are made a period later.
                let later = (charged - charge.start) / len;
                self.after(charge.at, later + 1)
            }
            _ => self.log.free_from(before),
        };
        self.after(free, laps)
    }

    /// Returns the tick this number of periods later.
    fn after(&self, tick: u64, periods: u128) -> u64 {
        let periods = u64::try_from(periods).unwrap_or(u64::MAX);
        tick.saturating_add(periods.saturating_mul(self.log.period()))
    }
}
