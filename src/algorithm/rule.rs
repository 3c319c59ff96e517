//! [`Rule`], the one interface of all algorithms; and [`Receipt`], the record of a charge with
//! which the rule finds it again.
//!
//! Times are ticks of the limiter's clock, costs are tokens. A rule never reads a clock: every call
//! that needs the time takes it as an argument. With a time older than a previous one, a rule
//! admits less, never more.

use std::sync::atomic::{AtomicU64, Ordering};

use super::params::clamped;
use super::promise::Promise;
use super::quota_change::QuotaChange;
use crate::time::Tick;

/// The decisions of one algorithm.
pub(crate) trait Rule {
    /// Returns the maximum charge at once.
    fn capacity(&self) -> u64;

    /// Returns the first tick at which `cost` fits after `behind` has been charged before it, each
    /// part of it when it is due: exact if `behind` is 0, and the earliest possible tick otherwise.
    /// A cost above the capacity fits when the backlog is empty. The last tick means never.
    fn due(&self, behind: u128, cost: u64) -> Tick;

    /// Charges at a tick, with any backlog. The cost of the receipt is the part for which there was
    /// room.
    fn charge(&mut self, at: Tick, cost: u64) -> Receipt;

    /// Does the same as [`charge`](Self::charge), for a waiter that became due within the
    /// nanosecond that ends at this tick.
    fn grant(&mut self, at: Tick, cost: u64) -> Receipt {
        self.charge(at, cost)
    }

    /// Spends the available burst at the end of a pause, except for one token.
    fn spend_burst(&mut self, at: Tick) {
        let free = self.capacity().saturating_sub(self.backlog(at));
        if free > 1 {
            self.charge(at, free - 1);
        }
    }

    /// Gives back up to `cost` of a charge, except the part that time has paid off, and returns the
    /// refund, in units of the rule.
    fn give_back(&mut self, receipt: &Receipt, cost: u64, now: Tick) -> u64;

    /// Returns the used part of the capacity at a tick, in tokens, rounded up.
    fn backlog(&mut self, now: Tick) -> u64;

    /// Returns the first tick at which the backlog is empty.
    fn reset(&self) -> Tick;

    /// Returns the backlog just after a charge, and the tick at which that was, or will be, paid
    /// off; or the part of this that the rule still knows.
    fn after(&mut self, receipt: &Receipt) -> (u64, Tick) {
        (self.backlog(receipt.at), self.reset())
    }

    /// Returns the earliest tick for the charge of a late waiter, if the limiter makes up for at
    /// most `most` tokens. The default is the number that comes in 10 ms, and at least one.
    fn earliest(&self, now: Tick, most: Option<u64>) -> Tick;

    /// Returns whether the clock seems to have been set back.
    fn is_ahead_of(&self, now: Tick) -> bool;

    /// Changes the quota to one that does not mean the same.
    fn change(&mut self, promise: &Promise, how: QuotaChange, now: Tick);

    /// Returns how the use by others that a server has told counts. The server says that its
    /// present window ends at `end`. If the steps of this rule are `windows`, they end with those
    /// of the server from now on: the present one later than before, or up to `earlier` nanoseconds
    /// earlier.
    fn follow(&mut self, _windows: bool, _end: Tick, _now: Tick, _earlier: u64) -> OfOthers {
        OfOthers::Standing
    }

    /// Forgets all receipts so far, which can no longer be refunded. The limiter rejects them by their
    /// generation, so only a rule that counts refunds or tickets has something to do.
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

/// The way in which charges of others to the same server count.
pub(crate) enum OfOthers {
    /// Time pays it off like any charge.
    Charged,
    /// It stays the same, because others are assumed to continue in the same way. It is known for a
    /// period.
    Standing,
    /// It grows evenly from the beginning of the window until its `end`. It is unknown if the
    /// charge is not of this window.
    Growing { end: Tick, is_of_this: bool },
}

/// The charge of a limiter for one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// The position of the charge among all charges of its rule. The rule finds the charge by it.
    pub(crate) ticket: u64,
    /// The [generation](fresh_generation) of the charge. The rule leaves that to the limiter.
    pub(crate) generation: u64,
    pub(crate) cost: u64,
    pub(crate) at: Tick,
    /// The backlog just after the charge, if the rule knows it: in its own units.
    pub(crate) owed: u64,
}

/// Returns a number for the charges that a limiter makes from now on: no other limiter of the
/// process has it, and the limiter did not have it before. So a limiter recognizes a receipt of
/// another limiter, or one from before its charges were numbered again. The low half is zero, for
/// the hash of a key.
pub(crate) fn fresh_generation() -> u64 {
    // This is not a modelled atomic: a model may run the limiters of many executions.
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed).rotate_left(32)
}
