//! The floor: what any semaphore over one atomic word has to pay.
//!
//! A compare-exchange, after the load that tells it what to expect, and a `fetch_add` whose value is looked at, by a
//! guard that is held in memory like everybody's permit. The strict floor is the compare-exchange without a load, and
//! an addition whose value nobody asks for, which compiles to a mere increment; a semaphore cannot do with that, since
//! it has to find out what is free, and whether somebody waits.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A word that counts free permits, without any of the rest of a semaphore.
pub struct Floor {
    free: AtomicUsize,
    limit: usize,
}

/// One of them, to be given back.
pub struct FloorPermit<'a>(&'a Floor);

impl Floor {
    /// With this many permits free.
    #[must_use]
    pub const fn new(limit: usize) -> Floor {
        Floor {
            free: AtomicUsize::new(limit),
            limit,
        }
    }

    /// Takes one if there is one.
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

    /// The strict floor: for one thread, which always finds all of them free.
    #[inline]
    pub fn bare_pair(&self) {
        let taken = self
            .free
            .compare_exchange(self.limit, self.limit - 1, Acquire, Relaxed);
        debug_assert!(taken.is_ok());
        self.free.fetch_add(1, Release);
    }
}

impl Drop for FloorPermit<'_> {
    #[inline]
    fn drop(&mut self) {
        let before = self.0.free.fetch_add(1, Release);
        assert!(before < self.0.limit, "given back twice");
    }
}
