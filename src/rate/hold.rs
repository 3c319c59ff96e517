//! [`Hold`]: a charge whose cost is known afterwards.
//!
//! 1. The held cost is a number beside the rule. A call is admitted when its cost and the whole
//!    held cost fit together. Time pays off nothing of the held cost, so while it is not 0, only
//!    the holder of the lock decides.
//! 2. When a hold is settled, the usage is charged as of its beginning, and is no longer held. So
//!    no call was admitted that the limiter would not have admitted after that charge.
//! 3. A change of the quota, or a pause, forgets the idle time since the beginning: the usage is
//!    then charged as of now.

use std::fmt;
use std::sync::Arc;

use super::RateLimiter;
use super::acquire::Limiter;
use super::charge::Charge;
use super::locked::Locked;
use super::shared::Shared;
use crate::algorithm::Receipt;

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
    /// minute. A `retry_after` is the time until a call would be admitted if nothing were settled, and `None`
    /// if a hold has to be settled first; a timeout refuses a wait only if it would be too long even if
    /// everything were settled now.
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
