//! Worlds in which no bound holds for all that a limit may do: each phase is to have 90 % of the goodput of
//! the best fixed limit in nine of ten seeds, and below the capacity 97 % of that without a limit in the
//! median. A miss is printed, and does not decide. Callers wait for a place for ten service times, the
//! oldest first.

use crate::scenarios::{
    ANY, Balance, Client, Discipline, Law, Line, NONE, Own, Phase, Retry, SPANS, Said, Scenario,
    Wanted, equal, loaded, one, phase,
};

/// Judged as a whole.
const MOST: Wanted = Wanted {
    tenth: &[0.9],
    ..ANY
};

/// The second phase is that after a minute.
const BELOW: Wanted = Wanted {
    goodput: &[NONE, 0.97],
    tenth: &[NONE, 0.92],
    ..ANY
};

/// The fixed limits of the oracle, relative to the number of workers: no limit, for loads below the
/// capacity; for others; and if the capacity changes.
const NO_LIMIT: [f64; 1] = [20.0];
const SOME: [f64; 7] = [0.7, 1.0, 1.2, 1.5, 2.0, 3.0, 6.0];
const WIDE: [f64; 9] = [0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5, 6.0, 20.0];

/// The number of workers of a server that never queues.
const ELASTIC: usize = 10_000;

fn world(name: &'static str, phases: &[Phase], oracle: &'static [f64]) -> Scenario {
    Scenario {
        phases: phases.to_vec(),
        line: Line::OldestFirst,
        patience: 10.0,
        oracle,
        is_world: true,
        wanted: MOST,
        ..one(name, phases[0])
    }
}

/// Returns a world of two phases at one load.
fn steady(name: &'static str, law: Law, phase: Phase) -> Scenario {
    let is_below = phase.arrivals * phase.service < phase.all_workers() as f64;
    let (oracle, wanted): (&[f64], _) = if is_below {
        (&NO_LIMIT, BELOW)
    } else {
        (&SOME, MOST)
    };
    Scenario {
        law,
        wanted,
        ..world(name, &[phase; 2], oracle)
    }
}

/// Returns phases that are judged as one: `cycle`, repeated.
fn repeated(times: usize, cycle: &[Phase]) -> Vec<Phase> {
    let mut phases = cycle.repeat(times);
    phases
        .iter_mut()
        .skip(1)
        .for_each(|phase| phase.continues = true);
    phases
}

/// The short calls of a cache, in milliseconds, and the law of service times and their mean.
fn cache(slow: f64, long: f64) -> (Law, f64) {
    let law = Law::Cache {
        slow,
        ratio: long / 2.0,
    };
    (law, 2.0 * (1.0 - slow) + long * slow)
}

