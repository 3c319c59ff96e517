//! A pool of items: our [`Semaphore`] says who may have one, and a leaf lock guards those that are idle.
//!
//! 1. A permit comes before its item and goes after it. [`items`] says why there is one for each.
//! 2. The lock of the items is taken before that of the semaphore, and no foreign code runs under it.
//! 3. An item is made and checked by whoever has its permit, outside of all locks.

mod acquire;
mod items;
mod permit;

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::thread;

pub use self::acquire::{Acquire, AcquireOwned};
use self::items::Items;
use self::permit::SemaphoreOf;
pub use self::permit::{OwnedPermit, Permit};
use super::semaphore::{self, Semaphore};
use crate::error::{AcquireError, ErrorKind};
use crate::panic::catch_waker_panic;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::wait::{BoxFuture, Waiting};

/// At most as many at once as there are items: a throttle whose permits hold an item each.
///
/// The permit derefs to its item: a buffer, a connection. The items are there from the
/// [start](Self::new), or made when they are first needed, by a [function](Self::with_factory) or an
/// [asynchronous one](Self::with_async_factory), which may fail.
///
/// # Fairness
///
/// That of the [`Semaphore`](crate::Semaphore#fairness): strictly first-in first-out, and no newcomer
/// overtakes a waiter. Idle items are handed out in the order in which they came back.
///
/// # Cancel safety
///
/// Dropping a future that has not finished loses nothing: its place, or the item that it had been
/// granted, goes to the next waiter. An item that is being made is dropped with the future, and the
/// next caller makes another one.
///
/// # Panics of holders
///
/// A permit that is dropped while its thread panics gives its item back as any other does, in
/// whatever state it is, if the pool was made of [items](Self::new). If the pool can make items, the
/// item is dropped, and the next caller makes a new one.
///
/// What counts is that the permit is dropped while its thread unwinds, as it is when a spawned task
/// panics that has it. Where a panic is caught and the permit is not dropped by it, for example by
/// `catch_unwind` around a borrow of the item, the item goes back later as any other. So does that of
/// a holder that is cancelled while it uses it. To sort such items out, give the pool a
/// [check](Self::check_on_return); or [`discard`](Permit::discard) an item that is broken, or assign
/// to the permit: `*permit = another`.
///
/// # Memory ordering
///
/// Whatever a holder did before it gave an item back happens before whatever the next holder of that
/// item does.
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
/// assert_eq!(buffers.idle(), 1);
/// drop(buffer);
/// assert_eq!(buffers.idle(), 2);
/// # Ok(())
/// # }
/// ```
pub struct Pool<T> {
    semaphore: Semaphore,
    items: Mutex<Items<T>>,
    make: Option<Make<T>>,
    check: Option<Check<T>>,
}

/// Whether an item that comes back is still good.
type Check<T> = Box<dyn Fn(&mut T) -> bool + Send + Sync>;

/// How an item is made.
enum Make<T> {
    Now(Box<dyn Fn() -> T + Send + Sync>),
    Later(Box<dyn Fn() -> BoxFuture<'static, T> + Send + Sync>),
}

/// What there is for somebody with a permit.
enum Found<T> {
    Item(T),
    Making(BoxFuture<'static, T>),
}

/// Making one.
impl<T> Pool<T> {
    /// Makes a pool of these items.
    ///
    /// # Panics
    ///
    /// If there are more than [`Semaphore::MAX_PERMITS`].
    #[track_caller]
    pub fn new(items: impl IntoIterator<Item = T>) -> Self {
        let items: VecDeque<_> = items.into_iter().collect();
        Self::with(items.len(), items, None)
    }

    /// Makes a pool of `size` items, which are made one by one when they are first needed, each by the
    /// caller who gets it. An item whose [holder panicked](Self#panics-of-holders) is dropped, and
    /// another one made in its place.
    ///
    /// If `make` panics, the panic is that of the `try_acquire` or of the poll that called it; the
    /// next caller makes the item then.
    ///
    /// # Panics
    ///
    /// If `size` is more than [`Semaphore::MAX_PERMITS`].
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

