//! The futures of `acquire`: the channel's, with what it received made into a permit.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_channel::Recv;
use pin_project_lite::pin_project;

use super::{OwnedPermit, Permit, Pool, Slot};
use crate::error::{AcquireError, ErrorKind};
use crate::wait::BoxedWhenWaiting;

pin_project! {
    /// The future of [`Pool::acquire`].
    ///
    /// It is not `Unpin`: to poll it by reference, as `select!` in a loop does, pin it first, for example
    /// with [`pin!`](std::pin::pin).
    ///
    /// # Panics
    ///
    /// If it is polled again after it was ready.
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct Acquire<'a, T> {
        pool: &'a Pool<T>,
        // `None` once it is over.
        #[pin]
        recv: Option<Recv<'a, Slot<T>>>,
    }
}

impl<'a, T> Acquire<'a, T> {
    #[inline]
    pub(super) fn new(pool: &'a Pool<T>) -> Self {
        Self {
            pool,
            recv: Some(pool.idle.recv()),
        }
    }
}

impl<'a, T> Future for Acquire<'a, T> {
    type Output = Result<Permit<'a, T>, AcquireError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let Some(recv) = this.recv.as_mut().as_pin_mut() else {
            panic!("polled again after it was ready");
        };
        let received = ready!(recv.poll(context));
        // Its end may call the waker of the next one, which is foreign: what was received is in a permit
        // before, so that it is not lost if that panics.
        let acquired = match received {
            Ok(slot) => this
                .pool
                .unless_closed(slot)
                .map(|slot| Permit::holding(this.pool, slot)),
            Err(_) => Err(AcquireError::new(ErrorKind::Closed)),
        };
        this.recv.set(None);
        Poll::Ready(acquired.map(Permit::filled))
    }
}

/// The future of [`Pool::acquire_owned`].
///
/// # Panics
///
/// If it is polled again after it was ready.
#[must_use = "a future does nothing unless it is awaited"]
pub struct AcquireOwned<T>(BoxedWhenWaiting<'static, Arc<Pool<T>>, OwnedPermit<T>>);

impl<T> AcquireOwned<T> {
    #[inline]
    pub(super) fn new(pool: Arc<Pool<T>>) -> Self {
        Self(BoxedWhenWaiting::Asking(pool))
    }
}

impl<T: Send + 'static> Future for AcquireOwned<T> {
    type Output = Result<OwnedPermit<T>, AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(
            context,
            |pool| Arc::clone(pool).try_acquire_owned(),
            |pool| {
                Box::pin(async move {
                    // The wait ends after the permit has been made, as above.
                    let mut recv = pin!(Some(pool.idle.recv()));
                    let received = match recv.as_mut().as_pin_mut() {
                        Some(recv) => recv.await,
                        None => unreachable!("it has not ended"),
                    };
                    let slot = received.map_err(|_| AcquireError::new(ErrorKind::Closed))?;
                    let slot = pool.unless_closed(slot)?;
                    let permit = OwnedPermit::holding(Arc::clone(&pool), slot);
                    recv.set(None);
                    Ok(permit.filled())
                })
            },
        )
    }
}

impl<T> fmt::Debug for Acquire<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for AcquireOwned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireOwned").finish_non_exhaustive()
    }
}
