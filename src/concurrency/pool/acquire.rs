//! The future of `acquire`: that of the semaphore, and then perhaps the making of an item.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::permit::SemaphoreOf;
use super::{Found, Permit, Pool};
use crate::concurrency::semaphore;
use crate::error::AcquireError;
use crate::wait::BoxFuture;

/// The future of [`Pool::acquire`] and [`Pool::acquire_owned`]. `S` leads to the pool.
///
/// It joins the queue when it is first polled. See [the pool](Pool#cancel-safety) for what dropping it
/// does.
///
/// # Panics
///
/// If it is polled again after it was ready.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<S: Deref<Target = Pool<T>>, T> {
    /// Dropped first: the making is over before the permit goes on.
    making: Option<BoxFuture<'static, T>>,
    /// The permit that the item is made for.
    permit: Option<semaphore::Permit<SemaphoreOf<S>>>,
    queued: semaphore::Acquire<SemaphoreOf<S>>,
}

/// An [`Acquire`] that shares the pool and so may move into a task.
pub type AcquireOwned<T> = Acquire<Arc<Pool<T>>, T>;

impl<S: Deref<Target = Pool<T>>, T> Acquire<S, T> {
    #[inline]
    pub(super) fn new(pool: S) -> Self {
        Self {
            making: None,
            permit: None,
            queued: semaphore::Acquire::new(SemaphoreOf(pool), 1),
        }
    }

    #[inline(never)]
    fn poll_making(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Permit<S, T>, AcquireError>> {
        let Some(making) = &mut self.making else {
            unreachable!("it is making an item");
        };
        let made = ready!(making.as_mut().poll(context));
        self.making = None;
        let permit = self.permit.take();
        let made = made.map(|item| permit.map(|permit| Permit::made(item, permit)));
        match made {
            Ok(Some(permit)) => Poll::Ready(Ok(permit)),
            Ok(None) => unreachable!("it is made for a permit"),
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl<S: Deref<Target = Pool<T>>, T> Future for Acquire<S, T> {
    type Output = Result<Permit<S, T>, AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.making.is_none() {
            let permit = ready!(Pin::new(&mut self.queued).poll(context))?;
            match permit.source().0.find()? {
                Found::Item(item) => return Poll::Ready(Ok(Permit::new(item, permit))),
                Found::Making(making) => {
                    self.making = Some(making);
                    self.permit = Some(permit);
                }
            }
        }
        self.poll_making(context)
    }
}

// Nothing in it is ever pinned.
impl<S: Deref<Target = Pool<T>>, T> Unpin for Acquire<S, T> {}

impl<S: Deref<Target = Pool<T>>, T> fmt::Debug for Acquire<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").finish_non_exhaustive()
    }
}
