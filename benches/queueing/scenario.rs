//! A row of the table: what the server does, what clients ask for, and what is wanted.

use std::ops::Range;

use oorandom::Rand64;

use crate::jobs::{Nanos, SECOND};
use crate::table::COLUMNS;

/// Answers are counted so many times a second.
pub(crate) const SPANS: Nanos = 10;

/// A time in which nothing changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase {
    /// How long it is.
    pub(crate) spans: u64,
    /// The number of calls that the server works on at full speed. With 0 it answers nothing.
    pub(crate) workers: usize,
    /// The mean service time, in seconds.
    pub(crate) service: f64,
    /// The requests per second of all clients, if each is there.
    pub(crate) arrivals: f64,
}

/// A client, with a limiter and a line of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    /// The part of the requests that are its own.
    pub(crate) share: f64,
    /// The seconds before its first request.
    pub(crate) starts: f64,
    /// The phase in which it has no requests.
    pub(crate) away: Option<usize>,
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

/// What is wanted: for each phase a bound, and over again if there are more phases. Neither NaN nor
/// an empty list wants anything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) goodput: &'static [f64],
    pub(crate) p99: &'static [f64],
    pub(crate) settled: &'static [f64],
    pub(crate) swift: &'static [f64],
    pub(crate) fair: &'static [f64],
    pub(crate) refused: &'static [f64],
    /// Once for all phases, as the next.
    pub(crate) limit: Option<f64>,
    pub(crate) growth: Option<f64>,
}

impl Wanted {
    /// Returns what is wanted of each column.
    pub(crate) fn lists(&self) -> [Vec<f64>; COLUMNS.len()] {
        [
            self.goodput.into(),
            self.p99.into(),
            self.settled.into(),
            self.swift.into(),
            self.fair.into(),
            self.refused.into(),
            self.limit.into_iter().collect(),
            self.growth.into_iter().collect(),
        ]
    }
}

#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) phases: Vec<Phase>,
    /// Each phase is longer by a tenth of a second to so many seconds, which the seed decides.
    pub(crate) longer: u64,
    pub(crate) clients: Vec<Client>,
    /// The first limit of each client.
    pub(crate) start: f64,
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
    /// Multiplies all times and all numbers of workers. `start` is the first limit of each client.
    pub(crate) fn scale(&mut self, service: f64, workers: f64, start: Option<f64>) {
        for phase in &mut self.phases {
            phase.scale(service, workers);
        }
        self.second = (SECOND as f64 * service) as Nanos / SPANS * SPANS;
        self.start = start.unwrap_or(self.start);
        // A limit that is never reached stays where it began.
        let least = start.unwrap_or(0.0);
        self.wanted.limit = self.wanted.limit.map(|limit| least.max(limit * workers));
    }

    /// Returns the scenario with phases as long as the seed makes them.
    pub(crate) fn drawn(&self, seed: u64) -> Self {
        let mut drawn = self.clone();
        if self.longer > 0 {
            // Other numbers than those of the requests.
            let mut random = Rand64::new(!u128::from(seed));
            for phase in &mut drawn.phases {
                phase.spans += random.rand_range(1..self.longer * SPANS);
            }
        }
        drawn
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
            from += phase.spans * self.span();
            start..from
        };
        let spans: Vec<_> = self.phases.iter().map(span).collect();
        self.phases.iter().zip(spans).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::named;

    #[test]
    fn changes_come_at_other_times_with_other_seeds() {
        let scenario = named("c 50→5→50, S 100 ms");
        let starts = |seed| {
            let drawn = scenario.drawn(seed);
            let starts = drawn.spans().into_iter().map(|(_, span)| span.start);
            starts.collect::<Vec<_>>()
        };
        assert_eq!(starts(1), starts(1));
        assert_ne!(starts(1), starts(2));
        let [_, first, second] = starts(1)[..] else {
            panic!("{:?}", starts(1));
        };
        for length in [first, second - first] {
            assert!((40 * SECOND..50 * SECOND).contains(&length), "{length}");
            assert_eq!(length % scenario.span(), 0);
        }
    }
}
