//! [`Semaphore`]: its fields, what its lock guards, and the methods that create, observe and close it.
//!
//! The acquire methods are in [`verbs`], those that change the limit in [`resize`], the fast paths
//! in [`permit_state`], and everything else in [`protocol`].

mod grant_cursor;
mod idle;
mod permit;
mod permit_state;
mod protocol;
mod resize;
mod verbs;

use std::fmt;
use std::sync::Arc;

use self::grant_cursor::GrantCursor;
pub use self::idle::WaitIdle;
pub use self::permit::OwnedPermit;
use self::permit_state::PermitState;
pub use self::verbs::AcquireOwned;
use crate::error::{AcquireError, ErrorKind};
use crate::limit_status::LimitStatus;
use crate::snapshot::Snapshot;
use crate::sync::{AtomicUsize, Mutex, Ordering, const_fn};
use crate::wait::Waiting;
use crate::wait_queue::{WaitQueue, WaiterId};

/// Limits callers to at most N at once: a fair asynchronous semaphore.
///
/// A caller [acquires](Self::acquire) one or more of N *permits*, waiting if necessary, and returns
/// them by dropping the [`Permit`](crate::Permit). The limit can be changed at any time, in both
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
/// [`mem::forget`](std::mem::forget): it occupies what it requested, and no more.
///
/// # Memory ordering
///
/// Everything that a holder does before it returns a permit happens before everything that the next
/// holder of that permit does. Acquiring is an acquire operation, and returning is a release
/// operation. Adding permits is a release operation for callers that acquire one of them, and
/// closing is one for callers that are refused with `Closed`.
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
    /// Changes only under the lock; is read anywhere.
    limit: AtomicUsize,
    max_waiters: usize,
    cursor: GrantCursor,
    queues: Mutex<QueueState>,
}

/// The state that the lock guards.
struct QueueState {
    /// The waiters for permits. A waiter that requests more than the shrunk limit finds that limit
    /// kept in its slot.
    permits: WaitQueue<u32>,
    /// The waiters for the moment at which all permits have been returned.
    idle: WaitQueue<()>,
    /// The last of them that was there when all permits had been returned. All waiters up to that
    /// number are granted, even if the moment is over when their turn to be woken comes.
    idle_until: u64,
    /// Once closed, the first number that was not granted; so waiters need not be notified one by
    /// one.
    closed_from: Option<u64>,
    /// The number of the last waiter that was there when the limit was last reduced, or when the
    /// impossible were last rejected. Only those waiters are refused: one that waits for the limit to
    /// rise keeps waiting until it has risen.
    refuses_until: u64,
    /// The highest limit since then: a request for more than that could not be granted at any time
    /// since.
    highest_limit: usize,
}

impl QueueState {
    const fn new() -> Self {
        Self {
            permits: WaitQueue::new(),
            idle: WaitQueue::new(),
            idle_until: 0,
            closed_from: None,
            refuses_until: 0,
            highest_limit: 0,
        }
    }

    /// Returns whether this waiter was to be refused for its request, and the limit has not been
    /// raised far enough since.
    fn is_impossible(&self, number: u64, cost: u32) -> bool {
        number <= self.refuses_until && cost as usize > self.highest_limit
    }

    /// Records a change of the limit.
    fn limit_changed(&mut self, old: usize, new: usize) {
        if new >= old {
            self.highest_limit = self.highest_limit.max(new);
        } else {
            self.refuse_above(new);
        }
    }

    /// Refuses the waiters that request more than the limit when they reach the head. A limit of 0 is
    /// a pause, not a capacity.
    fn refuse_above(&mut self, limit: usize) {
        if limit > 0 {
            self.refuses_until = self.permits.last_number();
            self.highest_limit = limit;
        }
    }

    /// Records that no waiter is granted from now on.
    fn close(&mut self) {
        let first = self.permits.head_number();
        let first = first.unwrap_or(self.permits.last_number() + 1);
        self.closed_from.get_or_insert(first);
    }

    /// Returns the outcome of a served waiter for permits.
    fn collect(&mut self, id: WaiterId) -> Result<(), AcquireError> {
        let number = id.number().get();
        if let Some(limit) = self.permits.collect(&id) {
            Err(AcquireError::exceeds_capacity(limit as u64))
        } else if self.closed_from.is_some_and(|first| first <= number) {
            Err(AcquireError::new(ErrorKind::Closed))
        } else {
            Ok(())
        }
    }
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
                cursor: GrantCursor::new(),
                queues: Mutex::new(QueueState::new()),
            }
        }
    }

    const_fn! {
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
        pub fn max_waiters(mut self, max_waiters: usize) -> Self {
            self.max_waiters = max_waiters;
            self
        }
    }
}

/// Semaphores of keys.
impl Semaphore {
    /// Creates a semaphore with so many permits, and the options of this one.
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
    pub fn permits(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Returns the number of free permits. It can be above 0 while callers wait: the first of them
    /// waits for more than that, and newcomers wait behind it. After a shrink it is 0 until the
    /// permits held above the limit have been returned.
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

    /// Returns the number of permits that are held, without the lock. While the limit changes, it may
    /// be wrong by the change.
    #[inline]
    pub(crate) fn in_use(&self) -> usize {
        let held = self.limit() - self.state.load().free();
        usize::try_from(held).unwrap_or(0)
    }

    /// Returns the number of callers that wait in the queue. A caller that has been granted its
    /// permits does not count, even if it has not been polled since.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures::poll;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let semaphore = tollgate::Semaphore::new(0);
    /// let mut waiter = semaphore.acquire();
    /// assert_eq!(semaphore.waiting(), 0);
    /// assert!(poll!(&mut waiter).is_pending());
    /// assert_eq!(semaphore.waiting(), 1);
    /// # }
    /// ```
    pub fn waiting(&self) -> usize {
        self.lock().permits.len()
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
        // Under the lock, the limit and the free permits belong together, and no more are free.
        let queues = self.lock();
        let held = self.limit() - self.state.load().free();
        Snapshot::of_permits(self.permits(), held as usize, queues.permits.len())
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
        let mut queues = self.lock();
        self.state.close();
        queues.close();
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
        self.state.load().is_closed()
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
    /// None, except those that are added: [`Cancelled`](crate::ErrorKind::Cancelled) by
    /// `cancel_on`, [`TimedOut`](crate::ErrorKind::TimedOut) by `timeout`.
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

    /// Returns what it allows, without its lock.
    pub(crate) fn status(&self) -> LimitStatus {
        LimitStatus::concurrency(Snapshot::of_permits(self.permits(), self.in_use(), 0))
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("permits", &self.permits())
            .field("available_permits", &self.available_permits())
            .field("waiting", &self.waiting())
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
