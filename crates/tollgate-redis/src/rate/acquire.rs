//! [`Acquire`]: waiting for a rate limit on a server.

use super::charge::Charge;
use super::state::Rate;
use crate::queue::{Wait, wait_future};

/// The future of `acquire`, `try_acquire` and their like of a [`RateLimiter`](super::RateLimiter).
///
/// It joins the queue when it is first polled. It can be polled anywhere, also outside of the store's
/// runtime.
///
/// # Cancel safety
///
/// Dropped while it waits, it leaves the queue, and the waiters behind it move up. Dropped while the
/// server is being asked, it gives back what it is charged when the reply is there.
///
/// # Panics
///
/// If it is polled again after it was ready.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire(pub(super) Wait<Rate>);

wait_future!(Acquire, Charge);
