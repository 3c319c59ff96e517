//! The wait of [`all`](super::all): for the first part, and then for the rest, which is a composition
//! of one part less.
//!
//! So the rules are written once, for two parts, and hold for any number:
//!
//! 1. The first part is entered before the rest is called. The first poll enters, one by one, the parts that
//!    need no wait; then the caller waits for the first part without room.
//! 2. When the rest rejects the caller, or the wait is dropped, the permits received so far are rolled back,
//!    the last first. The wait for the rest is dropped before that.
//! 3. The index of the part that rejected the caller is counted from the first.
//!
//! Inlining is forced. Without it the permits go through memory at each part, and a ready
//! composition takes twice the time of its parts (`--bench ratios`, "all of two").

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::{RollbackGuard, Throttle};
use crate::debug::debug_as;
use crate::error::AcquireError;
use crate::wait::{Polled, is_entrant};

/// The parts of a composition after the first, whose permit is a `P`.
pub trait Rest<P>: Throttle {
    /// The permits of all parts, in order.
    type Permits;

    /// Enters part by part, as far as that needs no wait. Returns all permits, or the wait that begins
    /// with the first part without room and keeps the permits so far.
    fn begin(self) -> Result<Self::Permit, Self::Enter>;

    fn prepend(first: P, rest: Self::Permit) -> Self::Permits;
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

    #[inline(always)]
    pub(super) fn begin<T: Throttle<Enter = E>, R>(last: T, rest: R) -> Result<(T::Permit,), Self> {
        match last.enter_now() {
            Some(permit) => Ok((permit,)),
            None => Err(Self::new(&last, rest)),
        }
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
    pub enum EnterAll<A: Throttle, R: Rest<A::Permit>> {
        // The state before the first poll; without parts, also the state after the end.
        Start {
            parts: Option<(A, R)>,
        },
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
    }
}

impl<A: Throttle, R: Rest<A::Permit>> EnterAll<A, R> {
    const OVER: Self = Self::Start { parts: None };

    #[inline(always)]
    pub(super) fn new(first: &A, rest: R) -> Self {
        Self::Start {
            parts: Some((first.clone(), rest)),
        }
    }

    /// Enters the first part and the rest. Returns all permits, or the wait that begins with the first part
    /// without room.
    #[inline(always)]
    pub(super) fn begin(first: A, rest: R) -> Result<R::Permits, Self> {
        let Some(permit) = first.enter_now() else {
            return Err(Self::wait(first, rest));
        };
        let first = RollbackGuard::new(first, permit);
        match rest.begin() {
            Ok(rest) => Ok(R::prepend(first.disarm(), rest)),
            Err(enter) => Err(Self::Rest { enter, first }),
        }
    }

    /// Returns the wait that begins with the first part.
    fn wait(first: A, rest: R) -> Self {
        let enter = first.enter().into_inner();
        let parts = Some((first, rest));
        Self::First { enter, parts }
    }

    /// Waits for the parts that had no room. The caller combines the permits, so the ready path does not copy
    /// them through the memory of this result.
    #[inline(never)]
    fn poll_wait(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Polled<(A::Permit, R::Permit)> {
        if let EnterAllProjection::First { enter, parts } = self.as_mut().project() {
            let entered = ready!(enter.poll(context));
            let (first, rest) = parts.take().expect("the rest was not asked yet");
            // Drops the wait first.
            self.set(Self::OVER);
            let permit = entered.map_err(|error| error.of_part(0))?;
            let first = RollbackGuard::new(first, permit);
            let begun = if is_entrant() {
                Err(rest.enter().into_inner())
            } else {
                rest.begin()
            };
            match begun {
                Ok(rest) => return Poll::Ready(Ok((first.disarm(), rest))),
                Err(enter) => self.set(Self::Rest { enter, first }),
            }
        }
        let EnterAllProjection::Rest { enter, first } = self.as_mut().project() else {
            panic!("polled again after it was ready");
        };
        // A rejection drops the stage: first the wait for the rest, then the permit of the first
        // part, which rolls it back.
        let entered = match ready!(enter.poll(context)) {
            Ok(rest) => Ok((first.take(), rest)),
            Err(error) => Err(error.of_next_part()),
        };
        self.set(Self::OVER);
        Poll::Ready(entered)
    }
}

impl<A: Throttle, R: Rest<A::Permit>> Future for EnterAll<A, R> {
    type Output = Result<R::Permits, AcquireError>;

    #[inline(always)]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let EnterAllProjection::Start { parts } = self.as_mut().project() {
            let (first, rest) = parts.take().expect("polled again after it was ready");
            // The arrival of the entrant of a fair queue counts, and only waits know it.
            let begun = if is_entrant() {
                Err(Self::wait(first, rest))
            } else {
                Self::begin(first, rest)
            };
            match begun {
                Ok(permits) => return Poll::Ready(Ok(permits)),
                Err(wait) => self.set(wait),
            }
        }
        let polled = self.poll_wait(context);
        polled.map_ok(|(first, rest)| R::prepend(first, rest))
    }
}

debug_as! { [A: Throttle, R: Rest<A::Permit>] EnterAll<A, R>, self => EnterAll { .. } }