    /// Makes a pool of `size` items, which are made one by one when they are first needed, by an
    /// asynchronous function that may fail.
    ///
    /// The future that `make` returns is polled by the caller who gets the item. If it fails, its error
    /// is that of the `acquire`, and the next waiter tries. A `try_acquire` does not wait for it: it
    /// finds only items that are there.
    ///
    /// # Panics
    ///
    /// If `size` is more than [`Semaphore::MAX_PERMITS`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{AcquireError, ErrorKind, Pool};
    ///
    /// async fn connect() -> Result<String, std::io::Error> {
    ///     Ok("a connection".to_owned())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), AcquireError> {
    /// let connections = Pool::with_async_factory(8, || async {
    ///     connect().await.map_err(|_| AcquireError::new(ErrorKind::Store))
    /// });
    /// assert_eq!(*connections.acquire().await?, "a connection");
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn with_async_factory<F>(size: usize, make: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<T, AcquireError>> + Send + 'static,
    {
        let make = Make::Later(Box::new(move || Box::pin(make())));
        Self::with(size, VecDeque::new(), Some(make))
    }

    #[track_caller]
    fn with(size: usize, idle: VecDeque<T>, make: Option<Make<T>>) -> Self {
        Self {
            semaphore: Semaphore::new(size),
            items: Mutex::new(Items::new(idle)),
            make,
            check: None,
        }
    }

    /// Looks at each item that comes back: one for which `check` returns `false`, or panics, is
    /// [discarded](Permit::discard). It runs when the permit is dropped.
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
}

/// Taking an item.
impl<T> Pool<T> {
    /// Waits for an item.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the type](Self#cancel-safety).
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
    /// [`NoPermits`](ErrorKind::NoPermits), when there is none, or somebody waits for it;
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
        semaphore::Permit::try_new(SemaphoreOf(self), 1).and_then(Permit::of_what_is_there)
    }

    /// Waits for an item, whose permit shares the pool and so may move into a task.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
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
    pub fn acquire_owned(self: Arc<Self>) -> Waiting<AcquireOwned<T>> {
        Waiting::new(Acquire::new(self))
    }

    /// Takes an item as [`try_acquire`](Self::try_acquire), with a permit that shares the pool.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
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
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedPermit<T>, AcquireError> {
        semaphore::Permit::try_new(SemaphoreOf(self), 1).and_then(Permit::of_what_is_there)
    }
}

/// Changing its size, closing and observing.
impl<T> Pool<T> {
    /// Returns how many items there are, idle, held, or still to be made.
    ///
    /// # Examples
    ///
    /// ```
    /// let pool = tollgate::Pool::new([1, 2, 3]);
    /// let _item = pool.try_acquire()?;
    /// assert_eq!(pool.size(), 3);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn size(&self) -> usize {
        self.semaphore.permits()
    }

    /// Changes how many items there are. Growing admits waiters, who make the new items. Shrinking
    /// drops idle items at once, and items that are held when they come back. With 0 everyone waits.
    ///
    /// # Panics
    ///
    /// If it is to grow and cannot make items: [`add`](Self::add) them. If `size` is more than
    /// [`Semaphore::MAX_PERMITS`].
    ///
    /// # Examples
    ///
    /// ```
    /// let pool = tollgate::Pool::with_factory(3, String::new);
    /// let held = (pool.try_acquire()?, pool.try_acquire()?);
    /// pool.set_size(1);
    /// drop(held);
    /// assert_eq!((pool.size(), pool.idle()), (1, 1));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[track_caller]
    pub fn set_size(&self, size: usize) {
        assert!(
            size <= Semaphore::MAX_PERMITS,
            "a pool cannot have {size} items, see MAX_PERMITS"
        );
        let mut items = self.items();
        let can_grow = self.make.is_some();
        assert!(
            can_grow || size <= self.size(),
            "a pool that cannot make items cannot grow to {size} of them"
        );
        let free = self.semaphore.resize_unsettled(|_| size);
        // No idle item is promised where another can be made.
        let free = if self.make.is_some() {
            usize::MAX
        } else {
            free
        };
        let dropped = items.shrink(size, free);
        drop(items);
        dropped
            .into_iter()
            .for_each(|item| catch_waker_panic(|| drop(item)));
        self.semaphore.visit();
    }

