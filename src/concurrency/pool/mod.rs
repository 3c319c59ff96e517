//! A pool of items under one lock: the idle items, the number of places, and the waiters.
//!
//! 1. All mutable state is in [`State`], and changes under its lock, which is held for some
//!    nanoseconds. No foreign code runs under it.
//! 2. A caller that returns a place, or makes room in another way, grants the waiters that can now
//!    be served, with [`settle`](Pool::settle).
//! 3. A caller that has a place makes, checks and drops its item outside the lock.

mod permit;
mod state;

use std::collections::VecDeque;
use std::error::Error;
use std::mem;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

pub(super) use self::permit::Acquire;
pub use self::permit::Permit;
use self::state::State;
use super::Semaphore;
use super::acquire::Queued;
use super::idle::{Drains, WaitIdle};
use crate::debug::debug_as;
use crate::error::{AcquireError, ErrorKind};
use crate::panic::contain_panic;
use crate::status::Snapshot;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::time::{Clock, Tick};
use crate::wait::{BoxFuture, Polled, Waiting};
use crate::wait_queue::{WaitQueue, WaiterId, lock_if_served, serve_and_wake};

/// Limits callers to the number of items: each permit of this throttle holds an item.
///
/// The permit derefs to its item, such as a buffer or a connection. The items exist from the
/// [start](Self::new), or are made when they are first needed, by a [function](Self::with_factory)
/// or an [asynchronous one](Self::with_async_factory), which may fail.
///
/// # Fairness
///
/// The same as for the [`Semaphore`](crate::Semaphore#fairness): strictly first-in first-out, and
/// no newcomer overtakes a waiter. Idle items are handed out in the order in which they were
/// returned.
///
/// # Cancel safety
///
/// Dropping an unfinished future loses nothing: its place, or the item that it had been granted,
/// goes to the next waiter. An item that is being made or [checked](Self::check_on_take) is dropped with
/// the future, and the next caller makes another one.
///
/// # Panics of holders
///
/// If the pool was made of [items](Self::new), a permit that is dropped while its thread panics
/// returns its item like any other permit, whatever state the item is in. If the pool can make
/// items, the item is dropped, and the next caller makes a new one.
///
/// The condition is that the permit is dropped while its thread unwinds, as happens when a spawned task that
/// owns the permit panics. If a panic is caught and does not drop the permit, for example by `catch_unwind`
/// around a borrow of the item, the item is returned later like any other. The same applies to the item of a
/// holder that is cancelled while it uses the item. To filter out such items, give the pool a
/// [check](Self::check_on_return). Alternatively, [`discard`](Permit::discard) a broken item, or assign to
/// the permit: `*permit = another`.
///
/// # Memory ordering
///
/// Everything that a holder does before it returns an item happens before everything that the next
/// holder of that item does.
///
/// # Examples
///
/// A pool of buffers:
///
/// ```
/// use tollgate::Pool;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let buffers = Pool::new([vec![0; 1024], vec![0; 1024]]);
///
/// let mut buffer = buffers.acquire().await?;
/// buffer[0] = 7;
/// assert_eq!(buffers.snapshot().available, 1);
/// drop(buffer);
/// assert_eq!(buffers.snapshot().available, 2);
/// # Ok(())
/// # }
/// ```
pub struct Pool<T> {
    state: Mutex<State<T>>,
    make: Option<Make<T>>,
    check: Option<Check<T>>,
    idle_timeout: Option<Duration>,
    clock: Clock,
}

/// Returns whether a returned item is still usable.
type Check<T> = Box<dyn Fn(&mut T) -> bool + Send + Sync>;

/// The function that makes an item.
enum Make<T> {
    Now(Box<dyn Fn() -> T + Send + Sync>),
    Later {
        make: MakeLater<T>,
        /// Whether it also checks idle items; otherwise it gets none.
        checks: bool,
    },
}

