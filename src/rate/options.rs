//! What can be chosen about a limiter.

use crate::algorithm::Algorithm;

/// What happens when the timer that lets waiters go is late, which it always is, a little.
///
/// It makes no difference for calls that need not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissedTick {
    /// Waiters are charged when they are let go. They are never closer together than the quota
    /// says, but each delay of the timer is lost, so the rate stays somewhat below the quota, and
    /// the more so the higher it is.
    Delay,
    /// Waiters are charged when they were due, so the rate holds over time. After a late tick those
    /// who are overdue go at once: in any interval there may be `max` more than the quota allows,
    /// measured when they are let go, and none more by the ticks at which they are
    /// [charged](super::Charge::at).
    Burst {
        /// How much of what is overdue goes at once; what exceeds it is lost. In units of cost.
        max: u64,
    },
}

/// What happens to a call that asks for more than the burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Oversize {
    /// It is refused at once, with [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity).
    #[default]
    Refuse,
    /// It is admitted alone, when nothing is owed and so the whole burst is there, and leaves a
    /// debt: nobody else is admitted until time has paid off what is beyond the burst.
    Debt,
}

/// What becomes of what was spent, when [the quota changes](super::RateLimiter::set_quota_with).
///
/// What is owed is rounded up: under the default algorithm to a small part of one, which is not
/// noticed; under those that count calls to whole ones, so that a quota which goes back and forth
/// with [`Proportional`](Self::Proportional) or [`AsIs`](Self::AsIs) makes more and more of it.
/// Those are for a quota that changes once in a while, and to another scale. A period that changes
/// many times in a period has the same effect in a [sliding
/// window](crate::Algorithm::SlidingWindow): what fades there is rounded up each time.
///
/// By a [`FixedWindow`](crate::Algorithm::FixedWindow) and a
/// [`SubInterval`](crate::Algorithm::SubInterval) a window that has begun goes on, as long as one of
/// the new quota, and what is carried over counts in it. So across a change there are in any time of
/// the shorter period no more than by the larger count: that, or twice that of fixed windows; but for
/// [`Reset`](Self::Reset), and for a count that becomes smaller by [`Additive`](Self::Additive) and
/// larger again in one window.
///
/// # Examples
///
/// Of five a second three were spent, then it becomes twenty:
///
/// ```
/// use tollgate::{Algorithm, Carry, Clock, Quota, RateLimiter};
///
/// for (carry, available) in [
///     (Carry::Additive, 17),
///     (Carry::Proportional, 8),
///     (Carry::AsIs, 2),
///     (Carry::Reset, 20),
/// ] {
///     let limiter = RateLimiter::new(Quota::per_second(5))
///         .algorithm(Algorithm::SlidingLog)
///         .clock(Clock::manual());
///     limiter.try_acquire_many(3)?;
///     limiter.set_quota_with(Quota::per_second(20), carry);
///     assert_eq!(limiter.available(), available);
/// }
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Carry {
    /// What was spent stays spent in proportion: of half the old burst, half the new one is left.
    /// What [`set_quota`](super::RateLimiter::set_quota) does under [the default
    /// algorithm](crate::Algorithm::Gcra).
    ///
    /// In a log each of those that were spent is kept as often as it takes, at its own time, or
    /// only the newest are.
    Proportional,
    /// What is available stays as it is, at most the new burst.
    AsIs,
    /// What was spent stays spent: the difference of the bursts becomes available, or is taken
    /// away, down to nothing. What was [forced](super::RateLimiter::charge) beyond the old burst
    /// stays owed beyond the new one. What [`set_quota`](super::RateLimiter::set_quota) does under
    /// the algorithms that count calls, which are all others.
    ///
    /// In a log each of those that were spent counts at its own time: so it goes on to have at most
    /// the new count in any new period, of what it has admitted before as well, as far as it still
    /// has the times: the last ones, as many as the old count; of a
    /// [compact](crate::Algorithm::CompactLog) one those of the last old periods, at least of one.
    Additive,
    /// Nothing is owed any more, and the whole new burst is available.
    Reset,
}

impl Carry {
    /// Unless another one is chosen.
    pub(crate) fn by(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Gcra => Self::Proportional,
            _ => Self::Additive,
        }
    }

    /// What is owed under the new limits, in their units, rounded up: `owed` and the first of each
    /// pair are in old units, the others in new ones.
    pub(super) fn owed(self, owed: u64, tolerance: [u64; 2], interval: [u64; 2]) -> u64 {
        let scaled = |units: u64, [old, new]: [u64; 2]| {
            (u128::from(units) * u128::from(new)).div_ceil(u128::from(old))
        };
        let owed = match self {
            Self::Reset => 0,
            Self::Proportional => scaled(owed, tolerance),
            Self::Additive => {
                // What was had at once is not made up for longer than what is had at once now.
                let spent = scaled(owed.min(tolerance[0]), interval);
                let debt = scaled(owed.saturating_sub(tolerance[0]), interval);
                spent.min(u128::from(tolerance[1])) + debt
            }
            Self::AsIs => {
                let [old, new] = tolerance;
                // Rounded down, so that what is owed is rounded up.
                let free = u128::from(old.saturating_sub(owed)) * u128::from(interval[1])
                    / u128::from(interval[0]);
                let debt = scaled(owed.saturating_sub(old), interval);
                (u128::from(new) + debt).saturating_sub(free)
            }
        };
        u64::try_from(owed).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::Carry;

    #[test]
    fn each_way_carries_what_it_says() {
        // From 10 tokens of 100 units, of which 4 are spent, to 20 of 50, or 2 of 50.
        let owed = |carry: Carry, burst: u64| carry.owed(400, [1000, burst * 50], [100, 50]);
        assert_eq!(owed(Carry::Proportional, 20), 400);
        assert_eq!(owed(Carry::AsIs, 20), 14 * 50);
        assert_eq!(owed(Carry::Additive, 20), 4 * 50);
        assert_eq!(owed(Carry::Reset, 20), 0);
        assert_eq!(owed(Carry::Proportional, 2), 40);
        assert_eq!(owed(Carry::AsIs, 2), 0);
        assert_eq!(owed(Carry::Additive, 2), 2 * 50);
        // Three tokens of debt beyond the burst.
        assert_eq!(Carry::AsIs.owed(1300, [1000, 1000], [100, 50]), 1150);
        assert_eq!(Carry::Additive.owed(1300, [1000, 100], [100, 50]), 250);
    }

    #[test]
    fn what_is_owed_is_rounded_up() {
        assert_eq!(Carry::Proportional.owed(1, [3, 2], [1, 1]), 1);
        assert_eq!(Carry::Additive.owed(1, [3, 2], [3, 2]), 1);
        assert_eq!(Carry::AsIs.owed(2, [3, 2], [3, 2]), 2);
        assert_eq!(
            Carry::Proportional.owed(u64::MAX, [1, u64::MAX], [1, 1]),
            u64::MAX
        );
    }
}
