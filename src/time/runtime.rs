//! Tokio's time and timer.
//!
//! 1. Inside a runtime, time is the runtime's, which may be paused. Outside, it is the machine's, and
//!    entries are those of the timer of the process.
//! 2. An entry is a task of the runtime in which it was set. The waiter does not poll it, so it expires as
//!    long as the runtime is driven. If the runtime is dropped before, the entry expires at once, on the
//!    timer of the process: somebody elsewhere may wait for it.

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

/// Tokio's ticks count from [`BEFORE`] this, because a runtime may have been paused before this was first
/// read.
static EPOCH: OnceLock<Instant> = OnceLock::new();

/// A year.
const BEFORE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Clock {
    /// Returns tokio's clock and timer: inside a runtime, the time of the runtime, which a test can pause
    /// and advance; elsewhere, the time of the machine.
    ///
    /// # A limiter that is used in several runtimes
    ///
    /// The times of two runtimes need not agree. A limiter on this clock therefore **restarts**
    /// whenever it is used in another runtime than the last time: it forgets what was charged, and
    /// its waiters share the fresh burst. Code outside of every runtime counts as one more runtime.
    /// A limiter that alternates between two runtimes restarts each time, and limits neither. So a
    /// limiter in a `static` must not serve tests that run at the same time, and a limiter that
    /// several runtimes of one process share belongs on the [system clock](Self::system).
    /// (To give a limiter in a `static` a clock, put it in a
    /// [`LazyLock`](std::sync::LazyLock).)
    ///
    /// # Precision
    ///
    /// Tokio's timer counts in milliseconds, so waits end at whole milliseconds, also in paused
    /// time. Needs the feature `tokio`, a default.
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

/// The time of the current runtime.
#[derive(Clone, Copy)]
pub(super) struct Time(());

/// An entry that was set.
pub(super) enum Entry {
    Task(AbortHandle, Arc<AtomicBool>),
    System(Key),
}

/// Wakes the waker of an entry whose runtime is dropped.
struct WakeOnDrop {
    waker: Option<Waker>,
    cancelled: Arc<AtomicBool>,
}

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        if let Some(waker) = self.waker.take() {
            if !self.cancelled.load(Ordering::Relaxed) {
                TIMER.set(system::now(), waker);
            }
        }
    }
}

/// Returns the current runtime.
pub(super) fn current() -> Option<Id> {
    Handle::try_current().ok().map(|handle| handle.id())
}

/// The runtime in which a limiter on tokio's time was used last. Code outside of every runtime
/// counts as one more runtime. Only the latest is remembered, so the memory and the time of a
/// lookup do not depend on how many runtimes a process starts.
#[derive(Default)]
pub(crate) struct LastRuntime(Option<Option<Id>>);

impl LastRuntime {
    /// Remembers the current runtime. Returns whether the limiter was last used in another one, so
    /// that the times it knows mean nothing here and it must restart.
    pub(crate) fn enter_runtime(&mut self) -> bool {
        let current = current();
        let last = self.0.replace(current);
        last.is_some_and(|last| last != current)
    }
}

/// Returns the clock of a limiter without a chosen one.
#[cfg(feature = "test-util")]
pub(super) fn unchosen() -> Clock {
    match current() {
        Some(_) => Clock::tokio(),
        None => Clock::system(),
    }
}

/// Returns the clock of a limiter without a chosen one.
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

    /// Wakes `waker` at `due`.
    ///
    /// # Panics
    ///
    /// If the runtime has no timer.
    pub(super) fn start_timer(self, due: Tick, waker: Waker) -> clock::TimerEntry {
        let away = due.saturating_since(self.now());
        clock::TimerEntry::Runtime(match Handle::try_current() {
            Ok(runtime) => {
                // Made here, where its panic reaches the waiter, and not in the task.
                let sleep = tokio::time::sleep(away);
                let cancelled = Arc::new(AtomicBool::new(false));
                let mut guard = WakeOnDrop {
                    waker: Some(waker),
                    cancelled: Arc::clone(&cancelled),
                };
                let task = runtime.spawn(async move {
                    sleep.await;
                    if let Some(waker) = guard.waker.take() {
                        waker.wake();
                    }
                });
                Entry::Task(task.abort_handle(), cancelled)
            }
            Err(_) => Entry::System(TIMER.set(system::now().saturating_add(away), waker)),
        })
    }
}

impl Entry {
    pub(super) fn cancel(self) {
        match self {
            Self::Task(task, cancelled) => {
                cancelled.store(true, Ordering::Relaxed);
                task.abort();
            }
            Self::System(key) => TIMER.cancel(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a destructor it owns no memory, so 30,000 runtimes cost what one costs.
    #[test]
    fn last_runtime_is_one_value_however_many_runtimes_there_are() {
        assert!(!std::mem::needs_drop::<LastRuntime>());
        assert!(size_of::<LastRuntime>() <= 16);
        let runtimes = [(); 20].map(|()| {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.build().unwrap()
        });
        let mut last = LastRuntime::default();
        assert!(!last.enter_runtime());
        for runtime in &runtimes {
            let enters = |last: &mut LastRuntime| runtime.block_on(async { last.enter_runtime() });
            assert!(enters(&mut last));
            assert!(!enters(&mut last));
        }
        assert!(last.enter_runtime());
    }
}
