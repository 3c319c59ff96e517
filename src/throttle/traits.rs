//! The traits of all throttles: [`Throttle`], and [`TryThrottle`] for those that decide without waiting.

use crate::error::AcquireError;
use crate::wait::Waiting;

/// A limiter of any kind that admits callers: the trait bound of generic code and adapters.
///
/// To use a throttle directly, call its own methods; this trait shares no name with them. It is
/// implemented for references and `Arc`s, which are cheap to clone: a `Semaphore` itself is no
/// throttle, but `&semaphore`, `Arc<Semaphore>` and `&arc` are. The same holds for `Pool`,
/// `ChannelSemaphore`, `RateLimiter`, `LeakyBucket`, `tokio::sync::Semaphore` and, with the feature
/// `async-lock`, `async_lock::Semaphore`, so existing code can keep its semaphore. A `Gate` and a
/// [`Key`](crate::keyed::Key) are throttles themselves. So are compositions of throttles:
/// [`all`](crate::all)`((..))`, [`Gated`](super::Gated), [`Cost`](super::Cost), [`BoxThrottle`](super::BoxThrottle), and `Option`,
/// whose `None` admits every caller.
///
/// For a task that waits, use the bound `T: Throttle<Enter: Send, Permit: Send> + Send + 'static`.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use tollgate::{AcquireError, Semaphore, Throttle};
///
/// /// Runs a job when the throttle lets it.
/// async fn throttled<T: Throttle, R>(
///     throttle: T,
///     job: impl Future<Output = R>,
/// ) -> Result<R, AcquireError> {
///     let _permit = throttle.enter().await?;
///     Ok(job.await)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), AcquireError> {
/// let semaphore = Semaphore::new(1);
/// assert_eq!(throttled(&semaphore, async { 7 }).await?, 7);
///
/// let shared = Arc::new(Semaphore::new(1));
/// assert_eq!(throttled(&shared, async { 7 }).await?, 7);
/// # Ok(())
/// # }
/// ```
///
/// An existing semaphore of tokio, with a cancellation token:
///
#[cfg_attr(feature = "tokio", doc = "```")]
#[cfg_attr(not(feature = "tokio"), doc = "```text")]
/// use tokio_util::sync::CancellationToken;
/// use tollgate::{ErrorKind, Throttle};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let old = tokio::sync::Semaphore::new(1);
/// let token = CancellationToken::new();
/// let permit = (&old).enter().cancel_on(&token).await?;
///
/// token.cancel();
/// let refused = (&old).enter().cancel_on(&token).await;
/// assert_eq!(refused.unwrap_err().kind(), ErrorKind::Cancelled);
/// # Ok(())
/// # }
/// ```
///
/// # Implementing it
///
/// Clones share the state. [`Enter`](Self::Enter) is any future of the permit: a named one, a
/// [`Ready`](std::future::Ready), or a boxed one. If dropping the permit does not undo the entry,
/// implement [`rollback`](Self::rollback) to undo it; otherwise a composition keeps the charge when a
/// later part refuses. Implement [`TryThrottle`] as well for `all((..)).try_acquire()`, and
/// [`enter_now`](Self::enter_now) with it.
///
/// A wrapper [forwards](crate::forward!) the methods that it does not change. It polls the inner future itself,
/// taken [out of its `Waiting`](Waiting::into_inner), so that a timeout still reaches the inner
/// throttle. Without [`enter_now`](Self::enter_now), a fair queue with no room to wait refuses every
/// caller. For costs it implements [`Weighted`](super::Weighted) in the
/// same way, with itself around the inner [`cost`](super::Weighted::cost). [`Inspect`](super::Inspect) lets
/// layers report its limits, and [`Adaptive`](super::Adaptive) passes outcomes on.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use tollgate::throttle::Weighted;
/// use tollgate::wait::Waiting;
/// use tollgate::{AcquireError, Semaphore, Throttle, TryThrottle, forward};
///
/// /// Counts the calls that enter or wait, whatever becomes of them.
/// #[derive(Clone)]
/// struct Counted<T>(T, Arc<AtomicU64>);
///
/// impl<T> Counted<T> {
///     fn count(&self) {
///         self.1.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// impl<T: Throttle> Throttle for Counted<T> {
///     type Permit = T::Permit;
///     type Enter = T::Enter;
///
///     forward!(Throttle, self => self.0, except enter, enter_now);
///
///     fn enter(&self) -> Waiting<T::Enter> {
///         self.count();
///         self.0.enter()
///     }
///
///     fn enter_now(&self) -> Option<T::Permit> {
///         self.0.enter_now().inspect(|_| self.count())
///     }
/// }
///
/// impl<T: TryThrottle> TryThrottle for Counted<T> {
///     fn try_enter(&self) -> Result<T::Permit, AcquireError> {
///         self.count();
///         self.0.try_enter()
///     }
/// }
///
/// impl<T: Weighted> Weighted for Counted<T> {
///     type Many = Counted<T::Many>;
///
///     forward!(Weighted, self => self.0, except cost);
///
///     fn cost(&self, n: u64) -> Counted<T::Many> {
///         Counted(self.0.cost(n), Arc::clone(&self.1))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let calls = Arc::new(AtomicU64::new(0));
/// let uploads = Counted(Arc::new(Semaphore::new(2)), Arc::clone(&calls));
/// let permits = (uploads.enter().await?, uploads.enter().await?);
/// assert_eq!(calls.load(Ordering::Relaxed), 2);
/// assert!(uploads.enter_now().is_none() && uploads.cost(2).try_enter().is_err());
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a throttle",
    note = "throttles are taken by reference or in an `Arc`, for example `&limiter` or \
            `Arc::clone(&semaphore)`; where `'static` is asked for, as in tasks and services, in an \
            `Arc`; of a `Keyed`, take a key, `keyed.key(&key)` or `Arc::clone(&keyed).key_owned(key)`; \
            an adaptive limit is shared by `tollgate_adaptive::Shared`, not by an `Arc`; \
            a `CondvarSemaphore` and a `LocalLimiter` are no throttles",
    note = "`all` takes a tuple of one to six throttles; more can be nested: `all((all((a, b, c)), d))`"
)]
pub trait Throttle: Clone {
    /// The value that an admitted caller holds.
    type Permit;

