//! [`QuotaChange`]: the way in which the spent part carries over when a quota changes.

use super::params::Params;

/// The way in which the spent part carries over when [the quota
/// changes](crate::RateLimiter::set_quota_with).
///
/// Both variants round the spent part up, so that no change makes anything available: the default
/// algorithm rounds to a nanosecond of the rate, and algorithms that count calls round to whole
/// calls. A [sliding window](crate::Algorithm::SlidingWindow) also rounds up the fading part.
///
/// Nothing is carried over to [`Quota::UNLIMITED`](crate::Quota::UNLIMITED), and nothing from it: when a
/// limit is set again, its whole burst is available.
///
/// If a window of a [`FixedWindow`](crate::Algorithm::FixedWindow) or a
/// [`SubInterval`](crate::Algorithm::SubInterval) has begun, it continues with the length of the
/// new quota, and the spent part counts in it. So across a change, any time of the shorter period
/// admits no more than the larger count (twice that for fixed windows). The exception is a count
/// that becomes smaller under [`KeepSpent`](Self::KeepSpent) and larger again within one window.
///
/// # Examples
///
/// Three of five a second were spent, and then the quota becomes twenty:
///
/// ```
/// use tollgate::rate::QuotaChange;
/// use tollgate::{Algorithm, Clock, Quota, RateLimiter};
///
/// for (how, available) in [(QuotaChange::KeepSpent, 17), (QuotaChange::Proportional, 8)] {
///     let limiter = RateLimiter::new(Quota::per_second(5))
///         .algorithm(Algorithm::SlidingLog)
///         .clock(Clock::manual());
///     limiter.try_acquire_many(3)?;
///     limiter.set_quota_with(Quota::per_second(20), how);
///     assert_eq!(limiter.snapshot().available, available);
/// }
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QuotaChange {
    /// Keeps the spent part in proportion: if half of the old burst was left, half of the new one
    /// is left. [`set_quota`](crate::RateLimiter::set_quota) does this under [the default
    /// algorithm](crate::Algorithm::Gcra).
    ///
    /// A log repeats each charge as often as the proportion requires, at its own time, or keeps
    /// only the newest charges.
    Proportional,
    /// Keeps the spent number: the difference of the bursts becomes available, or is taken away,
    /// down to nothing. Charges [forced](crate::RateLimiter::charge) beyond the old burst stay in
    /// the backlog beyond the new one. [`set_quota`](crate::RateLimiter::set_quota) does this under
    /// all other algorithms, which count calls.
    ///
    /// In a log each charge counts at its own time. So the log still admits at most the new count
    /// in any new period, including calls from before the change, if it still has their times. It
    /// has the last ones, up to the old count, refunded ones included.
    KeepSpent,
}

impl QuotaChange {
    /// Returns how many of `calls` are kept when the capacity changes.
    pub(crate) fn kept(self, calls: u64, old: u64, new: u64) -> u64 {
        self.scaled(calls, [old, new], [1, 1])
    }

    /// Returns the units of the new quota for units of the old one; none if either has no limit.
    pub(super) fn carried(self, units: u64, old: &Params, new: &Params) -> u64 {
        if old.is_unlimited() || new.is_unlimited() {
            return 0;
        }
        let tolerance = match self {
            Self::Proportional => [old.burst_tolerance, new.burst_tolerance],
            // They are beyond the burst.
            Self::KeepSpent => [0, 0],
        };
        let interval = [old.emission_interval, new.emission_interval];
        self.scaled(units, tolerance, interval)
    }

    /// Scales a backlog. `owed` and the first value of each pair are in old units, the second in
    /// new ones.
    pub(super) fn scaled(self, owed: u64, tolerance: [u64; 2], interval: [u64; 2]) -> u64 {
        let scaled = |units: u64, [old, new]: [u64; 2]| {
            (u128::from(units) * u128::from(new)).div_ceil(u128::from(old))
        };
        let owed = match self {
            Self::Proportional => scaled(owed, tolerance),
            Self::KeepSpent => {
                // Backlog within the old burst takes no longer to pay off than the whole new burst.
                let spent = scaled(owed.min(tolerance[0]), interval);
                let beyond = scaled(owed.saturating_sub(tolerance[0]), interval);
                spent.min(u128::from(tolerance[1])) + beyond
            }
        };
        u64::try_from(owed).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaled_keeps_what_each_way_says() {
        // From 10 tokens of 100 units, with 4 spent, to 20 of 50, or 2 of 50.
        let owed = |how: QuotaChange, burst: u64| how.scaled(400, [1000, burst * 50], [100, 50]);
        assert_eq!(owed(QuotaChange::Proportional, 20), 400);
        assert_eq!(owed(QuotaChange::KeepSpent, 20), 4 * 50);
        assert_eq!(owed(QuotaChange::Proportional, 2), 40);
        assert_eq!(owed(QuotaChange::KeepSpent, 2), 2 * 50);
        // A backlog of three tokens beyond the burst.
        let beyond = QuotaChange::KeepSpent.scaled(1300, [1000, 100], [100, 50]);
        assert_eq!(beyond, 250);
    }

    #[test]
    fn scaled_rounds_up() {
        assert_eq!(QuotaChange::Proportional.scaled(1, [3, 2], [1, 1]), 1);
        assert_eq!(QuotaChange::KeepSpent.scaled(1, [3, 2], [3, 2]), 1);
        assert_eq!(
            QuotaChange::Proportional.scaled(u64::MAX, [1, u64::MAX], [1, 1]),
            u64::MAX
        );
    }
}
