//! [`Semaphore`]: its fields, the state that its lock guards, and the methods that create, acquire, observe
//! and close it.
//!
//! The methods that change the limit are in [`resize`], the fast paths in [`permit_state`], and
//! everything else in [`protocol`].

mod permit;
mod permit_state;
mod protocol;
mod resize;

use std::sync::Arc;

pub use self::permit::OwnedPermit;
use self::permit_state::{PermitState, requested};
use super::idle::Drains;
use super::{Acquire, Permit, WaitIdle};
use crate::debug::debug_as;
use crate::error::AcquireError;
use crate::status::{LimitStatus, Snapshot};
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, const_fn, lock};
use crate::wait::Waiting;
use crate::wait_queue::WaitQueue;

/// Limits callers to at most N at once: a fair asynchronous semaphore.
///
/// A caller [acquires](Self::acquire) one or more of N *permits*, waiting if necessary, and returns
/// them by dropping the [`Permit`](crate::semaphore::Permit). The limit can be changed at any time, in both
/// directions.
///
/// # Fairness
///
/// Strictly first-in first-out, whatever the size of a request: while there are waiters, newcomers
/// are refused or join the end of the queue, even if the permits that they request are free. So
/// many small requests do not starve a large one. A future joins the queue at its first poll, not
/// when it is created.
///
/// If permits are free, acquiring never yields to the executor, as tokio's own types do now and
/// then. A loop that does nothing else should yield, for example with
/// `tokio::task::consume_budget`.
///
/// # Cancel safety
///
/// Dropping an unfinished future removes it from the queue in constant time, and loses nothing: a
/// permit that it had been granted goes to the next waiter. A future that is polled and then put
/// aside keeps its place until its turn. Until then all waiters behind it wait, even for permits
/// that are free. After that it holds its permits until it is dropped, and only those permits are
/// missing. The same applies to a future that is leaked, for example with
/// [`mem::forget`](std::mem::forget): it occupies the permits that it requested, and no more.
///
/// # Memory ordering
///
/// Everything that a holder does before it returns a permit happens before everything that the next
/// holder of that permit does. Acquiring is an acquire operation, and returning is a release
/// operation. Adding permits is a release operation for callers that acquire one of them, and closing is a
/// release operation for callers that are refused with `Closed`.
///
/// # Wakers
///
/// Wakers are called, cloned and dropped outside the lock, so they may call the semaphore. A waker
/// that panics when it is called does not affect other waiters: all waiters that can be served are
/// still granted and woken. The panic hook reports the panic, which is then caught.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use tollgate::{AcquireError, Semaphore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let semaphore = Arc::new(Semaphore::new(8));
///
/// let uploads: Vec<_> = (0..100)
///     .map(|name| {
///         let semaphore = Arc::clone(&semaphore);
///         tokio::spawn(async move {
///             let _permit = semaphore.acquire().await?;
///             // At most eight of the tasks are here at once.
///             Ok::<_, AcquireError>(name)
///         })
///     })
///     .collect();
/// for upload in uploads {
///     upload.await??;
/// }
/// assert_eq!(semaphore.available_permits(), 8);
/// # Ok(())
/// # }
/// ```
///
/// A semaphore in a `static` needs no lazy initialisation. Its permits can move into tasks and
/// threads:
///
/// ```
/// use tollgate::Semaphore;
///
/// static DISK: Semaphore = Semaphore::new(2);
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let permit = DISK.acquire().await?;
/// // It is `'static`, and moves along.
/// tokio::task::spawn_blocking(move || {
///     let _permit = permit;
///     assert_eq!(DISK.available_permits(), 1);
/// })
/// .await?;
/// assert_eq!(DISK.available_permits(), 2);
/// # Ok(())
/// # }
/// ```
pub struct Semaphore {
    state: PermitState,
    /// Changes only under the lock, and is read anywhere.
    limit: AtomicUsize,
    max_waiters: usize,
    /// Every waiter for permits up to this number has been granted them, if it has not left. It only
    /// rises, under the lock, and is read anywhere: a waiter finds out without the lock that it was
    /// granted.
    granted_until: AtomicU64,
    queues: Mutex<Queues>,
}