/// Returns the idle item that it is given, or another one.
type MakeLater<T> = Box<dyn Fn(Option<T>) -> BoxFuture<'static, T> + Send + Sync>;

/// Construction.
impl<T> Pool<T> {
    /// Creates a pool of these items.
    ///
    /// # Panics
    ///
    /// Panics if there are more than [`Semaphore::MAX_PERMITS`].
    #[track_caller]
    pub fn new(items: impl IntoIterator<Item = T>) -> Self {
        let items: VecDeque<_> = items.into_iter().collect();
        Self::with(items.len(), items, None)
    }

    /// Creates a pool of `size` items that a function makes one by one, when they are first needed.
    /// The caller that gets the item makes it. An item whose [holder
    /// panicked](Self#panics-of-holders) is dropped, and another one is made in its place.
    ///
    /// If `make` panics, the panic propagates from the `try_acquire` or the poll that called it;
    /// the next caller then makes the item.
    ///
    /// # Panics
    ///
    /// Panics if `size` is more than [`Semaphore::MAX_PERMITS`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Pool;
    ///
    /// let buffers = Pool::with_factory(8, || Vec::<u8>::with_capacity(1024));
    /// let mut buffer = buffers.try_acquire()?;
    /// buffer.push(1);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[track_caller]
    pub fn with_factory(size: usize, make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        let make = Make::Now(Box::new(make));
        Self::with(size, VecDeque::new(), Some(make))
    }

    /// Creates a pool of `size` items that an asynchronous function, which may fail, makes one by
    /// one, when they are first needed.
    ///
    /// The caller that gets the item polls the future that `make` returns. If the future fails, `acquire`
    /// returns an error, and the next waiter tries. A `try_acquire` does not wait for the future: it takes
    /// only items that already exist.
    ///
    /// An [`AcquireError`] is returned as it is. Any other error is the
    /// [source](std::error::Error::source) of an error of the kind [`Store`](ErrorKind::Store), with its
    /// type. An [`AcquireError`] is plain data and cannot own it, so the process keeps the first error of
    /// each type and text, up to 1,024 of them. Later failures of the same type and text have that one as
    /// their source, and further failures have none.
    ///
    /// # Panics
    ///
    /// Panics if `size` is more than [`Semaphore::MAX_PERMITS`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::error::Error;
    /// use std::io;
    /// use tollgate::{ErrorKind, Pool};
    ///
    /// async fn connect() -> io::Result<String> {
    ///     Err(io::ErrorKind::ConnectionRefused.into())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let connections = Pool::with_async_factory(8, connect);
    /// let refused = connections.acquire().await.unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::Store);
    /// let source: Option<&io::Error> = refused.source().and_then(|source| source.downcast_ref());
    /// assert_eq!(source.unwrap().kind(), io::ErrorKind::ConnectionRefused);
    /// # }
    /// ```
    #[track_caller]
    pub fn with_async_factory<F, E>(
        size: usize,
        make: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        E: Error + Send + Sync + 'static,
    {
        let make = move |_| -> BoxFuture<'static, T> {
            let made = make();
            Box::pin(async { made.await.map_err(AcquireError::of_failure) })
        };
        let (make, checks) = (Box::new(make), false);
        Self::with(size, VecDeque::new(), Some(Make::Later { make, checks }))
    }

    #[track_caller]
    fn with(size: usize, idle: VecDeque<T>, make: Option<Make<T>>) -> Self {
        assert_size(size);
        Self {
            state: Mutex::new(State::new(size, idle)),
            make,
            check: None,
            idle_timeout: None,
            clock: Clock::default(),
        }
    }

    /// Checks each item that is returned. An item for which `check` returns `false`, or panics, is
    /// [discarded](Permit::discard). The check runs when the permit is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Pool;
    ///
    /// let buffers = Pool::with_factory(1, Vec::<u8>::new).check_on_return(|buffer| {
    ///     buffer.clear();
    ///     buffer.capacity() <= 1024
    /// });
    /// buffers.try_acquire()?.resize(4096, 7);
    /// assert_eq!(buffers.try_acquire()?.capacity(), 0);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[must_use]
    pub fn check_on_return(
        mut self,
        check: impl Fn(&mut T) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.check = Some(Box::new(check));
        self
    }

