//! The switch between the standard library's primitives and loom's, and two ways to lock.

pub(crate) use std::sync::atomic::Ordering;
use std::sync::{PoisonError, TryLockError};

#[cfg(tollgate_loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard, atomic::AtomicU64};
#[cfg(not(tollgate_loom))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic::AtomicU64};

/// Locks a mutex, poisoned or not: when the code of a key panics, the value stays consistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a mutex, unless another thread holds the lock at this moment.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
