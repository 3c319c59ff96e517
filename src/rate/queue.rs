//! [`QueueState`]: the state under the lock of a limiter, that is, the rule and the waiters.
//!
//! Every change of due times goes through one guard, [`Locked`](super::locked::Locked). Its page
//! has the invariants.

use super::charge::Charge;
use super::costs::CostSums;
use super::followed::{Followed, OthersUse};
use crate::algorithm::{Receipt, RuleState};
use crate::error::{AcquireError, ErrorKind};
use crate::quota::Quota;
use crate::time::Tick;
use crate::wait_queue::{WaitQueue, WaiterId};

/// The state of a waiter: a call that waits, and then its outcome until the waiter collects it.
#[derive(Clone, Copy, Default)]
pub(super) enum QueueEntry {
    Waiting(Request),
    Charged(Receipt),
    /// The waiter asks for more than the lowered capacity.
    Refused {
        capacity: u64,
    },
    /// The runtime has ended, and the waiter moves to another queue.
    #[default]
    Moves,
}

/// The request of a waiter.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) cost: u64,
    /// The tick at which it counts as joined.
    pub(super) at: Tick,
    /// The total cost of all waiters that had joined by then, itself included.
    pub(super) joined: u128,
}

impl QueueEntry {
    fn request(self) -> Option<Request> {
        match self {
            Self::Waiting(request) => Some(request),
            _ => None,
        }
    }
}

/// The state under the lock.
pub(super) struct QueueState {
    pub(super) rule: RuleState,
    pub(super) quota: Quota,
    /// The number of changes of the quota.
    pub(super) changes: u64,
    /// Whether the limiter is closed. A waiter without an entry was then released by `close`.
    pub(super) waiters: WaitQueue<QueueEntry>,
    /// The total cost of the waiters that can be admitted. It excludes waiters that ask for more
    /// than the lowered burst.
    pub(super) queued: u128,
    /// The costs of all waiters, for the computation of `queued` when the burst changes; empty if a
    /// call may overdraw the burst.
    pub(super) costs: CostSums,
    /// The total cost of all waiters that ever joined.
    pub(super) joined: u128,
    pub(super) closed: bool,
    /// The tick of the last rescheduling of the waiters: none was due before it.
    pub(super) timed: Tick,
    /// No call is admitted before this tick. In the rule, the burst is spent as of this tick.
    pub(super) paused_until: Tick,
    /// The [held](super::Hold) cost, beside the charges.
    pub(super) held: u128,
    /// The known state of a server whose count is [followed](super::RateLimiter::follow).
    pub(super) followed: Option<Box<Followed>>,
    /// Charges of other generations cannot be refunded: they are earlier charges, or those of
    /// another limiter.
    pub(super) generation: u64,
}

impl QueueState {
    pub(super) fn new(rule: RuleState, quota: Quota, generation: u64) -> Self {
        Self {
            rule,
            quota,
            changes: 0,
            waiters: WaitQueue::new(),
            queued: 0,
            costs: CostSums::default(),
            joined: 0,
            closed: false,
            timed: Tick::default(),
            paused_until: Tick::default(),
            held: 0,
            followed: None,
            generation,
        }
    }

    /// Returns the tick at which `cost` is due after `behind` has been charged, like the rule, but
    /// not before the end of a pause. It assumes that no hold is settled until then.
    pub(super) fn due(&self, behind: u128, cost: u64) -> Tick {
        self.due_by(|cost| self.rule.due(behind, cost), self.held, cost)
    }

    /// Does the same with `due` in place of the rule, for this held cost.
    pub(super) fn due_by(&self, due: impl Fn(u64) -> Tick, held: u128, cost: u64) -> Tick {
        let (others, capacity) = (self.of_others(), self.rule.capacity());
        let due_beside = |others: u64| {
            let beside = held + u128::from(others);
            let all = u64::try_from(beside + u128::from(cost)).unwrap_or(u64::MAX);
            if beside == 0 || all <= capacity {
                due(all).max(self.paused_until)
            } else {
                Tick::from_nanos(u64::MAX)
            }
        };
        if others.cost == 0 {
            return due_beside(0);
        }
        // When the use by others is no longer known, one call goes alone, to learn it from the
        // response.
        let rest = capacity.saturating_sub(cost);
        let later = match others.growth {
            None => others.cost.min(rest),
            Some(_) => 0,
        };
        due_beside(others.cost).min(due_beside(later).max(others.until))
    }

    /// Returns the use by [others](super::RateLimiter::follow), beside the charges.
    pub(super) fn of_others(&self) -> OthersUse {
        let followed = self.followed.as_ref();
        followed.map_or_else(OthersUse::default, |it| it.of_others)
    }

    /// Returns the cost that counts beside the charges.
    pub(super) fn beside(&self) -> u64 {
        let beside = self.held + u128::from(self.of_others().cost);
        u64::try_from(beside).unwrap_or(u64::MAX)
    }

    /// Returns whether the clock seems to have been set back. A pause leads to the same state of the
    /// rule, and comparing clocks costs more than a refusal.
    pub(super) fn is_ahead_of(&self, now: Tick) -> bool {
        self.rule.is_ahead_of(now) && now >= self.paused_until
    }

    /// Returns the request of the head.
    pub(super) fn head(&self) -> Option<Request> {
        self.waiters.head().and_then(|(_, entry)| entry.request())
    }

    /// Returns the request of a waiter that still waits.
    pub(super) fn request(&self, id: &WaiterId) -> Option<Request> {
        self.waiters.cost(id).and_then(QueueEntry::request)
    }

    /// Returns the requests of the waiters before a waiter.
    pub(super) fn before(&self, id: &WaiterId) -> impl Iterator<Item = Request> {
        self.waiters.before(id).filter_map(QueueEntry::request)
    }

    /// Returns the outcome of a waiter that no longer waits, or `None` if it has to wait in another
    /// queue.
    pub(super) fn collect(&mut self, id: &WaiterId) -> Option<Result<Charge, AcquireError>> {
        match self.waiters.collect(id) {
            None => Some(Err(AcquireError::new(ErrorKind::Closed))),
            Some(QueueEntry::Charged(receipt)) => Some(Ok(Charge(receipt))),
            Some(QueueEntry::Refused { capacity }) => {
                Some(Err(AcquireError::exceeds_capacity(capacity)))
            }
            Some(QueueEntry::Waiting(_) | QueueEntry::Moves) => None,
        }
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Algorithm;

    #[test]
    fn is_ahead_of_a_tick_in_a_pause_is_false() {
        let quota = Quota::per_second(10).burst(5);
        let mut queue = QueueState::new(RuleState::new(Algorithm::Gcra, quota, false), quota, 1);
        let (now, end) = (Tick::from_nanos(1), Tick::from_nanos(60_000_000_000));
        queue.rule.spend_burst(end);
        assert!(queue.is_ahead_of(now));
        queue.paused_until = end;
        assert!(!queue.is_ahead_of(now));
        // The clock was set back from a time later than the end.
        queue.rule.charge(Tick::from_nanos(90_000_000_000), 5);
        assert!(queue.is_ahead_of(end));
    }
}
