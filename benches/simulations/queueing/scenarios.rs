//! The rows of the table: the behaviour of the server, the demand of the clients, and the targets.

use std::ops::Range;

use oorandom::Rand64;

use crate::jobs::{Nanos, PATIENCE, SECOND};
use crate::judge::{FIXED, START};
use crate::worlds::worlds;

/// The number of spans a second in which answers are counted.
pub(crate) const SPANS: Nanos = 10;

/// The stretch over which they are summed.
pub(crate) const SPAN: Nanos = SECOND / SPANS;

/// A time without changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phase {
    /// How long it is.
    pub(crate) spans: u64,
    /// The number of calls that the server works on at full speed. With 0 it answers nothing.
    pub(crate) workers: usize,
    /// The same of two further servers behind a balancer, unless both are 0.
    pub(crate) others: [usize; 2],
    /// The mean service time, in seconds.
    pub(crate) service: f64,
    /// The requests per second of all clients, if all are present.
    pub(crate) arrivals: f64,
    /// The law of service times, if it is not that of the scenario.
    pub(crate) law: Option<Law>,
    /// Whether the server fails all calls at once.
    pub(crate) fails: bool,
    /// Whether it is judged together with the phase before.
    pub(crate) continues: bool,
}

impl Phase {
    /// Returns the number of workers of all servers.
    pub(crate) fn all_workers(&self) -> usize {
        self.workers + self.others.iter().sum::<usize>()
    }
}

/// A client, with a limiter and a queue of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    /// Its share of the requests.
    pub(crate) share: f64,
    /// The seconds before its first request.
    pub(crate) starts: f64,
    /// The phase in which it makes no requests.
    pub(crate) away: Option<usize>,
    /// Its limit, whatever the contender.
    pub(crate) own: Option<Own>,
}

/// The limit of a client beside those of a contender.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Own {
    Fixed(usize),
    Aimd,
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
    /// A part of the calls takes `ratio` times as long as the others, each ± 20 %.
    Cache {
        slow: f64,
        ratio: f64,
    },
    Pareto {
        shape: f64,
    },
}

/// How the server shares its work.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Discipline {
    /// Each call has a worker; excess calls wait in a queue, first in, first out.
    Workers,
    /// `n` calls, on a server that runs `c` calls at full speed, each run at
    /// `min(1, c/n) / (1 + kappa·(n − c)⁺/c)`.
    Sharing { kappa: f64 },
    /// Each call has a worker, and at most `queue` calls wait for one. Others are refused, after a
    /// tenth of the mean service time.
    Refusing { queue: usize },
}

/// How a balancer chooses among several servers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Balance {
    RoundRobin,
    Random,
    LeastOpen,
}

/// When a caller whose call timed out makes it again, up to three times.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Retry {
    Never,
    AtOnce,
    /// At any time of the next second.
    Spread,
}

/// How a caller reports the end of its call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Said {
    /// Its time in service is a sample.
    Nothing,
    Overloaded,
    Ignore,
}

/// The order of the queue in front of the limit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Line {
    /// The order of a `FairQueue` with an adaptive LIFO under overload.
    NewestFirst,
    OldestFirst,
}

/// Targets: a bound for each phase, which repeat if there are more phases. NaN and an empty list
/// mean no target. All are targets of medians, but `tenth` is one of the tenth percentile of the goodput.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) goodput: &'static [f64],
    pub(crate) tenth: &'static [f64],
    pub(crate) p99: &'static [f64],
    pub(crate) settled: &'static [f64],
    pub(crate) swift: &'static [f64],
    pub(crate) fair: &'static [f64],
    pub(crate) refused: &'static [f64],
    /// One bound for all phases, like the next.
    pub(crate) limit: &'static [f64],
    pub(crate) growth: &'static [f64],
}

#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) phases: Vec<Phase>,
    /// Each phase is longer by a tenth of a second up to this many seconds, which the seed decides.
    pub(crate) longer: u64,
    pub(crate) clients: Vec<Client>,
    /// The first limit of each client.
    pub(crate) start: f64,
    pub(crate) law: Law,
    pub(crate) server: Discipline,
    pub(crate) line: Line,
    /// The time, in mean service times, that clients wait in front of the limit.
    pub(crate) patience: f64,
    /// The report of callers who abandon a call in service once its answer could no longer be good.
    /// Without it, they wait.
    pub(crate) abandoned: Option<Said>,
    /// The seconds after which they abandon it instead, if not 0, and whether they try again.
    pub(crate) timeout: f64,
    pub(crate) retry: Retry,
    /// The report of callers whose call was refused.
    pub(crate) refused: Said,
    pub(crate) balance: Balance,
    /// The seconds that an answer is under way.
    pub(crate) network: f64,
    /// The resolution of the limiters' clocks.
    pub(crate) resolution: Nanos,
    /// The seconds by which the clocks of the first and the last client differ.
    pub(crate) apart: f64,
    /// The fixed limits of the oracle, relative to the number of workers in the first phase.
    pub(crate) oracle: &'static [f64],
    /// Whether it is one of the worlds, whose misses are known.
    pub(crate) is_world: bool,
    pub(crate) wanted: Wanted,
}

