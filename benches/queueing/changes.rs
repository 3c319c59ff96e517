//! The scenarios in which a server drops, rises, is dead or is met with a bad start, and those of several
//! clients. A change comes at any time.

use crate::scenario::{Abandoned, Client, Discipline, Phase, SPANS, Scenario, Wanted};
use crate::scenarios::{ANY, equal, loaded, one, phase};

/// Stands for no bound, in a list for each phase.
const NONE: f64 = f64::NAN;

/// Returns those of a single client, at 1.5 times the capacity. What a phase before a change has to reach is
/// in other rows.
#[rustfmt::skip]
pub(crate) fn alone() -> Vec<Scenario> {
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
        dead("dead for 30 s, overloaded", Some(Abandoned::Overloaded)),
        Scenario {
            server: Discipline::Refusing,
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

/// Returns those of several clients, each with a limit of its own, before one server. Limits that drift
/// take long to be far off.
#[rustfmt::skip]
pub(crate) fn fleets() -> Vec<Scenario> {
    let fleet = |name, phases: &[Phase], clients: &[Client], wanted| Scenario {
        phases: phases.to_vec(),
        clients: clients.to_vec(),
        longer: 10,
        wanted,
        ..one(name, phases[0])
    };
    let loaded = |seconds, workers, load| loaded(seconds, workers, 20.0, load);
    let held = Wanted { goodput: &[0.95], p99: &[1.4], fair: &[0.85], ..ANY };
    // Whether they are fair is printed.
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
    // Those that stay take over what the others had.
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
