//! A row of the table: what the server does, what clients ask for, and what is wanted.

use std::ops::Range;

use crate::jobs::{Nanos, SECOND};

/// Answers are counted so many times a second.
pub(crate) const SPANS: Nanos = 10;

/// A time in which nothing changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase {
    pub(crate) seconds: u64,
    /// The number of calls that the server works on at full speed. With 0 it answers nothing.
    pub(crate) workers: usize,
    /// The mean service time, in seconds.
    pub(crate) service: f64,
    /// The requests of clients per second.
    pub(crate) arrivals: f64,
}

impl Phase {
    /// Multiplies the service time and the number of workers, at the same load.
    fn scale(&mut self, service: f64, workers: f64) {
        self.service *= service;
        self.arrivals *= workers / service;
        if self.workers > 0 {
            let exact = self.workers as f64 * workers;
            self.workers = exact.round().max(1.0) as usize;
            self.arrivals *= self.workers as f64 / exact;
        }
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
    /// `n` calls, on a server that runs `c` calls at full speed, each run at
    /// `min(1, c/n) / (1 + kappa·(n − c)⁺/c)`.
    Sharing { kappa: f64 },
    /// Each call has a worker. A call for which none is free is refused, after a tenth of the mean
    /// service time.
    Refusing,
}

/// What a caller says about a call that it abandons because it has taken too long.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Abandoned {
    Ignored,
    Overloaded,
}

/// The order of the line in front of the limit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Line {
    /// As a `FairQueue` with an adaptive LIFO serves it under overload.
    NewestFirst,
    OldestFirst,
}

/// What is wanted. `None` is not judged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Goodput in parts of the oracle's, in each phase; NaN is not judged.
    pub(crate) goodput: &'static [f64],
    /// The 99th percentile of the time in service, in parts of that in an idle server, in each
    /// phase.
    pub(crate) p99: Option<f64>,
    /// Seconds until a phase has settled.
    pub(crate) settled: Option<f64>,
    /// The highest limit.
    pub(crate) limit: Option<f64>,
    /// The highest limit since the server answered nothing, in parts of the mean of the phase
    /// before.
    pub(crate) growth: Option<f64>,
    /// The part of the calls that is refused in a phase.
    pub(crate) refused: Option<f64>,
}

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) phases: Vec<Phase>,
    pub(crate) law: Law,
    pub(crate) server: Discipline,
    pub(crate) line: Line,
    /// Clients wait in front of the limit for so many mean service times.
    pub(crate) patience: f64,
    /// What callers say who abandon a call in service after as long as an answer is good. Without
    /// it they wait.
    pub(crate) abandoned: Option<Abandoned>,
    /// How long a second of the phases is.
    pub(crate) second: Nanos,
    pub(crate) wanted: Wanted,
}

impl Scenario {
    /// Multiplies all times and all numbers of workers. `start` is the first limit.
    pub(crate) fn scale(&mut self, service: f64, workers: f64, start: Option<f64>) {
        for phase in &mut self.phases {
            phase.scale(service, workers);
        }
        self.second = (SECOND as f64 * service) as Nanos / SPANS * SPANS;
        // A limit that is never reached stays where it began.
        let least = start.unwrap_or(0.0);
        self.wanted.limit = self.wanted.limit.map(|limit| least.max(limit * workers));
    }

    /// Returns the time in which answers are counted together.
    pub(crate) fn span(&self) -> Nanos {
        self.second / SPANS
    }

    /// Returns the phases and when they begin and end.
    pub(crate) fn spans(&self) -> Vec<(&Phase, Range<Nanos>)> {
        let mut from = 0;
        let span = |phase: &Phase| {
            let start = from;
            from += phase.seconds * self.second;
            start..from
        };
        let spans: Vec<_> = self.phases.iter().map(span).collect();
        self.phases.iter().zip(spans).collect()
    }
}
