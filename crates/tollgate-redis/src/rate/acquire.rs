//! [`Acquire`]: the wait for a rate limit on a server.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tollgate::AcquireError;

use super::charge::Charge;
use super::state::Rate;
use crate::queue::Wait;

/// The future of `acquire`, `try_acquire` and similar methods of a
/// [`RateLimiter`](super::RateLimiter).
///
/// It joins the queue when it is first polled. It can be polled anywhere, also outside of the
/// store's runtime.
///
/// # Cancel safety
///
/// If the future is dropped while it waits, it leaves the queue, and the waiters behind it move up.
/// If it is dropped during a call of the server, its charge is refunded when the reply arrives.
///
/// # Panics
///
/// Panics if it is polled again after completion.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire(pub(super) Wait<Rate>);

impl Future for Acquire {
    type Output = Result<Charge, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(context)
    }
}
