//! The floor: the least cost of any semaphore over one atomic word.
//!
//! An acquire is a load, which gives the expected value, and a compare-exchange; a release is a `fetch_add` whose
//! value is inspected, by a guard that is held in memory like every permit.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A word that counts free permits, without the rest of a semaphore.
pub struct Floor {
    free: AtomicUsize,
    limit: usize,
}

/// A permit of it.
pub struct FloorPermit<'a>(&'a Floor);

impl Floor {
    /// Creates one with this many free permits.
    pub const fn new(limit: usize) -> Floor {
        Floor {
            free: AtomicUsize::new(limit),
            limit,
        }
    }

    /// Takes a permit if one is free.
    #[inline]
    pub fn try_take(&self) -> Option<FloorPermit<'_>> {
        let mut free = self.free.load(Relaxed);
        while free > 0 {
            match self
                .free
                .compare_exchange_weak(free, free - 1, Acquire, Relaxed)
            {
                Ok(_) => return Some(FloorPermit(self)),
                Err(actual) => free = actual,
            }
        }
        None
    }
}

impl Drop for FloorPermit<'_> {
    #[inline]
    fn drop(&mut self) {
        let before = self.0.free.fetch_add(1, Release);
        assert!(before < self.0.limit, "given back twice");
    }
}

/// The classic semaphore: a mutex around a counter, and a condvar to wait on. For threads only: a
/// waiter blocks.
///
/// It counts its waiters, because notifying a condvar is a system call even without a waiter, and would dominate
/// the measurement.
pub struct CondvarSemaphore {
    state: Mutex<State>,
    released: Condvar,
}

struct State {
    free: usize,
    waiting: usize,
}

impl CondvarSemaphore {
    /// Creates one with this many free permits.
    pub const fn new(permits: usize) -> CondvarSemaphore {
        CondvarSemaphore {
            state: Mutex::new(State {
                free: permits,
                waiting: 0,
            }),
            released: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a permit if one is free.
    #[inline]
    pub fn try_acquire(&self) -> Option<CondvarPermit<'_>> {
        let mut state = self.lock();
        state.free = state.free.checked_sub(1)?;
        Some(CondvarPermit(self))
    }

    /// Blocks the thread until a permit is free.
    #[inline]
    pub fn acquire(&self) -> CondvarPermit<'_> {
        let mut state = self.lock();
        if state.free == 0 {
            state.waiting += 1;
            state = self
                .released
                .wait_while(state, |state| state.free == 0)
                .unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        state.free -= 1;
        CondvarPermit(self)
    }
}

/// Gives its permit back when dropped.
pub struct CondvarPermit<'a>(&'a CondvarSemaphore);

impl Drop for CondvarPermit<'_> {
    #[inline]
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.free += 1;
        let somebody = state.waiting > 0;
        drop(state);
        if somebody {
            self.0.released.notify_one();
        }
    }
}
