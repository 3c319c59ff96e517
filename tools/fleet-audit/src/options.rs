//! What a fleet does, for how long, and what is done to it.

use std::time::Duration;

use clap::Args;
use tollgate::{Algorithm, Quota};

use crate::faults::Faults;
use crate::recount::Bound;

#[derive(Args, Clone)]
pub(crate) struct Options {
    /// How many processes.
    #[arg(long, default_value_t = 4)]
    pub(crate) nodes: usize,
    /// How many tasks in each of them.
    #[arg(long, default_value_t = 16)]
    pub(crate) tasks: usize,
    /// For how long, in milliseconds; at least, if there are faults; each fault has its time.
    #[arg(long, default_value_t = 1500)]
    pub(crate) millis: u64,
    /// How long a call may take, in milliseconds.
    #[arg(long, default_value_t = 50)]
    pub(crate) deadline: u64,
    /// So many in a second.
    #[arg(long, default_value_t = 2000)]
    pub(crate) rate: u64,
    /// So many at once: of a bucket. A window and a log have none.
    #[arg(long, default_value_t = 100)]
    pub(crate) burst: u64,
    /// By which algorithm, in its text form.
    #[arg(long, default_value_t = Algorithm::Gcra)]
    pub(crate) algorithm: Algorithm,
    /// In how many milliseconds the algorithm counts.
    #[arg(long, default_value_t = 100)]
    pub(crate) period: u64,
    /// Each process takes so many ahead, for 20 milliseconds at most.
    #[arg(long)]
    pub(crate) ahead: Option<u64>,
    /// Each task does something else for so many milliseconds after each admission, so that less is
    /// asked for than there is.
    #[arg(long, default_value_t = 0)]
    pub(crate) think: u64,
    /// In so many of a hundred calls, not of several limits, a task stops to wait after three
    /// milliseconds at most. What it was charged comes back, so no less is let go.
    #[arg(long, default_value_t = 0)]
    pub(crate) drops: u64,
    /// Two limits in one call, and a third one that counts with them: the one of the other options,
    /// and a fixed window of half the rate.
    #[arg(long)]
    pub(crate) several: bool,
    /// Not a rate, but so many leases at once.
    #[arg(long)]
    pub(crate) lease: Option<usize>,
    /// How long a lease lasts that is not renewed, in milliseconds.
    #[arg(long, default_value_t = 300)]
    pub(crate) ttl: u64,
    /// Breaks the store again and again, by all faults, or by these, with commas between: flush,
    /// stop, cut, kill, black-hole, reset, drop-replies, drop-all, node, pause.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    pub(crate) faults: Option<Faults>,
    /// In so many of a hundred admissions one more is let go, or a lease is used after it was given
    /// back, to see that the auditor notices.
    #[arg(long, default_value_t = 0)]
    pub(crate) cheat: u64,
    /// A task that was told of a failure asks no more, to see that the auditor notices.
    #[arg(long)]
    pub(crate) gives_up: bool,
    /// In so many of a hundred calls of several limits one is left out, to see that the auditor
    /// notices.
    #[arg(long, default_value_t = 0)]
    pub(crate) uneven: u64,
}

/// For how long a process may keep what it took ahead.
pub(crate) const AHEAD: Duration = Duration::from_millis(20);

/// How long a lease is held; each fourth one for ten times as long, so that it is renewed.
pub(crate) const HOLD: Duration = Duration::from_millis(40);

/// How often those who wait for a lease ask.
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

    /// The second one of several.
    pub(crate) fn window(&self) -> Quota {
        let period = Duration::from_millis(self.period);
        Quota::new(self.rate * self.period / 2000, period)
    }

    /// The third one of several: all that was ever charged, as nothing comes back.
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

    /// So many may be let go later than the server charged them.
    pub(crate) fn beyond(&self) -> u64 {
        let Some(chunk) = self.ahead else {
            return 0;
        };
        let held = self.rate * AHEAD.as_millis() as u64 / 1000;
        held.min(chunk * self.nodes as u64)
    }

    /// How many are asked for in a microsecond at the least, if no more than there are: a task that
    /// comes back is late by a quarter of that time at most.
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
