//! A point in time, as a number.

use std::time::Duration;

/// A point in time: nanoseconds since the epoch of a [`Clock`](crate::Clock).
///
/// Ticks of one clock can be compared, ticks of different clocks cannot. Saturates: the last tick,
/// 584 years on, is never reached and so means never.
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
    /// So many nanoseconds since the epoch of a clock, perhaps of another machine's.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The tick that is `duration` after the epoch.
    pub(crate) fn after_epoch(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Nanoseconds since the epoch of the clock.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whether it is the last one, which is never reached.
    pub(crate) const fn is_never(self) -> bool {
        self.0 == u64::MAX
    }

    /// The tick that is `duration` later, or the last there is.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(Self::after_epoch(duration).0))
    }

    /// How long it is from `earlier` to this; zero if it is not later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_time_is_not_passed() {
        let end = Tick::after_epoch(Duration::MAX);
        assert_eq!(end, Tick(u64::MAX));
        assert_eq!(end.saturating_add(Duration::from_nanos(1)), end);
        assert_eq!(Tick(1).saturating_add(Duration::MAX), end);
    }

    #[test]
    fn time_before_is_no_time() {
        let (one, three) = (Tick(1), Tick(3));
        assert_eq!(three.saturating_since(one), Duration::from_nanos(2));
        assert_eq!(one.saturating_since(three), Duration::ZERO);
    }
}
