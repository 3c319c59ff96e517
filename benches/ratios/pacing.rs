//! Waiters in a long line, let through at a rate: what [`tollgate_bench::pacing`] measures, beside
//! every peer that can be awaited.
//!
//! A run takes as long as the queue is meant to take, so there are only a few rounds. In each round
//! everybody takes a turn. A figure is the median of the rounds; of the rate there are the least and
//! the greatest as well. CPU is compared within each round.

use ratelimit::Ratelimiter;
use throttle_net::Throttle as ThrottleNet;
use tollgate_bench::harness::{Options, Spread, Table};
use tollgate_bench::pacing::{self, Paced, Plan};
use tollgate_bench::peer::{
    Governor, LeakyBucket, Limiter, OurFairQueue, OurLimiter, Rate, SharedRateLimit, WaitLimiter,
};

struct Phase {
    name: &'static str,
    plan: Plan,
    targets: &'static [Target],
}

/// A figure of ours that must not be above a limit. It gets ours and governor's of all rounds.
struct Target {
    name: &'static str,
    limit: f64,
    figure: fn(&Phase, &[Paced], &[Paced]) -> f64,
}

const PHASES: [Phase; 2] = [
    Phase {
        name: "pacing: 10,000 at 100,000/s",
        plan: Plan {
            counted: 10_000,
            ahead: 3_000,
            rate: Rate::per_second(100_000, 1),
        },
        targets: &[
            off_by(0.5),
            FROM_FIRST,
            STRICTLY,
            Target {
                name: "CPU over governor's",
                limit: 0.35,
                figure: |_, ours, governor| {
                    let ratios = ours.iter().zip(governor).map(|(a, b)| a.cpu / b.cpu);
                    Spread::of(ratios.collect()).median
                },
            },
            Target {
                name: "displacement, p99",
                limit: 5.0,
                figure: |_, ours, _| median(ours, |one| one.displacement.p99),
            },
            Target {
                name: "displacement, greatest",
                limit: 5.0,
                figure: |_, ours, _| median(ours, |one| one.displacement.max),
            },
        ],
    },
    Phase {
        name: "pacing: 2,000 at 1,000/s",
        plan: Plan {
            counted: 2_000,
            ahead: 20,
            rate: Rate::per_second(1_000, 1),
        },
        targets: &[
            off_by(0.2),
            FROM_FIRST,
            STRICTLY,
            Target {
                name: "lateness from the first, p99, \u{b5}s",
                limit: 400.0,
                figure: |_, ours, _| median(ours, |one| one.lateness.p99),
            },
            Target {
                name: "lateness strictly, p99, \u{b5}s",
                limit: 400.0,
                figure: |_, ours, _| median(ours, |one| one.strictly.p99),
            },
        ],
    },
];

const fn off_by(percent: f64) -> Target {
    Target {
        name: "rate, off by %",
        limit: percent,
        figure: |phase, ours, _| {
            let asked = f64::from(phase.plan.rate.count);
            100.0 * (median(ours, |one| one.rate) / asked - 1.0).abs()
        },
    }
}

const FROM_FIRST: Target = Target {
    name: "lateness from the first, median, \u{b5}s",
    limit: 60.0,
    figure: |_, ours, _| median(ours, |one| one.lateness.median),
};

const STRICTLY: Target = Target {
    name: "lateness strictly, median, \u{b5}s",
    limit: 60.0,
    figure: |_, ours, _| median(ours, |one| one.strictly.median),
};

fn median(rounds: &[Paced], figure: impl Fn(&Paced) -> f64) -> f64 {
    Spread::of(rounds.iter().map(figure).collect()).median
}

/// A contender, and how it is measured.
struct Contender {
    name: &'static str,
    pace: fn(&Plan) -> Paced,
    last: fn(usize, Rate, u32) -> Option<f64>,
}

const fn contender<L: WaitLimiter>() -> Contender {
    Contender {
        name: L::NAME,
        pace: pacing::pace::<L>,
        last: pacing::last_of_cancelled::<L>,
    }
}

