//! A point in time, as a number.

use std::time::Duration;

/// A point in time: nanoseconds since the epoch of a [`Clock`](crate::Clock).
///
/// Compare only ticks of one clock. Arithmetic saturates: the last tick, 584 years after the epoch,
/// is never reached, and so means never.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::Clock;
///
/// let clock = Clock::manual();
/// let earlier = clock.now();
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(clock.now().saturating_since(earlier), Duration::from_secs(1));
/// assert_eq!(clock.now().as_nanos(), 1_000_000_000);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(u64);

impl Tick {
    /// Returns the tick `nanos` nanoseconds after the epoch of a clock, perhaps of another machine.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the tick that is `duration` after the epoch.
    pub(crate) fn after_epoch(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the nanoseconds since the epoch of the clock.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns whether this is the last tick, which is never reached.
    pub(crate) const fn is_never(self) -> bool {
        self.0 == u64::MAX
    }

    /// Returns whether this tick has come: it is at most `now`, and not never.
    pub(crate) const fn has_come(self, now: Self) -> bool {
        self.0 <= now.0 && !self.is_never()
    }

    /// Returns the tick that is `duration` later, or the last tick.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(Self::after_epoch(duration).0))
    }

    /// Returns the time from `earlier` to this tick; zero if this is not later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Returns the tick at which a call is due that the rule has due at `due`, if no call is due before the end of a pause.
#[inline(always)]
pub(crate) const fn not_before(due: Tick, end: Tick) -> Tick {
    if due.as_nanos() < end.as_nanos() {
        end
    } else {
        due
    }
}

/// Returns the tick of the charge of a waiter that has become due: when it was due or later, from `earliest` on, and
/// not after now.
#[inline(always)]
pub(crate) const fn granted_at(due: Tick, earliest: Tick, now: Tick) -> Tick {
    let at = not_before(due, earliest);
    if now.as_nanos() < at.as_nanos() {
        now
    } else {
        at
    }
}

/// Returns the time until a tick: [`Duration::MAX`] if the tick is never.
pub(crate) fn wait_for(due: Tick, now: Tick) -> Duration {
    if due.is_never() {
        Duration::MAX
    } else {
        due.saturating_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saturating_add_at_the_end_stays_there() {
        let end = Tick::after_epoch(Duration::MAX);
        assert_eq!(end, Tick(u64::MAX));
        assert_eq!(end.saturating_add(Duration::from_nanos(1)), end);
        assert_eq!(Tick(1).saturating_add(Duration::MAX), end);
    }

    #[test]
    fn saturating_since_a_later_tick_is_zero() {
        let (one, three) = (Tick(1), Tick(3));
        assert_eq!(three.saturating_since(one), Duration::from_nanos(2));
        assert_eq!(one.saturating_since(three), Duration::ZERO);
    }
}
