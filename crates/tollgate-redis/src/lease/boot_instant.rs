//! [`BootInstant`]: a moment of a clock that counts the time for which the machine is suspended.
//!
//! A server counts that time, so a lease must do so too. The clock of [`std::time::Instant`] stops meanwhile on
//! Linux, and so do the timers of a runtime. A suspend wakes no timer, so a wait looks at the clock once a
//! [`TICK`].

use std::ops::Add;
use std::time::Duration;

use crate::store::StoreTime;

/// The maximum time between two looks at the clock.
const TICK: Duration = Duration::from_millis(500);

/// A moment: the time since the machine was booted, on Linux and Android. Elsewhere it is a moment of the clock of
/// [`std::time::Instant`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BootInstant(Duration);

impl BootInstant {
    pub(super) fn now() -> Self {
        Self(since_boot())
    }

    /// Returns the present by the time of a store: if a clock tells it, no suspend stops it.
    pub(super) fn by(time: &StoreTime) -> Self {
        time.passed().map_or_else(Self::now, Self)
    }

    /// Returns for how long to sleep from now until that moment before the next look at the clock.
    pub(super) fn sleep_time_from(self, now: Self) -> Duration {
        self.0.saturating_sub(now.0).min(TICK)
    }
}

impl Add<Duration> for BootInstant {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}

#[cfg(any(target_os = "android", target_os = "linux"))]
fn since_boot() -> Duration {
    use rustix::time::{ClockId, clock_gettime};

    // Neither is ever negative.
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(not(any(target_os = "android", target_os = "linux")))]
fn since_boot() -> Duration {
    use std::sync::LazyLock;
    use std::time::Instant;

    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
    FIRST.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_time_of_each_moment_ends_there_or_within_a_second() {
        let now = BootInstant(Duration::from_secs(3_600));
        let soon = Duration::from_millis(70);
        assert_eq!((now + soon).sleep_time_from(now), soon);
        assert_eq!(now.sleep_time_from(now + soon), Duration::ZERO);
        for far in [Duration::from_secs(1), Duration::MAX] {
            assert_eq!((now + far).sleep_time_from(now), TICK);
        }
        assert!(TICK < Duration::from_secs(1));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn now_is_the_time_since_the_boot() {
        // In seconds and hundredths, including the time in which the machine is suspended.
        let uptime = || {
            let text = std::fs::read_to_string("/proc/uptime").unwrap();
            let seconds: f64 = text.split(' ').next().unwrap().parse().unwrap();
            BootInstant(Duration::from_secs_f64(seconds))
        };
        let (before, now, after) = (uptime(), BootInstant::now(), uptime());
        assert!(before <= now && now <= after + Duration::from_millis(10));
    }
}