impl Scenario {
    /// Returns the scenario with the phase lengths of the seed.
    pub(crate) fn drawn(&self, seed: u64) -> Self {
        let mut drawn = self.clone();
        if self.longer > 0 {
            // Independent of the random numbers of the requests.
            let mut random = Rand64::new(!u128::from(seed));
            for phase in &mut drawn.phases {
                phase.spans += random.rand_range(1..self.longer * SPANS);
            }
        }
        drawn
    }

    /// Returns the phases that are judged, with their beginnings and ends.
    pub(crate) fn judged(&self) -> Vec<(&Phase, Range<Nanos>)> {
        let mut judged: Vec<(&Phase, Range<Nanos>)> = Vec::new();
        for (phase, span) in self.spans() {
            match judged.last_mut() {
                Some((_, before)) if phase.continues => before.end = span.end,
                _ => judged.push((phase, span)),
            }
        }
        judged
    }

    /// Returns the phases with their beginnings and ends.
    pub(crate) fn spans(&self) -> Vec<(&Phase, Range<Nanos>)> {
        let mut from = 0;
        let span = |phase: &Phase| {
            let start = from;
            from += phase.spans * SPAN;
            start..from
        };
        let spans: Vec<_> = self.phases.iter().map(span).collect();
        self.phases.iter().zip(spans).collect()
    }
}

/// Stands for no bound, in a list for each phase.
pub(crate) const NONE: f64 = f64::NAN;

/// Returns the scenarios in the order of the table. Each phase is so long that settling is a part
/// of its goodput, but not most of it.
#[rustfmt::skip]
pub(crate) fn scenarios() -> Vec<Scenario> {
    let of = |name, phases: &[Phase], wanted| Scenario {
        phases: phases.to_vec(),
        wanted,
        ..one(name, phases[0])
    };
    let full = |seconds, workers| phase(seconds, workers, 10.0, 1_500.0);
    let servers = [10, 5, 20, 10].map(|workers| full(20, workers));
    let at_load = servers.map(|phase| Phase { arrivals: 150.0 * phase.workers as f64, ..phase });
    let stretched = |arrivals: f64| [full(20, 10), phase(60, 10, 40.0, arrivals), full(40, 10)];
    let settled = |goodput, settled| Wanted { settled, ..wanted(goodput) };
    // A client that gives up at the deadline may be admitted just before it, so behind a queue that
    // serves the oldest first hardly any answer comes in time. Giving up at half of the deadline
    // leaves time for the answer.
    let oldest_first = |name, patience| Scenario {
        line: Line::OldestFirst,
        patience,
        ..of(name, &servers, wanted(&[NONE, 0.8, NONE, NONE]))
    };
    let sharing = |kappa, scenario| Scenario { server: Discipline::Sharing { kappa }, ..scenario };
    // With a service time that never varies or with two workers, one call in the server's queue makes
    // the time in service twice as long or half as long again, and no limit between keeps the workers
    // busy without one. So their p99 is printed and not judged.
    let without_p99 = |goodput| Wanted { p99: &[], ..wanted(goodput) };
    let by_law = |name, law, wanted| Scenario { law, ..of(name, &[full(40, 10)], wanted) };
    let (lognormal, bimodal) = (Law::Lognormal { cv: 3.0 }, Law::Bimodal { short: 0.2, long: 4.0 });
    // A server answers nothing for a while, and callers abandon their calls to it. No limit has a good
    // answer then; afterwards, everything must be as before.
    let outage = |name, abandoned| Scenario {
        abandoned: Some(abandoned),
        ..of(name, &[full(20, 10), full(5, 0), full(20, 10)], Wanted {
            settled: &[2.0],
            growth: &[2.0],
            ..wanted(&[0.94, NONE, 0.94])
        })
    };
    let mut all = vec![
        of("M/M/10", &[full(40, 10)], Wanted { p99: &[1.3], ..settled(&[0.95], &[1.0]) }),
        of("load 0.5", &[phase(40, 10, 10.0, 500.0)], Wanted { limit: &[40.0], ..wanted(&[0.99]) }),
        of("c 10→5→20→10", &servers, settled(&[0.94], &[2.0])),
        of("c 10→5→20→10, load 1.5", &at_load, settled(&[0.94], &[2.0])),
        oldest_first("c 10→5→20→10, FIFO line", PATIENCE),
        oldest_first("c 10→5→20→10, FIFO, ½ patience", PATIENCE / 2.0),
        of("S 10→40→10 ms", &stretched(1_500.0), settled(&[0.94], &[15.0])),
        of("S 10→40→10 ms, load 1.5", &stretched(375.0), settled(&[0.94], &[15.0])),
        sharing(0.2, of("thrash 0.2, c 10→5→10", &[10, 5, 10].map(|c| full(20, c)), wanted(&[0.88]))),
        sharing(1.0, of("thrash 1", &[full(40, 10)], wanted(&[0.8]))),
        by_law("lognormal, CV 3", lognormal, wanted(&[0.95])),
        by_law("bimodal 2/40 ms", bimodal, wanted(&[0.95])),
        by_law("deterministic", Law::Deterministic, without_p99(&[0.97])),
        outage("outage, abandoned ignored", Said::Ignore),
        outage("outage, abandoned overloaded", Said::Overloaded),
        Scenario {
            server: Discipline::Refusing { queue: 0 },
            // More than a tenth of a window counts as too much for the controllers.
            ..of("refusing, c 10→5→20→10", &at_load, Wanted {
                refused: &[0.1],
                ..settled(&[0.94], &[2.0])
            })
        },
        of("c 2, S 100 ms, 30/s", &[phase(200, 2, 100.0, 30.0)], without_p99(&[0.95])),
        of("c 200, S 20 ms, 15,000/s", &[phase(40, 200, 20.0, 15_000.0)], settled(&[0.93], &[5.0])),
    ];
    all.extend(changes());
    all.extend(fleets());
    all.extend(worlds());
    all
}

