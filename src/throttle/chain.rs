//! One throttle after the other: what [`all`](super::all) is built of.
//!
//! A chain has two links, the second of which may be a chain. So the rule is written once, for two, and
//! holds for any number:
//!
//! 1. The first is entered before the second is asked.
//! 2. What has been entered is undone, the last first, when the rest refuses or the wait is dropped.
//!    Before it is undone, the wait for the rest is over.
//! 3. The part that refused is counted from the first.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project::{pin_project, pinned_drop};

use super::{Throttle, TryThrottle};
use crate::error::AcquireError;

/// A part with what comes after it, or the last part.
pub trait Link: Clone {
    /// What one has when one has entered it.
    type Permit;

    /// The wait.
    type Enter: Future<Output = Result<Self::Permit, AcquireError>>;

    /// As [`Throttle::enter`], of a link that is the wait's own.
    fn into_enter(self) -> Self::Enter;

    /// As [`Throttle::undo`].
    fn undo(&self, permit: Self::Permit);
}

/// A link that can say at once whether it lets a caller in.
pub trait TryLink: Link {
    /// As [`TryThrottle::try_enter`].
    fn try_enter(&self) -> Result<Self::Permit, AcquireError>;
}

/// The first part, and the rest.
#[derive(Clone, Debug)]
pub struct Chain<A, R>(pub(super) A, pub(super) R);

/// The last part.
#[derive(Clone, Debug)]
pub struct Last<A>(pub(super) A);

impl<A: Throttle> Link for Last<A> {
    type Permit = A::Permit;
    type Enter = EnterLast<A::Enter>;

    #[inline]
    fn into_enter(self) -> Self::Enter {
        EnterLast(self.0.enter())
    }

    #[inline]
    fn undo(&self, permit: A::Permit) {
        self.0.undo(permit);
    }
}

impl<A: TryThrottle> TryLink for Last<A> {
    #[inline]
    fn try_enter(&self) -> Result<A::Permit, AcquireError> {
        self.0.try_enter().map_err(|error| error.of_part(0))
    }
}

/// The wait of the last part.
#[pin_project]
pub struct EnterLast<E>(#[pin] E);

impl<P, E: Future<Output = Result<P, AcquireError>>> Future for EnterLast<E> {
    type Output = E::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<E::Output> {
        let polled = self.project().0.poll(context);
        polled.map_err(|error| error.of_part(0))
    }
}

impl<A: Throttle, R: Link> Link for Chain<A, R> {
    type Permit = (A::Permit, R::Permit);
    type Enter = EnterChain<A, R>;

    #[inline]
    fn into_enter(self) -> Self::Enter {
        EnterChain {
            state: State::First(self.0.enter()),
            entered: None,
            first: self.0,
            rest: Some(self.1),
        }
    }

    #[inline]
    fn undo(&self, (first, rest): Self::Permit) {
        self.1.undo(rest);
        self.0.undo(first);
    }
}

impl<A: TryThrottle, R: TryLink> TryLink for Chain<A, R> {
    #[inline]
    fn try_enter(&self) -> Result<Self::Permit, AcquireError> {
        let first = self.0.try_enter().map_err(|error| error.of_part(0))?;
        match self.1.try_enter() {
            Ok(rest) => Ok((first, rest)),
            Err(error) => {
                self.0.undo(first);
                Err(error.of_next_part())
            }
        }
    }
}

/// The wait for the first part, and then for the rest.
#[pin_project(PinnedDrop)]
pub struct EnterChain<A: Throttle, R: Link> {
    #[pin]
    state: State<A::Enter, R::Enter>,
    /// What the first gave, while the rest is waited for.
    entered: Option<A::Permit>,
    first: A,
    /// Until it is waited for.
    rest: Option<R>,
}

/// Where the wait is.
#[pin_project(project = StateProjection)]
enum State<F, R> {
    First(#[pin] F),
    Rest(#[pin] R),
    Over,
}

impl<A: Throttle, R: Link> Future for EnterChain<A, R> {
    type Output = Result<(A::Permit, R::Permit), AcquireError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let StateProjection::First(first) = this.state.as_mut().project() {
            let entered = ready!(first.poll(context));
            // The wait is over before anything else happens.
            this.state.set(State::Over);
            match (entered, this.rest.take()) {
                (Ok(permit), Some(rest)) => {
                    *this.entered = Some(permit);
                    this.state.set(State::Rest(rest.into_enter()));
                }
                (Ok(_), None) => unreachable!("the rest was not asked yet"),
                (Err(error), _) => return Poll::Ready(Err(error.of_part(0))),
            }
        }
        let StateProjection::Rest(rest) = this.state.as_mut().project() else {
            panic!("polled again after it was ready");
        };
        let rest = ready!(rest.poll(context));
        this.state.set(State::Over);
        Poll::Ready(match (rest, this.entered.take()) {
            (Ok(rest), Some(first)) => Ok((first, rest)),
            (Err(error), Some(first)) => {
                this.first.undo(first);
                Err(error.of_next_part())
            }
            (_, None) => unreachable!("the first part was entered"),
        })
    }
}

#[pinned_drop]
impl<A: Throttle, R: Link> PinnedDrop for EnterChain<A, R> {
    fn drop(self: Pin<&mut Self>) {
        let mut this = self.project();
        if let Some(first) = this.entered.take() {
            // Leaves the line of the rest before the first is undone.
            this.state.set(State::Over);
            this.first.undo(first);
        }
    }
}
