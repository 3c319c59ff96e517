//! The classic semaphore: a count under a lock, and a condition variable to wait on.
//!
//! It is for threads: waiting blocks. [`monitor`] is the whole protocol.

mod acquire;
mod monitor;

use std::sync::Arc;

pub use self::acquire::Acquire;
use self::monitor::{Monitor, State};
use super::Permit;
use super::permit::PermitSource;
use crate::debug::debug_as;
use crate::error::{AcquireError, ErrorKind};
use crate::status::Snapshot;
use crate::sync::{Condvar, Mutex, lock};

/// Limits threads to at most N at once with a mutex and a condition variable; it blocks.
///
/// [`Semaphore::acquire`](crate::Semaphore::acquire)`().wait()` is the fair alternative for
/// threads. This one has somewhat more throughput where threads queue: a thread that returns its
/// permit and requests another gets it at once, while the others sleep. For the same reason a
/// thread can starve. [The table](crate::guarantees) lists what each type guarantees.
///
/// A `CancellationToken` or a timeout can end a wait. If the thread had just been woken for a
/// permit, another thread is woken for that permit.
///
/// Use it on dedicated threads. In a pool of blocking threads, such as that of `spawn_blocking`,
/// waiters can occupy all the threads that holders need to make progress.
///
/// # Fairness
///
/// None.
///
/// # Memory ordering
///
/// Everything that a holder does before it returns its permit happens before everything that every
/// later holder does.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{CondvarSemaphore, ErrorKind};
///
/// let semaphore = CondvarSemaphore::new(2);
/// std::thread::scope(|scope| {
///     for _ in 0..8 {
///         scope.spawn(|| {
///             let _permit = semaphore.acquire().wait().unwrap();
///             // At most two threads are here at once.
///         });
///     }
/// });
///
/// let both = (semaphore.try_acquire()?, semaphore.try_acquire()?);
/// let refused = semaphore.acquire().timeout(Duration::from_millis(2)).wait();
/// assert_eq!(refused.unwrap_err().kind(), ErrorKind::TimedOut);
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
pub struct CondvarSemaphore {
    /// Shared with the tokens that can end a wait.
    monitor: Arc<Monitor>,
    permits: usize,
}

/// Construction.
impl CondvarSemaphore {
    /// Creates a semaphore with `permits` permits, all of them free.
    ///
    /// # Panics
    ///
    /// Panics if `permits` is 0, which would admit no caller ever.
    #[track_caller]
    pub fn new(permits: usize) -> Self {
        assert!(permits > 0, "a condvar semaphore cannot have 0 permits");
        let state = State {
            free: permits,
            ..State::default()
        };
        Self {
            monitor: Arc::new(Monitor {
                state: Mutex::new(state),
                changed: Condvar::new(),
            }),
            permits,
        }
    }
}

/// Acquiring.
impl CondvarSemaphore {
    /// Creates a request for a permit, which is not a future: call [`wait`](Acquire::wait), which
    /// blocks until it is granted.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::CondvarSemaphore::new(1);
    /// let permit = semaphore.acquire().wait()?;
    /// assert_eq!(semaphore.snapshot().available, 0);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn acquire(&self) -> Acquire<&Self> {
        Acquire::new(self)
    }

    /// Takes a permit if one is free now.
    ///
    /// # Errors
    ///
    /// [`NoPermits`](crate::ErrorKind::NoPermits), when none is free;
    /// [`Closed`](crate::ErrorKind::Closed).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{CondvarSemaphore, ErrorKind};
    ///
    /// let semaphore = CondvarSemaphore::new(1);
    /// let permit = semaphore.try_acquire()?;
    /// assert_eq!(semaphore.try_acquire().unwrap_err().kind(), ErrorKind::NoPermits);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit<&Self>, AcquireError> {
        self.try_take()?;
        Ok(Permit::new(self, 1))
    }

    /// Creates a request for a permit that shares the semaphore, so it can move to another thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::CondvarSemaphore;
    ///
    /// let semaphore = Arc::new(CondvarSemaphore::new(1));
    /// let permit = Arc::clone(&semaphore).acquire_owned().wait()?;
    /// std::thread::spawn(move || drop(permit)).join().unwrap();
    /// assert_eq!(semaphore.snapshot().available, 1);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn acquire_owned(self: Arc<Self>) -> Acquire<Arc<Self>> {
        Acquire::new(self)
    }

    /// Takes a permit that shares the semaphore, if one is free now.
    ///
    /// # Errors
    ///
    /// The same as for [`try_acquire`](Self::try_acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::CondvarSemaphore;
    ///
    /// let semaphore = Arc::new(CondvarSemaphore::new(1));
    /// let permit = Arc::clone(&semaphore).try_acquire_owned()?;
    /// assert_eq!(semaphore.snapshot().available, 0);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<Permit<Arc<Self>>, AcquireError> {
        self.try_take()?;
        Ok(Permit::new(self, 1))
    }

    #[inline]
    fn try_take(&self) -> Result<(), AcquireError> {
        if lock(&self.monitor.state).take()? {
            Ok(())
        } else {
            Err(AcquireError::new(ErrorKind::NoPermits))
        }
    }
}

/// Closing and observing.
impl CondvarSemaphore {
    /// Returns the state of the semaphore at one moment.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::CondvarSemaphore::new(3);
    /// let _permit = semaphore.try_acquire()?;
    /// let snapshot = semaphore.snapshot();
    /// assert_eq!((snapshot.limit, snapshot.in_use, snapshot.waiting), (3, 1, 0));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        let state = lock(&self.monitor.state);
        Snapshot::of_permits(self.permits, self.permits - state.free, state.waiting)
    }

    /// Closes the semaphore: every waiter and every later caller gets
    /// [`Closed`](crate::ErrorKind::Closed). Held permits stay valid. Closing it again does
    /// nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{CondvarSemaphore, ErrorKind};
    ///
    /// let semaphore = CondvarSemaphore::new(1);
    /// semaphore.close();
    /// assert_eq!(semaphore.acquire().wait().unwrap_err().kind(), ErrorKind::Closed);
    /// ```
    pub fn close(&self) {
        lock(&self.monitor.state).closed = true;
        self.monitor.changed.notify_all();
    }

    /// Returns whether the semaphore is closed.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(!tollgate::CondvarSemaphore::new(1).is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        lock(&self.monitor.state).closed
    }
}

impl PermitSource for CondvarSemaphore {
    #[inline]
    fn give_back(&self, permits: usize) {
        let mut state = lock(&self.monitor.state);
        state.free += permits;
        let somebody = state.waiting > 0;
        drop(state);
        // Without waiters this would be a useless system call.
        if somebody {
            (0..permits).for_each(|_| self.monitor.changed.notify_one());
        }
    }
}

debug_as! {
    [] CondvarSemaphore, self, let snapshot = self.snapshot() => CondvarSemaphore {
        permits: snapshot.limit, available_permits: snapshot.available, waiting: snapshot.waiting,
        closed: self.is_closed(), ..
    }
}
