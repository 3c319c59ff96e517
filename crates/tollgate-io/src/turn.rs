//! [`Turn`]: charges a limiter for readers, writers, bodies and sinks.
//!
//! 1. Units are charged before they move: the source or the destination is called only while a
//!    permit is at hand, and for no more units than the permit has.
//! 2. A permit is settled in the same poll in which it was received. An adapter that returns
//!    `Pending` holds only a wait of the limiter.
//! 3. A wait is charged when it is granted, and its units move at the next poll, however late. A dropped
//!    wait leaves the queue and gives back its grant, like every wait of a throttle.
//! 4. This module holds no lock and calls no waker. While a reader or a writer waits for the limiter, the
//!    source does not have the waker of its task. A source that was not ready at its turn is polled again
//!    at the next turn.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project::pin_project;

use tollgate::throttle::{RollbackGuard, Weighted};
use tollgate::wait::Waiting;
use tollgate::{AcquireError, ErrorKind, Throttle};

/// The turn of one direction: whether it waits for the limiter, and for how many units.
#[pin_project]
pub(crate) struct Turn<T: Weighted> {
    #[pin]
    enter: Option<Waiting<T::Enter>>,
    asked: u64,
}

impl<T: Weighted> Turn<T> {
    pub(crate) fn new() -> Self {
        Self {
            enter: None,
            asked: 0,
        }
    }

    /// Waits for some of `wanted` units: for a chunk of them, and no more than the limiter can give at
    /// once. `wanted` is at least 1. Returns the permit and the number of units that may move.
    ///
    /// A later call may want fewer units than its wait has requested. It is then admitted for those, and
    /// settling gives the rest back.
    #[inline]
    pub(crate) fn poll_enter<'a>(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        limiter: &'a T,
        chunk: Option<u64>,
        wanted: u64,
    ) -> Poll<Result<(RollbackGuard<&'a T>, u64), AcquireError>> {
        if self.enter.is_none() {
            let asked = units(limiter, chunk, wanted);
            if let Some(permit) = limiter.cost(asked).enter_now() {
                return Poll::Ready(Ok((RollbackGuard::new(limiter, permit), asked)));
            }
        }
        self.poll_wait(context, limiter, chunk, wanted)
    }

    /// Does the same with a wait, which it creates if necessary.
    fn poll_wait<'a>(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        limiter: &'a T,
        chunk: Option<u64>,
        wanted: u64,
    ) -> Poll<Result<(RollbackGuard<&'a T>, u64), AcquireError>> {
        let mut this = self.project();
        let mut capacity = u64::MAX;
        loop {
            if this.enter.is_none() {
                let asked = units(limiter, chunk, wanted).min(capacity);
                this.enter.set(Some(limiter.cost(asked).enter()));
                *this.asked = asked;
            }
            let enter = this.enter.as_mut().as_pin_mut();
            let entered = ready!(enter.expect("it was made above").poll(context));
            this.enter.set(None);
            match entered {
                Ok(permit) => {
                    let units = wanted.min(*this.asked);
                    return Poll::Ready(Ok((RollbackGuard::new(limiter, permit), units)));
                }
                // The limit was lowered below the request of the wait. This loop ends, because each round
                // requests less than the one before.
                Err(error) if error.kind() == ErrorKind::ExceedsCapacity => {
                    let most = limiter.max_units();
                    capacity = error.capacity().unwrap_or(most).min(most).max(1);
                    if capacity >= *this.asked {
                        return Poll::Ready(Err(error));
                    }
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Returns whether this direction waits for the limiter.
    pub(crate) fn is_waiting(&self) -> bool {
        self.enter.is_some()
    }
}

/// Returns the number of units to request, at least 1 and at most `wanted`.
#[inline]
fn units<T: Weighted>(limiter: &T, chunk: Option<u64>, wanted: u64) -> u64 {
    let chunk = match chunk {
        Some(chunk) => chunk.min(limiter.max_units()),
        None => limiter.chunk_units(),
    };
    wanted.min(chunk).max(1)
}