/// Ours first, then governor, which some figures are compared with.
const CONTENDERS: [Contender; 6] = [
    contender::<OurLimiter>(),
    contender::<Governor>(),
    contender::<LeakyBucket>(),
    contender::<ThrottleNet>(),
    contender::<SharedRateLimit>(),
    contender::<Ratelimiter>(),
];

const LAST: &str = "pacing: 9,999 of 10,000 cancelled";

/// Measures what is wanted of it and prints it; whether no target was missed.
pub(crate) fn run(options: &Options) -> bool {
    let mut kept = true;
    for phase in PHASES {
        if options.wants(phase.name) {
            kept &= paced(options, phase);
        }
    }
    for plan in BEHIND_A_QUEUE {
        let name = format!("pacing: behind a fair queue at {}/s", plan.rate.count);
        if options.wants(&name) {
            kept &= behind_a_queue(options, &name, plan);
        }
    }
    if options.wants(LAST) {
        kept &= cancelled(options);
    }
    kept
}

/// How often everybody takes a turn.
fn rounds(options: &Options) -> usize {
    if options.rounds > 10 { 5 } else { 1 }
}

fn paced(options: &Options, mut phase: Phase) -> bool {
    if options.rounds == 1 {
        // Only to see that it runs.
        phase.plan.counted = 20;
        phase.plan.ahead = 1;
    }
    let mut figures = CONTENDERS.map(|_| Vec::new());
    for round in 0..rounds(options) {
        for turn in 0..CONTENDERS.len() {
            let at = (round + turn) % CONTENDERS.len();
            eprintln!("measuring: {}, {}", phase.name, CONTENDERS[at].name);
            figures[at].push((CONTENDERS[at].pace)(&phase.plan));
        }
    }

    eprintln!();
    println!("{}; rounds: {}", phase.name, figures[0].len());
    println!();
    let mut table = Table::new(&[
        "contender",
        "through",
        "rate",
        "min",
        "max",
        "late p50 \u{b5}s",
        "p99",
        "strictly p50",
        "p99",
        "max",
        "displaced p50",
        "p99",
        "max",
        "CPU ms",
        "of governor's",
    ]);
    for (contender, rounds) in CONTENDERS.iter().zip(&figures) {
        let of = |figure: fn(&Paced) -> f64| median(rounds, figure);
        let rate = Spread::of(rounds.iter().map(|one| one.rate).collect());
        let ratios = rounds.iter().zip(&figures[1]).map(|(a, b)| a.cpu / b.cpu);
        table.push(vec![
            contender.name.to_owned(),
            format!("{:.0}", of(|one| one.released as f64)),
            format!("{:.0}", rate.median),
            format!("{:.0}", rate.min),
            format!("{:.0}", rate.max),
            format!("{:.0}", of(|one| one.lateness.median)),
            format!("{:.0}", of(|one| one.lateness.p99)),
            format!("{:.0}", of(|one| one.strictly.median)),
            format!("{:.0}", of(|one| one.strictly.p99)),
            format!("{:.0}", of(|one| one.strictly.max)),
            format!("{:.0}", of(|one| one.displacement.median)),
            format!("{:.0}", of(|one| one.displacement.p99)),
            format!("{:.0}", of(|one| one.displacement.max)),
            format!("{:.1}", of(|one| one.cpu)),
            format!("{:.2}", Spread::of(ratios.collect()).median),
        ]);
    }
    table.print(options.markdown);

    let mut verdicts = Verdicts::new();
    for target in phase.targets {
        let figure = (target.figure)(&phase, &figures[0], &figures[1]);
        verdicts.push(target.name, figure, target.limit);
    }
    verdicts.print(options)
}

const fn behind(counted: usize, ahead: usize, count: u32) -> Plan {
    let rate = Rate::per_second(count, 1);
    Plan {
        counted,
        ahead,
        rate,
    }
}

/// For about half a second each.
const BEHIND_A_QUEUE: [Plan; 3] = [
    behind(500, 20, 1_000),
    behind(5_000, 300, 10_000),
    behind(50_000, 3_000, 100_000),
];

