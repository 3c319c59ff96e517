//! The only place that reads a clock or owns a timer.

mod clock;
mod clock_sleep;
mod counter;
#[cfg(test)]
mod counter_tests;
mod deadline;
#[cfg_attr(not(feature = "tsc"), path = "machine_without_tsc.rs")]
mod machine;
mod manual;
mod queue;
#[cfg_attr(not(feature = "tokio"), path = "no_runtime.rs")]
mod runtime;
#[cfg_attr(not(feature = "tokio"), path = "sleep_without_runtime.rs")]
mod sleep;
mod system;
mod tick;
mod timer;
mod wake_latency;

/// What [`counter`] is made of. Its model under loom brings loom's in place of these.
mod atomics {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};
    pub(super) use std::sync::{Mutex, MutexGuard};

    /// Locks, poisoned or not: nothing under the lock can panic.
    pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

pub use self::clock::Clock;
pub(crate) use self::clock::Counter;
pub(crate) use self::deadline::Deadline;
pub use self::manual::ManualClock;
pub(crate) use self::runtime::LastRuntime;
pub(crate) use self::sleep::Sleep;
pub use self::tick::Tick;
