//! The sliding log as a [`Rule`].

use std::sync::{Arc, OnceLock};

use super::{Ring, SlidingLog, Slots};
use crate::algorithm::QuotaChange;
use crate::algorithm::params::{clamped, tick_or_never};
use crate::algorithm::rule::{Receipt, Rule, earliest_of};
use crate::quota::Quota;
use crate::sync::{AtomicU64, Ordering};
use crate::time::Tick;

impl Rule for SlidingLog {
    fn capacity(&self) -> u64 {
        self.head.len
    }

    fn due(&self, behind: u128, cost: u64) -> Tick {
        tick_or_never(self.due(behind, cost))
    }

    fn charge(&mut self, at: Tick, cost: u64) -> Receipt {
        let (ticket, cost) = self.charge(clamped(at), cost);
        Receipt {
            ticket,
            cost,
            at,
            ..Receipt::default()
        }
    }

    fn give_back(&mut self, receipt: &Receipt, cost: u64, now: Tick) -> u64 {
        self.give_back(receipt.ticket, cost, clamped(now))
    }

    fn backlog(&mut self, now: Tick) -> u64 {
        self.backlog(clamped(now))
    }

    fn reset(&self) -> Tick {
        tick_or_never(self.reset())
    }

    fn earliest(&self, now: Tick, most: Option<u64>) -> Tick {
        earliest_of(now, most, self.head.len, self.period)
    }

    fn is_ahead_of(&self, now: Tick) -> bool {
        let newest = self.reset().saturating_sub(self.period);
        self.ahead == 0 && newest > clamped(now)
    }

    fn change(&mut self, quota: Quota, how: QuotaChange, now: Tick) -> bool {
        let changes = (self.head.len, self.period) != (quota.count(), quota.period_nanos());
        if changes {
            let scales = how == QuotaChange::Proportional;
            self.change(quota, scales, clamped(now));
        }
        changes
    }

    fn clear(&mut self) {
        self.clear();
    }
}

/// A copy that shares nothing with the log. Only while that is locked.
impl Clone for SlidingLog {
    fn clone(&self) -> Self {
        let copy = |word: &AtomicU64| AtomicU64::new(word.load(Ordering::Relaxed));
        let ring = Ring {
            head: copy(&self.ring.head),
            shape: AtomicU64::new(self.head.len),
            period: copy(&self.ring.period),
            base: copy(&self.ring.base),
            first: Slots {
                slots: self.ring.slots(self.array).iter().map(copy).collect(),
                larger: OnceLock::new(),
            },
        };
        Self {
            ring: Arc::new(ring),
            array: 0,
            older: self.older.clone(),
            refunds: self.refunds.clone(),
            ..*self
        }
    }
}
