//! The old-style semaphore: a mutex around a counter, and a condvar to wait on.
//!
//! It counts its waiters, because notifying a condvar is a system call even when nobody waits, and would be most of what
//! is measured.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Counts free permits under a lock. For threads only: a waiter blocks.
pub struct CondvarSemaphore {
    state: Mutex<State>,
    released: Condvar,
}

struct State {
    free: usize,
    waiting: usize,
}

impl CondvarSemaphore {
    /// With this many permits free.
    #[must_use]
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
        Some(CondvarPermit { semaphore: self })
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
        CondvarPermit { semaphore: self }
    }
}

/// Gives its permit back when dropped.
pub struct CondvarPermit<'a> {
    semaphore: &'a CondvarSemaphore,
}

impl Drop for CondvarPermit<'_> {
    #[inline]
    fn drop(&mut self) {
        let mut state = self.semaphore.lock();
        state.free += 1;
        let somebody = state.waiting > 0;
        drop(state);
        if somebody {
            self.semaphore.released.notify_one();
        }
    }
}