    /// Checks each idle item when it is taken, for example whether a connection still answers. The check
    /// gets the item, and returns it if it is usable. Otherwise the caller makes another one, as if the item
    /// had never been made. It replaces an earlier check.
    ///
    /// The caller that gets the item polls the check; its timeout includes the check, and dropping the
    /// wait drops the item. `try_acquire` returns [`NoPermits`](ErrorKind::NoPermits), because the check
    /// has to be waited for.
    ///
    /// # Panics
    ///
    /// Panics if the pool cannot make items.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::io;
    /// use tollgate::Pool;
    ///
    /// /// Stands in for a connection: whether it is open, and its number.
    /// struct Connection(bool, u32);
    ///
    /// async fn ping(connection: Connection) -> Option<Connection> {
    ///     connection.0.then_some(connection)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let numbers = std::sync::atomic::AtomicU32::new(0);
    /// let connections = Pool::with_async_factory(1, move || {
    ///     let number = numbers.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    ///     async move { Ok::<_, io::Error>(Connection(true, number)) }
    /// })
    /// .check_on_take(ping);
    ///
    /// let mut first = connections.acquire().await?;
    /// first.0 = false; // It breaks while it is idle.
    /// drop(first);
    /// assert_eq!(connections.acquire().await?.1, 1);
    /// assert_eq!(connections.acquire().await?.1, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn check_on_take<F>(mut self, check: impl Fn(T) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Option<T>> + Send + 'static,
        T: Send + 'static,
    {
        let make: MakeLater<T> = match self.make.take() {
            None => panic!("a pool that cannot make items cannot check them when they are taken"),
            Some(Make::Later { make, .. }) => make,
            Some(Make::Now(make)) => Box::new(move |_| Box::pin(std::future::ready(Ok(make())))),
        };
        let make = Arc::new(make);
        let checked = move |idle: Option<T>| -> BoxFuture<'static, T> {
            let (idle, make) = (idle.map(&check), Arc::clone(&make));
            Box::pin(async move {
                if let Some(idle) = idle {
                    if let Some(item) = idle.await {
                        return Ok(item);
                    }
                }
                make(None).await
            })
        };
        let (make, checks) = (Box::new(checked), true);
        self.make = Some(Make::Later { make, checks });
        lock(&self.state).look();
        self
    }

    /// Drops an item that has been idle for `timeout` or longer at the moment when a caller would take it;
    /// the caller makes another one in its place. No item is dropped in the background. The time is that of
    /// [`clock`](Self::clock).
    ///
    /// # Panics
    ///
    /// Panics if the pool cannot make items.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Pool};
    ///
    /// let clock = Clock::manual();
    /// let minute = Duration::from_secs(60);
    /// let buffers = Pool::with_factory(8, Vec::<u8>::new).idle_timeout(minute).clock(&clock);
    /// buffers.try_acquire()?.push(7);
    /// clock.advance(minute / 2);
    /// assert_eq!(*buffers.try_acquire()?, [7]);
    /// clock.advance(minute);
    /// assert!(buffers.try_acquire()?.is_empty());
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        assert!(
            self.make.is_some(),
            "a pool that cannot make items cannot drop one after {timeout:?}"
        );
        self.idle_timeout = Some(timeout);
        lock(&self.state).look();
        self
    }

    /// Sets the clock of the [idle timeout](Self::idle_timeout); [`Clock::default`] otherwise. On tokio's
    /// time the pool belongs to one runtime, because the times of two runtimes need not agree.
    #[must_use]
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }
}

