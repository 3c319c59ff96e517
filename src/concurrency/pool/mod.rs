//! A channel of idle items: whoever wants to go on takes one, and puts it back when it is done.
//!
//! 1. Items and vacancies together are always as many as the pool is large: in the channel, or one
//!    in each permit. So the channel, which has that many places, is never full when one comes back.
//! 2. A vacancy is an item that is still to be made, by whoever takes it.
//! 3. Once the channel is closed nobody is let in, whatever there still is in it: what has been
//!    received is looked at again for that.

mod acquire;
mod permit;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use async_channel::{Receiver, Sender, TryRecvError};

pub use self::acquire::{Acquire, AcquireOwned};
pub use self::permit::{OwnedPermit, Permit};
use crate::error::{AcquireError, ErrorKind};
use crate::foreign::contain;
use crate::wait::Waiting;

/// An item, or a vacancy.
type Slot<T> = Option<T>;

/// At most as many at once as there are items: a channel of idle items, of which a permit holds one.
///
/// The permit derefs to its item, so a pool of buffers or of connections is a throttle as well, and
/// `Pool<()>` is nothing but a throttle.
///
/// [`Semaphore`](crate::Semaphore) is faster, and strict about the order; a pool is for when there is
/// something to hand out. [The table](crate::guarantees) has what each type guarantees.
///
/// # Fairness
///
/// Roughly in the order in which they came, and no more: the order is the channel's. An item that
/// comes back can be taken by a newcomer before the one who was woken for it has run. Whoever is let
/// in wakes the next one as well, mostly in vain, and who is woken in vain waits again behind all
/// others, so a task can starve while others come back again and again. Each waits for one.
///
/// Wakers are called under a lock of the channel: one that itself calls the throttle, instead of
/// scheduling a task that does, waits for itself.
///
/// # Cancel safety
///
/// Dropping a future that has not finished loses nothing: if it had been woken for an item, the next
/// one in line is woken for it.
///
/// # Panics of holders
///
/// A permit that is dropped while its thread panics gives its item back as any other does, in
/// whatever state it is, if the pool was made of [items](Self::new). If the pool can
/// [make items](Self::with_factory), the item is dropped, and whoever comes next makes a new one.
///
/// What counts is that the permit is dropped while its thread unwinds, as it is when a spawned task
/// panics that has it. Where a panic is caught and the permit is not dropped by it, for example by
/// `catch_unwind` around a borrow of the item, the item goes back later as any other. So does that of
/// a holder that is cancelled while it uses it. To exchange an item that is broken, assign to the
/// permit: `*permit = another`.
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
///
/// Nothing but a throttle:
///
/// ```
/// let slots = tollgate::Pool::new([(); 2]);
/// let first = slots.try_acquire()?;
/// let second = slots.try_acquire()?;
/// assert!(slots.try_acquire().is_err());
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
pub struct Pool<T> {
    idle: Receiver<Slot<T>>,
    returns: Sender<Slot<T>>,
    size: usize,
    /// Set before the channel is closed; asking the channel takes longer.
    closed: AtomicBool,
    make: Option<Box<dyn Fn() -> T + Send + Sync>>,
}

/// Making one.
impl<T> Pool<T> {
    /// The most items that a pool can have: 2^31 - 1.
    pub const MAX_SIZE: usize = (u32::MAX >> 1) as usize;

    /// A pool of these items.
    ///
    /// # Panics
    ///
    /// If there is none, since then nobody could ever be let in, or if there are more than
    /// [`MAX_SIZE`](Self::MAX_SIZE).
    #[track_caller]
    pub fn new(items: impl IntoIterator<Item = T>) -> Self {
        let items: Vec<_> = items.into_iter().map(Some).collect();
        Self::with_slots(items.len(), items, None)
    }

    /// A pool of `size` items, which are made one by one by the first callers, each by the caller who
    /// gets it. An item whose [holder panicked](Self#panics-of-holders) is dropped, and another one
    /// made in its place.
    ///
    /// If `make` panics, the panic is that of the `try_acquire` or of the poll that called it; the
    /// item is then made by whoever comes next.
    ///
    /// # Panics
    ///
    /// If `size` is 0, or more than [`MAX_SIZE`](Self::MAX_SIZE).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Pool;
    ///
    /// let buffers = Pool::with_factory(8, || Vec::<u8>::with_capacity(1024));
    ///
    /// let spoilt = std::thread::scope(|scope| {
    ///     let holder = scope.spawn(|| {
    ///         let mut buffer = buffers.try_acquire().unwrap();
    ///         buffer.push(1);
    ///         panic!("while the buffer is half full");
    ///     });
    ///     holder.join().is_err()
    /// });
    ///
    /// assert!(spoilt);
    /// assert_eq!(buffers.idle(), 8);
    /// let buffers: Vec<_> = (0..8).map(|_| buffers.try_acquire().unwrap()).collect();
    /// assert!(buffers.iter().all(|buffer| buffer.is_empty()));
    /// ```
    #[track_caller]
    pub fn with_factory(size: usize, make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        let vacancies = std::iter::repeat_with(|| None).take(size);
        Self::with_slots(size, vacancies, Some(Box::new(make)))
    }

