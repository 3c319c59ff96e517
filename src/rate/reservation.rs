//! [`Reservation`]: a place in the queue with a known delay.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::acquire::{Call, Stage};
use super::charge::Charge;
use super::shared::Shared;
use crate::error::AcquireError;
use crate::wait::{remaining_timeout, without_hint};

/// A place in the queue of a rate limiter, created by [`reserve`](super::RateLimiter::reserve).
///
/// Await it like [`acquire`](super::RateLimiter::acquire), with the same combinators; it is already
/// queued. A timeout that is shorter than the delay ends it at once. Drop it to give the place up.
///
/// # Errors
///
/// Awaiting it fails like [`acquire`](super::RateLimiter::acquire).
///
/// # Cancel safety
///
/// Dropping it before it completes leaves the queue, or refunds its charge. Waiters behind it are
/// immediately due earlier.
///
/// # Panics
///
/// Panics if it is polled again after it was ready.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Quota, RateLimiter};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let limiter = RateLimiter::new(Quota::per_second(1000));
/// limiter.try_acquire()?;
///
/// let reservation = limiter.reserve()?;
/// if reservation.delay() < Duration::from_secs(1) {
///     reservation.await?;
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a reservation that is dropped is given up"]
pub struct Reservation {
    state: Arc<Shared>,
    call: Call,
    /// The charge, if it was made without waiting.
    charge: Option<Charge>,
    /// Whether the wait is known to fit into the timeout around it. This is asked once, because the
    /// answer takes steps for the waiters in front.
    fits: bool,
}

impl Reservation {
    /// Joins the queue now.
    pub(super) fn new(state: &Arc<Shared>, cost: u64) -> Result<Self, AcquireError> {
        let mut call = Call::new(cost);
        // No task waits for it yet, so a timeout that is polling the caller does not apply to it.
        let charge = match without_hint(|| call.poll(state, Waker::noop())) {
            Poll::Ready(receipt) => Some(Charge(receipt?)),
            Poll::Pending => None,
        };
        Ok(Self {
            state: Arc::clone(state),
            call,
            charge,
            fits: false,
        })
    }

    /// Returns the time until its turn: zero if its turn has come, or if it was refused (awaiting
    /// it then returns the error).
    ///
    /// While a [hold](super::RateLimiter::hold) is open, it is the shortest delay: that if all holds were
    /// settled for nothing now, because a settlement may come at any time.
    ///
    /// The delay shrinks as time passes and as waiters in front leave. It grows only if a hold is settled
    /// for its usage, if a charge
    /// exceeds the acquired cost ([`charge`](super::RateLimiter::charge),
    /// [`settle`](super::RateLimiter::settle)), if the quota
    /// [changes](super::RateLimiter::set_quota), or, with
    /// [`MissedTickBehavior::Delay`](super::MissedTickBehavior::Delay), if the timer is late.
    ///
    /// It is exact for at most 1,024 waiters in front. If the queue in front is longer, the waiters
    /// after the first 1,024 count together. With the default algorithm this is exact, except that
    /// waiters that have left since may still count; so the delay may be too long until fewer are in
    /// front, never too short. With another
    /// [algorithm](super::RateLimiter::algorithm) it is the earliest time. This takes at most 1,024
    /// steps under the limiter's lock, even for a log of any length.
    pub fn delay(&self) -> Duration {
        match &self.call.stage {
            Stage::Waiting(waiter) => waiter.delay().unwrap_or_default(),
            Stage::New | Stage::Over => Duration::ZERO,
        }
    }

    /// Returns its cost.
    pub fn cost(&self) -> u64 {
        self.call.cost
    }
}

impl Future for Reservation {
    type Output = Result<Charge, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(charge) = self.charge.take() {
            return Poll::Ready(Ok(charge));
        }
        let asked = remaining_timeout().filter(|_| !std::mem::replace(&mut self.fits, true));
        if let Some(budget) = asked {
            let after = self.delay();
            if after > budget {
                // The wait would exceed the timeout: it leaves, in the same way as when it is
                // dropped.
                self.call.stage = Stage::Over;
                return Poll::Ready(Err(AcquireError::would_take(after)));
            }
        }
        self.call.wait(context.waker()).map_ok(Charge)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(charge) = self.charge.take() {
            self.state.refund(&charge, charge.cost());
        }
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("cost", &self.cost())
            .field("waiting", &self.call.is_waiting())
            .finish_non_exhaustive()
    }
}
