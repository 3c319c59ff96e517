//! The future of `acquire`: that of a rate limiter, and then the request begins.

use std::fmt;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{AdaptiveRate, RatePermit};
use crate::error::AcquireError;
use crate::rate::Acquire;
use crate::time::Tick;

/// The future of [`AdaptiveRate::acquire`] and [`acquire_owned`](AdaptiveRate::acquire_owned). `S`
/// derefs to the limiter.
///
/// It joins the queue when it is first polled. Dropping it loses nothing.
///
/// # Panics
///
/// Panics if it is polled again after it has completed.
#[must_use = "a future does nothing unless it is awaited"]
pub struct AcquireRate<S: Deref<Target = AdaptiveRate>>(Acquire<S>);

impl<S: Deref<Target = AdaptiveRate>> AcquireRate<S> {
    #[inline]
    pub(in crate::adaptive) fn new(rate: S) -> Self {
        Self(Acquire::new(rate, 1))
    }

    pub(in crate::adaptive) fn as_of(rate: S, tick: Tick) -> Self {
        Self(Acquire::as_of(rate, 1, tick))
    }
}

impl<S: Deref<Target = AdaptiveRate> + Clone + Unpin> Future for AcquireRate<S> {
    type Output = Result<RatePermit<S>, AcquireError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // The change of a quota keeps a charge that was made before it from being refunded, so
        // a newcomer makes a step that is due before its own charge.
        let is_new = self.0.is_new();
        if is_new {
            self.0.source().step_if_due();
        }
        let polled = Pin::new(&mut self.0).poll(context);
        polled.map_ok(|charge| {
            let permit = RatePermit::new(self.0.source().clone(), charge);
            // There may be no newcomer for as long as others wait.
            if !is_new {
                permit.rate().step_for_waiters();
            }
            permit
        })
    }
}

impl<S: Deref<Target = AdaptiveRate>> fmt::Debug for AcquireRate<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