/// Returns the worlds.
#[rustfmt::skip]
pub(crate) fn worlds() -> Vec<Scenario> {
    let mut all = laws();
    let exponential = |name, phase| steady(name, Law::Exponential, phase);
    let of = |name, phases: &[Phase]| world(name, phases, &WIDE);
    let loads = |workers, service, load| loaded(40, workers, service, load);
    let quick = |workers, service, load| loaded(15, workers, service, load);
    let minute = |workers, service, load| loaded(60, workers, service, load);
    let tall = |name, scenario: Scenario| Scenario { name, resolution: 1_000_000, ..scenario };
    all.extend([
        exponential("c 20, load 0.5", minute(20, 20.0, 0.5)),
        exponential("c 20, load 0.9", minute(20, 20.0, 0.9)),
        exponential("c 20, load 1.3", minute(20, 20.0, 1.3)),
        exponential("S 100 µs, c 8, load 0.8", quick(8, 0.1, 0.8)),
        Scenario { oracle: &[1.0, 1.5], ..exponential("S 100 µs, c 8, load 1.3", quick(8, 0.1, 1.3)) },
        of("S 30 s, c 50, load 0.8, 4 h", &[loaded(7_200, 50, 30_000.0, 0.8); 2]),
        of("S 30 s, c 50, load 1.3, 4 h", &[loaded(7_200, 50, 30_000.0, 1.3); 2]),
        of("S 3 s, c 4, 1/s, then 2/s", &[phase(900, 4, 3_000.0, 1.0), phase(900, 4, 3_000.0, 2.0)]),
        tall("clock of 1 ms, S 0.3 ms", exponential("", quick(10, 0.3, 0.8))),
        tall("clock of 1 ms, S 2 ms", exponential("", quick(10, 2.0, 0.8))),
        Scenario { network: 0.08, ..exponential("network 80 ms, S 5 ms, load 0.8", minute(10, 5.0, 0.8)) },
        Scenario { network: 0.08, oracle: &WIDE, ..exponential("network 80 ms, S 5 ms, load 1.3", minute(10, 5.0, 1.3)) },
    ]);
    // The server changes.
    let slower = |times| [phase(40, ELASTIC, 20.0, 500.0), phase(60, ELASTIC, 20.0 * times, 500.0)];
    let elastic = |name, phases: &[Phase]| world(name, phases, &[0.1]);
    let drift: Vec<_> = (0..60).map(|n| loaded(10, 20, 20.0 + 40.0 * n as f64 / 59.0, 1.3)).collect();
    let paused = [loaded(5, 20, 20.0, 0.8), Phase { workers: 0, spans: 2, ..loaded(1, 20, 20.0, 0.8) }];
    let dead = |name, retry| Scenario {
        abandoned: Some(Said::Overloaded),
        timeout: 1.0,
        retry,
        ..of(name, &[loads(20, 20.0, 0.8), Phase { spans: 6 * SPANS, workers: 0, ..loads(20, 20.0, 0.8) }, loads(20, 20.0, 0.8)])
    };
    all.extend([
        of("world c 50→5→50", &[50, 5, 50].map(|c| loads(c, 100.0, 1.3))),
        of("world c 20→2→20", &[20, 2, 20].map(|c| loads(c, 100.0, 1.3))),
        of("world S 20→32", &[20.0, 32.0].map(|s| loads(20, s, 1.3))),
        of("world S 20→200→20", &[20.0, 200.0, 20.0].map(|s| loads(20, s, 1.3))),
        elastic("S × 1.5, no queue", &slower(1.5)),
        elastic("S × 2, no queue", &slower(2.0)),
        elastic("S × 2.5, no queue", &slower(2.5)),
        elastic("S × 3, no queue", &slower(3.0)),
        elastic("S × 10, no queue", &slower(10.0)),
        elastic("S × 40, no queue", &slower(40.0)),
        of("S 20→60 ms over 600 s", &repeated(1, &drift)),
        of("cold, 100 ms, then 20", &[loaded(60, 20, 100.0, 1.3), loads(20, 20.0, 1.3)]),
        of("pauses of 200 ms each 5 s", &repeated(12, &paused)),
        dead("dead 6 s, no retries", Retry::Never),
        dead("dead 6 s, retries at once", Retry::AtOnce),
        dead("dead 6 s, retries spread", Retry::Spread),
        // The load changes.
        of("on and off", &repeated(12, &[loaded(2, 20, 20.0, 2.5), loaded(3, 20, 20.0, 0.1)])),
        of("2/s for 300 s, then load 2", &[phase(300, 20, 20.0, 2.0), loads(20, 20.0, 2.0)]),
        Scenario { start: 1.0, ..of("world start 1", &[loads(40, 20.0, 1.3)]) },
        Scenario { start: 1_000.0, ..of("world start 1000", &[loads(10, 20.0, 1.3)]) },
        // Elastic.
        elastic("elastic", &[phase(60, ELASTIC, 50.0, 300.0)]),
        elastic("spikes × 2", &spikes(2.0, 3, 17)),
        elastic("spikes × 5", &spikes(5.0, 3, 17)),
        elastic("spikes × 10", &spikes(10.0, 3, 17)),
        elastic("a minute × 5 in two", &spikes(5.0, 60, 60)),
    ]);
    // Servers that say no.
    let refusing = |name, queue, load| Scenario {
        server: Discipline::Refusing { queue },
        ..of(name, &[loads(20, 20.0, load)])
    };
    let fails = |name, refused| {
        let phase = loads(20, 20.0, 1.3);
        let failing = Phase { fails: true, spans: 20 * SPANS, ..phase };
        Scenario { refused, ..of(name, &[phase, failing, phase]) }
    };
    let sharing = |name, kappa, load| Scenario {
        server: Discipline::Sharing { kappa },
        oracle: &SOME,
        ..steady(name, Law::Exponential, minute(20, 20.0, load))
    };
    all.extend([
        refusing("refuses above 20, load 0.8", 0, 0.8),
        Scenario { wanted: Wanted { refused: &[0.05], ..MOST }, ..refusing("refuses above 20, load 1.5", 0, 1.5) },
        refusing("refuses above 30, load 0.8", 10, 0.8),
        Scenario { wanted: Wanted { refused: &[0.05], ..MOST }, ..refusing("refuses above 30, load 1.5", 10, 1.5) },
        fails("fails fast for 20 s", Said::Overloaded),
        fails("fails fast for 20 s, as a success", Said::Nothing),
        sharing("sharing, load 0.8", 0.0, 0.8),
        sharing("sharing, load 1.3", 0.0, 1.3),
        sharing("thrashing 0.3, load 0.8", 0.3, 0.8),
        sharing("thrashing 0.3, load 1.3", 0.3, 1.3),
        sharing("thrashing 3, load 0.8", 3.0, 0.8),
        sharing("thrashing 3, load 1.3", 3.0, 1.3),
    ]);
    all.extend(balancers());
    all.extend(fleets());
    all
}

