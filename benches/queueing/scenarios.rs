//! The scenarios of the table.

use crate::jobs::PATIENCE;
use crate::scenario::{Discipline, Law, Line, Phase, Scenario, Wanted};

/// Returns the scenarios in the order of the table. Each phase is so long that settling is part of
/// its goodput, but not most of it.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = vec![
        Scenario {
            wanted: Wanted {
                goodput: &[0.95],
                p99: Some(1.3),
                settled: Some(1.0),
                ..Wanted::default()
            },
            ..one("M/M/10", phase(40, 10, 10.0, 1_500.0))
        },
        Scenario {
            wanted: Wanted {
                goodput: &[0.99],
                limit: Some(40),
                ..Wanted::default()
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
            goodput: &[0.94, 0.94, 0.94, 0.94],
            settled: Some(2.0),
            ..Wanted::default()
        },
        ..one("c 10→5→20→10", servers[0])
    });
    all.push(Scenario {
        phases: servers
            .iter()
            .map(|phase| Phase {
                arrivals: 150.0 * phase.workers as f64,
                ..*phase
            })
            .collect(),
        wanted: Wanted {
            goodput: &[0.94, 0.94, 0.94, 0.94],
            settled: Some(2.0),
            ..Wanted::default()
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
            wanted: Wanted {
                goodput: &[f64::NAN, 0.8, f64::NAN, f64::NAN],
                ..Wanted::default()
            },
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
                goodput: &[0.94, 0.94, 0.94],
                settled: Some(15.0),
                ..Wanted::default()
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
        wanted: Wanted {
            goodput: &[0.88, 0.88, 0.88],
            ..Wanted::default()
        },
        ..one("thrash 0.2, c 10→5→10", phase(20, 10, 10.0, 1_500.0))
    });
    all.push(Scenario {
        server: Discipline::Sharing { kappa: 1.0 },
        wanted: Wanted {
            goodput: &[0.8],
            p99: Some(1.6),
            ..Wanted::default()
        },
        ..one("thrash 1", phase(40, 10, 10.0, 1_500.0))
    });
    for (name, law, goodput) in [
        ("lognormal, CV 3", Law::Lognormal { cv: 3.0 }, &[0.95]),
        (
            "bimodal 2/40 ms",
            Law::Bimodal {
                short: 0.2,
                long: 4.0,
            },
            &[0.95],
        ),
        ("deterministic", Law::Deterministic, &[0.97]),
    ] {
        all.push(Scenario {
            law,
            wanted: Wanted {
                goodput,
                ..Wanted::default()
            },
            ..one(name, phase(40, 10, 10.0, 1_500.0))
        });
    }
    all.push(Scenario {
        wanted: Wanted {
            goodput: &[0.95],
            ..Wanted::default()
        },
        ..one("c 2, S 100 ms, 30/s", phase(200, 2, 100.0, 30.0))
    });
    all.push(Scenario {
        wanted: Wanted {
            goodput: &[0.93],
            settled: Some(5.0),
            ..Wanted::default()
        },
        ..one("c 200, S 20 ms, 15,000/s", phase(40, 200, 20.0, 15_000.0))
    });
    all
}

fn phase(seconds: u64, workers: usize, milliseconds: f64, arrivals: f64) -> Phase {
    Phase {
        seconds,
        workers,
        service: milliseconds / 1e3,
        arrivals,
    }
}

fn one(name: &'static str, phase: Phase) -> Scenario {
    Scenario {
        name,
        phases: vec![phase],
        law: Law::Exponential,
        server: Discipline::Workers,
        line: Line::NewestFirst,
        patience: PATIENCE,
        wanted: Wanted::default(),
    }
}
