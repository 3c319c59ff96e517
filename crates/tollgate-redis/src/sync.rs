//! Synchronization primitives, in one place, so that models can replace them.

use std::sync::{MutexGuard, PoisonError};

pub(crate) use std::sync::Mutex;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

/// Locks a mutex. A poisoned lock is still valid: no code here leaves the guarded state half
/// changed when it panics.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