    /// The future of [`enter`](Self::enter).
    ///
    /// It must be cancel-safe: dropping it removes the caller from the queue and loses nothing.
    ///
    /// Most of these futures have no name of their own. A struct that stores a wait names it through its
    /// throttle: [`Waiting`]`<T::Enter>`, or for a known type `<BoxThrottle as Throttle>::Enter`; see
    /// [`Waiting`](Waiting#in-a-struct).
    type Enter: Future<Output = Result<Self::Permit, AcquireError>>;

    /// Waits until the throttle admits the caller; all [combinators](Waiting) of waits apply. The
    /// throttle documents the order in which it admits callers, and its errors. For a semaphore
    /// this is [`acquire`](crate::Semaphore::acquire).
    fn enter(&self) -> Waiting<Self::Enter>;

    /// Takes back an unused permit, for example because the next throttle rejected the caller: a
    /// rate limiter refunds the charge. By default the permit is dropped. Code that composes
    /// throttles calls this method, and a throttle that wraps another one must forward it. After
    /// the work that the permit was for, drop the permit instead.
    fn rollback(&self, permit: Self::Permit) {
        drop(permit);
    }

    /// Enters if that needs no wait; otherwise changes and reports nothing. A composition rolls back the
    /// parts that it had entered before the one without room, and an observer of such a part sees it admitted
    /// and undone.
    ///
    /// `None` means that the caller has to wait, has to be refused, or has to [enter](Self::enter) to find
    /// out. It never blocks, and does no input or output. Where [`try_enter`](TryThrottle::try_enter) admits
    /// the caller, this does too. A [fair queue](crate::fair::FairQueue) and adapters use it to admit a
    /// caller that need not wait. The default returns `None`, so every caller enters, which takes longer, and
    /// is refused where no caller may wait.
    #[inline(always)]
    fn enter_now(&self) -> Option<Self::Permit> {
        None
    }

    /// Returns where a [fair queue](crate::fair::FairQueue) may poll the waits of the throttle: by default
    /// [only in the tasks that wait](Polling::BY_WAITERS).
    ///
    /// The queue asks when it is created. A wrapper forwards the method, and a composition returns the
    /// [sum](Polling::and) of its parts.
    #[inline]
    fn polling(&self) -> Polling {
        Polling::BY_WAITERS
    }
}

/// Where a [fair queue](crate::fair::FairQueue) may poll the waits of a throttle.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use tollgate::throttle::Polling;
/// use tollgate::{Semaphore, Throttle};
///
/// assert_eq!(Arc::new(Semaphore::new(8)).polling(), Polling::BY_WAKERS);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polling {
    by_wakers: bool,
    /// Whether the throttle has [a state for each
    /// runtime](crate::Clock#limiters-that-are-used-in-several-runtimes). If so, the fair queue polls a wait
    /// only in the runtime in which the waiter is polled.
    pub(crate) depends_on_runtime: bool,
}

impl Polling {
    /// Only the tasks that wait poll. This is always safe: if a throttle called a waker under its lock, and
    /// the waker polled a wait of that throttle, the call would deadlock.
    ///
    /// The fair queue wakes the next waiter, which polls.
    pub const BY_WAITERS: Self = Self {
        by_wakers: false,
        depends_on_runtime: false,
    };

    /// A waker may poll, because the throttle calls all wakers outside of its locks.
    ///
    /// The fair queue then passes a returned permit on in the call that returns it, which takes less time.
    pub const BY_WAKERS: Self = Self {
        by_wakers: true,
        ..Self::BY_WAITERS
    };

    /// Returns where the waits of a composition of two throttles may be polled.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::throttle::Polling;
    ///
    /// assert_eq!(Polling::BY_WAKERS.and(Polling::BY_WAKERS), Polling::BY_WAKERS);
    /// assert_eq!(Polling::BY_WAKERS.and(Polling::BY_WAITERS), Polling::BY_WAITERS);
    /// ```
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            by_wakers: self.by_wakers && other.by_wakers,
            depends_on_runtime: self.depends_on_runtime || other.depends_on_runtime,
        }
    }

    /// Returns whether a waker may poll.
    pub const fn is_by_wakers(self) -> bool {
        self.by_wakers
    }
}

/// A throttle that can decide without waiting.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be tried",
    note = "throttles are taken by reference or in an `Arc`, and of a `Keyed` a key; a `BoxThrottle` and \
            limits across machines can only be waited for; a throttle of your own can be tried if it \
            implements `TryThrottle`"
)]
pub trait TryThrottle: Throttle {
    /// Enters without waiting, or fails.
    ///
    /// # Errors
    ///
    /// The errors of the throttle's `try_acquire`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Semaphore, TryThrottle};
    ///
    /// fn enter_now<T: TryThrottle>(throttle: T) -> Option<T::Permit> {
    ///     throttle.try_enter().ok()
    /// }
    ///
    /// let semaphore = Semaphore::new(1);
    /// let permit = enter_now(&semaphore);
    /// assert!(permit.is_some());
    /// assert!(enter_now(&semaphore).is_none());
    /// ```
    fn try_enter(&self) -> Result<Self::Permit, AcquireError>;
}
