//! The switch between the standard library's primitives, loom's and shuttle's. The features `_loom` and `_shuttle` of
//! this crate enable those of [`tollgate`], which check that their configurations are set.

pub(crate) use std::sync::atomic::Ordering;

#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic::AtomicU64};

#[cfg(tollgate_loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard, atomic::AtomicU64};

#[cfg(tollgate_shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic::AtomicU64};

/// Defines a `const fn`; in a model of loom, whose primitives register themselves with the running model, a plain `fn`.
macro_rules! const_fn {
    ($(#[$attribute:meta])* $visibility:vis fn $($rest:tt)*) => {
        #[cfg(not(tollgate_loom))]
        $(#[$attribute])* $visibility const fn $($rest)*

        #[cfg(tollgate_loom)]
        $(#[$attribute])* $visibility fn $($rest)*
    };
}

pub(crate) use const_fn;

/// Locks a mutex, poisoned or not: no code that can panic runs under our locks.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
