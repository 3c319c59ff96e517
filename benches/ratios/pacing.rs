//! Waiters in a long queue, released at a rate: the measurement of [`peers::pacing`],
//! beside every peer that can be awaited.
//!
//! A run takes as long as the queue should take, so there are only a few rounds. The contenders take
//! turns in each round. A figure is the median of the rounds; for the rate, the least and the
//! greatest are shown as well. CPU is compared within each round.

use peers::pacing::{self, Paced, Plan};
use ratelimit::Ratelimiter;
use throttle_net::Throttle as ThrottleNet;
use tollgate::Quota;
use tollgate_bench::harness::{Options, Spread, Table, Targets};
use tollgate_bench::peer::{
    Governor, LeakyBucket, OurFairQueue, OurLimiter, SharedRateLimit, WaitLimiter,
};

type Figure = fn(&Paced) -> f64;

/// The columns after the rate, in whole numbers.
const COLUMNS: &str =
    "late p50 \u{b5}s | p99 | strictly p50 | p99 | max | displaced p50 | p99 | max";
const FIGURES: [Figure; 8] = [
    |one| one.lateness.median,
    |one| one.lateness.p99,
    |one| one.strictly.median,
    |one| one.strictly.p99,
    |one| one.strictly.max,
    |one| one.displacement.median,
    |one| one.displacement.p99,
    |one| one.displacement.max,
];

/// A queue, the greatest allowed error of its rate in percent, its allowed CPU over governor's, and
/// the other targets of ours.
struct Phase {
    name: &'static str,
    plan: Plan,
    off: f64,
    cpu: Option<f64>,
    targets: &'static [(&'static str, f64, Figure)],
}

const PHASES: [Phase; 2] = [
    Phase {
        name: "pacing: 10,000 at 100,000/s",
        plan: plan(10_000, 3_000, 100_000),
        off: 0.5,
        cpu: Some(0.35),
        targets: &[
            ("displacement, p99", 5.0, |one| one.displacement.p99),
            ("displacement, greatest", 5.0, |one| one.displacement.max),
        ],
    },
    Phase {
        name: "pacing: 2,000 at 1,000/s",
        plan: plan(2_000, 20, 1_000),
        off: 0.2,
        cpu: None,
        targets: &[
            ("lateness from the first, p99, \u{b5}s", 400.0, |one| {
                one.lateness.p99
            }),
            ("lateness strictly, p99, \u{b5}s", 400.0, |one| {
                one.strictly.p99
            }),
        ],
    },
];

/// The targets of ours in both.
const IN_BOTH: [(&str, f64, Figure); 2] = [
    ("lateness from the first, median, \u{b5}s", 60.0, |one| {
        one.lateness.median
    }),
    ("lateness strictly, median, \u{b5}s", 60.0, |one| {
        one.strictly.median
    }),
];

/// Lengths of about half a second each.
const BEHIND_A_QUEUE: [Plan; 3] = [
    plan(500, 20, 1_000),
    plan(5_000, 300, 10_000),
    plan(50_000, 3_000, 100_000),
];

const fn plan(counted: usize, ahead: usize, count: u64) -> Plan {
    let quota = Quota::per_second(count);
    Plan {
        counted,
        ahead,
        quota,
    }
}

fn median(rounds: &[Paced], figure: impl Fn(&Paced) -> f64) -> f64 {
    Spread::of(rounds.iter().map(figure)).median
}

/// Returns the median of the ratio of two contenders' figures.
fn over(one: &[Paced], other: &[Paced], figure: Figure) -> f64 {
    Spread::of(one.iter().zip(other).map(|(a, b)| figure(a) / figure(b))).median
}