/// Returns the scenarios in which a server drops, rises, dies or meets a bad start, with a single client, at 1.5 times
/// the capacity. A change falls at any time. Other rows hold the targets of a phase before a change.
#[rustfmt::skip]
fn changes() -> Vec<Scenario> {
    let of = |name, phases: &[Phase], wanted| Scenario {
        phases: phases.to_vec(),
        longer: 10,
        wanted,
        ..one(name, phases[0])
    };
    let loaded = |workers, milliseconds| loaded(40, workers, milliseconds, 1.5);
    let starting = |name, start, phase, wanted| Scenario { start, ..of(name, &[phase], wanted) };
    let nothing = Phase { workers: 0, spans: 30 * SPANS, ..loaded(20, 20.0) };
    let back = Wanted { goodput: &[NONE, NONE, 0.97], settled: &[NONE, NONE, 3.0], ..ANY };
    let dead = |name, abandoned| Scenario {
        abandoned,
        ..of(name, &[loaded(20, 20.0), nothing, loaded(20, 20.0)], back)
    };
    vec![
        of("c 50→5→50, S 100 ms", &[50, 5, 50].map(|workers| loaded(workers, 100.0)), Wanted {
            goodput: &[NONE, 0.95, 0.9],
            p99: &[NONE, 1.3, NONE],
            settled: &[NONE, 4.0, 6.0],
            swift: &[NONE, 4.0, NONE],
            ..ANY
        }),
        of("c 20→2→20, S 100 ms", &[20, 2, 20].map(|workers| loaded(workers, 100.0)), Wanted {
            goodput: &[NONE, 0.95, 0.92],
            settled: &[NONE, 6.0, 7.0],
            swift: &[NONE, 6.0, NONE],
            ..ANY
        }),
        of("S 20→200→20 ms", &[20.0, 200.0, 20.0].map(|service| loaded(10, service)), Wanted {
            goodput: &[NONE, 0.95, 0.95],
            settled: &[NONE, 5.0, 5.0],
            swift: &[NONE, 5.0, 5.0],
            ..ANY
        }),
        of("S 20→32 ms", &[20.0, 32.0].map(|service| loaded(10, service)), Wanted {
            goodput: &[NONE, 0.95],
            ..ANY
        }),
        starting("start 1, c 40", 1.0, loaded(40, 20.0), Wanted {
            goodput: &[0.9],
            settled: &[4.0],
            ..ANY
        }),
        starting("start 1000, c 10", 1e3, loaded(10, 20.0), Wanted { goodput: &[0.95], ..ANY }),
        starting("start 1000, c 5, 100/s", 1e3, phase(60, 5, 100.0, 100.0), Wanted {
            goodput: &[0.9],
            ..ANY
        }),
        dead("dead for 30 s", None),
        dead("dead for 30 s, overloaded", Some(Said::Overloaded)),
        Scenario {
            server: Discipline::Refusing { queue: 0 },
            ..of("connections 8, errors above", &[loaded(8, 20.0)], Wanted {
                goodput: &[0.95],
                refused: &[0.05],
                ..ANY
            })
        },
        Scenario {
            server: Discipline::Sharing { kappa: 0.0 },
            ..of("processor sharing", &[loaded(20, 20.0)], Wanted {
                goodput: &[0.98],
                p99: &[1.5],
                ..ANY
            })
        },
    ]
}

