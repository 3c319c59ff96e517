//! [`Semaphore`]: its fields, its configuration, and what can be changed and observed.
//!
//! The verbs are in [`verbs`], the ready paths in [`permit_state`], and everything else in [`protocol`].

mod grant_cursor;
mod idle;
mod permit_state;
mod protocol;
mod verbs;

use std::fmt;
use std::sync::Arc;

use self::grant_cursor::GrantCursor;
pub use self::idle::WaitIdle;
use self::permit_state::PermitState;
use self::protocol::QueueState;
use crate::const_panic::panic_with;
use crate::sync::{AtomicUsize, Mutex, Ordering, const_fn};
use crate::wait::Waiting;

/// At most N at once: a fair asynchronous semaphore.
///
/// A caller [acquires](Self::acquire) one or more of N *permits*, waiting if it must, and gives
/// them back by dropping what it got. The limit can be changed at any time, in both directions.
///
/// # Fairness
///
/// Strictly first-in first-out, whatever is asked for: while somebody waits, newcomers are
/// refused or join at the end, even if what they ask for is free. So many small requests do not
/// starve a large one. A future joins the line at its first poll, not when it is made.
///
/// When there is nothing to wait for, acquiring never yields to the executor, as tokio's own types
/// do now and then; a loop that does nothing else should yield, for example with
/// `tokio::task::consume_budget`.
///
/// # Cancel safety
///
/// Dropping a future that has not finished takes it out of the line in constant time, and nothing
/// is lost: a permit that it had been granted goes to the next in line. A future that was polled
/// and then put aside keeps its place until its turn has come, and everyone behind it waits, even
/// for permits that are free; then it has its permits until it is dropped, and only those are
/// missing. The same holds for one that is leaked, for example with
/// [`mem::forget`](std::mem::forget): it takes away what it asked for, and no more.
///
/// # Memory ordering
///
/// Whatever a holder did before it gave a permit back happens before whatever the next holder of
/// that permit does. To acquire is an acquire operation, to give back a release. So is adding permits,
/// for whoever acquires one of them, and closing, for whoever is refused with `Closed`.
///
/// # Wakers
///
/// Wakers are called, cloned and dropped outside of the lock, so they may call the semaphore. One
/// that panics when it is called does not disturb anyone else: all who can go are still granted and
/// woken, and the panic is reported by the panic hook and goes no further.
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
/// One for the whole program needs no lazy initialisation. Its permits may move into tasks and
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
    /// Changes only under the lock; read anywhere.
    limit: AtomicUsize,
    max_waiters: usize,
    cursor: GrantCursor,
    queues: Mutex<QueueState>,
}

/// Making one.
impl Semaphore {
    /// The most permits that a semaphore can have: `isize::MAX >> 4`, which is 2^59 - 1 on
    /// platforms of 64 bits.
    pub const MAX_PERMITS: usize = permit_state::MAX_PERMITS;

