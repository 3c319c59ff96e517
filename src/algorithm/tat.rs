//! [`Tat`]: the *theoretical arrival time* of the recommendation, which is the whole state of a rule that
//! is decided by a word.
//!
//! 1. A charge starts at the end of the backlog or now, whichever is later: so after any pause, no
//!    more than a burst is available.
//! 2. A charge that ends after now plus the tolerance is not admitted. So the charges that were
//!    admitted from unit `a` to unit `b` amount to at most `b - a` plus the tolerance.

use super::params::{MAX_TAT, Params};

/// The unit at which the backlog ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tat(u64);

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

    /// Takes `price` units now, or returns the first unit from which on it could. Not for more than
    /// the tolerance.
    #[inline(always)]
    pub(crate) const fn take(self, params: &Params, now: u64, price: u64) -> Result<Self, u64> {
        let start = if self.0 > now { self.0 } else { now };
        // The sums are of less than 2^60, 2^59 and 2^59. They wrap only with parameters that were
        // read while they changed; then the word has changed as well, and nothing uses them.
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

    /// Takes `cost` tokens, whatever the backlog is, and returns how many fitted: all, unless there
    /// is no room for another.
    pub(crate) const fn charge(self, params: &Params, now: u64, cost: u64) -> (Self, u64) {
        let start = if self.0 > now { self.0 } else { now };
        let room = params.tokens(MAX_TAT.saturating_sub(start));
        let fitted = if cost < room { cost } else { room };
        (Self::from_units(start + params.units_of(fitted)), fitted)
    }

    /// Removes `units` from the backlog.
    pub(crate) const fn give(self, units: u64) -> Self {
        Self(self.0.saturating_sub(units))
    }
}
