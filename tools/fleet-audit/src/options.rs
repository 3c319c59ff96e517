//! Defines the work of a fleet, its duration, and the faults.

use std::time::Duration;

use clap::Args;
use tollgate::{Algorithm, Quota};

use crate::faults::Faults;
use crate::recount::Bound;

#[derive(Args, Clone)]
pub(crate) struct Options {
    /// The number of processes.
    #[arg(long, default_value_t = 4)]
    pub(crate) nodes: usize,
    /// The number of tasks in each process.
    #[arg(long, default_value_t = 16)]
    pub(crate) tasks: usize,
    /// The duration in milliseconds; with faults, the minimum duration, since each fault has its time.
    #[arg(long, default_value_t = 1500)]
    pub(crate) millis: u64,
    /// The deadline of a call, in milliseconds.
    #[arg(long, default_value_t = 50)]
    pub(crate) deadline: u64,
    /// The number of admissions per second.
    #[arg(long, default_value_t = 2000)]
    pub(crate) rate: u64,
    /// The burst of a bucket. A window and a log have none.
    #[arg(long, default_value_t = 100)]
    pub(crate) burst: u64,
    /// The algorithm, in its text form.
    #[arg(long, default_value_t = Algorithm::Gcra)]
    pub(crate) algorithm: Algorithm,
    /// The period of the algorithm in milliseconds.
    #[arg(long, default_value_t = 100)]
    pub(crate) period: u64,
    /// The number that each process takes in advance, for 20 milliseconds at most.
    #[arg(long)]
    pub(crate) ahead: Option<u64>,
    /// The milliseconds for which each task does something else after each admission, so that the demand is
    /// below the capacity.
    #[arg(long, default_value_t = 0)]
    pub(crate) think: u64,
    /// The percentage of calls, except those of several limits, in which a task stops waiting after at most three
    /// milliseconds. Its charge is given back, so the number of admissions does not fall.
    #[arg(long, default_value_t = 0)]
    pub(crate) drops: u64,
    /// Use two limits in one call, and a third one that counts along: the limit of the other options,
    /// and a fixed window of half the rate.
    #[arg(long)]
    pub(crate) several: bool,
    /// Test this number of leases at once instead of a rate.
    #[arg(long)]
    pub(crate) lease: Option<usize>,
    /// The lifetime of a lease without renewal, in milliseconds.
    #[arg(long, default_value_t = 300)]
    pub(crate) ttl: u64,
    /// Break the store repeatedly, with all faults, or with these, separated by commas: flush,
    /// stop, cut, kill, black-hole, reset, drop-replies, drop-all, node, pause.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    pub(crate) faults: Option<Faults>,
    /// The percentage of admissions in which one more is admitted, or a lease is used after it was given
    /// back, to check that the auditor notices.
    #[arg(long, default_value_t = 0)]
    pub(crate) cheat: u64,
    /// Let a task that was told of a failure stop asking, to check that the auditor notices.
    #[arg(long)]
    pub(crate) gives_up: bool,
    /// The percentage of calls of several limits in which one limit is left out, to check that the auditor
    /// notices.
    #[arg(long, default_value_t = 0)]
    pub(crate) uneven: u64,
}

/// The time for which a process may keep permits taken in advance.
pub(crate) const AHEAD: Duration = Duration::from_millis(20);

/// How far ahead waiters reserve turns.
pub(crate) const HORIZON: Duration = Duration::from_millis(250);

/// The time for which a lease is held; every fourth one is held ten times as long, so that it is renewed.
pub(crate) const HOLD: Duration = Duration::from_millis(40);

/// The interval at which waiters for a lease ask.
pub(crate) const POLL: Duration = Duration::from_millis(5);

impl Options {
    pub(crate) fn quota(&self) -> Quota {
        let period = Duration::from_millis(self.period);
        let quota = Quota::new(self.rate * self.period / 1000, period);
        match self.algorithm {
            Algorithm::Gcra | Algorithm::TokenBucket => quota.burst(self.burst),
            _ => quota,
        }
    }

    /// Returns the second limit of several.
    pub(crate) fn window(&self) -> Quota {
        let period = Duration::from_millis(self.period);
        Quota::new(self.rate * self.period / 2000, period)
    }

    /// Returns the third limit of several, which counts all charges, because nothing is paid off.
    pub(crate) fn ledger() -> Quota {
        Quota::new(1_000_000_000, Duration::from_secs(2000 * 24 * 3600))
    }

    pub(crate) fn bounds(&self) -> Result<Vec<Bound>, String> {
        let mut bounds = vec![Bound::of(self.algorithm, self.quota())?];
        if self.several {
            bounds.push(Bound::of(Algorithm::FixedWindow, self.window())?);
        }
        Ok(bounds)
    }

    /// Returns how many may be admitted later than the server charged them.
    pub(crate) fn beyond(&self) -> u64 {
        let Some(chunk) = self.ahead else {
            return 0;
        };
        let held = self.rate * AHEAD.as_millis() as u64 / 1000;
        held.min(chunk * self.nodes as u64)
    }

    /// Returns how many turns may be reserved when the server loses its data: they are used nevertheless.
    pub(crate) fn reserved(&self) -> u64 {
        let waiting = (self.nodes * self.tasks) as u64;
        let within = self.rate * HORIZON.as_millis() as u64 / 1000;
        match self.algorithm {
            Algorithm::Gcra => waiting.min(within.max(self.nodes as u64)),
            _ => 0,
        }
    }

    /// Returns the minimum demand per microsecond, if it is below the capacity: a task that
    /// returns is late by at most a quarter of its pause.
    pub(crate) fn demand(&self) -> f64 {
        if self.think == 0 {
            return f64::INFINITY;
        }
        let tasks = self.nodes * self.tasks;
        tasks as f64 / (1250 * self.think) as f64
    }

    pub(crate) fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl)
    }
}
