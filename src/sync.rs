//! The switch between the standard library's primitives, loom's and shuttle's.
//!
//! Everything that takes part in a modelled protocol takes its atomics, its lock and its
//! thread-locals from here, and this is the only file that names the configurations of the two.
//! `Arc` is always the standard one: it appears in public signatures (`self: Arc<Self>`), and no
//! modelled protocol depends on its counts.

#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
mod switch {
    pub(crate) use std::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, fence};
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread_local;

    /// The number of keys that justifies one more shard of a map.
    pub(crate) const KEYS_PER_SHARD: usize = 64;

    /// The number of waiters of a rate limiter or a fair queue that one call serves.
    pub(crate) const SERVED_AT_ONCE: usize = 1024;

    /// Spins after another thread was faster, a little longer each time: threads that alternate on a
    /// word are slower than one that keeps it for a while.
    pub(crate) fn back_off(lost: &mut u32) {
        *lost += 1;
        for _ in 0..64 << (*lost).min(2) {
            std::hint::spin_loop();
        }
    }
}

#[cfg(all(tollgate_loom, not(feature = "_loom")))]
compile_error!("`--cfg tollgate_loom` needs the feature `_loom`");

#[cfg(tollgate_loom)]
mod switch {
    pub(crate) use loom::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, fence};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    // The threads of a model share them: with loom's thread-locals each access would be a step of the model.
    pub(crate) use std::thread_local;

    /// In a model, a map of two keys has two shards.
    pub(crate) const KEYS_PER_SHARD: usize = 1;

    /// In a model, a call serves one waiter of two, and leaves the second to the timer or to the next poll.
    pub(crate) const SERVED_AT_ONCE: usize = 1;

    /// Does nothing: time does not pass in a model, which tries every order anyway.
    pub(crate) fn back_off(_lost: &mut u32) {}
}

#[cfg(all(tollgate_shuttle, not(feature = "_shuttle")))]
compile_error!("`--cfg tollgate_shuttle` needs the feature `_shuttle`");

#[cfg(tollgate_shuttle)]
mod switch {
    pub(crate) use shuttle::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, fence};
    pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use shuttle::thread_local;

    /// A map of four keys has two shards, so that a shard has several keys.
    pub(crate) const KEYS_PER_SHARD: usize = 2;

    /// With three waiters or more, some are served at once and some are left.
    pub(crate) const SERVED_AT_ONCE: usize = 2;

    /// Lets other threads run, whatever the schedule prefers.
    pub(crate) fn back_off(_lost: &mut u32) {
        shuttle::hint::spin_loop();
    }
}

/// Defines a `const fn`, because the standard primitives can be built in a constant; in a model a plain
/// `fn`, because loom's register themselves with the running model.
macro_rules! const_fn {
    ($(#[$attribute:meta])* $visibility:vis fn $($rest:tt)*) => {
        #[cfg(not(tollgate_loom))]
        $(#[$attribute])* $visibility const fn $($rest)*

        #[cfg(tollgate_loom)]
        $(#[$attribute])* $visibility fn $($rest)*
    };
}

pub(crate) use const_fn;
pub(crate) use std::sync::atomic::Ordering;
pub(crate) use switch::*;

/// Locks a mutex, whether or not it is poisoned.
///
/// No code that can panic runs under our locks (wakers are called, cloned and dropped outside), so
/// a poisoned lock still guards a consistent value.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
