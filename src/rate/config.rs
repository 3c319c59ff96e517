//! What is chosen when a limiter is made.

use std::time::Duration;

use super::options::{MissedTickBehavior, Oversize};
use crate::algorithm::Algorithm;
use crate::time::Clock;

/// All but the quota.
#[derive(Clone)]
pub(super) struct Config {
    pub(super) clock: Clock,
    pub(super) algorithm: Algorithm,
    pub(super) oversize: Oversize,
    /// What is made up for by default depends on the quota.
    pub(super) missed_tick: Option<MissedTickBehavior>,
    pub(super) max_waiters: usize,
    pub(super) jitter: Duration,
    /// It is one of many limiters, whose windows begin together, at the multiples of their length,
    /// also when that changes.
    pub(super) aligned: bool,
}

impl Config {
    pub(super) const fn new() -> Self {
        Self {
            clock: Clock::unchosen(),
            algorithm: Algorithm::Gcra,
            oversize: Oversize::Refuse,
            missed_tick: None,
            max_waiters: usize::MAX,
            jitter: Duration::ZERO,
            aligned: false,
        }
    }
}
