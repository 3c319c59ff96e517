//! [`Charge`], the record of a charge; [`Reservation`], a place in the queue with a known delay; and [`Hold`], a
//! charge whose cost is known afterwards.
//!
//! Of holds:
//!
//! 1. The held cost is a number beside the rule. A call is admitted when its cost and the whole
//!    held cost fit together. Time pays off nothing of the held cost, so while it is not 0, only
//!    the holder of the lock decides.
//! 2. When a hold is settled, the usage is charged as of its beginning, and is no longer held. So
//!    no call was admitted that the limiter would not have admitted after that charge.
//! 3. A change of the quota, or a pause, forgets the idle time since the beginning: the usage is
//!    then charged as of now.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::RateLimiter;
use super::acquire::{Call, Limiter, Stage};
use super::locked::Locked;
use super::shared::Shared;
use crate::algorithm::Receipt;
use crate::error::AcquireError;
use crate::time::Tick;
use crate::wait::{remaining_timeout, without_hint};

/// The charge of a rate limiter for a call.
///
/// A charge is plain data: dropping it keeps the charge, and time pays it off. If the call was not
/// made after all, pass it to [`refund`](super::RateLimiter::refund); if the call cost more or
/// less, pass it to [`settle`](super::RateLimiter::settle). Pass it to the limiter that made the
/// charge: any other limiter gives nothing back. [`decision`](super::RateLimiter::decision) returns
/// that limiter's state just after the charge.
///
/// # Examples
///
/// ```
/// use tollgate::{Clock, Quota, RateLimiter};
///
/// let clock = Clock::manual();
/// let limiter = RateLimiter::new(Quota::per_second(10).burst(10)).clock(&clock);
/// let charge = limiter.try_acquire_many(4)?;
/// assert_eq!((charge.cost(), limiter.snapshot().available), (4, 6));
///
/// limiter.refund(charge);
/// assert_eq!(limiter.snapshot().available, 10);
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
#[derive(Debug)]
pub struct Charge(pub(crate) Receipt);

impl Charge {
    /// Returns the charged cost. It is the requested cost, except that a backlog that reaches the
    /// end of the limiter's time, years from now, has no room for all of it.
    #[inline]
    pub fn cost(&self) -> u64 {
        self.0.cost
    }

    /// Returns the tick of the charge, on the limiter's clock.
    ///
    /// The limiter keeps its promise by these ticks. A task resumes somewhat later: its thread may
    /// be interrupted after it has read the clock, and [a timer may be
    /// late](super::MissedTickBehavior).
    #[inline]
    pub fn at(&self) -> Tick {
        self.0.at
    }
}

/// A place in the queue of a rate limiter, created by [`reserve`](super::RateLimiter::reserve).
///
/// Await it like [`acquire`](super::RateLimiter::acquire), with the same combinators; it is already
/// queued. A timeout that is shorter than the delay ends it at once. Drop it to give the place up.
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
    shared: Arc<Shared>,
    call: Call,
    /// The charge, if it was made without waiting.
    charge: Option<Charge>,
    /// Whether the wait is known to fit into the timeout around it. This is asked once, because the
    /// answer takes steps for the waiters in front.
    fits: bool,
}

impl Reservation {
    /// Joins the queue now.
    pub(super) fn new(shared: &Arc<Shared>, cost: u64) -> Result<Self, AcquireError> {
        let mut call = Call::new(cost);
        // No task waits for it yet, so a timeout that is polling the caller does not apply to it.
        let charge = match without_hint(|| call.poll(shared, Waker::noop())) {
            Poll::Ready(charge) => Some(charge?),
            Poll::Pending => None,
        };
        Ok(Self {
            shared: Arc::clone(shared),
            call,
            charge,
            fits: false,
        })
    }

