//! The scenarios of the table.

use crate::changes;
use crate::jobs::{PATIENCE, SECOND};
use crate::judge::START;
use crate::scenario::{Abandoned, Client, Discipline, Law, Line, Phase, SPANS, Scenario, Wanted};

/// Returns the scenarios in the order of the table. Each phase is so long that settling is part of
/// its goodput, but not most of it.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = vec![
        Scenario {
            wanted: Wanted {
                p99: &[1.3],
                settled: &[1.0],
                ..wanted(&[0.95])
            },
            ..one("M/M/10", phase(40, 10, 10.0, 1_500.0))
        },
        Scenario {
            wanted: Wanted {
                limit: Some(40.0),
                ..wanted(&[0.99])
            },
            ..one("load 0.5", phase(40, 10, 10.0, 500.0))
        },
    ];
    let servers = vec![
        phase(20, 10, 10.0, 1_500.0),
        phase(20, 5, 10.0, 1_500.0),
        phase(20, 20, 10.0, 1_500.0),
        phase(20, 10, 10.0, 1_500.0),
    ];
    all.push(Scenario {
        phases: servers.clone(),
        wanted: Wanted {
            settled: &[2.0],
            ..wanted(&[0.94])
        },
        ..one("c 10→5→20→10", servers[0])
    });
    let at_load = |phase: &Phase| Phase {
        arrivals: 150.0 * phase.workers as f64,
        ..*phase
    };
    all.push(Scenario {
        phases: servers.iter().map(at_load).collect(),
        wanted: Wanted {
            settled: &[2.0],
            ..wanted(&[0.94])
        },
        ..one("c 10→5→20→10, load 1.5", servers[0])
    });
    // Who gives up at the deadline is admitted just before it, so nearly no answer comes in time
    // behind a line that serves the oldest first. Who gives up at half of it leaves time for the
    // answer.
    for (name, patience) in [
        ("c 10→5→20→10, FIFO line", PATIENCE),
        ("c 10→5→20→10, FIFO, ½ patience", PATIENCE / 2.0),
    ] {
        all.push(Scenario {
            phases: servers.clone(),
            line: Line::OldestFirst,
            patience,
            wanted: wanted(&[f64::NAN, 0.8, f64::NAN, f64::NAN]),
            ..one(name, servers[0])
        });
    }
    for (name, arrivals) in [
        ("S 10→40→10 ms", [1_500.0, 1_500.0, 1_500.0]),
        ("S 10→40→10 ms, load 1.5", [1_500.0, 375.0, 1_500.0]),
    ] {
        let phases = vec![
            phase(20, 10, 10.0, arrivals[0]),
            phase(60, 10, 40.0, arrivals[1]),
            phase(40, 10, 10.0, arrivals[2]),
        ];
        all.push(Scenario {
            phases: phases.clone(),
            wanted: Wanted {
                settled: &[15.0],
                ..wanted(&[0.94])
            },
            ..one(name, phases[0])
        });
    }
    all.push(Scenario {
        phases: vec![
            phase(20, 10, 10.0, 1_500.0),
            phase(20, 5, 10.0, 1_500.0),
            phase(20, 10, 10.0, 1_500.0),
        ],
        server: Discipline::Sharing { kappa: 0.2 },
        wanted: wanted(&[0.88]),
        ..one("thrash 0.2, c 10→5→10", phase(20, 10, 10.0, 1_500.0))
    });
    all.push(Scenario {
        server: Discipline::Sharing { kappa: 1.0 },
        wanted: wanted(&[0.8]),
        ..one("thrash 1", phase(40, 10, 10.0, 1_500.0))
    });
    // With a service time that never varies or with two workers, one call in the server's queue makes
    // the time in service twice as long or half as long again, and no limit between keeps the workers
    // busy without one. So their p99 is printed and not judged.
    let without_p99 = |goodput| Wanted {
        p99: &[],
        ..wanted(goodput)
    };
    let bimodal = Law::Bimodal {
        short: 0.2,
        long: 4.0,
    };
    for (name, law, wanted) in [
        (
            "lognormal, CV 3",
            Law::Lognormal { cv: 3.0 },
            wanted(&[0.95]),
        ),
        ("bimodal 2/40 ms", bimodal, wanted(&[0.95])),
        ("deterministic", Law::Deterministic, without_p99(&[0.97])),
    ] {
        all.push(Scenario {
            law,
            wanted,
            ..one(name, phase(40, 10, 10.0, 1_500.0))
        });
    }
    all.extend(outages());
    all.push(Scenario {
        phases: servers.iter().map(at_load).collect(),
        server: Discipline::Refusing,
        // More than a tenth of a window is what the controllers are told to be too much.
        wanted: Wanted {
            settled: &[2.0],
            refused: &[0.1],
            ..wanted(&[0.94])
        },
        ..one("refusing, c 10→5→20→10", servers[0])
    });
    all.push(Scenario {
        wanted: without_p99(&[0.95]),
        ..one("c 2, S 100 ms, 30/s", phase(200, 2, 100.0, 30.0))
    });
    all.push(Scenario {
        wanted: Wanted {
            settled: &[5.0],
            ..wanted(&[0.93])
        },
        ..one("c 200, S 20 ms, 15,000/s", phase(40, 200, 20.0, 15_000.0))
    });
    all.extend(changes::alone());
    all.extend(changes::fleets());
    all
}

/// A server answers nothing for a while, and callers abandon their calls to it. No limit has a good
/// answer then; after it, all must be as before.
fn outages() -> [Scenario; 2] {
    let [usual, outage] = [(20, 10), (5, 0)].map(|(seconds, workers)| Phase {
        workers,
        ..phase(seconds, 0, 10.0, 1_500.0)
    });
    [
        ("outage, abandoned ignored", Abandoned::Ignored),
        ("outage, abandoned overloaded", Abandoned::Overloaded),
    ]
    .map(|(name, abandoned)| Scenario {
        phases: vec![usual, outage, usual],
        abandoned: Some(abandoned),
        wanted: Wanted {
            settled: &[2.0],
            growth: Some(2.0),
            ..wanted(&[0.94, f64::NAN, 0.94])
        },
        ..one(name, usual)
    })
}

/// Wants nothing.
pub(crate) const ANY: Wanted = Wanted {
    goodput: &[],
    p99: &[],
    settled: &[],
    swift: &[],
    fair: &[],
    refused: &[],
    limit: None,
    growth: None,
};

/// Returns clients with the same part of the requests.
pub(crate) fn equal(count: usize) -> Vec<Client> {
    let client = Client {
        share: 1.0 / count as f64,
        starts: 0.0,
        away: None,
    };
    vec![client; count]
}

/// Returns a phase with so many times the requests that the server has the capacity for.
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
        second: SECOND,
        wanted: wanted(&[f64::NAN]),
    }
}

/// What is wanted of a row, with this goodput.
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
pub(crate) fn two_clients() -> Vec<Client> {
    equal(2)
}
