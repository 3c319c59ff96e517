//! [`SlidingLog`]: exactly at most `N` in any period, by the times of the last charges.
//!
//! The oldest of the last `N` times is what decides: one more fits a period after it.

use std::collections::VecDeque;

use super::QuotaChange;
use super::params::{clamped, tick_or_never};
use super::rule::{Receipt, Rule};
use crate::quota::Quota;
use crate::time::Tick;

/// The times of the last charges.
#[derive(Clone)]
pub(crate) struct SlidingLog {
    most: u64,
    period: u64,
    /// When each of the charges that count was made, rising.
    times: VecDeque<u64>,
    /// How many charges were forgotten.
    forgotten: u64,
}

impl SlidingLog {
    pub(crate) fn new(quota: Quota) -> Self {
        Self {
            most: quota.count(),
            period: quota.period_nanos(),
            times: VecDeque::new(),
            forgotten: 0,
        }
    }

    fn forget(&mut self, now: u64) {
        while self
            .times
            .front()
            .is_some_and(|time| time.saturating_add(self.period) <= now)
        {
            self.times.pop_front();
            self.forgotten += 1;
        }
    }

    /// From when on one more fits after `number` others, the first of which is 0.
    fn room(&self, number: u128) -> u64 {
        let most = u128::from(self.most);
        let len = self.times.len() as u128;
        let number = number + len;
        let (laps, index) = if number < most {
            return 0;
        } else if number - most < len {
            (1, number - most)
        } else {
            let beyond = number - most - len;
            if len == 0 {
                return 0;
            }
            (
                2 + beyond / most,
                (len - most.min(len)) + beyond % most.min(len),
            )
        };
        let time = self.times[index as usize];
        let nanos = laps.saturating_mul(u128::from(self.period)) + u128::from(time);
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

impl Rule for SlidingLog {
    fn capacity(&self) -> u64 {
        self.most
    }

    fn due(&self, behind: u128, cost: u64) -> Tick {
        if cost > self.most {
            let after = if behind > 0 { self.room(behind - 1) } else { 0 };
            return self.reset().max(tick_or_never(after));
        }
        tick_or_never(self.room(behind + u128::from(cost) - 1))
    }

    fn charge(&mut self, at: Tick, cost: u64) -> Receipt {
        let mut now = clamped(at);
        self.forget(now);
        for _ in 0..cost {
            now = now.max(self.room(0).min(u64::MAX));
            self.times.push_back(now);
        }
        Receipt {
            ticket: self.forgotten + self.times.len() as u64,
            cost,
            at,
            ..Receipt::default()
        }
    }

    fn give_back(&mut self, receipt: &Receipt, cost: u64, now: Tick) -> u64 {
        self.forget(clamped(now));
        let end = receipt.ticket.saturating_sub(self.forgotten);
        let given = cost.min(end).min(self.times.len() as u64);
        for _ in 0..given {
            self.times.remove((end - given) as usize);
        }
        given
    }

    fn backlog(&self, now: Tick) -> u64 {
        let now = clamped(now);
        let paid = self
            .times
            .partition_point(|time| time.saturating_add(self.period) <= now);
        (self.times.len() - paid) as u64
    }

    fn reset(&self) -> Tick {
        tick_or_never(
            self.times
                .back()
                .map_or(0, |time| time.saturating_add(self.period)),
        )
    }

    fn earliest(&self, now: Tick, most: Option<u64>) -> Tick {
        let in_time = 10_000_000 * u128::from(self.most) / u128::from(self.period);
        let tokens = most.unwrap_or(u64::try_from(in_time).unwrap_or(u64::MAX).max(1));
        let nanos = (u128::from(tokens) * u128::from(self.period)).div_ceil(u128::from(self.most));
        Tick::from_nanos(clamped(now).saturating_sub(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    fn is_ahead_of(&self, now: Tick) -> bool {
        self.times.back().is_some_and(|time| *time > clamped(now))
    }

    fn change(&mut self, quota: Quota, how: QuotaChange, now: Tick) -> bool {
        let new = Self::new(quota);
        if (new.most, new.period) == (self.most, self.period) {
            return false;
        }
        let _ = (how, now);
        (self.most, self.period) = (new.most, new.period);
        true
    }

    fn clear(&mut self) {
        self.times.clear();
    }
}
