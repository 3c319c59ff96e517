//! How a request enters the throttle: it waits, waits with a timeout, or does not wait.
//!
//! Only a layer that rejects at once needs a [`TryThrottle`](tollgate::TryThrottle). So the method is
//! stored as a value, and the types of the layer and the service are the same in all three cases.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project::pin_project;

use tollgate::AcquireError;
use tollgate::throttle::Throttle;
use tollgate::{Timeout, Waiting};

/// [`try_enter`](tollgate::TryThrottle::try_enter) of the throttle.
type TryEnter<T> = fn(&T) -> Result<<T as Throttle>::Permit, AcquireError>;

/// What a request does if the throttle does not admit it at once.
#[derive(Clone)]
pub(super) enum Patience<T: Throttle> {
    Waits,
    WaitsFor(Duration),
    Leaves(TryEnter<T>),
}

impl<T: Throttle> fmt::Debug for Patience<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waits => f.write_str("Waits"),
            Self::WaitsFor(duration) => f.debug_tuple("WaitsFor").field(duration).finish(),
            Self::Leaves(_) => f.write_str("Leaves"),
        }
    }
}

/// A request that waits for the throttle. It must not be polled after completion.
#[pin_project(project = EnteringProjection)]
pub(super) enum Entering<T: Throttle> {
    Waits(#[pin] Waiting<T::Enter>),
    WaitsFor(#[pin] Waiting<Timeout<T::Enter>>),
}

impl<T: Throttle> Future for Entering<T> {
    type Output = Result<T::Permit, AcquireError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            EnteringProjection::Waits(enter) => enter.poll(context),
            EnteringProjection::WaitsFor(enter) => enter.poll(context),
        }
    }
}
