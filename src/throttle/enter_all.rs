//! The wait of [`all`](super::all): for the first part, and then for the rest, which is a composition
//! of one part less.
//!
//! So the rules are written once, for two, and hold for any number:
//!
//! 1. The first is entered before the rest is called.
//! 2. When the rest rejects the caller, or the wait is dropped, the permits so far are rolled back,
//!    the last first. The wait for the rest is dropped before that.
//! 3. The index of the part that rejected the caller is counted from the first.
//!
//! Inlining is forced. Without it the permits go through memory at each part, and a ready
//! composition takes twice the time of its parts (`--bench ratios`, "all of two").

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::{RollbackGuard, Throttle};
use crate::error::AcquireError;

/// A tuple of permits, before which that of an earlier part can be put.
pub trait Prepend<P> {
    type Output;

    fn prepend(self, first: P) -> Self::Output;
}

pin_project! {
    /// The wait for the last part.
    #[derive(Debug)]
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct EnterLast<E> {
        #[pin]
        enter: E,
    }
}

impl<E> EnterLast<E> {
    #[inline(always)]
    pub(super) fn new<R>(last: &impl Throttle<Enter = E>, _nothing: R) -> Self {
        let enter = last.enter().into_inner();
        Self { enter }
    }
}

impl<P, E: Future<Output = Result<P, AcquireError>>> Future for EnterLast<E> {
    type Output = Result<(P,), AcquireError>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = self.project().enter.poll(context);
        polled
            .map_ok(|permit| (permit,))
            .map_err(|error| error.of_part(0))
    }
}

pin_project! {
    /// The wait for the first part, and then for the rest.
    #[project = EnterAllProjection]
    #[must_use = "a future does nothing unless it is awaited"]
    pub enum EnterAll<A: Throttle, R: Throttle> {
        First {
            #[pin]
            enter: A::Enter,
            // `Some` until the first part is entered.
            parts: Option<(A, R)>,
        },
        // Dropped in this order: the wait for the rest ends before the first part is rolled back.
        Rest {
            #[pin]
            enter: R::Enter,
            first: RollbackGuard<A>,
        },
        Over,
    }
}

impl<A: Throttle, R: Throttle> EnterAll<A, R> {
    #[inline(always)]
    pub(super) fn new(first: &A, rest: R) -> Self {
        Self::First {
            enter: first.enter().into_inner(),
            parts: Some((first.clone(), rest)),
        }
    }
}

impl<A: Throttle, R: Throttle<Permit: Prepend<A::Permit>>> Future for EnterAll<A, R> {
    type Output = Result<<R::Permit as Prepend<A::Permit>>::Output, AcquireError>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let EnterAllProjection::First { enter, parts } = self.as_mut().project() {
            let entered = ready!(enter.poll(context));
            let (first, rest) = parts.take().expect("the rest was not asked yet");
            // Drops the wait before anything else happens.
            self.set(Self::Over);
            let permit = entered.map_err(|error| error.of_part(0))?;
            let first = RollbackGuard::new(first, permit);
            let enter = rest.enter().into_inner();
            self.set(Self::Rest { enter, first });
        }
        let EnterAllProjection::Rest { enter, first } = self.as_mut().project() else {
            panic!("polled again after it was ready");
        };
        // A rejection drops the stage: first the wait for the rest, then the permit of the first
        // part, which rolls it back.
        match ready!(enter.poll(context)) {
            Ok(rest) => {
                let first = first.take();
                self.set(Self::Over);
                Poll::Ready(Ok(rest.prepend(first)))
            }
            Err(error) => {
                self.set(Self::Over);
                Poll::Ready(Err(error.of_next_part()))
            }
        }
    }
}

impl<A: Throttle, R: Throttle> fmt::Debug for EnterAll<A, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnterAll").finish_non_exhaustive()
    }
}
