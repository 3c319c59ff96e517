//! The options of a limiter.

use std::time::Duration;

use super::options::{MissedTickBehavior, Oversize};
use crate::algorithm::Algorithm;
use crate::time::Clock;

/// All options except the quota.
#[derive(Clone)]
pub(super) struct Config {
    pub(super) clock: Clock,
    pub(super) algorithm: Algorithm,
    pub(super) oversize: Oversize,
    /// `None` is the default, which depends on the quota.
    pub(super) missed_tick: Option<MissedTickBehavior>,
    pub(super) max_waiters: usize,
    pub(super) jitter: Duration,
    /// Set for one of many limiters: their windows all begin at the multiples of their length, also
    /// after the length changes.
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