/// Returns the scenarios of several clients, each with a limit of its own, before one server. Limits
/// that drift need a long time to show it.
#[rustfmt::skip]
fn fleets() -> Vec<Scenario> {
    let fleet = |name, phases: &[Phase], clients: &[Client], wanted| Scenario {
        phases: phases.to_vec(),
        clients: clients.to_vec(),
        longer: 10,
        wanted,
        ..one(name, phases[0])
    };
    let loaded = |seconds, workers, load| loaded(seconds, workers, 20.0, load);
    let held = Wanted { goodput: &[0.95], p99: &[1.4], fair: &[0.85], ..ANY };
    // Fairness is printed, not judged.
    let shown = Wanted { goodput: &[0.95], fair: &[NONE], ..ANY };
    let mut all = Vec::new();
    for (count, at_once, spread) in [
        (5, "5 clients", "5 clients, over 60 s"),
        (10, "10 clients", "10 clients, over 60 s"),
        (20, "20 clients", "20 clients, over 60 s"),
    ] {
        let mut clients = equal(count);
        all.push(fleet(at_once, &[loaded(1_200, 30, 1.5)], &clients, held));
        for (number, client) in clients.iter_mut().enumerate() {
            client.starts = 60.0 * number as f64 / (count - 1) as f64;
        }
        all.push(fleet(spread, &[loaded(1_200, 30, 1.5)], &clients, held));
    }
    let (ten, mut leaving, mut unequal) = (equal(10), equal(10), equal(10));
    for number in 0..10 {
        leaving[number].away = (number >= 5).then_some(1);
        unequal[number].share = (number + 1) as f64 / 55.0;
    }
    // The remaining clients take over the share of the others.
    let leave = [1.5, 3.0, 1.5].map(|load| loaded(300, 30, load));
    let change = [100, 20, 100].map(|workers| loaded(120, workers, 1.5));
    all.extend([
        fleet("10 clients, load 0.9", &[loaded(600, 30, 0.9)], &ten, Wanted {
            goodput: &[0.98],
            ..shown
        }),
        fleet("10 clients, 5 leave and return", &leave, &leaving, shown),
        fleet("10 clients, c 100→20→100", &change, &ten, Wanted {
            p99: &[1.6],
            fair: &[0.75],
            ..shown
        }),
        fleet("10 clients of unequal rates", &[loaded(600, 30, 1.5)], &unequal, shown),
    ]);
    all
}

/// No target.
pub(crate) const ANY: Wanted = Wanted {
    goodput: &[],
    tenth: &[],
    p99: &[],
    settled: &[],
    swift: &[],
    fair: &[],
    refused: &[],
    limit: &[],
    growth: &[],
};

/// Returns clients with equal shares of the requests.
pub(crate) fn equal(count: usize) -> Vec<Client> {
    let client = Client {
        share: 1.0 / count as f64,
        starts: 0.0,
        away: None,
        own: None,
    };
    vec![client; count]
}

/// Returns a phase whose load is this multiple of the server's capacity.
pub(crate) fn loaded(seconds: u64, workers: usize, milliseconds: f64, load: f64) -> Phase {
    let arrivals = load * workers as f64 * 1e3 / milliseconds;
    phase(seconds, workers, milliseconds, arrivals)
}

pub(crate) fn phase(seconds: u64, workers: usize, milliseconds: f64, arrivals: f64) -> Phase {
    Phase {
        spans: seconds * SPANS,
        workers,
        service: milliseconds / 1e3,
        arrivals,
        others: [0; 2],
        law: None,
        fails: false,
        continues: false,
    }
}

pub(crate) fn one(name: &'static str, phase: Phase) -> Scenario {
    Scenario {
        name,
        phases: vec![phase],
        longer: 0,
        clients: equal(1),
        start: START,
        law: Law::Exponential,
        server: Discipline::Workers,
        line: Line::NewestFirst,
        patience: PATIENCE,
        abandoned: None,
        timeout: 0.0,
        retry: Retry::Never,
        refused: Said::Overloaded,
        balance: Balance::RoundRobin,
        network: 0.0,
        resolution: 1,
        apart: 0.0,
        oracle: &FIXED,
        is_world: false,
        wanted: wanted(&[f64::NAN]),
    }
}

/// Returns the targets of a row, with this goodput.
fn wanted(goodput: &'static [f64]) -> Wanted {
    Wanted {
        goodput,
        p99: &[1.6],
        ..ANY
    }
}

#[cfg(test)]
pub(crate) fn named(name: &str) -> Scenario {
    let is_it = |scenario: &Scenario| scenario.name == name;
    scenarios().into_iter().find(is_it).expect(name)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(length % SPAN, 0);
        }
    }
}