/// Acquiring.
impl<T> Pool<T> {
    /// Waits for an item.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing; see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// [`Closed`](ErrorKind::Closed), when the pool is or gets closed; the error of an
    /// [asynchronous factory](Self::with_async_factory).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let names = tollgate::Pool::new(["one", "another"]);
    /// let name = names.acquire().await?;
    /// assert_eq!(*name, "one");
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire(&self) -> Waiting<Acquire<&Self, T>> {
        Waiting::new(Acquire::new(self))
    }

    /// Takes an item if one is idle now, or can be made without waiting.
    ///
    /// # Errors
    ///
    /// [`NoPermits`](ErrorKind::NoPermits), when there is none, or other callers wait for it, or an
    /// [asynchronous factory](Self::with_async_factory) would have to make it, or it would have to be
    /// [checked](Self::check_on_take);
    /// [`Closed`](ErrorKind::Closed).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{ErrorKind, Pool};
    ///
    /// let pool = Pool::new(["the only one"]);
    /// let item = pool.try_acquire()?;
    /// assert_eq!(pool.try_acquire().unwrap_err().kind(), ErrorKind::NoPermits);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit<&Self, T>, AcquireError> {
        Permit::try_new(self)
    }

    /// Waits for an item whose permit shares the pool, so it can move into a task.
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
    /// use std::sync::Arc;
    /// use tollgate::Pool;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let buffers = Arc::new(Pool::new([Vec::new()]));
    /// let mut buffer = Arc::clone(&buffers).acquire_owned().await?;
    /// tokio::spawn(async move { buffer.push(7) }).await?;
    /// assert_eq!(*buffers.try_acquire()?, [7]);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire_owned(self: Arc<Self>) -> Waiting<Acquire<Arc<Self>, T>> {
        Waiting::new(Acquire::new(self))
    }

    /// Takes an item like [`try_acquire`](Self::try_acquire), with a permit that shares the pool.
    ///
    /// # Errors
    ///
    /// The same as for [`try_acquire`](Self::try_acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::Pool;
    ///
    /// let pool = Arc::new(Pool::new([1, 2]));
    /// let item = Arc::clone(&pool).try_acquire_owned()?;
    /// std::thread::spawn(move || assert_eq!(*item, 1)).join().unwrap();
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<Permit<Arc<Self>, T>, AcquireError> {
        Permit::try_new(self)
    }
}

/// Resizing, closing and observing.
impl<T> Pool<T> {
    /// Changes the number of items. Growing admits waiters, which make the new items. Shrinking
    /// drops idle items at once, and held items when they are returned. With 0, all callers wait.
    ///
    /// # Panics
    ///
    /// Panics if the pool would have to grow but cannot make items ([`add`](Self::add) them
    /// instead), or if `size` is more than [`Semaphore::MAX_PERMITS`].
    ///
    /// # Examples
    ///
    /// ```
    /// let pool = tollgate::Pool::with_factory(3, String::new);
    /// let held = (pool.try_acquire()?, pool.try_acquire()?);
    /// pool.set_size(1);
    /// drop(held);
    /// assert_eq!((pool.snapshot().limit, pool.snapshot().available), (1, 1));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[track_caller]
    pub fn set_size(&self, size: usize) {
        assert_size(size);
        let mut state = lock(&self.state);
        let grows = size > state.size;
        if grows && self.make.is_none() {
            drop(state);
            panic!("a pool that cannot make items cannot grow to {size} of them");
        }
        let dropped = state.resize(size);
        self.settle(state);
        drop_all(dropped);
    }

    /// Adds one item to the pool. If the pool is closed, the item is dropped.
    ///
    /// # Panics
    ///
    /// Panics if there would be more than [`Semaphore::MAX_PERMITS`]; then nothing has changed.
    ///
    /// # Examples
    ///
    /// ```
    /// let pool = tollgate::Pool::new(["one"]);
    /// pool.add("another");
    /// assert_eq!((pool.snapshot().limit, pool.snapshot().available), (2, 2));
    /// ```
    #[track_caller]
    pub fn add(&self, item: T) {
        let mut state = lock(&self.state);
        if state.size == Semaphore::MAX_PERMITS {
            drop(state);
            return assert_size(Semaphore::MAX_PERMITS + 1);
        }
        let refused = state.add(item);
        state.stamp(self.tick());
        self.settle(state);
        drop(refused);
    }

