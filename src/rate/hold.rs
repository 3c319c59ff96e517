//! [`Hold`]: a charge whose cost is known afterwards.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::RateLimiter;
use super::acquire::Limiter;
use super::charge::Charge;
use super::shared::Shared;
use crate::algorithm::HeldCharge;

/// A charge whose usage is known afterwards, created by [`RateLimiter::hold`].
///
/// Dropping it settles it for its whole cost, so a cancelled call counts as if it had used
/// everything that it asked for. Leaking it, for example with [`mem::forget`](std::mem::forget),
/// holds it for ever, unless the limiter has a [`max_hold`](RateLimiter::max_hold).
#[must_use = "a hold is settled for its whole cost when it is dropped"]
pub struct Hold {
    shared: Arc<Shared>,
    charge: Charge,
    held: HeldCharge,
    is_settled: bool,
}

/// Costs that are known afterwards.
impl RateLimiter {
    /// Holds a charge until the usage of the call is known, and then charges that usage as of the
    /// beginning.
    ///
    /// Without a hold, time pays off an estimate while the call runs, and the part that has been
    /// paid off cannot be [given back](Self::settle). What a hold does depends on the algorithm:
    ///
    /// | | until it is settled | the settlement |
    /// |---|---|---|
    /// | [`Gcra`](crate::Algorithm::Gcra), [`TokenBucket`](crate::Algorithm::TokenBucket), [`FixedWindow`](crate::Algorithm::FixedWindow), [`SubInterval`](crate::Algorithm::SubInterval) | its whole cost counts as used, beside the other charges, and time pays off nothing of it | charges the usage as of the beginning: the unused part comes back, and the usage is paid off as if exactly that had been charged |
    /// | [`SlidingLog`](crate::Algorithm::SlidingLog), [`SlidingWindow`](crate::Algorithm::SlidingWindow) | it is the charge itself, which counts from its own tick and ages like any other | corrects what still counts, down to nothing; what was used beyond the hold is charged now |
    ///
    /// So in the algorithms of the first row, the promise of the quota holds for the usage, by the
    /// ticks at which the holds began, in whatever order they are settled. A call is admitted only
    /// if it fits beside the whole held cost: otherwise it waits for a settlement, in the queue like
    /// any other. So make the burst as large as the holds of all calls that run at once. Providers
    /// of language models, for example, use the tokens of a minute. While there are holds, calls
    /// take the lock of the limiter. A `retry_after` is the time until a call would be admitted if
    /// nothing were settled, and `None` if a hold has to be settled, or to [end](Self::max_hold),
    /// first; a timeout refuses a wait
    /// only if it would be too long even if everything were settled now.
    ///
    /// In the second row no call waits for a settlement. A settlement for less takes a time that is
    /// linear in the count of a log, like every [refund](Self::refund) there. Use a log for
    /// requests, not for tokens.
    ///
    /// # Calls that take longer than the period
    ///
    /// A provider that counts a call when it begins has forgotten a call of two periods when it
    /// ends, and so has the limiter: nothing of a settlement is owed any more. A provider that
    /// counts a call when it *ends* counts the usage then. For such a one,
    /// [charge](Self::charge) the usage at the end, and then settle the hold for 0: the usage is owed
    /// from now on, and no waiter is admitted in between. In a log or a window a call that takes
    /// longer than the period is then no longer reserved when it ends, so the provider may be
    /// exceeded.
    ///
    /// # Other changes
    ///
    /// If the quota was changed since the hold began, the usage is charged as of the change. A hold
    /// that began before a [pause](Self::pause_for) counts before it. A charge of another limiter is
    /// held beside the charges of this one, and so is one from before a change of the quota, which
    /// was carried over. [`max_hold`](Self::max_hold) ends a hold that is never
    /// settled. A [refund](Self::refund) of a charge that was made while a hold was open may give back
    /// less once that hold is settled, because the usage of the hold counts as newer there.
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
        let made = self.state_of_charge(&charge);
        let shared = made.unwrap_or_else(|| self.here(Arc::clone));
        let longest = Duration::from_nanos(shared.config.max_hold);
        let held = shared.change(|ledger, now| ledger.hold(charge.0, now, longest));
        Hold {
            shared,
            charge,
            held,
            is_settled: false,
        }
    }
}

impl Hold {
    /// Returns the held cost.
    pub fn cost(&self) -> u64 {
        self.held.cost
    }

    /// Returns the charge, for [`follow`](RateLimiter::follow).
    pub fn charge(&self) -> &Charge {
        &self.charge
    }

    /// Charges the usage as of the beginning of the hold, and returns the rest; in a log or a window
    /// it [corrects the charge](RateLimiter::hold). The usage may exceed the hold: then later calls
    /// wait for it, like after [`charge`](RateLimiter::charge). Waiters that become due are admitted.
    ///
    /// # Examples
    ///
    /// See [`RateLimiter::hold`].
    pub fn settle(mut self, used: u64) {
        self.end(used);
    }

    fn end(&mut self, used: u64) {
        self.is_settled = true;
        self.shared
            .change(|ledger, now| ledger.settle(&self.held, used, now));
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.is_settled {
            self.end(self.cost());
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
