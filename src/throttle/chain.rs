//! One throttle after the other: the building block of [`all`](super::all).
//!
//! A chain has two links; the second may be a chain. So the rules are written once, for two, and
//! hold for any number:
//!
//! 1. The first is entered before the second is called.
//! 2. When the rest rejects the caller, or the wait is dropped, the permits so far are rolled back,
//!    the last first. The wait for the rest is dropped before that.
//! 3. The index of the part that rejected the caller is counted from the first.
//!
//! Inlining is forced. Without it the permits go through memory at each link, and a ready
//! composition takes twice the time of its parts (`--bench ratios`, "all of two").

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::{RollbackGuard, Throttle, TryThrottle};
use crate::error::AcquireError;
use crate::wait::Waiting;

/// The first part, and the rest.
#[derive(Clone, Debug)]
pub struct Chain<A, R>(pub(super) A, pub(super) R);

/// The last part.
#[derive(Clone, Debug)]
pub struct Last<A>(pub(super) A);

impl<A: Throttle> Throttle for Last<A> {
    type Permit = A::Permit;
    type Enter = EnterLast<A::Enter>;

    #[inline(always)]
    fn enter(&self) -> Waiting<Self::Enter> {
        let enter = self.0.enter().into_inner();
        Waiting::new(EnterLast { enter })
    }

    #[inline(always)]
    fn rollback(&self, permit: A::Permit) {
        self.0.rollback(permit);
    }

    #[inline(always)]
    fn enter_now(&self) -> Option<A::Permit> {
        self.0.enter_now()
    }

    fn wakes_outside_locks(&self) -> bool {
        self.0.wakes_outside_locks()
    }
}

impl<A: TryThrottle> TryThrottle for Last<A> {
    #[inline(always)]
    fn try_enter(&self) -> Result<A::Permit, AcquireError> {
        self.0.try_enter().map_err(|error| error.of_part(0))
    }
}

pin_project! {
    /// The wait of the last part.
    pub struct EnterLast<E> {
        #[pin]
        enter: E,
    }
}

impl<P, E: Future<Output = Result<P, AcquireError>>> Future for EnterLast<E> {
    type Output = E::Output;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<E::Output> {
        let polled = self.project().enter.poll(context);
        polled.map_err(|error| error.of_part(0))
    }
}

impl<A: Throttle, R: Throttle> Throttle for Chain<A, R> {
    type Permit = (A::Permit, R::Permit);
    type Enter = EnterChain<A, R>;

    #[inline(always)]
    fn enter(&self) -> Waiting<Self::Enter> {
        let state = State::First {
            enter: self.0.enter().into_inner(),
            links: Some(self.clone()),
        };
        Waiting::new(EnterChain { state })
    }

    #[inline(always)]
    fn rollback(&self, (first, rest): Self::Permit) {
        // Rolled back on drop, also if the rest panics.
        let _first = RollbackGuard::new(&self.0, first);
        self.1.rollback(rest);
    }

    #[inline(always)]
    fn enter_now(&self) -> Option<Self::Permit> {
        let first = RollbackGuard::new(&self.0, self.0.enter_now()?);
        let rest = self.1.enter_now()?;
        Some((first.disarm(), rest))
    }

    fn wakes_outside_locks(&self) -> bool {
        self.0.wakes_outside_locks() && self.1.wakes_outside_locks()
    }
}

impl<A: TryThrottle, R: TryThrottle> TryThrottle for Chain<A, R> {
    #[inline(always)]
    fn try_enter(&self) -> Result<Self::Permit, AcquireError> {
        let permit = self.0.try_enter().map_err(|error| error.of_part(0))?;
        let first = RollbackGuard::new(&self.0, permit);
        let rest = self.1.try_enter();
        let rest = rest.map_err(|error| error.of_next_part())?;
        Ok((first.disarm(), rest))
    }
}

pin_project! {
    /// The wait for the first part, and then for the rest.
    pub struct EnterChain<A: Throttle, R: Throttle> {
        #[pin]
        state: State<A, R>,
    }
}

pin_project! {
    /// The stage of the wait.
    #[project = StateProjection]
    enum State<A: Throttle, R: Throttle> {
        First {
            #[pin]
            enter: A::Enter,
            // `Some` until the first part is entered.
            links: Option<Chain<A, R>>,
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

impl<A: Throttle, R: Throttle> Future for EnterChain<A, R> {
    type Output = Result<(A::Permit, R::Permit), AcquireError>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        if let StateProjection::First { enter, links } = state.as_mut().project() {
            let entered = ready!(enter.poll(context));
            let links = links.take();
            // Drops the wait before anything else happens.
            state.set(State::Over);
            match (entered, links) {
                (Ok(permit), Some(Chain(first, rest))) => {
                    let first = RollbackGuard::new(first, permit);
                    let enter = rest.enter().into_inner();
                    state.set(State::Rest { enter, first });
                }
                (Ok(_), None) => unreachable!("the rest was not asked yet"),
                (Err(error), _) => return Poll::Ready(Err(error.of_part(0))),
            }
        }
        let StateProjection::Rest { enter, first } = state.as_mut().project() else {
            panic!("polled again after it was ready");
        };
        // A rejection drops the state: first the wait for the rest, then the permit of the first
        // part, which rolls it back.
        match ready!(enter.poll(context)) {
            Ok(rest) => {
                let first = first.take();
                state.set(State::Over);
                Poll::Ready(Ok((first, rest)))
            }
            Err(error) => {
                state.set(State::Over);
                Poll::Ready(Err(error.of_next_part()))
            }
        }
    }
}