/// The waiters, which the lock guards.
pub struct Queues {
    /// The waiters for permits. Nothing is kept for one that was granted; one that was refused finds
    /// in its slot [why](protocol).
    permits: WaitQueue<u64>,
    /// The waiters for the moment at which all permits have been returned.
    idle: WaitQueue<()>,
    /// The number of the last of these waiters that was in the queue at a moment when all permits had been
    /// returned. All waiters up to that number are granted, even if that moment is over when their turn to be
    /// woken comes.
    idle_until: u64,
}

/// Construction.
impl Semaphore {
    /// The maximum number of permits of a semaphore: `isize::MAX >> 4`, which is 2^59 - 1 on 64-bit
    /// platforms.
    pub const MAX_PERMITS: usize = permit_state::MAX_PERMITS;

    const_fn! {
        /// Creates a semaphore with `permits` permits, all of them free. With 0 it starts paused:
        /// all callers wait until [`set_permits`](Self::set_permits).
        ///
        /// # Panics
        ///
        /// Panics if `permits` is above [`MAX_PERMITS`](Self::MAX_PERMITS).
        #[track_caller]
        #[doc(alias = "const_new")]
        pub fn new(permits: usize) -> Self {
            assert!(
                permits <= Self::MAX_PERMITS,
                "a semaphore cannot have so many permits, see MAX_PERMITS"
            );
            Self {
                state: PermitState::new(permits),
                limit: AtomicUsize::new(permits),
                max_waiters: usize::MAX,
                granted_until: AtomicU64::new(0),
                queues: Mutex::new(Queues {
                    permits: WaitQueue::new(),
                    idle: WaitQueue::new(),
                    idle_until: 0,
                }),
            }
        }
    }

    /// Bounds the queue: a caller that would have to wait behind this many waiters is refused
    /// at once, with [`QueueFull`](crate::ErrorKind::QueueFull). With 0 no caller ever waits,
    /// not even while the limit is 0. The queue is unbounded by default.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{ErrorKind, Semaphore};
    ///
    /// let semaphore = Semaphore::new(1).max_waiters(0);
    /// let _permit = semaphore.try_acquire()?;
    ///
    /// let refused = semaphore.acquire().wait().unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::QueueFull);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[must_use]
    pub const fn max_waiters(mut self, max_waiters: usize) -> Self {
        self.max_waiters = max_waiters;
        self
    }
}

/// Acquiring.
///
/// The methods differ in how many permits they request (`_many`), in whether the permit borrows the
/// semaphore or shares it (`_owned`), and in whether they wait (`try_` does not). The [`Waiting`]
/// that they return has methods to add a token or a timeout, or to block the thread.
///
/// A permit that borrows the semaphore cannot outlive it. To move a permit into a task or a thread,
/// take an owned one, or put the semaphore in a `static`: its permits are `Permit<&'static Semaphore>`.
///
/// The number of permits in one request is a `u64`, so that it may be a number of bytes; limits are `usize`.
///
/// Requesting zero permits completes immediately unless the semaphore is closed.
impl Semaphore {
    /// Waits for a permit.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing; see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// - [`Closed`](crate::ErrorKind::Closed), when the semaphore is or gets closed;
    /// - [`QueueFull`](crate::ErrorKind::QueueFull), see [`max_waiters`](Self::max_waiters);
    /// - [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity), when the request exceeds the
    ///   limit: for a newcomer, and for a waiter as soon as the limit is
    ///   [lowered](Self::set_permits) below its request. While the limit is 0, a pause, no caller
    ///   gets this error: all callers wait.
    ///
    /// If several apply, `Closed` takes precedence over `ExceedsCapacity`, and that over
    /// `QueueFull`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let semaphore = tollgate::Semaphore::new(1);
    /// let permit = semaphore.acquire().await?;
    /// assert_eq!(semaphore.available_permits(), 0);
    /// drop(permit);
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire(&self) -> Waiting<Acquire<&Self>> {
        Waiting::new(Acquire::of(self, 1))
    }