/// Returns the laws of service times, at loads below and above the capacity.
#[rustfmt::skip]
fn laws() -> Vec<Scenario> {
    let of = |name, law, workers, service, load| steady(name, law, loaded(60, workers, service, load));
    let cached = |name, workers, slow, load| {
        let (law, mean) = cache(slow, 200.0);
        of(name, law, workers, mean, load)
    };
    let lognormal = |name, cv, load| of(name, Law::Lognormal { cv }, 20, 20.0, load);
    let (rare, mean) = cache(0.1, 2_000.0);
    // At a rate that is a part of the capacity in each phase, and at one of 600 a second.
    let mixed = |name, rate: fn(f64) -> f64| {
        let phase = |slow: f64| {
            let (law, mean) = cache(slow, 200.0);
            let arrivals = rate(20.0 / (mean / 1e3));
            Phase { law: Some(law), ..phase(44, 20, mean, arrivals) }
        };
        world(name, &[0.1, 0.5, 0.1, 0.02].map(phase), &WIDE)
    };
    vec![
        cached("cache 5 %, load 0.8", 20, 0.05, 0.8),
        cached("cache 5 %, load 0.95", 20, 0.05, 0.95),
        cached("cache 20 %, load 0.5", 20, 0.2, 0.5),
        cached("cache 20 %, load 0.7", 20, 0.2, 0.7),
        cached("cache 20 %, load 0.8", 20, 0.2, 0.8),
        cached("cache 20 %, load 0.9", 20, 0.2, 0.9),
        cached("cache 20 %, load 0.95", 20, 0.2, 0.95),
        cached("cache 20 %, load 1.3", 20, 0.2, 1.3),
        cached("cache 50 %, load 0.9", 20, 0.5, 0.9),
        cached("cache 50 %, load 1.3", 20, 0.5, 1.3),
        cached("cache 5 %, c 100, load 0.9", 100, 0.05, 0.9),
        cached("cache 20 %, c 100, load 0.8", 100, 0.2, 0.8),
        cached("cache 20 %, c 100, load 0.95", 100, 0.2, 0.95),
        cached("cache 20 %, c 100, load 1.3", 100, 0.2, 1.3),
        of("2/2000 ms, 10 %, load 0.8", rare, 20, mean, 0.8),
        of("Pareto 1.5, load 0.8", Law::Pareto { shape: 1.5 }, 20, 20.0, 0.8),
        lognormal("CV 3, load 0.8", 3.0, 0.8),
        lognormal("CV 3, load 0.9", 3.0, 0.9),
        lognormal("CV 3, load 1.3", 3.0, 1.3),
        lognormal("CV 5, load 0.8", 5.0, 0.8),
        lognormal("CV 5, load 0.9", 5.0, 0.9),
        lognormal("CV 5, load 1.3", 5.0, 1.3),
        lognormal("CV 10, load 0.8", 10.0, 0.8),
        lognormal("CV 10, load 0.9", 10.0, 0.9),
        lognormal("CV 10, load 1.3", 10.0, 1.3),
        mixed("mix 10→50→10→2 %, load 0.7", |capacity| 0.7 * capacity),
        mixed("mix 10→50→10→2 %, load 1.3", |capacity| 1.3 * capacity),
        mixed("mix 10→50→10→2 %, 600/s", |_| 600.0),
    ]
}

