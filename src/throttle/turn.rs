//! [`Turn`]: how readers, writers, bodies and sinks charge a limiter.
//!
//! 1. Units are charged before they move: the source or the destination is called only while a
//!    permit is at hand, and for no more units than the permit has.
//! 2. A permit is settled in the same poll in which it was received. An adapter that returns
//!    `Pending` holds nothing but a wait of the limiter.
//! 3. A wait is charged when it is granted, and its units move at the next poll, however late. One that
//!    is dropped leaves the queue and gives back what it was granted, because that is what waits do.
//! 4. No lock is held here, and no waker is called: only the limiter or the source keeps the waker
//!    of a task, never both for one direction.
//! 5. A source that was not ready when its turn came has to wake its task before the next turn is asked
//!    for. Two reads that one task polls would otherwise wake each other by their turns.

use std::pin::Pin;
use std::sync::Weak;
use std::task::{Context, Poll, ready};

use pin_project::pin_project;

use super::Weighted;
use super::source_waker::SourceWaker;
use crate::error::{AcquireError, ErrorKind};
use crate::panic::catch_waker_panic;
use crate::wait::Waiting;

/// The turn of one direction: what it waits for, and how many units it has asked for.
#[pin_project]
pub(crate) struct Turn<T: Weighted> {
    #[pin]
    state: State<T::Enter>,
    asked: u64,
}

#[pin_project(project = StateProjection)]
enum State<E> {
    Free,
    /// It waits for the limiter.
    Queued(#[pin] Waiting<E>),
    /// It waits for the source.
    Asleep(Weak<SourceWaker>),
}

impl<T: Weighted> Turn<T> {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Free,
            asked: 0,
        }
    }

    /// Waits for some of `wanted` units: for a chunk of them, and no more than the limiter can give at
    /// once. `wanted` is at least 1. Returns the permit, and how many units may move.
    ///
    /// A caller that comes again may want fewer units than the wait has asked for. It is then
    /// admitted for those, and settling gives the rest back.
    #[inline]
    pub(crate) fn poll_enter<'a>(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        limiter: &'a T,
        chunk: Option<u64>,
        wanted: u64,
    ) -> Poll<Result<(Entered<'a, T>, u64), AcquireError>> {
        if self.is_free() {
            let asked = units(limiter, chunk, wanted);
            if let Some(permit) = limiter.enter_many_at_once(asked) {
                return Poll::Ready(Ok((Entered::new(limiter, permit), asked)));
            }
        }
        self.poll_wait(context, limiter, chunk, wanted)
    }

    /// The same with a wait.
    fn poll_wait<'a>(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        limiter: &'a T,
        chunk: Option<u64>,
        wanted: u64,
    ) -> Poll<Result<(Entered<'a, T>, u64), AcquireError>> {
        let mut this = self.project();
        let mut capacity = u64::MAX;
        if let State::Asleep(source) = &*this.state {
            if SourceWaker::is_awaited(source, context) {
                return Poll::Pending;
            }
        }
        loop {
            if !matches!(*this.state, State::Queued(_)) {
                let asked = units(limiter, chunk, wanted).min(capacity);
                this.state.set(State::Queued(limiter.enter_many(asked)));
                *this.asked = asked;
            }
            let StateProjection::Queued(enter) = this.state.as_mut().project() else {
                unreachable!("the wait was made above");
            };
            let entered = ready!(enter.poll(context));
            this.state.set(State::Free);
            match entered {
                Ok(permit) => {
                    let units = wanted.min(*this.asked);
                    return Poll::Ready(Ok((Entered::new(limiter, permit), units)));
                }
                // The limit was lowered below what the wait had asked for. This ends, because each
                // round asks for less than the one before.
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

    /// Calls the source after a wait: it has to wake its task before the next wait. Without a wait, call
    /// it directly.
    #[cfg_attr(
        not(any(feature = "futures-io", feature = "io", feature = "tower")),
        allow(
            dead_code,
            reason = "sinks say that they are not ready before they wait"
        )
    )]
    #[inline(never)]
    pub(crate) fn poll_source<R>(
        self: Pin<&mut Self>,
        context: &Context<'_>,
        call: impl FnOnce(&mut Context<'_>) -> Poll<R>,
    ) -> Poll<R> {
        let mut state = self.project().state;
        SourceWaker::poll(context, call, |waker| state.set(State::Asleep(waker)))
    }

    /// Returns whether it waits for nothing.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        matches!(self.state, State::Free)
    }

    /// Returns whether it waits for the limiter.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Queued(_))
    }
}

/// Returns how many of `wanted` units to ask for, at least 1.
#[inline]
fn units<T: Weighted>(limiter: &T, chunk: Option<u64>, wanted: u64) -> u64 {
    let chunk = match chunk {
        Some(chunk) => chunk.min(limiter.max_units()),
        None => {
            let (chunk, most) = limiter.chunk_and_max_units();
            chunk.min(most.div_ceil(2))
        }
    };
    wanted.min(chunk).max(1)
}

/// A permit for some units, until it is settled. If it is dropped, as by a panic of the source, all
/// its units are given back.
pub(crate) struct Entered<'a, T: Weighted> {
    limiter: &'a T,
    permit: Option<T::Permit>,
}

impl<'a, T: Weighted> Entered<'a, T> {
    #[inline]
    fn new(limiter: &'a T, permit: T::Permit) -> Self {
        Self {
            limiter,
            permit: Some(permit),
        }
    }

    /// Corrects the charge to the units that moved.
    #[inline]
    pub(crate) fn settle(mut self, moved: u64) {
        if let Some(permit) = self.permit.take() {
            self.limiter.settle(permit, moved);
        }
    }
}

impl<T: Weighted> Drop for Entered<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            catch_waker_panic(|| self.limiter.settle(permit, 0));
        }
    }
}