    const_fn! {
        /// A semaphore with this many permits, all of them free. With 0 it starts paused:
        /// everyone waits until [`set_permits`](Self::set_permits).
        ///
        /// # Panics
        ///
        /// If `permits` is above [`MAX_PERMITS`](Self::MAX_PERMITS).
        #[track_caller]
        pub fn new(permits: usize) -> Self {
            if permits > Self::MAX_PERMITS {
                panic_with("a semaphore cannot have ", permits, " permits, see MAX_PERMITS");
            }
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
        /// The same semaphore with a bounded line: who would have to wait when this many are
        /// waiting already is refused at once, with [`QueueFull`](crate::ErrorKind::QueueFull).
        /// With 0 nobody ever waits, not even while the limit is 0. Unbounded unless set.
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

/// Changing and observing.
impl Semaphore {
    /// Changes the limit, while permits are out and callers are waiting.
    ///
    /// It is exact in both directions. Growing admits those who now fit. Shrinking takes nothing
    /// away from those who hold permits: what is held above the new limit is a debt, and nobody is
    /// admitted until it has been paid off. A waiter who asks for more than the lowered limit is
    /// refused with [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity) when it is at the head of
    /// the queue, unless the limit has been raised far enough by then. Raising the limit never refuses
    /// a waiter. With 0 everyone waits who asks for any: a pause, to be ended by another limit, where
    /// [`close`](Self::close) is final.
    ///
    /// # Panics
    ///
    /// If `permits` is above [`MAX_PERMITS`](Self::MAX_PERMITS).
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::Semaphore::new(3);
    /// let permits = semaphore.try_acquire_many(3)?;
    ///
    /// semaphore.set_permits(1);
    /// drop(permits);
    /// assert_eq!(semaphore.available_permits(), 1);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[track_caller]
    pub fn set_permits(&self, permits: usize) {
        assert!(
            permits <= Self::MAX_PERMITS,
            "a semaphore cannot have {permits} permits, see MAX_PERMITS"
        );
        self.resize(|_| Some(permits));
    }

    /// Raises the limit by `permits`.
    ///
    /// # Panics
    ///
    /// If the limit would be above [`MAX_PERMITS`](Self::MAX_PERMITS); then nothing has changed.
    ///
    /// # Examples
    ///
    /// Waiting until three others are ready, each of which adds a permit:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let ready = tollgate::Semaphore::new(0);
    /// let all = ready.acquire_many(3);
    /// let each = async { (0..3).for_each(|_| ready.add_permits(1)) };
    /// let (all, ()) = tokio::join!(all, each);
    /// assert_eq!(all?.count(), 3);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn add_permits(&self, permits: usize) {
        let added = self.resize(|limit| {
            let sum = limit.checked_add(permits)?;
            (sum <= Self::MAX_PERMITS).then_some(sum)
        });
        assert!(
            added,
            "a semaphore cannot have {permits} permits more, see MAX_PERMITS"
        );
    }

    /// Lowers the limit by up to `permits` permits, those that are free at this moment, and returns
    /// by how many. Permits that gather for the first waiter are free too.
    ///
    /// # Examples
    ///
    /// ```
    /// let semaphore = tollgate::Semaphore::new(3);
    /// let _held = semaphore.try_acquire()?;
    /// assert_eq!(semaphore.forget_permits(5), 2);
    /// assert_eq!((semaphore.permits(), semaphore.available_permits()), (1, 0));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn forget_permits(&self, permits: usize) -> usize {
        self.forget_free(permits)
    }

    /// The limit: how many permits there are, free or held.
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

    /// How many permits are free. It can be above 0 while callers wait: for more than that, and
    /// newcomers wait behind them. After a shrink it is 0 until what is held above the limit has
    /// come back.
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
        usize::try_from(self.state.load().free()).unwrap_or(0)
    }

    /// How many callers are waiting in line. One that has been granted its permits is not, even if
    /// it has not been polled since.
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
        self.queue_len()
    }

    /// Admits nobody any more. Everyone in line, and everyone who comes, gets
    /// [`Closed`](crate::ErrorKind::Closed). Permits that are held stay valid, and one that was
    /// granted before is still received. Closing again does nothing.
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
        self.close_queue();
    }

    /// Whether it was closed.
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

    /// Waits until every permit has come back.
    ///
    /// It is over when there was a moment, since the first poll, at which nobody held a permit.
    /// Those who wait in line do not count: while the limit is 0, they may be there at such a
    /// moment. While callers come and go, there may never be one, and one that ends at once,
    /// because somebody takes a permit again, may go unnoticed. To drain, see to it that nobody
    /// comes any more, by [`close`](Self::close) or by a token that cancels those who wait.
    ///
    /// The future is ready with `()`. With a token or a timeout added, it is ready with a `Result`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// None, unless added: [`Cancelled`](crate::ErrorKind::Cancelled) by `cancel_on`,
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

    /// Waits as [`wait_idle`](Self::wait_idle), with a future that may move into a task.
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
