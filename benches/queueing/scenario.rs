//! The rows of the table: what the server does, what clients ask for, and what is wanted.

use std::ops::Range;

use crate::jobs::{Nanos, SECOND};

/// A time in which nothing changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase {
    pub(crate) seconds: u64,
    /// The number of calls that the server works on at full speed.
    pub(crate) workers: usize,
    /// The mean service time, in seconds.
    pub(crate) service: f64,
    /// The requests of clients per second.
    pub(crate) arrivals: f64,
}

impl Phase {
    /// Multiplies the service time and the number of workers, at the same load.
    pub(crate) fn scale(&mut self, service: f64, workers: f64) {
        let before = self.workers as f64;
        self.workers = (before * workers).round().max(1.0) as usize;
        self.service *= service;
        self.arrivals *= self.workers as f64 / before / service;
    }
}

/// The law of service times.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Law {
    Exponential,
    Deterministic,
    Lognormal {
        cv: f64,
    },
    /// In units of the mean.
    Bimodal {
        short: f64,
        long: f64,
    },
}

/// How the server shares its work.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Discipline {
    /// Each call has a worker; what is more waits in a queue, the first in front.
    Workers,
    /// `n` calls, of which `c` would run at full speed, each run at
    /// `min(1, c/n) / (1 + kappa·(n − c)⁺/c)`.
    Sharing { kappa: f64 },
}

/// The order of the line in front of the limit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Line {
    /// As a `FairQueue` with an adaptive LIFO serves it under overload.
    NewestFirst,
    OldestFirst,
}

/// What is wanted. `None` is not judged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// Goodput in parts of the oracle's, in each phase; NaN is not judged.
    pub(crate) goodput: &'static [f64],
    /// The 99th percentile of the time in service, in parts of that in an idle server.
    pub(crate) p99: Option<f64>,
    /// Seconds until a phase has settled.
    pub(crate) settled: Option<f64>,
    /// The highest limit.
    pub(crate) limit: Option<usize>,
}

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) phases: Vec<Phase>,
    pub(crate) law: Law,
    pub(crate) server: Discipline,
    pub(crate) line: Line,
    /// Clients wait in front of the limit for so many mean service times.
    pub(crate) patience: f64,
    pub(crate) wanted: Wanted,
}

impl Scenario {
    /// Returns the phases and when they begin and end.
    pub(crate) fn spans(&self) -> Vec<(&Phase, Range<Nanos>)> {
        let mut from = 0;
        let span = |phase: &Phase| {
            let start = from;
            from += phase.seconds * SECOND;
            start..from
        };
        let spans: Vec<_> = self.phases.iter().map(span).collect();
        self.phases.iter().zip(spans).collect()
    }
}
