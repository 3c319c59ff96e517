//! Tokio's time and timer, and sleeping inside or outside a runtime.
//!
//! 1. Inside a runtime, time is the runtime's, which may be paused. Outside, it is the machine's,
//!    and entries belong to the timer of the process.
//! 2. An entry is a task of the runtime in which it was set. The waiter does not poll that task, so
//!    the entry expires as long as the runtime is driven. If the runtime is dropped before that,
//!    the entry expires at once, on the timer of the process: a waiter in another runtime or thread
//!    may depend on it.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;
use tokio::runtime::{Handle, Id};
use tokio::task::AbortHandle;

use super::clock::{Clock, TimerEntry};
use super::sleep::ClockSleep;
use super::system;
use super::tick::Tick;
use super::timer::{Key, TIMER};

/// Tokio's ticks count from [`BEFORE`] this instant, because a runtime may have been paused before
/// the epoch was first read.
static EPOCH: OnceLock<Instant> = OnceLock::new();

/// A year.
const BEFORE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// An entry that is a task. Dropping it ends the task.
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

/// The runtime in which a limiter on tokio's time was used last. Code outside every runtime counts
/// as one more runtime. Only the latest is remembered, so the memory and the time of a lookup do
/// not depend on how many runtimes a process starts.
#[derive(Default)]
pub(crate) struct LastRuntime(Option<Option<Id>>);

impl LastRuntime {
    /// Remembers the current runtime. Returns whether the limiter was last used in another one:
    /// then its recorded times are meaningless in this one, and it must restart.
    pub(crate) fn enter_runtime(&mut self) -> bool {
        let current = current();
        let last = self.0.replace(current);
        last.is_some_and(|last| last != current)
    }
}

/// With the feature `test-util`, limiters without an explicit clock follow the runtime.
const TEST_UTIL: bool = cfg!(feature = "test-util");

/// Returns whether a limiter without an explicit clock uses tokio's time.
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
/// Panics if the runtime has no timer.
pub(super) fn start_timer(due: Tick, waker: Waker) -> TimerEntry {
    let away = due.saturating_since(now());
    let Ok(runtime) = Handle::try_current() else {
        let key = Key::new(system::now().saturating_add(away));
        return Clock::system().start_timer(key, waker);
    };
    // The sleep is created here, where its panic reaches the waiter, and not in the task.
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
    /// A future that is ready after a time. It runs on the clock of a throttle; if the throttle has
    /// none, on tokio's timer inside a runtime, and on the timer of the process elsewhere.
    #[project = Projection]
    pub(crate) enum Sleep {
        Tokio {
            #[pin]
            sleep: tokio::time::Sleep,
            runtime: Id,
        },
        Clock {
            #[pin]
            sleep: ClockSleep,
        },
    }
}

impl Sleep {
    /// Creates a sleep of `duration` on this clock, if there is one. `blocking` says that the
    /// poller blocks its thread. In that case tokio's timer is not used, because the blocked thread
    /// may be the one that drives it.
    pub(crate) fn new(clock: Option<Clock>, duration: Duration, blocking: bool) -> Self {
        let clock = clock.filter(|clock| !clock.is_of_runtime());
        match current() {
            Some(runtime) if clock.is_none() && !blocking => Self::Tokio {
                sleep: tokio::time::sleep(duration),
                runtime,
            },
            _ => Self::Clock {
                sleep: ClockSleep::new(clock, duration, blocking),
            },
        }
    }

    /// Returns the remaining time.
    pub(crate) fn left(&self) -> Duration {
        match self {
            Self::Tokio { sleep, .. } => {
                let now = tokio::time::Instant::now();
                sleep.deadline().saturating_duration_since(now)
            }
            Self::Clock { sleep } => sleep.left(),
        }
    }

    /// Polls the sleep; `blocking` has the same meaning as in [`new`](Self::new).
    ///
    /// The poller cannot rely on the timer of another runtime, or on that of a runtime that it
    /// blocks. In these cases the sleep moves, for the remaining time, to a timer that it can rely
    /// on: the first runtime may be gone, and its timer with it.
    pub(crate) fn poll_sleep(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        blocking: bool,
    ) -> Poll<()> {
        if let Self::Tokio { runtime, .. } = &*self {
            if blocking || current() != Some(*runtime) {
                let left = self.left();
                self.set(Self::new(None, left, blocking));
            }
        }
        match self.project() {
            Projection::Tokio { sleep, .. } => sleep.poll(context),
            Projection::Clock { sleep } => sleep.poll_sleep(context, blocking),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a destructor it owns no memory, so 30,000 runtimes cost as much as one.
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