    /// Returns the state of the pool at one moment. Its limit is the number of items:
    /// idle, held, or still to be made.
    ///
    /// # Examples
    ///
    /// ```
    /// let pool = tollgate::Pool::new([1, 2, 3]);
    /// let _item = pool.try_acquire()?;
    /// let snapshot = pool.snapshot();
    /// assert_eq!((snapshot.limit, snapshot.in_use, snapshot.available), (3, 1, 2));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        let state = lock(&self.state);
        Snapshot::of_permits(state.size, state.taken, state.waiters.len())
    }

    /// Closes the pool: every waiter and every later caller gets [`Closed`](ErrorKind::Closed). A
    /// caller whose item is being made still gets it. Idle items are dropped now; held items are
    /// dropped with their permits. Closing it again does nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{ErrorKind, Pool};
    ///
    /// let pool = Pool::new([String::new(), String::new()]);
    /// let held = pool.try_acquire()?;
    /// pool.close();
    /// assert_eq!(pool.try_acquire().unwrap_err().kind(), ErrorKind::Closed);
    /// assert_eq!(*held, "");
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn close(&self) {
        let mut state = lock(&self.state);
        let dropped = state.close();
        self.settle(state);
        drop_all(dropped);
    }

    /// Returns whether the pool is closed.
    ///
    /// # Examples
    ///
    /// ```
    /// let pool = tollgate::Pool::new([()]);
    /// assert!(!pool.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        lock(&self.state).closed
    }

    /// Waits until all items have been returned: until there was a moment, since the first poll, at which no
    /// caller held or made an item. [`Semaphore::wait_idle`] has the details.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pool = std::sync::Arc::new(tollgate::Pool::new(["one", "another"]));
    /// let item = pool.clone().acquire_owned().await?;
    /// let user = tokio::spawn(async move { drop(item) });
    /// pool.close();
    /// pool.wait_idle().await;
    /// assert_eq!(pool.snapshot().in_use, 0);
    /// # user.await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn wait_idle(&self) -> Waiting<WaitIdle<&Self>> {
        Waiting::new(WaitIdle::new(self))
    }
}

/// Operations for permits and futures.
impl<T> Pool<T> {
    /// Takes a place back, with or without its item.
    #[inline]
    fn give_back(&self, item: Option<T>) {
        let item = item.and_then(|item| self.keep_if_good(item));
        let mut state = lock(&self.state);
        if state.special {
            return self.give_back_special(state, item);
        }
        let surplus = state.give_back(item, self.make.is_some(), false);
        if state.waiters.is_empty() {
            drop(state);
        } else {
            self.settle(state);
        }
        drop_all(surplus);
    }

