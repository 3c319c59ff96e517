//! [`BootInstant`]: a moment of a clock that counts the time for which the machine is suspended; and waits for it.
//!
//! A server counts that time, so a lease must do so too. The clock of [`std::time::Instant`] stops meanwhile on Linux,
//! and so do the timers of a runtime. A suspend wakes no timer, so a wait looks at the clock once a [`TICK`].

use std::future::poll_fn;
use std::ops::Add;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

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

    fn saturating_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
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

/// Waits until that moment; after a suspend at most a [`TICK`] longer.
pub(super) async fn wait_until(moment: BootInstant) {
    wait_by(moment, BootInstant::now).await;
}

async fn wait_by(moment: BootInstant, now: impl Fn() -> BootInstant) {
    loop {
        let left = moment.saturating_since(now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(TICK)).await;
    }
}

/// Returns the output of a future, or `None` if that moment comes first.
pub(super) async fn timeout_at<T>(
    moment: BootInstant,
    future: impl Future<Output = T>,
) -> Option<T> {
    let (mut future, mut end) = (pin!(future), pin!(wait_until(moment)));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => end.as_mut().poll(context).map(|()| None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn paused(test: impl Future<Output = ()>) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build();
        runtime.unwrap().block_on(test);
    }

    #[test]
    fn wait_by_through_a_suspend_ends_within_a_second_of_the_resume() {
        paused(async {
            let start = tokio::time::Instant::now();
            // The machine is suspended for an hour after 1.2 seconds. Timers do not count that.
            let suspended = Cell::new(false);
            let now = || {
                let awake = start.elapsed();
                suspended.set(awake >= Duration::from_millis(1_200));
                BootInstant(
                    awake
                        + if suspended.get() {
                            HOUR
                        } else {
                            Duration::ZERO
                        },
                )
            };
            wait_by(BootInstant(HOUR), now).await;
            assert_eq!(start.elapsed(), Duration::from_millis(1_500));
        });
    }

    #[test]
    fn wait_by_without_a_suspend_ends_at_the_moment() {
        paused(async {
            let start = tokio::time::Instant::now();
            let time = HOUR + Duration::from_millis(7);
            wait_by(BootInstant(time), || BootInstant(start.elapsed())).await;
            assert_eq!(start.elapsed(), time);
        });
    }

    #[test]
    fn timeout_at_returns_the_output_if_it_comes_first() {
        paused(async {
            let now = BootInstant::now();
            assert_eq!(timeout_at(now, async { 7 }).await, Some(7));
            assert_eq!(timeout_at(now, std::future::pending::<u8>()).await, None);
        });
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
