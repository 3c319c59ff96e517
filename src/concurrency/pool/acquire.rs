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
pub struct Acquire<S: Deref<Target = Pool<T>>, T>(State<S, T>);

/// An [`Acquire`] that shares the pool and so may move into a task.
pub type AcquireOwned<T> = Acquire<Arc<Pool<T>>, T>;

enum State<S: Deref<Target = Pool<T>>, T> {
    Queued(semaphore::Acquire<SemaphoreOf<S>>),
    /// Dropped in this order: the making is over before the permit goes on.
    Making(BoxFuture<'static, T>, semaphore::Permit<SemaphoreOf<S>>),
    Over,
}

impl<S: Deref<Target = Pool<T>>, T> Acquire<S, T> {
    #[inline]
    pub(super) fn new(pool: S) -> Self {
        Self(State::Queued(semaphore::Acquire::new(SemaphoreOf(pool), 1)))
    }
}

impl<S: Deref<Target = Pool<T>>, T> Future for Acquire<S, T> {
    type Output = Result<Permit<S, T>, AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::Queued(acquire) = &mut self.0 {
            let permit = ready!(Pin::new(acquire).poll(context));
            self.0 = State::Over;
            let permit = permit?;
            match permit.source().0.find()? {
                Found::Item(item) => return Poll::Ready(Ok(Permit::new(item, permit))),
                Found::Making(making) => self.0 = State::Making(making, permit),
            }
        }
        self.poll_making(context)
    }
}

impl<S: Deref<Target = Pool<T>>, T> Acquire<S, T> {
    #[inline(never)]
    fn poll_making(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Permit<S, T>, AcquireError>> {
        let State::Making(making, _) = &mut self.0 else {
            panic!("polled again after it was ready");
        };
        let made = ready!(making.as_mut().poll(context));
        let State::Making(_, permit) = std::mem::replace(&mut self.0, State::Over) else {
            unreachable!("it was making an item");
        };
        Poll::Ready(made.map(|item| {
            permit.source().0.count_made();
            Permit::new(item, permit)
        }))
    }
}

// Nothing in it is ever pinned.
impl<S: Deref<Target = Pool<T>>, T> Unpin for Acquire<S, T> {}

impl<S: Deref<Target = Pool<T>>, T> fmt::Debug for Acquire<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").finish_non_exhaustive()
    }
}
