//! The futures of `acquire`: at first nothing but a request, then perhaps a ticket in the line.
//!
//! They are `Unpin` and small, because the waiter is in the line and not in the future. [`Entry`] is what the borrowing and the owning one have in common.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::{OwnedPermit, Permit, Semaphore};
use crate::error::AcquireError;
use crate::line::Ticket;

/// The future of [`Semaphore::acquire`] and [`acquire_many`](Semaphore::acquire_many).
///
/// It joins the line when it is first polled. See [the semaphore](Semaphore#cancel-safety) for
/// what dropping it does.
///
/// # Panics
///
/// If it is polled again after it was ready.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<'a>(Entry<&'a Semaphore>);

/// The future of [`Semaphore::acquire_owned`] and
/// [`acquire_many_owned`](Semaphore::acquire_many_owned).
///
/// It joins the line when it is first polled. See [the semaphore](Semaphore#cancel-safety) for
/// what dropping it does.
///
/// # Panics
///
/// If it is polled again after it was ready.
#[must_use = "a future does nothing unless it is awaited"]
pub struct AcquireOwned(Entry<Arc<Semaphore>>);

/// A request for permits of the semaphore that `S` leads to.
struct Entry<S: Deref<Target = Semaphore>> {
    /// `None` once it is over.
    semaphore: Option<S>,
    permits: u32,
    /// The place in line, since a poll that had to wait.
    ticket: Option<Ticket>,
}

impl<S: Deref<Target = Semaphore>> Entry<S> {
    #[inline]
    fn new(semaphore: S, permits: u32) -> Self {
        Self {
            semaphore: Some(semaphore),
            permits,
            ticket: None,
        }
    }

    /// Ready with the way to the semaphore, when the permits have been taken.
    #[inline]
    fn poll(&mut self, context: &Context<'_>) -> Poll<Result<S, AcquireError>> {
        let Some(semaphore) = self.semaphore.take() else {
            panic!("polled again after it was ready");
        };
        let taken = match &self.ticket {
            None => semaphore.word.try_take(self.permits),
            Some(ticket) => semaphore.has_granted(ticket),
        };
        if taken {
            self.ticket = None;
            return Poll::Ready(Ok(semaphore));
        }
        self.poll_line(semaphore, context)
    }

    /// A poll that has to join the line, or to look how it goes there.
    #[inline(never)]
    fn poll_line(&mut self, semaphore: S, context: &Context<'_>) -> Poll<Result<S, AcquireError>> {
        // If a waker panics when it is cloned, whoever drops this must still find the semaphore.
        let semaphore = self.semaphore.insert(semaphore);
        let polled = match self.ticket {
            None => semaphore.join(self.permits, &mut self.ticket, context.waker()),
            Some(_) => semaphore.look(&mut self.ticket, context.waker()),
        };
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(error)) => {
                self.semaphore = None;
                Poll::Ready(Err(error))
            }
            Poll::Ready(Ok(())) => match self.semaphore.take() {
                Some(semaphore) => Poll::Ready(Ok(semaphore)),
                None => unreachable!("it was there"),
            },
        }
    }

    #[inline]
    fn leave(&mut self) {
        if let (Some(ticket), Some(semaphore)) = (self.ticket.take(), &self.semaphore) {
            semaphore.leave(ticket, self.permits);
        }
    }
}

impl<S: Deref<Target = Semaphore>> Drop for Entry<S> {
    #[inline]
    fn drop(&mut self) {
        if self.ticket.is_some() {
            self.leave();
        }
    }
}

macro_rules! future {
    ([$($generics:tt)*] $future:ty, $name:literal, $permit:ty, $source:ty) => {
        impl<$($generics)*> $future {
            #[inline]
            pub(super) fn new(semaphore: $source, permits: u32) -> Self {
                Self(Entry::new(semaphore, permits))
            }
        }

        impl<$($generics)*> Future for $future {
            type Output = Result<$permit, AcquireError>;

            #[inline]
            fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
                let permits = self.0.permits;
                self.0
                    .poll(context)
                    .map_ok(|semaphore| <$permit>::new(semaphore, permits))
            }
        }

        impl<$($generics)*> fmt::Debug for $future {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name)
                    .field("permits", &self.0.permits)
                    .field("in_line", &self.0.ticket.is_some())
                    .finish_non_exhaustive()
            }
        }

    };
}

future!(['a] Acquire<'a>, "Acquire", Permit<'a>, &'a Semaphore);
future!([] AcquireOwned, "AcquireOwned", OwnedPermit, Arc<Semaphore>);