/// A contender, and its measurement.
type Contender = (&'static str, fn(&Plan) -> Paced);

const fn contender<L: WaitLimiter>() -> Contender {
    (L::NAME, pacing::pace::<L>)
}

/// Ours first, then governor, the reference for some figures.
const CONTENDERS: [Contender; 6] = [
    contender::<OurLimiter>(),
    contender::<Governor>(),
    contender::<LeakyBucket>(),
    contender::<ThrottleNet>(),
    contender::<SharedRateLimit>(),
    contender::<Ratelimiter>(),
];

/// Runs and prints the selected measurements, and returns whether every target was met.
pub(crate) fn run(options: &Options) -> bool {
    let mut kept = true;
    for phase in PHASES {
        if options.wants(phase.name) {
            kept &= paced(options, &phase);
        }
    }
    for plan in BEHIND_A_QUEUE {
        let name = format!("pacing: behind a fair queue at {}/s", plan.quota.count());
        if options.wants(&name) {
            kept &= behind_a_queue(options, &name, plan);
        }
    }
    kept
}

/// Lets the contenders take turns, and returns the rounds of each.
fn turns(options: &Options, name: &str, mut plan: Plan, all: &[Contender]) -> Vec<Vec<Paced>> {
    if options.rounds == 1 {
        // Only a check that it runs.
        (plan.counted, plan.ahead) = (20, 1);
    }
    let mut figures = vec![Vec::new(); all.len()];
    for round in 0..options.choose([1, 1, 5]) {
        for turn in 0..all.len() {
            let at = (round + turn) % all.len();
            let (contender, pace) = all[at];
            eprintln!("measuring: {name}, {contender}");
            figures[at].push(pace(&plan));
        }
    }
    eprintln!();
    println!("{name}; rounds: {}\n", figures[0].len());
    figures
}

/// Returns the cells of a rate, and its spread.
fn rate(rounds: &[Paced]) -> String {
    let Spread {
        median, min, max, ..
    } = Spread::of(rounds.iter().map(|one| one.rate));
    format!("{median:.0} | {min:.0} | {max:.0}")
}

fn paced(options: &Options, phase: &Phase) -> bool {
    let figures = turns(options, phase.name, phase.plan, &CONTENDERS);
    let mut table = Table::new(&format!(
        "contender | through | rate | min | max | {COLUMNS} | CPU ms | of governor's"
    ));
    for ((name, _), rounds) in CONTENDERS.iter().zip(&figures) {
        let rate = rate(rounds);
        let through = median(rounds, |one| one.released as f64);
        let cells = FIGURES
            .map(|figure| format!("{:.0}", median(rounds, figure)))
            .join(" | ");
        let (cpu, ratio) = (median(rounds, cpu), over(rounds, &figures[1], cpu));
        table.push(format!(
            "{name} | {through:.0} | {rate} | {cells} | {cpu:.1} | {ratio:.2}"
        ));
    }
    table.print(options.markdown);

    let (ours, governor) = (&figures[0], &figures[1]);
    let mut targets = Targets::of("tollgate");
    let asked = phase.plan.quota.count() as f64;
    let off = 100.0 * (median(ours, |one| one.rate) / asked - 1.0).abs();
    targets.at_most("rate, off by %", off, phase.off, "");
    if let Some(limit) = phase.cpu {
        targets.at_most("CPU over governor's", over(ours, governor, cpu), limit, "");
    }
    for (name, limit, figure) in IN_BOTH.iter().chain(phase.targets) {
        targets.at_most(name, median(ours, figure), *limit, "");
    }
    targets.print(options.markdown)
}

/// Compares the pace behind a fair queue with that of the limiter alone, in turns.
fn behind_a_queue(options: &Options, name: &str, plan: Plan) -> bool {
    let both = [contender::<OurLimiter>(), contender::<OurFairQueue>()];
    let figures = turns(options, name, plan, &both);
    let mut table = Table::new("contender | rate | min | max | CPU ms");
    for ((name, _), rounds) in both.iter().zip(&figures) {
        let (rate, cpu) = (rate(rounds), median(rounds, cpu));
        table.push(format!("{name} | {rate} | {cpu:.1}"));
    }
    table.print(options.markdown);
    let of = |figure| over(&figures[1], &figures[0], figure);
    let mut targets = Targets::of("tollgate");
    targets.at_most("rate lost, %", 100.0 * (1.0 - of(|one| one.rate)), 2.0, "");
    targets.at_most("CPU over the limiter's", of(cpu), 2.0, "");
    targets.print(options.markdown)
}

fn cpu(one: &Paced) -> f64 {
    one.cpu
}
