//! Tokio's time and timer.
//!
//! 1. Inside a runtime, time is that of the runtime, which may be paused; outside, that of the
//!    machine, and alarms are those of the process.
//! 2. An alarm is a task of the runtime in which it was set. It is not polled by whoever waits, so
//!    it goes off as long as the runtime is driven. If the runtime is dropped before, the alarm
//!    goes off at once, on the timer of the process: somebody elsewhere may wait for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, Id};
use tokio::task::AbortHandle;

use super::clock::{self, Clock};
use super::queue::Key;
use super::system;
use super::tick::Tick;
use super::timer::TIMER;

/// What tokio's ticks are counted from, or rather [`BEFORE`] it: a runtime may have been paused
/// before this was first asked for.
static EPOCH: OnceLock<Instant> = OnceLock::new();

/// A year.
const BEFORE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Clock {
    /// Tokio's time, and its timer: inside of a runtime, that of the runtime, which a test may
    /// pause and advance; elsewhere, that of the machine.
    ///
    /// A limiter starts fresh whenever it is used in another runtime than the last one, because their
    /// times need not agree; outside of all counts as one. So one in a `static` must not serve tests that run at the same time.
    /// (To give one in a `static` a clock, put it in a [`LazyLock`](std::sync::LazyLock).) Tokio's
    /// timer counts in milliseconds, so waits end at whole ones, also in paused time. Needs the
    /// feature `tokio`, a default.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tokio::time::Instant;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let limiter = RateLimiter::new(Quota::per_hour(2)).clock(Clock::tokio());
    /// let start = Instant::now();
    /// for _ in 0..3 {
    ///     limiter.acquire().await?;
    /// }
    /// assert_eq!(start.elapsed(), Duration::from_secs(3600));
    /// # Ok(())
    /// # }
    /// ```
    pub const fn tokio() -> Self {
        Self::of_runtime(Time(()))
    }
}

/// The time of the runtime.
#[derive(Clone, Copy)]
pub(super) struct Time(());

/// An alarm that was set.
pub(super) enum Alarm {
    Task(AbortHandle, Arc<AtomicBool>),
    System(Key),
}

/// Sees to it that an alarm whose runtime is gone goes off all the same.
struct Heir {
    waker: Option<Waker>,
    unset: Arc<AtomicBool>,
}

impl Drop for Heir {
    fn drop(&mut self) {
        if let Some(waker) = self.waker.take() {
            if !self.unset.load(Ordering::Relaxed) {
                TIMER.set(system::now(), waker);
            }
        }
    }
}

/// The runtime that one is in.
pub(super) fn current() -> Option<Id> {
    Handle::try_current().ok().map(|handle| handle.id())
}

/// The runtime in which something was used last, or the outside of all.
#[derive(Default)]
pub(crate) struct SeenRuntime(Option<Option<Id>>);

impl SeenRuntime {
    /// Remembers the current runtime, and returns whether it is another one than the last.
    pub(crate) fn changes(&mut self) -> bool {
        let current = current();
        self.0.replace(current).is_some_and(|last| last != current)
    }
}

/// The clock of a limiter for which none was chosen.
#[cfg(feature = "test-util")]
pub(super) fn unchosen() -> Clock {
    match current() {
        Some(_) => Clock::tokio(),
        None => Clock::system(),
    }
}

/// The clock of a limiter for which none was chosen.
#[cfg(not(feature = "test-util"))]
pub(super) fn unchosen() -> Clock {
    Clock::system()
}

impl Time {
    pub(super) fn now(self) -> Tick {
        let epoch = *EPOCH.get_or_init(Instant::now);
        let now = tokio::time::Instant::now().into_std();
        let after = now.saturating_duration_since(epoch);
        let before = epoch.saturating_duration_since(now);
        Tick::after_epoch((BEFORE + after).saturating_sub(before))
    }

    /// Has `waker` called once it is `due`.
    ///
    /// # Panics
    ///
    /// If the runtime has no timer.
    pub(super) fn set_alarm(self, due: Tick, waker: Waker) -> clock::Alarm {
        let away = due.saturating_since(self.now());
        clock::Alarm::Runtime(match Handle::try_current() {
            Ok(runtime) => {
                // Made here, where its panic finds whoever waits, and not in the task.
                let sleep = tokio::time::sleep(away);
                let unset = Arc::new(AtomicBool::new(false));
                let mut heir = Heir {
                    waker: Some(waker),
                    unset: Arc::clone(&unset),
                };
                let task = runtime.spawn(async move {
                    sleep.await;
                    if let Some(waker) = heir.waker.take() {
                        waker.wake();
                    }
                });
                Alarm::Task(task.abort_handle(), unset)
            }
            Err(_) => Alarm::System(TIMER.set(system::now().saturating_add(away), waker)),
        })
    }
}

impl Alarm {
    pub(super) fn unset(self) {
        match self {
            Self::Task(task, unset) => {
                unset.store(true, Ordering::Relaxed);
                task.abort();
            }
            Self::System(key) => TIMER.unset(key),
        }
    }
}
