//! Tokio's time and timer.
//!
//! 1. Inside a runtime, time is the runtime's, which may be paused. Outside, it is the machine's, and
//!    entries are those of the timer of the process.
//! 2. An entry is a task of the runtime in which it was set. The waiter does not poll it, so it expires as
//!    long as the runtime is driven. If the runtime is dropped before, the entry expires at once, on the
//!    timer of the process: somebody elsewhere may wait for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;
use tokio::runtime::{Handle, Id};
use tokio::task::AbortHandle;

use super::clock::{Clock, TimerEntry};
use super::system;
use super::tick::Tick;
use super::timer::{Key, TIMER};

/// Tokio's ticks count from [`BEFORE`] this, because a runtime may have been paused before this was first
/// read.
static EPOCH: OnceLock<Instant> = OnceLock::new();

/// A year.
const BEFORE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// An entry that is a task, which ends when this is dropped.
pub(super) struct Task {
    task: AbortHandle,
    cancelled: Arc<AtomicBool>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.task.abort();
    }
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
                TIMER.insert(Key::new(system::now()), waker);
            }
        }
    }
}

/// Returns the current runtime.
fn current() -> Option<Id> {
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

/// With the feature `test-util`, limiters without a chosen clock follow the runtime.
const TEST_UTIL: bool = cfg!(feature = "test-util");

/// Returns whether tokio's time is that of a limiter without a chosen clock.
pub(super) fn is_default() -> bool {
    TEST_UTIL && current().is_some()
}

/// Returns the tick of the current runtime.
#[cold]
pub(super) fn now() -> Tick {
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
pub(super) fn start_timer(due: Tick, waker: Waker) -> TimerEntry {
    let away = due.saturating_since(now());
    let Ok(runtime) = Handle::try_current() else {
        return Clock::system().start_timer(system::now().saturating_add(away), waker);
    };
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
    TimerEntry::Runtime(Task {
        task: task.abort_handle(),
        cancelled,
    })
}

pin_project! {
    /// A sleep on the timer of the runtime that it began in.
    pub(super) struct Sleep {
        #[pin]
        sleep: tokio::time::Sleep,
        runtime: Id,
    }
}

impl Sleep {
    /// `None` outside of every runtime.
    pub(super) fn new(duration: Duration) -> Option<Self> {
        let runtime = current()?;
        let sleep = tokio::time::sleep(duration);
        Some(Self { sleep, runtime })
    }

    /// Returns how much is left, if this poller cannot rely on the timer: that of another runtime, or of
    /// the one that it blocks.
    pub(super) fn left_elsewhere(&self, blocking: bool) -> Option<Duration> {
        let left = self.sleep.deadline();
        (blocking || current() != Some(self.runtime))
            .then(|| left.saturating_duration_since(tokio::time::Instant::now()))
    }

    pub(super) fn poll_sleep(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.project().sleep.poll(context)
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
