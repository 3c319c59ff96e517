//! [`QuotaChange`]: the way in which the spent part carries over when a quota changes.

use super::params::Params;

/// The way in which the spent part carries over when [the quota
/// changes](crate::RateLimiter::set_quota_with).
///
/// Both variants round the spent part up, so that no change makes anything available: the default
/// algorithm rounds to a nanosecond of the rate, and algorithms that count calls round to whole
/// calls. A [sliding window](crate::Algorithm::SlidingWindow) whose period changes also rounds up
/// the fading part, or stops its fading until the window ends.
///
/// # Which of the two
///
/// A plan that customers change needs [`KeepSpent`](Self::KeepSpent): no sequence of changes admits
/// more than the largest rate and burst among its quotas allow. Under
/// [`Proportional`](Self::Proportional) a customer who goes back and forth gets more than any of
/// the plans allows. Take two quotas, 100 per second with a burst of 10 and 10 per second with a
/// burst of 100. The larger rate and burst allow 6,100 calls in a minute. If one replaces the other
/// every 2 ms, the default algorithm admits 30,309 in proportion, and at most the 6,100 if the
/// number is kept.
///
/// `Proportional` suits a limit that its operator moves, up and down: a spent limit stays spent,
/// an unused one stays unused, and a lower limit is in force at once. Under `KeepSpent` the whole
/// spent number is paid off at the new rate first: after 1,000 calls under 1,000 per minute, a
/// limit of 10 per minute admits the next call after some 100 minutes. Only a log, which knows the
/// time of each call, admits it after the new period.
///
/// Nothing is carried over to [`Quota::UNLIMITED`](crate::Quota::UNLIMITED), and nothing from it: when a
/// limit is set again, its whole burst is available.
///
/// # Across a change
///
/// Under `KeepSpent`, changes of a quota keep the promise of the algorithm for the largest rate and
/// burst among the quotas. With algorithms that count calls, that is
/// [`most_in`](crate::Algorithm::most_in) of a quota with the largest count, the largest burst and
/// the shortest period among them. The exceptions are the limits of [keys](crate::Keyed), whose
/// windows begin at the multiples of each period; [`Quota::UNLIMITED`](crate::Quota::UNLIMITED); and
/// a number that would be paid off only after the [time of a limiter](crate::RateLimiter#the-promise)
/// ends, because the backlog saturates there: of 1 GB spent, a limit of a byte per minute keeps
/// 19 MB.
///
/// If a window of a [`FixedWindow`](crate::Algorithm::FixedWindow) or a
/// [`SubInterval`](crate::Algorithm::SubInterval) has begun, it continues with the length of the
/// new quota, and the spent part counts in it.
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
    /// algorithm](crate::Algorithm::Gcra). A small burst that is used up and becomes large again
    /// pays for the large one, so changes that alternate admit more than either quota.
    ///
    /// A log repeats each charge as often as the proportion requires, at its own time, or keeps
    /// only the newest charges.
    Proportional,
    /// Keeps the spent number: the difference of the bursts becomes available, or is taken away. A
    /// number beyond a lower burst stays owed, and a later raise gives nothing of it back.
    /// [`set_quota`](crate::RateLimiter::set_quota) does this under all other algorithms, which
    /// count calls.
    ///
    /// In a log each charge counts at its own time. So the log still admits at most the new count
    /// in any new period, including calls from before the change, if it still has their times. It
    /// has the last ones, up to the old count, refunded ones included.
    KeepSpent,
}

impl QuotaChange {
    /// Returns how many of `calls` are kept when the capacity changes.
    pub(crate) const fn kept(self, calls: u64, old: u64, new: u64) -> u64 {
        self.scaled(calls, [old, new], [1, 1])
    }

    /// Returns the units of the new quota for units of the old one; none if either has no limit.
    pub(super) const fn carried(self, units: u64, old: &Params, new: &Params) -> u64 {
        if old.is_unlimited() || new.is_unlimited() {
            return 0;
        }
        let tolerance = [old.burst_tolerance, new.burst_tolerance];
        let interval = [old.emission_interval, new.emission_interval];
        self.scaled(units, tolerance, interval)
    }

    /// Scales a backlog. `owed` and the first value of each pair are in old units, the second in
    /// new ones.
    const fn scaled(self, owed: u64, tolerance: [u64; 2], interval: [u64; 2]) -> u64 {
        let [old, new] = match self {
            Self::Proportional => tolerance,
            Self::KeepSpent => interval,
        };
        saturated((owed as u128 * new as u128).div_ceil(old as u128))
    }
}

/// Returns the number, or the largest one if it does not fit.
pub(super) const fn saturated(number: u128) -> u64 {
    if number > u64::MAX as u128 {
        u64::MAX
    } else {
        number as u64
    }
}

#[cfg(test)]
mod tests;
