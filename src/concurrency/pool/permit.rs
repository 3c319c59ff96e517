//! The permit of a pool, which holds an item and returns it on drop; and the future of `acquire`, which waits in
//! the queue, and then makes an item if it has to.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::{Make, Pool};
use crate::concurrency::acquire::Acquire as AcquirePlace;
use crate::error::AcquireError;
use crate::sync::lock;
use crate::wait::{BoxFuture, Polled};

/// An item of a [`Pool`], which is returned on drop. `S` derefs to the pool: it is a reference, or
/// an `Arc`.
///
/// The outcome [when its holder panics](Pool#panics-of-holders) depends on how the pool was made. Leaking the
/// permit takes the item out of circulation.
#[must_use = "a permit limits nothing once it is dropped: bind it, as in `let _permit = ..`"]
pub struct Permit<S: Deref<Target = Pool<T>>, T> {
    /// `None` only while the item is being made, or dropped.
    pub(super) item: Option<T>,
    pool: S,
}

impl<S: Deref<Target = Pool<T>>, T> Permit<S, T> {
    /// Creates a permit with a place and its item, or with a place whose item is to be made. If
    /// making it fails, dropping this permit returns the place.
    #[inline]
    pub(super) fn new(pool: S, item: Option<T>) -> Self {
        Self { item, pool }
    }

    /// Takes an item that exists, or that can be made without waiting.
    #[inline]
    pub(in crate::concurrency) fn try_new(pool: S) -> Result<Self, AcquireError> {
        let found = lock(&pool.state).try_take();
        let item = match found.map_err(AcquireError::new)? {
            Some(item) => item,
            None => pool.made_now()?,
        };
        Ok(Self::new(pool, Some(item)))
    }

    /// Drops the item instead of returning it. If the pool can make items, the next caller makes
    /// another one; any other pool is smaller by one from now on.
    ///
    /// # Examples
    ///
    /// ```
    /// let connections = tollgate::Pool::with_factory(1, || "a connection".to_owned());
    /// let mut broken = connections.try_acquire()?;
    /// broken.clear();
    /// broken.discard();
    /// assert_eq!(*connections.try_acquire()?, "a connection");
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn discard(mut self) {
        // Even if this panics, the place is returned afterwards.
        drop(self.item.take());
    }

    /// Returns the pool that the item belongs to.
    pub fn pool(&self) -> &Pool<T> {
        &self.pool
    }
}

impl<S: Deref<Target = Pool<T>>, T> Drop for Permit<S, T> {
    #[inline]
    fn drop(&mut self) {
        let item = self.item.take();
        self.pool.give_back(item);
    }
}

const HOLDS_ITEM: &str = "a permit holds an item until it is dropped";

impl<S: Deref<Target = Pool<T>>, T> Deref for Permit<S, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.item.as_ref().expect(HOLDS_ITEM)
    }
}

impl<S: Deref<Target = Pool<T>>, T> DerefMut for Permit<S, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.item.as_mut().expect(HOLDS_ITEM)
    }
}

impl<S: Deref<Target = Pool<T>>, T: fmt::Debug> fmt::Debug for Permit<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("item", &**self)
            .field("pool", self.pool())
            .finish()
    }
}

/// The future of [`Pool::acquire`] and [`Pool::acquire_owned`]. `S` derefs to the pool.
///
/// It joins the queue when it is first polled. See [the pool](Pool#cancel-safety) for the effects of dropping
/// it.
///
/// # Panics
///
/// Panics if it is polled again after it has completed.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<S: Deref<Target = Pool<T>>, T> {
    queued: AcquirePlace<S>,
    making: Option<Making<S, T>>,
}

/// The future that makes an item, until it is made, and the permit that the item is for. The future is
/// dropped before the permit returns the place.
type Making<S, T> = (Option<BoxFuture<'static, T>>, Permit<S, T>);

impl<S: Deref<Target = Pool<T>>, T> Acquire<S, T> {
    #[inline]
    pub(in crate::concurrency) fn new(pool: S) -> Self {
        Self {
            queued: AcquirePlace::of(pool, 1),
            making: None,
        }
    }

    /// Checks an idle item or makes one, or starts to, for a place without an item.
    ///
    /// It leaves the permit in `making`, so the ready path does not copy it through the memory of this
    /// result.
    #[inline(never)]
    fn make(&mut self, place: Permit<S, T>, context: &mut Context<'_>) -> Polled<()> {
        let pool = place.pool();
        let future = match &pool.make {
            Some(Make::Later { make, checks }) => match pool.take_idle() {
                Some(item) if !checks => return self.made(place, Ok(item)),
                idle => make(idle),
            },
            _ => {
                let item = pool.idle_or_made();
                return self.made(place, item);
            }
        };
        self.making = Some((Some(future), place));
        self.poll_making(context)
    }

    fn poll_making(&mut self, context: &mut Context<'_>) -> Polled<()> {
        let (future, place) = self.making.take().expect("it is making an item");
        let mut future = future.expect("it is not made yet");
        let Poll::Ready(item) = future.as_mut().poll(context) else {
            self.making = Some((Some(future), place));
            return Poll::Pending;
        };
        drop(future);
        self.made(place, item)
    }

    fn made(&mut self, mut place: Permit<S, T>, item: Result<T, AcquireError>) -> Polled<()> {
        place.item = Some(item?);
        self.making = Some((None, place));
        Poll::Ready(Ok(()))
    }
}

impl<S: Deref<Target = Pool<T>>, T> Future for Acquire<S, T> {
    type Output = Result<Permit<S, T>, AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.making.is_some() {
            ready!(self.poll_making(context))?;
        } else {
            match ready!(self.queued.poll_found(context))? {
                (pool, Some(item)) => return Poll::Ready(Ok(Permit::new(pool, Some(item)))),
                (pool, None) => ready!(self.make(Permit::new(pool, None), context))?,
            }
        }
        let (_, permit) = self.making.take().expect("it was made");
        Poll::Ready(Ok(permit))
    }
}

// No field is ever pinned.
impl<S: Deref<Target = Pool<T>>, T> Unpin for Acquire<S, T> {}

impl<S: Deref<Target = Pool<T>>, T> fmt::Debug for Acquire<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queued.fmt(f)
    }
}
