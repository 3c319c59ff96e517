//! The old-style semaphore: a count under a lock, and a condition variable to wait on.
//!
//! For threads: to wait is to block. [`monitor`] is the whole protocol.

mod acquire;
mod monitor;
#[cfg_attr(not(feature = "tokio"), path = "no_tokens.rs")]
mod tokens;

use std::fmt;
use std::sync::Arc;

pub use self::acquire::Acquire;
use self::monitor::Monitor;
use super::Permit;
use super::permit::PermitSource;
use crate::error::{AcquireError, ErrorKind};

/// At most N threads at once: a semaphore of a mutex and a condition variable, which blocks.
///
/// [`Semaphore::acquire`](crate::Semaphore::acquire)`().wait()` is the fair one for threads. This one has
/// somewhat more throughput where threads queue: one that gives its permit back and wants another
/// has it at once, while the others sleep. For the same reason a thread can starve. [The
/// table](crate::guarantees) has what each type guarantees.
///
/// A wait can be ended from outside, by a `CancellationToken` and by a timeout. If the thread had been
/// woken for a permit just then, another one is woken for it.
///
/// It is for threads of one's own. In a pool of threads that block, such as that of
/// `spawn_blocking`, waiters can occupy all the threads that holders need to go on.
///
/// # Fairness
///
/// None.
///
/// # Memory ordering
///
/// Whatever a holder did before it gave its permit back happens before whatever every later holder
/// does.
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

/// Making one.
impl CondvarSemaphore {
    /// A semaphore with this many permits, all of them free.
    ///
    /// # Panics
    ///
    /// If `permits` is 0, since then nobody could ever be let in.
    #[track_caller]
    pub fn new(permits: usize) -> Self {
        assert!(permits > 0, "a condvar semaphore cannot have 0 permits");
        Self {
            monitor: Arc::new(Monitor::new(permits)),
            permits,
        }
    }
}

/// Acquiring.
impl CondvarSemaphore {
    /// Asks for a permit; [`wait`](Acquire::wait) blocks until there is one.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::CondvarSemaphore::new(1);
    /// let permit = semaphore.acquire().wait()?;
    /// assert_eq!(semaphore.available_permits(), 0);
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

    /// Asks for a permit that shares the semaphore and so may move to another thread.
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
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn acquire_owned(self: Arc<Self>) -> Acquire<Arc<Self>> {
        Acquire::new(self)
    }

    /// Takes a permit that shares the semaphore, if one is free now.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::CondvarSemaphore;
    ///
    /// let semaphore = Arc::new(CondvarSemaphore::new(1));
    /// let permit = Arc::clone(&semaphore).try_acquire_owned()?;
    /// assert_eq!(semaphore.available_permits(), 0);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<Permit<Arc<Self>>, AcquireError> {
        self.try_take()?;
        Ok(Permit::new(self, 1))
    }

    #[inline]
    fn try_take(&self) -> Result<(), AcquireError> {
        let taken = self.monitor.lock().take();
        taken.unwrap_or(Err(AcquireError::new(ErrorKind::NoPermits)))
    }
}

/// Closing and observing.
impl CondvarSemaphore {
    /// The limit: how many permits there are, free or held. It does not change.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tollgate::CondvarSemaphore::new(3).permits(), 3);
    /// ```
    pub fn permits(&self) -> usize {
        self.permits
    }

    /// How many permits are free.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::CondvarSemaphore::new(3);
    /// let _permit = semaphore.try_acquire()?;
    /// assert_eq!(semaphore.available_permits(), 2);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn available_permits(&self) -> usize {
        self.monitor.lock().free
    }

    /// How many threads are blocked in [`wait`](Acquire::wait).
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tollgate::CondvarSemaphore::new(3).waiting(), 0);
    /// ```
    pub fn waiting(&self) -> usize {
        self.monitor.lock().waiting
    }

    /// Lets nobody in any more. Everyone who waits, and everyone who comes, gets
    /// [`Closed`](crate::ErrorKind::Closed). Permits that are held stay valid. Closing again does
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
        self.monitor.close();
    }

    /// Whether it was closed.
    ///
    /// # Examples
    ///
    /// ```
    /// assert!(!tollgate::CondvarSemaphore::new(1).is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.monitor.lock().closed
    }
}

impl PermitSource for CondvarSemaphore {
    #[inline]
    fn give_back(&self, permits: usize) {
        self.monitor.give(permits);
    }
}

impl fmt::Debug for CondvarSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CondvarSemaphore")
            .field("permits", &self.permits())
            .field("available_permits", &self.available_permits())
            .field("waiting", &self.waiting())
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
