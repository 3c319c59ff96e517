//! The types of a [`Clock`]: its instants, and the clock that tests set by hand.

// This is the only module that reads a clock or owns a timer.

pub(crate) mod clock;
mod counter;
#[cfg(test)]
mod counter_tests;
mod entries;
mod manual;
#[cfg_attr(not(feature = "tokio"), path = "no_runtime.rs")]
mod runtime;
#[cfg(feature = "tokio")]
mod runtime_sleep;
mod schedule;
mod sleep;
mod system;
mod tick;
mod timer;

/// The primitives of [`counter`]. Its loom model replaces them with loom's.
mod atomics {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};
    pub(super) use std::sync::{Mutex, MutexGuard};

    /// Locks a mutex, whether or not it is poisoned: no code under the lock can panic.
    pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

pub(crate) use self::clock::{Clock, ClockId, Counter, Deadline};
pub use self::manual::ManualClock;
pub(crate) use self::runtime::{Home, Id as RuntimeId, current, current_home, within};
#[cfg(feature = "tokio")]
pub(crate) use self::runtime_sleep::Sleep;
#[cfg(not(feature = "tokio"))]
pub(crate) use self::sleep::ClockSleep as Sleep;
pub use self::tick::Tick;
pub(crate) use self::tick::{granted_at, not_before, wait_for};
