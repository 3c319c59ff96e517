//! The readable state of a key of a rate. It is read under the lock of its shard, and evaluated
//! under no lock.

use std::sync::Arc;

use crate::algorithm::{Gcra, Rule};
use crate::decision::Decision;
use crate::quota::Quota;
use crate::rate::{Charge, RateLimiter};
use crate::snapshot::Snapshot;
use crate::time::Tick;

/// The state of a key.
pub enum KeyState {
    Word(Reading),
    Limiter(Arc<RateLimiter>),
}

/// A copy of the state of a key without a limiter.
pub struct Reading {
    pub(super) rule: Gcra,
    pub(super) quota: Quota,
    pub(super) generation: u64,
    pub(super) now: Tick,
    pub(super) closed: bool,
    /// The maximum charge at once: the burst.
    pub(super) limit: u64,
    /// The maximum cost of one call.
    pub(super) most: u64,
}

impl Reading {
    /// Returns the decision that a call would get.
    pub(super) fn peek(&mut self, cost: u64) -> Decision {
        let (limit, now) = (self.limit, self.now);
        let due = if self.closed || cost > self.most {
            Tick::from_nanos(u64::MAX)
        } else if cost == 0 {
            now
        } else {
            self.rule.due(0, cost)
        };
        Decision::at(now, limit, self.rule.backlog(now), due, self.rule.reset())
    }

    /// Returns the decision just after a charge, or the current one if that decision is no longer
    /// known.
    pub(super) fn decision_after(&mut self, charge: &Charge) -> Decision {
        let made = &charge.0;
        if made.generation != self.generation {
            return self.peek(0);
        }
        self.rule.decision_after(made)
    }

    pub(super) fn snapshot(&mut self) -> Snapshot {
        let decision = self.peek(0);
        Snapshot {
            limit: decision.limit,
            in_use: self.rule.backlog(self.now),
            available: decision.remaining,
            // A key with waiters has a limiter.
            waiting: 0,
            oldest_wait: None,
        }
    }

    /// Returns the chunk size for adapters, and the maximum cost of one call now.
    pub(super) fn chunk_and_max_units(&self) -> (u64, u64) {
        (self.quota.chunk(self.limit), self.most)
    }
}
