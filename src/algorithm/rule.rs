//! [`Rule`]: the one interface of all algorithms.
//!
//! Times are ticks of the limiter's clock, costs are tokens. A rule never reads a clock: every call
//! that needs the time takes it as an argument. With an older time than one that was seen, a rule
//! admits less, never more.

use super::definition::Promise;
use super::params::clamped;
use super::quota_change::QuotaChange;
use super::receipt::Receipt;
use crate::time::Tick;

/// How one algorithm decides.
pub(crate) trait Rule {
    /// Returns the most that can be charged at once.
    fn capacity(&self) -> u64;

    /// Returns the first tick at which `cost` fits after `behind` has been charged before it, each
    /// part of it when it is due: exact if `behind` is 0, and the earliest possible otherwise. A
    /// cost above the capacity fits when the backlog is empty. Never is the last tick.
    fn due(&self, behind: u128, cost: u64) -> Tick;

    /// Charges at a tick, whatever the backlog is. The cost of the receipt is the part that there
    /// was room for.
    fn charge(&mut self, at: Tick, cost: u64) -> Receipt;

    /// Does the same as [`charge`](Self::charge), for a waiter that became due within the
    /// nanosecond that ends at this tick.
    fn grant(&mut self, at: Tick, cost: u64) -> Receipt {
        self.charge(at, cost)
    }

    /// Spends what is available at the end of a pause, except for one token.
    fn spend_burst(&mut self, at: Tick) {
        let free = self.capacity().saturating_sub(self.backlog(at));
        if free > 1 {
            self.charge(at, free - 1);
        }
    }

    /// Gives back up to `cost` of a charge, except what time has paid off, and returns how much
    /// that was, in units of the rule.
    fn give_back(&mut self, receipt: &Receipt, cost: u64, now: Tick) -> u64;

    /// Returns the tokens that are missing from the capacity at a tick, rounded up.
    fn backlog(&mut self, now: Tick) -> u64;

    /// Returns the first tick at which the backlog is empty.
    fn reset(&self) -> Tick;

    /// Returns the backlog just after a charge, and the tick at which that was, or will be, paid
    /// off; or what the rule still knows of this.
    fn after(&mut self, receipt: &Receipt) -> (u64, Tick) {
        (self.backlog(receipt.at), self.reset())
    }

    /// Returns the earliest tick for the charge of a late waiter, if at most `most` tokens are made
    /// up for. The default is as many as come in 10 ms, and at least one.
    fn earliest(&self, now: Tick, most: Option<u64>) -> Tick;

    /// Returns whether the clock seems to have been set back.
    fn is_ahead_of(&self, now: Tick) -> bool;

    /// Changes the quota, and returns `false` if it means the same as before.
    fn change(&mut self, promise: &Promise, how: QuotaChange, now: Tick) -> bool;

    /// Forgets all charges.
    fn clear(&mut self);

    /// Forgets all receipts so far, which can no longer be refunded.
    fn forget_receipts(&mut self) {}
}

/// Returns the earliest tick for the charge of a late waiter, like [`Rule::earliest`], if `count`
/// tokens come in a period.
pub(super) fn earliest_of(now: Tick, most: Option<u64>, count: u64, period: u64) -> Tick {
    let (count, period) = (u128::from(count), u128::from(period));
    let most = most.map_or((10_000_000 * count / period).max(1), u128::from);
    let nanos = most.saturating_mul(period).div_ceil(count);
    let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
    Tick::from_nanos(clamped(now).saturating_sub(nanos))
}
