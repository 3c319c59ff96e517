//! Implements the floor: the minimum cost of any semaphore over one atomic word.
//!
//! It consists of a compare-exchange, after the load that provides the expected value, and a `fetch_add` whose value
//! is used, by a guard that is held in memory like every permit. The strict floor is the compare-exchange without a
//! load, and an addition whose value is not used, which compiles to a mere increment. A semaphore needs more than
//! that, since it has to determine the free permits, and whether there are waiters.
//!
//! The floor of a rate decision is a reading of the clock, and a compare-exchange of the word that it is compared
//! with; a refusal writes nothing. It enforces no rate.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A word that counts free permits, without any other part of a semaphore.
pub struct Floor {
    free: AtomicUsize,
    limit: usize,
}

/// A permit of the floor, which is given back on drop.
pub struct FloorPermit<'a>(&'a Floor);

impl Floor {
    /// Creates a floor with this many free permits.
    #[must_use]
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

    /// Executes the strict floor, for one thread, which always finds all permits free.
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

/// A clock that the floor of a decision reads.
pub trait Reading: Send + Sync + 'static {
    /// The name of a floor on this clock in the tables.
    const NAME: &'static str;

    /// Starts the clock.
    fn start() -> Self;

    /// Returns how long the clock has run, in its own unit, and never 0.
    fn read(&self) -> u64;
}

/// The raw counter of the processor, without scaling. No clock is cheaper.
impl Reading for quanta::Clock {
    const NAME: &'static str = "floor: counter, CAS";

    fn start() -> Self {
        quanta::Clock::new()
    }

    #[inline]
    fn read(&self) -> u64 {
        self.raw()
    }
}

/// The clock of the standard library, in nanoseconds.
impl Reading for Instant {
    const NAME: &'static str = "floor: std Instant, CAS";

    fn start() -> Self {
        Instant::now()
    }

    #[inline]
    fn read(&self) -> u64 {
        self.elapsed().as_nanos() as u64
    }
}

/// A clock, and the word that a decision compares it with.
pub struct DecisionFloor<C> {
    clock: C,
    due: AtomicU64,
}

impl<C: Reading> DecisionFloor<C> {
    /// Creates a floor that allows everything.
    #[must_use]
    pub fn allowing() -> DecisionFloor<C> {
        DecisionFloor {
            clock: C::start(),
            due: AtomicU64::new(0),
        }
    }

    /// Creates a floor that refuses everything.
    #[must_use]
    pub fn refusing() -> DecisionFloor<C> {
        DecisionFloor {
            clock: C::start(),
            due: AtomicU64::new(u64::MAX),
        }
    }

    /// Decides. An allowed decision moves the word by one.
    #[inline]
    pub fn decide(&self) -> bool {
        let now = self.clock.read();
        let mut due = self.due.load(Relaxed);
        while due <= now {
            match self
                .due
                .compare_exchange_weak(due, due + 1, Relaxed, Relaxed)
            {
                Ok(_) => return true,
                Err(actual) => due = actual,
            }
        }
        false
    }
}

/// A traditional semaphore: a mutex around a counter, and a condvar to wait on. It is for threads only: a waiter
/// blocks.
///
/// It counts its waiters, because notifying a condvar is a system call even without waiters, and would dominate the
/// measurement.
pub struct CondvarSemaphore {
    state: Mutex<State>,
    released: Condvar,
}

struct State {
    free: usize,
    waiting: usize,
}

impl CondvarSemaphore {
    /// Creates a semaphore with this many free permits.
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
