//! [`QueueState`]: what the lock of a limiter guards, the rule and the waiters.
//!
//! Everything that changes what is due goes through one guard, [`Locked`](super::locked::Locked), which
//! has the invariants.

use super::charge::Charge;
use super::costs::CostSums;
use super::followed::{Followed, OthersUse};
use crate::algorithm::{Receipt, RuleState};
use crate::error::{AcquireError, ErrorKind};
use crate::quota::Quota;
use crate::time::Tick;
use crate::wait_queue::{WaitQueue, WaiterId};

/// What a waiter is: a call that waits, and then its outcome until the waiter collects it.
#[derive(Clone, Copy, Default)]
pub(super) enum QueueEntry {
    Waiting(Request),
    Charged(Receipt),
    /// It asks for more than the capacity, which was lowered.
    Refused {
        capacity: u64,
    },
    /// The runtime has ended, and the waiter moves to another queue.
    #[default]
    Moves,
}

/// What a waiter asks for.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) cost: u64,
    /// The tick as of which it joined.
    pub(super) at: Tick,
    /// The total cost of all that had joined then, itself included.
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

/// What the lock guards.
pub(super) struct QueueState {
    pub(super) rule: RuleState,
    pub(super) quota: Quota,
    /// How often the quota was changed.
    pub(super) changes: u64,
    /// A waiter for which nothing is kept was released by `close`.
    pub(super) waiters: WaitQueue<QueueEntry>,
    /// The total cost of the waiters that can be admitted: of all, except those that ask for more
    /// than they can get since the burst was lowered.
    pub(super) queued: u128,
    /// The costs of all waiters, from which `queued` is computed when the burst changes; none if a call
    /// may overdraw it.
    pub(super) costs: CostSums,
    /// The total cost of all waiters that ever joined.
    pub(super) joined: u128,
    pub(super) closed: bool,
    /// When the waiters were last rescheduled: none was due before that.
    pub(super) timed: Tick,
    /// Nothing is admitted before this tick. The rule has the burst spent as of then.
    pub(super) paused_until: Tick,
    /// What is [held](super::Hold), beside the charges.
    pub(super) held: u128,
    /// What is known of a server whose count is [followed](super::RateLimiter::follow).
    pub(super) followed: Option<Box<Followed>>,
    /// Charges of other generations cannot be refunded: they are earlier ones, or those of another
    /// limiter.
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

    /// Returns when `cost` is due after `behind` has been charged, like the rule, but not before the
    /// end of a pause: if nothing that is held is settled meanwhile.
    pub(super) fn due(&self, behind: u128, cost: u64) -> Tick {
        self.due_by(|cost| self.rule.due(behind, cost), self.held, cost)
    }

    /// Does the same by what `due` says of the rule, if so much is held.
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
        // When it is no longer known what is of others, one call goes alone, to be told.
        let rest = capacity.saturating_sub(cost);
        let later = match others.growth {
            None => others.cost.min(rest),
            Some(_) => 0,
        };
        due_beside(others.cost).min(due_beside(later).max(others.until))
    }

    /// Returns what is [of others](super::RateLimiter::follow), beside the charges.
    pub(super) fn of_others(&self) -> OthersUse {
        let followed = self.followed.as_ref();
        followed.map_or_else(OthersUse::default, |it| it.of_others)
    }

    /// Returns what counts beside the charges.
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

    /// Returns the request of a waiter, while it waits.
    pub(super) fn request(&self, id: &WaiterId) -> Option<Request> {
        self.waiters.cost(id).and_then(QueueEntry::request)
    }

    /// Returns the requests of the waiters before one.
    pub(super) fn before(&self, id: &WaiterId) -> impl Iterator<Item = Request> {
        self.waiters.before(id).filter_map(QueueEntry::request)
    }

    /// Returns the outcome of a waiter that no longer waits. `None` if it has to wait in another
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
        // One that was set back from a later time than the end.
        queue.rule.charge(end, 1000);
        assert!(queue.is_ahead_of(end));
    }
}