    /// Returns the time until its turn: zero if its turn has come, or if it was refused (awaiting
    /// it then returns the error). It is also zero after the end of the runtime whose time it was
    /// on: the next poll then joins the queue of another runtime.
    ///
    /// The delay shrinks as time passes and as waiters in front leave. It grows only if a charge
    /// exceeds the acquired cost ([`charge`](super::RateLimiter::charge),
    /// [`settle`](super::RateLimiter::settle)), if the quota
    /// [changes](super::RateLimiter::set_quota), or, with
    /// [`MissedTickBehavior::Delay`](super::MissedTickBehavior::Delay), if the timer is late.
    ///
    /// It is exact for at most 1,024 waiters in front. If the queue in front is longer, the waiters
    /// after the first 1,024 count together. With the default algorithm this is exact, except that
    /// waiters that have left since, or ask for more than a lowered burst, may still count; so the
    /// delay may be too long until fewer are in front, never too short. With another
    /// [algorithm](super::RateLimiter::algorithm) it is the earliest time. This takes at most 1,024
    /// steps under the limiter's lock, even for a log of any length.
    pub fn delay(&self) -> Duration {
        match &self.call.stage {
            Stage::Waiting(waiter) => waiter.delay().unwrap_or_default(),
            Stage::New | Stage::AsOf(_) | Stage::Over => Duration::ZERO,
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
        let this = &mut *self;
        this.call.poll(&this.shared, context.waker())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(charge) = self.charge.take() {
            self.shared.refund(&charge, charge.cost());
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

/// A charge that time does not pay off until it is [settled](Self::settle), created by
/// [`RateLimiter::hold`].
///
/// Dropping it settles it for its whole cost, so a cancelled call counts as if it had used
/// everything that it asked for. Leaking it, for example with [`mem::forget`](std::mem::forget),
/// holds it for ever.
#[must_use = "a hold is settled for its whole cost when it is dropped"]
pub struct Hold {
    shared: Arc<Shared>,
    charge: Charge,
    /// The moment at which it begins.
    begun: Receipt,
}

/// Costs that are known afterwards.
impl RateLimiter {
    /// Holds a charge until the usage of the call is known: time pays off no part of it until it is
    /// [settled](Hold::settle).
    ///
    /// The hold begins now. Until it is settled, its whole cost counts as used, beside the other
    /// charges. Then the usage is charged as of its beginning: so the unused part comes back, and
    /// the usage is paid off as if exactly that had been charged. The promise of the quota holds
    /// for the usage, by the ticks at which the holds began.
    ///
    /// Without a hold, time pays off an estimate while the call runs, and the part that has been
    /// paid off cannot be [given back](Self::settle).
    ///
    /// A call is admitted only if it fits beside the whole held cost: otherwise it waits for a
    /// settlement, in the queue like any other. So make the burst as large as the holds of all
    /// calls that run at once. Providers of language models, for example, use the tokens of a
    /// minute. A `retry_after` is the time until a call would be admitted if nothing were settled,
    /// [`Duration::MAX`] if it would never be; a timeout refuses a wait only if it would be too
    /// long even if everything were settled now.
    ///
    /// While there are holds, calls take the lock of the limiter. In a sliding log, beginning and
    /// settling a hold take a time that is linear in its count. If the quota was changed since the
    /// hold began, or the limiter was paused, the usage is charged as of the settlement. If holds
    /// are settled in an order other than that of their beginnings, a limiter that was idle between
    /// them may count later ones as charged somewhat later, never earlier. A charge of another
    /// limiter is held beside the charges of this one.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let clock = Clock::manual();
    /// let tokens = RateLimiter::new(Quota::per_second(1000).burst(1000)).clock(&clock);
    ///
    /// let hold = tokens.hold(tokens.try_acquire_many(800)?);
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(tokens.snapshot().available, 200);
    /// hold.settle(300);
    /// assert_eq!(tokens.snapshot().available, 1000);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    ///
    /// [`Duration::MAX`]: std::time::Duration::MAX
    #[doc(alias = "estimate")]
    pub fn hold(&self, charge: Charge) -> Hold {
        let shared = self.shared().state_of(&charge);
        let begun = shared.lock_on_time().hold(&charge);
        Hold {
            shared,
            charge,
            begun,
        }
    }
}

impl Hold {
    /// Returns the held cost.
    pub fn cost(&self) -> u64 {
        self.begun.cost
    }

    /// Returns the charge, for [`follow`](RateLimiter::follow).
    pub fn charge(&self) -> &Charge {
        &self.charge
    }

    /// Charges the usage as of the beginning of the hold, and returns the rest. The usage may
    /// exceed the hold: then later calls wait for it, like after [`charge`](RateLimiter::charge).
    /// Waiters that become due are admitted.
    ///
    /// # Examples
    ///
    /// See [`RateLimiter::hold`].
    pub fn settle(mut self, used: u64) {
        self.end(used);
    }

    fn end(&mut self, used: u64) {
        let begun = std::mem::take(&mut self.begun);
        let charge = &self.charge.0;
        let mut locked = self.shared.lock_on_time();
        locked.forget_call(charge, i128::from(begun.cost) - i128::from(used));
        locked.settle(&begun, used);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.begun.cost > 0 {
            self.end(self.begun.cost);
        }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("cost", &self.cost())
            .finish_non_exhaustive()
    }
}

impl Locked<'_> {
    fn hold(&mut self, charge: &Charge) -> Receipt {
        let (now, cost) = (self.now, charge.cost());
        // This comes before the refund, because that may serve waiters.
        self.held += u128::from(cost);
        self.return_to_rule(charge, cost);
        Receipt {
            generation: self.generation,
            ..self.rule.hold(now, cost)
        }
    }

    fn settle(&mut self, hold: &Receipt, used: u64) {
        let (now, late) = (self.now, self.is_late());
        if hold.generation == self.generation {
            self.rule.charge_as_of(hold, used, now);
        } else {
            _ = self.rule.charge(now, used);
        }
        self.held -= u128::from(hold.cost);
        self.head_changed(late);
    }
}