    /// Adds an item, so that there is one more.
    ///
    /// # Examples
    ///
    /// ```
    /// let pool = tollgate::Pool::new(["one"]);
    /// pool.add("another");
    /// assert_eq!((pool.size(), pool.idle()), (2, 2));
    /// ```
    pub fn add(&self, item: T) {
        let mut items = self.items();
        let refused = items.add(item);
        if refused.is_none() {
            self.semaphore.resize_unsettled(|size| size + 1);
        }
        drop(items);
        self.semaphore.visit();
    }

    /// Returns how many items are idle, or still to be made; 0 once the pool is closed.
    ///
    /// # Examples
    ///
    /// ```
    /// let pool = tollgate::Pool::new([1, 2, 3]);
    /// let _item = pool.try_acquire()?;
    /// assert_eq!(pool.idle(), 2);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn idle(&self) -> usize {
        if self.is_closed() {
            return 0;
        }
        self.semaphore.available_permits()
    }

    /// Returns how many callers are waiting in the queue.
    pub fn waiting(&self) -> usize {
        self.semaphore.waiting()
    }

    /// Admits nobody any more. Every waiter and every newcomer gets [`Closed`](ErrorKind::Closed),
    /// except a caller whose item is being made, which still gets it. Items that are idle are dropped, those that are held when
    /// their permits are. Closing again does nothing.
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
        self.semaphore.close();
        // Those whom the semaphore has admitted before find nothing: they are refused as well.
        let dropped = self.items().close();
        dropped
            .into_iter()
            .for_each(|item| catch_waker_panic(|| drop(item)));
    }

    /// Returns whether it was closed.
    ///
    /// # Examples
    ///
    /// ```
    /// let pool = tollgate::Pool::new([()]);
    /// assert!(!pool.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.semaphore.is_closed()
    }
}

/// What permits and futures need.
impl<T> Pool<T> {
    fn items(&self) -> MutexGuard<'_, Items<T>> {
        lock(&self.items)
    }

    /// Finds an item for somebody who has a permit.
    #[inline]
    fn find(&self) -> Result<Found<T>, AcquireError> {
        let idle = self.items().take();
        match idle {
            Some(item) => Ok(Found::Item(item)),
            None => self.make(),
        }
    }

    /// As [`find`](Self::find), without waiting for an item to be made.
    #[inline]
    fn find_now(&self) -> Result<T, AcquireError> {
        if let Some(item) = self.items().take() {
            return Ok(item);
        }
        if matches!(self.make, Some(Make::Later(_))) && !self.is_closed() {
            return Err(AcquireError::new(ErrorKind::NoPermits));
        }
        match self.make()? {
            Found::Item(item) => Ok(item),
            Found::Making(_) => Err(AcquireError::new(ErrorKind::NoPermits)),
        }
    }

    #[inline(never)]
    fn make(&self) -> Result<Found<T>, AcquireError> {
        // It was there, or could be made, until the pool was closed.
        let make = self.make.as_ref().filter(|_| !self.is_closed());
        match make {
            None => Err(AcquireError::new(ErrorKind::Closed)),
            Some(Make::Later(make)) => Ok(Found::Making(make())),
            Some(Make::Now(make)) => {
                let item = make();
                self.items().made();
                Ok(Found::Item(item))
            }
        }
    }

    /// Takes an item back, whose permit comes back after this. `Some`, if it is lost instead.
    #[inline]
    fn put_back(&self, mut item: T) -> Option<T> {
        if self.make.is_some() && thread::panicking() {
            return Some(item);
        }
        if let Some(check) = &self.check {
            let mut passed = false;
            catch_waker_panic(|| passed = check(&mut item));
            if !passed {
                return Some(item);
            }
        }
        let surplus = self.items().put_back(item, self.size());
        if surplus.is_some() {
            catch_waker_panic(|| drop(surplus));
        }
        None
    }

    /// Counts an item out that does not come back, whose permit comes back after this.
    fn lose(&self) {
        let mut items = self.items();
        if items.lose(self.size()) && self.make.is_none() && !self.is_closed() {
            self.semaphore.resize_unsettled(|size| size - 1);
        }
    }
}

impl<T> fmt::Debug for Pool<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("size", &self.size())
            .field("idle", &self.idle())
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