/// Returns two minutes in which calls of 50 ms take several times as long now and then.
fn spikes(times: f64, seconds: u64, between: u64) -> Vec<Phase> {
    let usual = phase(between, ELASTIC, 50.0, 300.0);
    let slow = phase(seconds, ELASTIC, 50.0 * times, 300.0);
    repeated(120 / (seconds + between) as usize, &[usual, slow])
}

#[rustfmt::skip]
fn balancers() -> Vec<Scenario> {
    let of = |name, balance, workers: [usize; 3], load| {
        let [first, others @ ..] = workers;
        let arrivals = load * workers.iter().sum::<usize>() as f64 / 0.02;
        let phase = Phase { others, ..phase(60, first, 20.0, arrivals) };
        Scenario { balance, ..steady(name, Law::Exponential, phase) }
    };
    let (unequal, nearly) = ([20, 10, 5], [12, 10, 8]);
    use Balance::{LeastOpen, Random, RoundRobin};
    let dies = |name, balance| {
        let world = of(name, balance, nearly, 0.6);
        let [usual, _] = world.phases[..] else { return world };
        let dead = Phase { workers: 0, spans: 40 * SPANS, ..usual };
        Scenario {
            phases: vec![usual, dead, usual],
            abandoned: Some(Said::Overloaded),
            timeout: 1.0,
            wanted: MOST,
            oracle: &SOME,
            ..world
        }
    };
    vec![
        of("round robin 20/10/5, load 0.5", RoundRobin, unequal, 0.5),
        of("round robin 20/10/5, load 1.3", RoundRobin, unequal, 1.3),
        of("round robin 12/10/8, load 0.6", RoundRobin, nearly, 0.6),
        of("random 20/10/5, load 0.5", Random, unequal, 0.5),
        of("random 20/10/5, load 1.3", Random, unequal, 1.3),
        of("random 12/10/8, load 0.6", Random, nearly, 0.6),
        of("least open 20/10/5, load 0.6", LeastOpen, unequal, 0.6),
        of("least open 20/10/5, load 1.3", LeastOpen, unequal, 1.3),
        of("least open 12/10/8, load 1.3", LeastOpen, nearly, 1.3),
        dies("round robin, the largest dies", RoundRobin),
        dies("least open, the largest dies", LeastOpen),
    ]
}

#[rustfmt::skip]
fn fleets() -> Vec<Scenario> {
    let of = |name, clients: Vec<Client>, workers, load| Scenario {
        clients,
        wanted: Wanted { p99: &[1.5], fair: &[0.85], ..MOST },
        oracle: &crate::judge::FIXED,
        ..world(name, &[loaded(120, workers, 20.0, load); 2], &SOME)
    };
    let beside = |own, count| {
        let mut clients = equal(10);
        clients.iter_mut().take(count).for_each(|client| client.own = Some(own));
        clients
    };
    vec![
        of("fleet of 5, c 25, load 0.8", equal(5), 25, 0.8),
        of("fleet of 5, c 25, load 1.3", equal(5), 25, 1.3),
        of("fleet of 10, c 50, load 0.8", equal(10), 50, 0.8),
        of("fleet of 10, c 50, load 1.3", equal(10), 50, 1.3),
        of("fleet of 20, c 100, load 1.3", equal(20), 100, 1.3),
        of("fleet of 50, c 25, load 1.3", equal(50), 25, 1.3),
        of("fleet of 50, c 100, load 0.8", equal(50), 100, 0.8),
        of("fleet of 50, c 100, load 1.3", equal(50), 100, 1.3),
        Scenario { apart: 0.5, ..of("fleet, clocks 0.5 s apart", equal(10), 50, 1.3) },
        Scenario { apart: 7.0, ..of("fleet, clocks 7 s apart", equal(10), 50, 1.3) },
        of("fleet beside fixed limits of 10", beside(Own::Fixed(10), 5), 50, 1.3),
        of("fleet beside Aimd", beside(Own::Aimd, 5), 50, 1.3),
        of("fleet beside a client without limit", beside(Own::Fixed(100_000), 1), 50, 1.3),
    ]
}