    #[track_caller]
    fn with_slots(
        size: usize,
        slots: impl IntoIterator<Item = Slot<T>>,
        make: Option<Box<dyn Fn() -> T + Send + Sync>>,
    ) -> Self {
        assert!(
            (1..=Self::MAX_SIZE).contains(&size),
            "a pool cannot have {size} items, but 1 to MAX_SIZE"
        );
        let (returns, idle) = async_channel::bounded(size);
        for slot in slots {
            // There is a place for each, and nobody else knows the channel.
            let _ = returns.try_send(slot);
        }
        Self {
            idle,
            returns,
            size,
            closed: AtomicBool::new(false),
            make,
        }
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
    /// [`Closed`](ErrorKind::Closed), when the pool is or gets closed.
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
    pub fn acquire(&self) -> Waiting<Acquire<'_, T>> {
        Waiting::new(Acquire::new(self))
    }

    /// Takes an item if one is idle now.
    ///
    /// # Errors
    ///
    /// [`NoPermits`](ErrorKind::NoPermits), when none is idle; [`Closed`](ErrorKind::Closed).
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
    pub fn try_acquire(&self) -> Result<Permit<'_, T>, AcquireError> {
        Ok(Permit::new(self, self.try_take()?))
    }

    /// Waits for an item, whose permit shares the pool and so may move into a task.
    ///
    /// A future that has to wait is boxed.
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
    pub fn acquire_owned(self: Arc<Self>) -> Waiting<AcquireOwned<T>>
    where
        T: Send + 'static,
    {
        Waiting::new(AcquireOwned::new(self))
    }

    /// Takes an item if one is idle now, with a permit that shares the pool.
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
        let slot = self.try_take()?;
        Ok(OwnedPermit::new(self, slot))
    }
}

/// Closing and observing.
impl<T> Pool<T> {
    /// How many items there are, idle, held, or still to be made. It does not change.
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
        self.size
    }

    /// How many items are idle, or still to be made; 0 once the pool is closed.
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
        if self.is_closed() { 0 } else { self.idle.len() }
    }

    /// Lets nobody in any more. Everyone who waits, and everyone who comes, gets
    /// [`Closed`](ErrorKind::Closed). Items that are idle are dropped, those that are held when
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
        // Pairs with the load of who receives an item that came back after this.
        self.closed.store(true, Ordering::SeqCst);
        contain(|| {
            self.idle.close();
        });
        while self.idle.try_recv().is_ok() {}
    }

    /// Whether it was closed.
    ///
    /// # Examples
    ///
    /// ```
    /// let pool = tollgate::Pool::new([()]);
    /// assert!(!pool.is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}

/// What permits and futures need.
impl<T> Pool<T> {
    #[inline]
    fn try_take(&self) -> Result<Slot<T>, AcquireError> {
        match self.idle.try_recv() {
            Ok(slot) => self.unless_closed(slot),
            Err(TryRecvError::Empty) => Err(AcquireError::new(ErrorKind::NoPermits)),
            Err(TryRecvError::Closed) => Err(AcquireError::new(ErrorKind::Closed)),
        }
    }

    /// What was received, unless the pool has been closed.
    #[inline]
    fn unless_closed(&self, slot: Slot<T>) -> Result<Slot<T>, AcquireError> {
        if self.is_closed() {
            return Err(AcquireError::new(ErrorKind::Closed));
        }
        Ok(slot)
    }

    /// Fills a vacancy, if it is one.
    #[inline]
    fn fill(&self, slot: &mut Slot<T>) {
        if let (None, Some(make)) = (&slot, &self.make) {
            *slot = Some(make());
        }
    }

    /// Takes an item back.
    #[inline]
    fn put_back(&self, mut slot: Slot<T>) {
        if self.make.is_some() && thread::panicking() {
            slot = None;
        }
        // The waker that it calls is foreign. It fails when the pool has been closed; then the item is
        // dropped.
        contain(|| drop(self.returns.try_send(slot)));
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