    /// Waits for `n` permits, all at once or not at all.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing; see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// The same as for [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let semaphore = tollgate::Semaphore::new(8);
    /// let permit = semaphore.acquire_many(3).await?;
    /// assert_eq!(permit.count(), 3);
    /// assert_eq!(semaphore.available_permits(), 5);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire_many(&self, n: u64) -> Waiting<Acquire<&Self>> {
        Waiting::new(Acquire::new(self, n))
    }

    /// Waits for a permit that shares the semaphore instead of borrowing it, so it can move into a
    /// task. For several permits, see [`cost_owned`](Self::cost_owned).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing; see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// The same as for [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let semaphore = Arc::new(tollgate::Semaphore::new(1));
    /// let permit = Arc::clone(&semaphore).acquire_owned().await?;
    /// tokio::spawn(async move {
    ///     // Work.
    ///     drop(permit);
    /// })
    /// .await?;
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    #[doc(alias = "acquire_arc")]
    #[doc(alias = "acquire_many_owned")]
    pub fn acquire_owned(self: Arc<Self>) -> Waiting<Acquire<Arc<Self>>> {
        Waiting::new(Acquire::of(self, 1))
    }

    /// Takes a permit without waiting.
    ///
    /// # Errors
    ///
    /// - [`NoPermits`](crate::ErrorKind::NoPermits), when it is not free, there are waiters, or the
    ///   limit is 0;
    /// - [`Closed`](crate::ErrorKind::Closed);
    /// - [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity), when the request exceeds the
    ///   limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{ErrorKind, Semaphore};
    ///
    /// let semaphore = Semaphore::new(1);
    /// let permit = semaphore.try_acquire()?;
    /// assert_eq!(semaphore.try_acquire().unwrap_err().kind(), ErrorKind::NoPermits);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit<&Self>, AcquireError> {
        self.try_acquire_many(1)
    }

    /// Takes `n` permits without waiting, or none.
    ///
    /// # Errors
    ///
    /// The same as for [`try_acquire`](Self::try_acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::Semaphore::new(8);
    /// let permit = semaphore.try_acquire_many(8)?;
    /// assert_eq!(permit.count(), 8);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn try_acquire_many(&self, n: u64) -> Result<Permit<&Self>, AcquireError> {
        Permit::try_new(self, n)
    }

    /// Takes a permit that shares the semaphore, without waiting. For several permits, use `try_acquire` of
    /// [`cost_owned`](Self::cost_owned).
    ///
    /// # Errors
    ///
    /// The same as for [`try_acquire`](Self::try_acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// let semaphore = Arc::new(tollgate::Semaphore::new(1));
    /// let permit = Arc::clone(&semaphore).try_acquire_owned()?;
    /// std::thread::spawn(move || drop(permit)).join().unwrap();
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    #[doc(alias = "try_acquire_arc")]
    #[doc(alias = "try_acquire_many_owned")]
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedPermit, AcquireError> {
        Permit::try_new(self, 1)
    }
}

/// Semaphores of keys.
impl Semaphore {
    /// Creates a semaphore with this number of permits, and the options of this semaphore.
    pub(crate) fn with_permits(&self, permits: usize) -> Self {
        Self::new(permits).max_waiters(self.max_waiters)
    }

    #[track_caller]
    pub(crate) fn assert_permits(permits: usize) {
        assert!(
            permits <= Self::MAX_PERMITS,
            "a semaphore cannot have {permits} permits, see MAX_PERMITS"
        );
    }
}

/// Observing and closing.
impl Semaphore {
    /// Returns the limit: the number of permits, free or held.
    ///
    /// [`set_permits`](Self::set_permits), [`add_permits`](Self::add_permits) and
    /// [`Permit::forget`](super::Permit::forget) change it.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::Semaphore::new(3);
    /// let _permits = semaphore.try_acquire_many(2)?;
    /// assert_eq!(semaphore.permits(), 3);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn permits(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Returns the number of free permits. It can be above 0 while callers wait: the first of them waits for
    /// more than that number, and newcomers wait behind it. After a shrink it is 0 until the permits held
    /// above the limit have been returned.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::Semaphore::new(3);
    /// let _permits = semaphore.try_acquire_many(2)?;
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn available_permits(&self) -> usize {
        self.state.load().available()
    }

