//! What is chosen when a limiter is made.

use std::time::Duration;

use super::options::{MissedTick, Oversize};
use crate::quota::Quota;
use crate::time::Clock;

#[derive(Clone)]
pub(super) struct Config {
    pub(super) quota: Quota,
    pub(super) clock: Clock,
    pub(super) max_waiters: usize,
    /// `None` until it is chosen: then it depends on the quota.
    pub(super) missed_tick: Option<MissedTick>,
    pub(super) oversize: Oversize,
    pub(super) jitter: Duration,
    pub(super) statistics: bool,
}

impl Config {
    pub(super) const fn new(quota: Quota) -> Self {
        Self {
            quota,
            clock: Clock::unchosen(),
            max_waiters: usize::MAX,
            missed_tick: None,
            oversize: Oversize::Refuse,
            jitter: Duration::ZERO,
            statistics: false,
        }
    }
}
