//! [`Reservation`]: a place in line that one can look at.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::acquire::Entry;
use super::charge::Charge;
use super::core::Core;
use crate::error::{AcquireError, ErrorKind};
use crate::wait::{Waiting, remaining_timeout};

/// A place in the line of a rate limiter, made by [`reserve`](super::RateLimiter::reserve).
///
/// - Await it, as one awaits [`acquire`](super::RateLimiter::acquire), with all that can be added
///   to that. The difference is that it is in line already. A timeout that is shorter than the
///   delay ends it at once.
/// - [`confirm`](Waiting::confirm) it to come back after the delay by one's own means: to be charged
///   in any case and come then.
/// - Drop it to give the place up.
///
/// # Cancel safety
///
/// Dropped before it was awaited to its end or confirmed, it leaves the line, or is refunded what
/// it was charged. Those behind it are due earlier at once.
///
/// # Panics
///
/// If it is polled again after it was ready.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Clock, Quota, RateLimiter};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let limiter = RateLimiter::new(Quota::per_second(10)).clock(Clock::manual());
/// limiter.try_acquire()?;
///
/// let reservation = limiter.reserve()?;
/// if reservation.delay() < Duration::from_secs(1) {
///     let delay = reservation.confirm()?;
///     tokio::time::sleep(delay).await;
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a reservation that is dropped is given up"]
pub struct Reservation {
    entry: Entry<Arc<Core>>,
    /// Charged before it had to wait.
    charge: Option<Charge>,
}

impl Reservation {
    pub(super) fn charged(entry: Entry<Arc<Core>>, charge: Charge) -> Self {
        Self {
            entry,
            charge: Some(charge),
        }
    }

    pub(super) fn in_line(entry: Entry<Arc<Core>>) -> Self {
        Self {
            entry,
            charge: None,
        }
    }

    /// How long it will be until its turn comes; zero when it has come, or when it was refused, as
    /// awaiting it tells.
    ///
    /// It gets smaller as time passes, and when others in front leave; and longer only if more is
    /// charged than was acquired ([`charge`](super::RateLimiter::charge),
    /// [`settle`](super::RateLimiter::settle)), the quota [changes](super::RateLimiter::set_quota),
    /// or, with [`MissedTick::Delay`](super::MissedTick::Delay), the timer is late. Takes a number
    /// of steps that grows with the line.
    pub fn delay(&self) -> Duration {
        let core = self.entry.core();
        core.enter_runtime();
        let due = self.entry.ticket().and_then(|ticket| core.due_of(ticket));
        due.map_or(Duration::ZERO, |due| {
            due.saturating_since(core.clock().now())
        })
    }

    /// How much it asks for.
    pub fn cost(&self) -> u64 {
        self.entry.cost()
    }
}

/// Keeping it.
impl Waiting<Reservation> {
    /// Keeps the place, and says after what time to go on, without asking again.
    ///
    /// The charge is made for good, when its turn comes or at once, and cannot be refunded. Until
    /// then the place counts as [waiting](super::RateLimiter::waiting). Nobody is told any more what
    /// happens to it: whether the limiter is closed meanwhile, or a quota that changes makes it due
    /// later than was said. To hear of that, await the reservation. The
    /// [jitter](super::RateLimiter::jitter), if there is one, is part of the time.
    ///
    /// # Errors
    ///
    /// If it was refused while it was in line: [`Closed`](crate::ErrorKind::Closed), or
    /// [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity) after the quota has changed. Nothing
    /// is charged then.
    pub fn confirm(self) -> Result<Duration, AcquireError> {
        let mut this = self.into_inner();
        if this.charge.take().is_some() {
            return Ok(Duration::ZERO);
        }
        let delay = this.delay();
        if let Some(ticket) = this.entry.take_ticket() {
            this.entry.core().leave_unattended(&ticket)?;
        }
        Ok(this.entry.core().jittered(delay))
    }
}

impl Future for Reservation {
    type Output = Result<Charge, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(charge) = self.charge.take() {
            return Poll::Ready(Ok(charge));
        }
        if remaining_timeout().is_some_and(|left| self.delay() > left) {
            // It would not fit. What is left to do is what dropping it does.
            self.entry.leave();
            return Poll::Ready(Err(AcquireError::new(ErrorKind::TimedOut)));
        }
        self.entry.poll(context)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(charge) = self.charge.take() {
            self.entry.core().refund(&charge, charge.cost());
        }
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("cost", &self.cost())
            .field("in_line", &self.entry.ticket().is_some())
            .finish_non_exhaustive()
    }
}
