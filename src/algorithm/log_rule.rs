//! The sliding log as a rule. It is not in the file of [`SlidingLog`], because a loom model
//! compiles the log alone.

use super::params::{clamped, tick_or_never};
use super::promise::Promise;
use super::quota_change::QuotaChange;
use super::rule::{Receipt, Rule, earliest_of};
use super::sliding_log::SlidingLog;
use crate::time::Tick;

impl Rule for SlidingLog {
    fn capacity(&self) -> u64 {
        self.len()
    }

    fn due(&self, behind: u128, cost: u64) -> Tick {
        tick_or_never(self.unbiased(self.due(behind, cost)))
    }

    fn charge(&mut self, at: Tick, cost: u64) -> Receipt {
        let now = self.advance(clamped(at));
        let (ticket, cost, charged) = self.charge(now, cost);
        Receipt {
            ticket,
            cost,
            at: at.max(Tick::from_nanos(self.unbiased(charged))),
            ..Receipt::default()
        }
    }

    fn spend_burst(&mut self, at: Tick) {
        let at = self.biased(clamped(at));
        self.spend_burst(at);
    }

    fn give_back(&mut self, receipt: &Receipt, cost: u64, now: Tick) -> u64 {
        let now = self.advance(clamped(now));
        self.give_back(receipt.ticket, cost, now)
    }

    fn backlog(&mut self, now: Tick) -> u64 {
        let now = self.advance(clamped(now));
        self.backlog(now)
    }

    fn reset(&self) -> Tick {
        tick_or_never(self.unbiased(self.reset()))
    }

    fn earliest(&self, now: Tick, most: Option<u64>) -> Tick {
        earliest_of(now, most, self.len(), self.period())
    }

    fn is_ahead_of(&self, now: Tick) -> bool {
        self.is_ahead_of(self.biased(clamped(now)))
    }

    fn change(&mut self, promise: &Promise, how: QuotaChange, now: Tick) {
        let scales = how == QuotaChange::Proportional;
        let now = self.advance(clamped(now));
        self.change(promise.batch, scales, now);
    }
}