    #[cold]
    #[inline(never)]
    fn give_back_special<'a>(&'a self, mut state: MutexGuard<'a, State<T>>, item: Option<T>) {
        let closed = state.closed;
        let surplus = state.give_back(item, self.make.is_some(), closed);
        state.stamp(self.tick());
        self.settle(state);
        drop_all(surplus);
    }

    /// Returns the current tick, if items are dropped by time.
    fn tick(&self) -> Option<Tick> {
        self.idle_timeout.map(|_| self.clock.now())
    }

    /// Takes an idle item, if there is one, for a place without an item. Drops items that were idle for too
    /// long.
    fn take_idle(&self) -> Option<T> {
        loop {
            let (item, since) = lock(&self.state).pop_idle()?;
            let idle = since.zip(self.tick());
            let idle = idle.map(|(since, now)| now.saturating_since(since));
            if idle.is_none() || idle < self.idle_timeout {
                return Some(item);
            }
            drop_all([item]);
        }
    }

    /// Returns an idle item that needs no check, or makes one, if that requires no waiting.
    fn idle_or_made(&self) -> Result<T, AcquireError> {
        let item = match &self.make {
            Some(Make::Later { checks: true, .. }) => None,
            Some(Make::Now(make)) => self.take_idle().or_else(|| Some(make())),
            _ => self.take_idle(),
        };
        item.ok_or_else(|| AcquireError::new(ErrorKind::NoPermits))
    }

    /// Does the same for a place. If that fails, returns the place.
    #[inline(never)]
    fn made_now(&self) -> Result<T, AcquireError> {
        let place = Permit::new(self, None);
        let item = self.idle_or_made()?;
        mem::forget(place);
        Ok(item)
    }

    /// Returns the item if it can be used again; otherwise drops it.
    #[inline]
    fn keep_if_good(&self, mut item: T) -> Option<T> {
        let mut good = self.make.is_none() || !thread::panicking();
        if let (true, Some(check)) = (good, &self.check) {
            good = false;
            contain_panic(|| good = check(&mut item));
        }
        if good {
            return Some(item);
        }
        drop_all([item]);
        None
    }
}

#[track_caller]
fn assert_size(size: usize) {
    assert!(
        size <= Semaphore::MAX_PERMITS,
        "a pool cannot have {size} items, see MAX_PERMITS"
    );
}

/// Drops items one by one, so a panic of one does not affect the others.
fn drop_all<T>(items: impl IntoIterator<Item = T>) {
    for item in items {
        contain_panic(|| drop(item));
    }
}

impl<T> Queued for Pool<T> {
    /// `None` if the caller has to look for an idle item, or to make one.
    type Found = Option<T>;

    #[inline]
    fn take_now(&self, _: u64) -> Option<Option<T>> {
        lock(&self.state).try_take().ok()
    }

    fn join(&self, _: u64, id: &mut Option<WaiterId>, waker: &Waker) -> Polled<Option<T>> {
        // The waker is cloned before and dropped after the lock, under which no foreign code runs.
        let waker = waker.clone();
        let mut state = lock(&self.state);
        match state.try_take() {
            Err(ErrorKind::NoPermits) => {
                *id = Some(state.waiters.push((), waker));
                Poll::Pending
            }
            taken => Poll::Ready(taken.map_err(AcquireError::new)),
        }
    }

    fn look(&self, id: &mut Option<WaiterId>, waker: &Waker) -> Polled<Option<T>> {
        match lock_if_served(&self.state, |state| &mut state.waiters, id, waker) {
            None => Poll::Pending,
            Some((mut state, _)) => Poll::Ready(state.collect().map_err(AcquireError::new)),
        }
    }

    fn leave(&self, id: WaiterId, _: u64) {
        let mut state = lock(&self.state);
        let waker = state.waiters.withdraw(&id);
        let granted = match waker {
            Some(_) => None,
            None => state.collect().ok(),
        };
        let closed = state.closed;
        let surplus = granted.and_then(|item| state.give_back(item, self.make.is_some(), closed));
        self.settle(state);
        drop_all(surplus);
        drop(waker);
    }
}

impl<T> Drains for Pool<T> {
    type State = State<T>;

    fn state(&self) -> &Mutex<State<T>> {
        &self.state
    }

    fn idlers(state: &mut State<T>) -> &mut WaitQueue<()> {
        &mut state.idlers
    }

    fn must_wait(&self, state: &mut State<T>) -> bool {
        state.special = true;
        state.taken > 0
    }

    #[inline(never)]
    fn settle<'a>(&'a self, state: MutexGuard<'a, State<T>>) {
        serve_and_wake(&self.state, state, State::advance);
    }
}

debug_as! {
    [T] Pool<T>, self, let snapshot = self.snapshot()
    => Pool { size: snapshot.limit, available: snapshot.available, closed: self.is_closed(), .. }
}