    /// Returns the number of permits that are held, without the lock. After a shrink it may be above the limit. While
    /// the limit changes, the number may be wrong by the difference.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::Semaphore::new(3);
    /// let _permits = semaphore.try_acquire_many(2)?;
    /// semaphore.set_permits(1);
    /// assert_eq!((semaphore.permits(), semaphore.in_use()), (1, 2));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn in_use(&self) -> usize {
        let held = self.permits() as isize - self.state.load().free;
        usize::try_from(held).unwrap_or(0)
    }

    /// Returns the state of the semaphore at one moment.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::Semaphore::new(3);
    /// let _permits = semaphore.try_acquire_many(2)?;
    /// let snapshot = semaphore.snapshot();
    /// assert_eq!((snapshot.limit, snapshot.in_use, snapshot.available), (3, 2, 1));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        // Under the lock, the limit and the number of free permits are consistent, so no more permits are
        // free than the limit allows.
        let queues = lock(&self.queues);
        Snapshot::of_permits(self.permits(), self.in_use(), queues.permits.len())
    }

    /// Closes the semaphore: every waiter and every later caller gets
    /// [`Closed`](crate::ErrorKind::Closed). Held permits stay valid, and a permit that was granted
    /// earlier is still received. Closing it again does nothing.
    ///
    /// # Examples
    ///
    /// Drain and shut down:
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{ErrorKind, Semaphore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let semaphore = Arc::new(Semaphore::new(2));
    /// let permit = Arc::clone(&semaphore).acquire_owned().await?;
    /// tokio::spawn(async move { drop(permit) });
    ///
    /// semaphore.close();
    /// assert_eq!(semaphore.acquire().await.unwrap_err().kind(), ErrorKind::Closed);
    /// semaphore.wait_idle().await;
    /// assert_eq!(semaphore.available_permits(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(&self) {
        let queues = lock(&self.queues);
        self.state.close();
        self.settle(queues);
    }

    /// Returns whether the semaphore is closed.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::Semaphore::new(1);
    /// semaphore.close();
    /// assert!(semaphore.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.state.load().closed
    }

    /// Waits until all permits have been returned.
    ///
    /// It completes when there was a moment, since the first poll, at which no caller held a
    /// permit. Waiters in the queue do not count: there may be some at such a moment while the limit
    /// is 0, or [less than the first of them requests](Self::reject_impossible). While callers come and go, there may never be such a moment. A moment that ends at
    /// once, because a caller takes a permit again, may go unnoticed. To drain the semaphore, keep
    /// new callers out with [`close`](Self::close) or with a token that cancels the waiters.
    ///
    /// The future returns `()`. With a token or a timeout added, it returns a `Result`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// None, except those of added combinators: [`Cancelled`](crate::ErrorKind::Cancelled) by `cancel_on`,
    /// [`TimedOut`](crate::ErrorKind::TimedOut) by `timeout`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{ErrorKind, Semaphore};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let semaphore = Semaphore::new(1);
    /// semaphore.wait_idle().await;
    ///
    /// let permit = semaphore.acquire().await?;
    /// let soon = Duration::from_millis(20);
    /// let drained = semaphore.wait_idle().timeout(soon).await;
    /// assert_eq!(drained.unwrap_err().kind(), ErrorKind::TimedOut);
    /// drop(permit);
    /// semaphore.wait_idle().timeout(soon).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_idle(&self) -> Waiting<WaitIdle<&Self>> {
        Waiting::new(WaitIdle::new(self))
    }

    /// Waits like [`wait_idle`](Self::wait_idle), with a future that can move into a task.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::Semaphore;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let semaphore = Arc::new(Semaphore::new(1));
    /// let permit = semaphore.try_acquire()?;
    /// let drained = tokio::spawn(Arc::clone(&semaphore).wait_idle_owned());
    /// drop(permit);
    /// drained.await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_idle_owned(self: Arc<Self>) -> Waiting<WaitIdle<Arc<Self>>> {
        Waiting::new(WaitIdle::new(self))
    }

    /// Returns the status of the limit, without its lock.
    pub(crate) fn status(&self) -> LimitStatus {
        LimitStatus::concurrency(Snapshot::of_permits(self.permits(), self.in_use(), 0))
    }
}

debug_as! {
    [] Semaphore, self, let snapshot = self.snapshot() => Semaphore {
        permits: snapshot.limit, available_permits: snapshot.available, waiting: snapshot.waiting,
        closed: self.is_closed(), ..
    }
}