/// The pace behind a fair queue beside that of the limiter alone, in turns.
fn behind_a_queue(options: &Options, name: &str, mut plan: Plan) -> bool {
    if options.rounds == 1 {
        // Only to see that it runs.
        (plan.counted, plan.ahead) = (20, 1);
    }
    let mut figures = [Vec::new(), Vec::new()];
    for _ in 0..rounds(options) {
        eprintln!("measuring: {name}");
        figures[0].push(pacing::pace::<OurLimiter>(&plan));
        figures[1].push(pacing::pace::<OurFairQueue>(&plan));
    }
    println!("{name}; rounds: {}", figures[0].len());
    println!();
    let mut table = Table::new(&["contender", "rate", "min", "max", "CPU ms"]);
    for (name, rounds) in [OurLimiter::NAME, OurFairQueue::NAME].iter().zip(&figures) {
        let rate = Spread::of(rounds.iter().map(|one| one.rate).collect());
        let rates = [rate.median, rate.min, rate.max].map(|rate| format!("{rate:.0}"));
        let cpu = format!("{:.1}", median(rounds, |one| one.cpu));
        table.push([vec![(*name).to_owned()], rates.to_vec(), vec![cpu]].concat());
    }
    table.print(options.markdown);
    let of = |figure: fn(&Paced) -> f64| {
        let ratios = figures[1].iter().zip(&figures[0]);
        Spread::of(
            ratios
                .map(|(queue, alone)| figure(queue) / figure(alone))
                .collect(),
        )
        .median
    };
    let mut verdicts = Verdicts::new();
    verdicts.push("rate lost, %", 100.0 * (1.0 - of(|one| one.rate)), 2.0);
    verdicts.push("CPU over the limiter's", of(|one| one.cpu), 2.0);
    verdicts.print(options)
}

/// How long the last one's patience is, in intervals.
const PATIENCE: u32 = 20;

/// When the last of a line goes, if all others in it have given up: it should be at the next tick.
fn cancelled(options: &Options) -> bool {
    const IN_LINE: usize = 10_000;
    const INTERVAL_MS: u32 = 50;
    // At the next tick, and what it takes to get there.
    const LIMIT: f64 = 1.1;

    let rate = Rate::per_second(1_000 / INTERVAL_MS, 1);
    let in_line = if options.rounds == 1 { 20 } else { IN_LINE };
    println!("{LAST}: when the last goes, in intervals; {PATIENCE} are waited for");
    println!();
    let mut table = Table::new(&["contender", "median", "min", "max"]);
    let mut ours = None;
    for Contender { name, last, .. } in CONTENDERS {
        eprintln!("measuring: {LAST}, {name}");
        let came: Vec<f64> = (0..rounds(options))
            .map(|_| last(in_line, rate, PATIENCE).unwrap_or(f64::INFINITY))
            .collect();
        let spread = Spread::of(came);
        ours.get_or_insert(spread.median);
        let cell = |figure: f64| {
            if figure.is_finite() {
                format!("{figure:.3}")
            } else {
                format!("> {PATIENCE}")
            }
        };
        table.push(vec![
            name.to_owned(),
            cell(spread.median),
            cell(spread.min),
            cell(spread.max),
        ]);
    }
    table.print(options.markdown);
    let mut verdicts = Verdicts::new();
    let ours = ours.expect("ours is the first");
    verdicts.push("the last goes after, in intervals", ours, LIMIT);
    verdicts.print(options)
}

/// What ours is held to.
struct Verdicts {
    table: Table,
    kept: bool,
}

impl Verdicts {
    fn new() -> Verdicts {
        Verdicts {
            table: Table::new(&["tollgate", "figure", "target", "verdict"]),
            kept: true,
        }
    }

    fn push(&mut self, name: &str, figure: f64, limit: f64) {
        // What is not a number is not within the limit.
        let within = figure <= limit;
        self.kept &= within;
        self.table.push(vec![
            name.to_owned(),
            format!("{figure:.3}"),
            format!("<= {limit}"),
            if within { "PASS" } else { "MISS" }.to_owned(),
        ]);
    }

    fn print(self, options: &Options) -> bool {
        self.table.print(options.markdown);
        self.kept
    }
}
