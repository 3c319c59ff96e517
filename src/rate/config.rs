//! What is chosen when a limiter is made, in few bytes: it is there twice, in the limiter and in
//! its state.

use std::time::Duration;

use super::options::{MissedTick, Oversize};
use crate::algorithm::Algorithm;
use crate::time::Clock;

/// All but the quota.
#[derive(Clone)]
pub(super) struct Config {
    pub(super) clock: Clock,
    /// How much of what is overdue is made up for: none for [`MissedTick::Delay`]. [`BY_QUOTA`]
    /// until it is chosen.
    catch_up: u64,
    /// In nanoseconds.
    jitter: u64,
    /// The line holds fewer.
    max_waiters: u32,
    pub(super) oversize: Oversize,
    pub(super) algorithm: Algorithm,
    pub(super) statistics: bool,
    /// It is one of many, whose windows begin together, at the multiples of their length, also when
    /// that changes.
    pub(super) one_of_many: bool,
}

const BY_QUOTA: u64 = u64::MAX;

impl Config {
    pub(super) const fn new() -> Self {
        Self {
            clock: Clock::unchosen(),
            catch_up: BY_QUOTA,
            jitter: 0,
            max_waiters: u32::MAX,
            oversize: Oversize::Refuse,
            algorithm: Algorithm::Gcra,
            statistics: false,
            one_of_many: false,
        }
    }

    pub(super) const fn set_max_waiters(&mut self, most: usize) {
        self.max_waiters = if most < u32::MAX as usize {
            most as u32
        } else {
            u32::MAX
        };
    }

    pub(super) const fn max_waiters(&self) -> usize {
        self.max_waiters as usize
    }

    pub(super) const fn set_jitter(&mut self, most: Duration) {
        let nanos = most.as_nanos();
        self.jitter = if nanos < u64::MAX as u128 {
            nanos as u64
        } else {
            u64::MAX
        };
    }

    pub(super) const fn jitter(&self) -> Duration {
        Duration::from_nanos(self.jitter)
    }

    /// Whether there is nothing to count or to be added at random.
    pub(super) fn is_plain(&self) -> bool {
        !self.statistics && self.jitter == 0
    }

    pub(super) const fn set_missed_tick(&mut self, missed_tick: MissedTick) {
        self.catch_up = match missed_tick {
            MissedTick::Delay => 0,
            // One less is as much as anybody could have.
            MissedTick::Burst { max: u64::MAX } => u64::MAX - 1,
            MissedTick::Burst { max } => max,
        };
    }

    /// How much of what is overdue is made up for, if it was chosen.
    pub(super) fn catch_up(&self) -> Option<u64> {
        (self.catch_up != BY_QUOTA).then_some(self.catch_up)
    }
}
