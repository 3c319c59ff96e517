//! The future of `acquire`: it waits in the queue, and then makes an item if it has to.

use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::{Make, Permit, Pool};
use crate::concurrency::acquire::Acquire as AcquirePlace;
use crate::error::AcquireError;
use crate::wait::{BoxFuture, Polled};

/// The future of [`Pool::acquire`] and [`Pool::acquire_owned`]. `S` derefs to the pool.
///
/// It joins the queue when it is first polled. See [the pool](Pool#cancel-safety) for what dropping
/// it does.
///
/// # Panics
///
/// Panics if it is polled again after it has completed.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<S: Deref<Target = Pool<T>>, T> {
    queued: AcquirePlace<S>,
    /// The future that makes an item, and then the permit that the item is for. The future is
    /// dropped before the permit returns the place.
    making: Option<(BoxFuture<'static, T>, Permit<S, T>)>,
}

impl<S: Deref<Target = Pool<T>>, T> Acquire<S, T> {
    #[inline]
    pub(in crate::concurrency) fn new(pool: S) -> Self {
        Self {
            queued: AcquirePlace::new(pool, 1),
            making: None,
        }
    }

    /// Checks an idle item or makes one, or starts to, for a place that has none.
    #[inline(never)]
    fn make(&mut self, place: Permit<S, T>, context: &mut Context<'_>) -> Polled<Permit<S, T>> {
        let Some(Make::Later { make, checks }) = &place.pool().make else {
            return Poll::Ready(place.made_now());
        };
        match place.pool().take_idle() {
            Some(item) if !checks => Poll::Ready(Ok(place.with(item))),
            idle => {
                self.making = Some((make(idle), place));
                self.poll_making(context)
            }
        }
    }

    fn poll_making(&mut self, context: &mut Context<'_>) -> Polled<Permit<S, T>> {
        let mut making = self.making.take().expect("it is making an item");
        let Poll::Ready(made) = making.0.as_mut().poll(context) else {
            self.making = Some(making);
            return Poll::Pending;
        };
        let (future, place) = making;
        drop(future);
        Poll::Ready(made.map(|item| place.with(item)))
    }
}

impl<S: Deref<Target = Pool<T>>, T> Future for Acquire<S, T> {
    type Output = Result<Permit<S, T>, AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.making.is_some() {
            return self.poll_making(context);
        }
        match ready!(self.queued.poll_take(context))? {
            (pool, Some(item)) => Poll::Ready(Ok(Permit::new(pool, Some(item)))),
            (pool, None) => self.make(Permit::new(pool, None), context),
        }
    }
}

// No field is ever pinned.
impl<S: Deref<Target = Pool<T>>, T> Unpin for Acquire<S, T> {}

impl<S: Deref<Target = Pool<T>>, T> fmt::Debug for Acquire<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.queued.fmt(f)
    }
}
