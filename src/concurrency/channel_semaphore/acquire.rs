//! The futures of `acquire`: the channel's, with a permit made of what was sent.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_channel::Send;
use pin_project_lite::pin_project;

use super::{ChannelSemaphore, OwnedPermit, Permit};
use crate::error::{AcquireError, ErrorKind};
use crate::wait::BoxedWhenWaiting;

pin_project! {
    /// The future of [`ChannelSemaphore::acquire`].
    ///
    /// It is not `Unpin`: to poll it by reference, as `select!` in a loop does, pin it first, for example
    /// with [`pin!`](std::pin::pin).
    ///
    /// # Panics
    ///
    /// If it is polled again after it was ready.
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct Acquire<'a> {
        semaphore: &'a ChannelSemaphore,
        // `None` once it is over.
        #[pin]
        send: Option<Send<'a, ()>>,
    }
}

impl<'a> Acquire<'a> {
    #[inline]
    pub(super) fn new(semaphore: &'a ChannelSemaphore) -> Self {
        Self {
            semaphore,
            send: Some(semaphore.enter.send(())),
        }
    }
}

impl<'a> Future for Acquire<'a> {
    type Output = Result<Permit<'a>, AcquireError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let Some(send) = this.send.as_mut().as_pin_mut() else {
            panic!("polled again after it was ready");
        };
        // Its end may call the waker of the next one, which is foreign: there is a permit before, so
        // that the place is not lost if that panics.
        let acquired = match ready!(send.poll(context)) {
            Ok(()) => Ok(Permit::new(this.semaphore)),
            Err(_) => Err(AcquireError::new(ErrorKind::Closed)),
        };
        this.send.set(None);
        Poll::Ready(acquired)
    }
}

/// The future of [`ChannelSemaphore::acquire_owned`].
///
/// # Panics
///
/// If it is polled again after it was ready.
#[must_use = "a future does nothing unless it is awaited"]
pub struct AcquireOwned(BoxedWhenWaiting<'static, Arc<ChannelSemaphore>, OwnedPermit>);

impl AcquireOwned {
    #[inline]
    pub(super) fn new(semaphore: Arc<ChannelSemaphore>) -> Self {
        Self(BoxedWhenWaiting::Asking(semaphore))
    }
}

impl Future for AcquireOwned {
    type Output = Result<OwnedPermit, AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(
            context,
            |semaphore| Arc::clone(semaphore).try_acquire_owned(),
            |semaphore| {
                Box::pin(async move {
                    // The wait ends after the permit has been made, as above.
                    let mut send = pin!(Some(semaphore.enter.send(())));
                    let sent = match send.as_mut().as_pin_mut() {
                        Some(send) => send.await,
                        None => unreachable!("it has not ended"),
                    };
                    sent.map_err(|_| AcquireError::new(ErrorKind::Closed))?;
                    let permit = OwnedPermit::new(Arc::clone(&semaphore));
                    send.set(None);
                    Ok(permit)
                })
            },
        )
    }
}

impl fmt::Debug for Acquire<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").finish_non_exhaustive()
    }
}

impl fmt::Debug for AcquireOwned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireOwned").finish_non_exhaustive()
    }
}
