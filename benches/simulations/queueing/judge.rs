//! Judges the runs of a scenario: relative to an oracle, as medians over seeds. Prints the table: a line for each
//! scenario and controller, with the figure, the target, and PASS or FAIL.

use std::fmt::{self, Display};
use std::ops::Range;

use tollgate::time::ManualClock;
use tollgate_adaptive::{AdaptiveSemaphore, Aimd, Controller, Gradient};

use simulations::spread::Spread;

use crate::jobs::{Job, Nanos, SECOND, jobs, p99, p99_alone};
use crate::peers::{EnvoyGradient, Gradient2, Vegas};
use crate::scenarios::{Own, Phase, SPAN, SPANS, Scenario, Wanted};
use crate::simulation::{Limiter, Trace, run};

/// The first limit of the controllers by default, and the limit of [`FIXED_LIMIT`].
pub(crate) const START: f64 = 20.0;

/// A function that makes a limiter with this first limit and default settings otherwise.
type Make = fn(f64, &ManualClock) -> Limiter;

/// The name of a limiter in the table, and the function that makes it.
pub(crate) type Contender = (&'static str, Make);

/// The controllers of tollgate and its peers; the first is the default.
pub(crate) const CONTROLLERS: [Contender; 5] = [
    ("Gradient", |start, clock| {
        adaptive(Gradient::default().initial_limit(start), clock)
    }),
    // It always begins with its least limit.
    ("EnvoyGradient", |_, clock| {
        adaptive(EnvoyGradient::default(), clock)
    }),
    ("Vegas", |start, clock| adaptive(Vegas::new(start), clock)),
    ("Gradient2", |start, clock| {
        adaptive(Gradient2::new(start), clock)
    }),
    ("Aimd", |start, clock| {
        adaptive(Aimd::default().initial_limit(start), clock)
    }),
];

/// The row beside the controllers: a target that it reaches too is no merit of theirs.
pub(crate) const FIXED_LIMIT: Contender = ("Fixed 20", |_, _| Limiter::fixed(START as usize));

fn adaptive(controller: impl Controller + 'static, clock: &ManualClock) -> Limiter {
    Limiter::adaptive(AdaptiveSemaphore::new(controller), clock)
}

/// The fixed limits of the oracle, relative to the number of workers in the first phase.
pub(crate) const FIXED: [f64; 13] = [
    0.3, 0.5, 0.7, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 20.0,
];

/// The fixed limits for several clients, whose scenarios take long. Each client has the same share,
/// and at least 1.
const OF_MANY: Range<usize> = 3..7;

/// A phase has settled when its first stretch begins whose good answers reach `SETTLED` of the oracle's,
/// and is swift when a stretch begins whose mean time in service is `SWIFT` of the idle one. Later losses
/// count in the goodput and in p99. A stretch is a second, or longer if the server needs more for this many
/// answers: with fewer, two runs with good limits differ by more than a tenth by chance.
const STRETCH: usize = SPANS as usize;
const STRETCH_ANSWERS: f64 = 100.0;
const SETTLED: f64 = 0.9;
const SWIFT: f64 = 1.5;

/// Runs a scenario with each contender.
pub(crate) fn outcomes(scenario: &Scenario, seed: u64, contenders: &[Contender]) -> Vec<Outcome> {
    let scenario = &scenario.drawn(seed);
    let jobs = jobs(scenario, seed);
    let oracles = oracles(scenario, &jobs);
    let outcome = |make: Make| {
        let make = |client: usize, clock: &ManualClock| match scenario.clients[client].own {
            None => make(scenario.start, clock),
            Some(Own::Fixed(limit)) => Limiter::fixed(limit),
            Some(Own::Aimd) => adaptive(Aimd::default(), clock),
        };
        let trace = run(scenario, &jobs, make, true);
        judge(scenario, &jobs, &trace, &oracles)
    };
    contenders.iter().map(|(_, make)| outcome(*make)).collect()
}

/// Returns the constructor for limiters of clients that share a fixed limit evenly.
pub(crate) fn fixed(
    scenario: &Scenario,
    total: usize,
) -> impl Fn(usize, &ManualClock) -> Limiter + use<> {
    let clients = scenario.clients.len();
    move |client, _| Limiter::fixed((total + client) / clients)
}

/// Returns the runs with fixed limits, from the least to the highest.
fn fixed_runs(scenario: &Scenario, jobs: &[Job]) -> Vec<(usize, Trace)> {
    let run = |limit| (limit, run(scenario, jobs, fixed(scenario, limit), false));
    fixed_limits(scenario).into_iter().map(run).collect()
}

/// Returns the run with the best fixed limit for each phase.
fn oracles(scenario: &Scenario, jobs: &[Job]) -> Vec<Trace> {
    let fixed = fixed_runs(scenario, jobs);
    let best = |span: Range<Nanos>| {
        let best = fixed.iter().max_by_key(|(_, trace)| good(trace, &span));
        best.expect("there is one").1.clone()
    };
    let spans = scenario.judged().into_iter();
    spans.map(|(_, span)| best(span)).collect()
}

/// Returns for each phase the least fixed limit that has 99 % of the goodput of the best one.
pub(crate) fn oracle_limits(scenario: &Scenario, jobs: &[Job]) -> Vec<usize> {
    let fixed = fixed_runs(scenario, jobs);
    let least = |span: Range<Nanos>| {
        let goods = fixed.iter().map(|(_, trace)| good(trace, &span));
        let goods: Vec<_> = goods.collect();
        let best = goods.iter().copied().max().unwrap_or(0);
        let least = goods.iter().position(|good| good * 100 >= best * 99);
        least.map_or(1, |index| fixed[index].0)
    };
    let spans = scenario.spans().into_iter();
    spans.map(|(_, span)| least(span)).collect()
}

/// Returns the sum of all clients' limits.
fn fixed_limits(scenario: &Scenario) -> Vec<usize> {
    let workers = scenario.phases[0].all_workers() as f64;
    let (fixed, clients) = (scenario.oracle, scenario.clients.len());
    let parts = if clients > 1 { OF_MANY } else { 0..fixed.len() };
    let limit = |part: &f64| ((part * workers).round() as usize).max(clients);
    fixed[parts].iter().map(limit).collect()
}

fn judge(scenario: &Scenario, jobs: &[Job], trace: &Trace, oracles: &[Trace]) -> Outcome {
    let mut outcome = Outcome::default();
    let phases = scenario
        .judged()
        .into_iter()
        .zip(oracles)
        .zip(&trace.shares);
    for (((phase, span), oracle), shares) in phases {
        let best = good(oracle, &span) as f64;
        let calls = trace.calls_in(&span);
        let late = after_change(scenario, outcome[0].len(), &span);
        let late_calls = trace.calls_in(&late).iter();
        let mut times: Vec<_> = late_calls.map(|(_, seconds)| *seconds).collect();
        let refused = sum(&trace.refused[spans(&span)]) as f64;
        let of_phase = [
            good(trace, &span) as f64 / best,
            p99(&mut times) / p99_alone(jobs, &late),
            settled(trace, oracle, &span, phase),
            swift(trace, &span, phase),
            fairness(jobs, shares, &span),
            refused / (refused + calls.len() as f64).max(1.0),
        ];
        for (figures, figure) in outcome.iter_mut().zip(of_phase) {
            let is_judged = best > 0.0 && !phase.fails;
            figures.push(if is_judged { figure } else { f64::NAN });
        }
    }
    let [.., limit, growths] = &mut outcome;
    limit.push(trace.highest_limit as f64);
    growths.push(growth(scenario, trace));
    outcome
}

/// Returns the part of a phase after the seconds within which it is to be swift. No limit can help the
/// calls that were in flight at a change.
fn after_change(scenario: &Scenario, phase: usize, span: &Range<Nanos>) -> Range<Nanos> {
    let seconds = scenario.wanted.swift.get(phase).copied();
    let seconds = seconds.filter(|seconds| seconds.is_finite()).unwrap_or(0.0);
    span.start + (seconds * SECOND as f64) as Nanos..span.end
}

/// Returns the number of good answers in a phase.
pub(crate) fn good(trace: &Trace, span: &Range<Nanos>) -> u64 {
    sum(&trace.answers[spans(span)])
}

fn sum(counts: &[u32]) -> u64 {
    counts.iter().map(|count| u64::from(*count)).sum()
}

fn spans(time: &Range<Nanos>) -> Range<usize> {
    (time.start / SPAN) as usize..(time.end / SPAN) as usize
}

fn settled(trace: &Trace, oracle: &Trace, span: &Range<Nanos>, phase: &Phase) -> f64 {
    first_stretch(span, phase, |stretch| {
        good(trace, stretch) as f64 >= SETTLED * good(oracle, stretch) as f64
    })
}

fn swift(trace: &Trace, span: &Range<Nanos>, phase: &Phase) -> f64 {
    first_stretch(span, phase, |stretch| {
        let calls = trace.calls_in(stretch);
        let total: f64 = calls.iter().map(|(_, seconds)| seconds).sum();
        total / calls.len() as f64 <= SWIFT * phase.service
    })
}

/// Returns how many seconds of a phase passed before the first stretch that meets the target.
fn first_stretch(
    span: &Range<Nanos>,
    phase: &Phase,
    is_wanted: impl Fn(&Range<Nanos>) -> bool,
) -> f64 {
    let Range { start, end } = spans(span);
    let seconds = STRETCH_ANSWERS * phase.service / phase.all_workers() as f64;
    let long = (seconds * SECOND as f64 / SPAN as f64).ceil() as usize;
    let stretch = long.max(STRETCH).min(end - start);
    let time = |at: usize| at as Nanos * SPAN..(at + stretch) as Nanos * SPAN;
    let first = (start..=end - stretch).find(|at| is_wanted(&time(*at)));
    first.map_or(f64::INFINITY, |at| (at - start) as f64 / SPANS as f64)
}

/// Returns Jain's index of the answered fractions of the clients' requests in a phase: 1 if all are the
/// same, and `1/n` if one of `n` clients has all answers.
fn fairness(jobs: &[Job], shares: &[u32], span: &Range<Nanos>) -> f64 {
    let mut requests = vec![0_u32; shares.len()];
    for job in jobs.iter().filter(|job| span.contains(&job.at)) {
        requests[job.client] += 1;
    }
    let clients = shares.iter().zip(&requests).filter(|(_, all)| **all > 0);
    jain(clients.map(|(good, all)| f64::from(*good) / f64::from(*all)))
}

fn jain(values: impl Iterator<Item = f64>) -> f64 {
    let add = |sums: [f64; 3], x: f64| [sums[0] + 1.0, sums[1] + x, sums[2] + x * x];
    let [count, sum, squares] = values.fold([0.0; 3], add);
    sum * sum / (count * squares)
}

/// Returns the highest limit since the server answered nothing, relative to the mean limit of the
/// phase before.
fn growth(scenario: &Scenario, trace: &Trace) -> f64 {
    let phases = scenario.spans();
    let is_outage = |pair: &&[(&Phase, Range<Nanos>)]| pair[1].0.workers == 0;
    let Some([(_, before), (_, outage)]) = phases.windows(2).find(is_outage) else {
        return f64::NAN;
    };
    let before = &trace.limits[spans(before)];
    let mean = before.iter().sum::<usize>() as f64 / before.len() as f64;
    let since = &trace.limits[spans(outage).start..];
    since.iter().copied().max().unwrap_or(0) as f64 / mean
}

fn over(outcomes: &[Outcome], choose: impl Fn(&Column, Vec<f64>) -> f64) -> Outcome {
    std::array::from_fn(|index| {
        let phases = 0..outcomes[0][index].len();
        let of_seeds = |phase| outcomes.iter().map(|one| one[index][phase]).collect();
        let figure = |phase| choose(&COLUMNS[index], of_seeds(phase));
        phases.map(figure).collect()
    })
}

/// The results of a controller in a scenario: the figures of each column for each phase, or once for all
/// phases. NaN if the oracle has no good answer either.
pub(crate) type Outcome = [Vec<f64>; COLUMNS.len()];

/// A column of figures.
pub(crate) struct Column {
    name: &'static str,
    unit: &'static str,
    scale: f64,
    digits: usize,
    width: usize,
    /// Whether more is better.
    more: bool,
    /// Whether it is printed when it has no target.
    always: bool,
    wanted: fn(&Wanted) -> &'static [f64],
}

#[rustfmt::skip]
pub(crate) const COLUMNS: [Column; 8] = [
    // Good answers relative to the oracle's.
    Column { name: "", unit: " %", scale: 100.0, digits: 1, width: 20, more: true, always: true, wanted: |it| it.goodput },
    // The 99th percentile of the time in service relative to that in an idle server.
    Column { name: "  p99 ", unit: " ×", scale: 1.0, digits: 2, width: 15, more: false, always: true, wanted: |it| it.p99 },
    // The seconds to 90 % of the goodput, and to 1.5 times the idle time in service.
    Column { name: "  settled ", unit: " s", scale: 1.0, digits: 1, width: 15, more: false, always: true, wanted: |it| it.settled },
    Column { name: "  swift ", unit: " s", scale: 1.0, digits: 1, width: 0, more: false, always: true, wanted: |it| it.swift },
    // Jain's index.
    Column { name: "  fair ", unit: "", scale: 1.0, digits: 2, width: 0, more: true, always: false, wanted: |it| it.fair },
    // A fraction of the calls.
    Column { name: "  refused ", unit: " %", scale: 100.0, digits: 1, width: 0, more: false, always: false, wanted: |it| it.refused },
    // The highest sum of the limits.
    Column { name: "  L ", unit: "", scale: 1.0, digits: 0, width: 0, more: false, always: true, wanted: |it| it.limit },
    // The highest limit since the server answered nothing, relative to the mean of the phase
    // before.
    Column { name: "  growth ", unit: " ×", scale: 1.0, digits: 2, width: 0, more: false, always: false, wanted: |it| it.growth },
];

/// A line of the table.
pub(crate) struct Row {
    pub(crate) scenario: String,
    pub(crate) controller: String,
    /// The figure, and its target.
    pub(crate) figures: String,
    pub(crate) passed: bool,
    /// The worst tenth of the goodput in each phase.
    pub(crate) tenths: Vec<f64>,
    /// Whether a failure is one of the program.
    pub(crate) decides: bool,
    /// Whether it is one of the worlds, whose misses are known.
    pub(crate) is_world: bool,
}

impl Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scenario,
            controller,
            figures,
            passed,
            is_world,
            ..
        } = self;
        let verdict = match passed {
            true => "PASS",
            false if *is_world => "MISS",
            false => "FAIL",
        };
        write!(f, "{verdict}  {scenario:<35} {controller:<14} {figures}")
    }
}

/// Returns the worst tenth of the goodput of the seeds, for each phase in which there is an answer.
pub(crate) fn tenths(outcomes: &[Outcome]) -> Vec<f64> {
    let [goodput, ..] = over(outcomes, Column::tenth);
    goodput.into_iter().filter(|part| !part.is_nan()).collect()
}

/// Returns the figures of the seeds, and whether they meet the target.
pub(crate) fn figures(outcomes: &[Outcome], wanted: &Wanted) -> (String, bool) {
    let median = over(outcomes, |_, values| Spread::of(values).median);
    let tenth = over(outcomes, Column::tenth);
    let mut text = String::new();
    let bounds = tenth[0].iter().zip(wanted.tenth.iter().cycle());
    let mut passed = !bounds.into_iter().any(|(tenth, bound)| tenth < bound);
    for (index, column) in COLUMNS.iter().enumerate() {
        let wanted = (column.wanted)(wanted);
        let judged = median[index].iter().zip(wanted.iter().cycle());
        // Where the oracle has no answer there is no target, but the time in service of no call at all is
        // NaN, which misses a target.
        let judged = judged
            .zip(&median[0])
            .filter(|((_, wanted), good)| !wanted.is_nan() && (index == 0 || !good.is_nan()));
        let is_reached = |(figure, wanted): (&f64, &f64)| {
            if column.more {
                figure >= wanted
            } else {
                figure <= wanted
            }
        };
        passed &= judged.map(|(pair, _)| pair).all(is_reached);
        if column.always || !wanted.is_empty() {
            text += &column.text(&median[index], wanted, &tenth[index]);
        }
    }
    (text, passed)
}

impl Column {
    /// Returns the figure than which a tenth of the seeds is worse.
    fn tenth(&self, figures: Vec<f64>) -> f64 {
        let spread = Spread::of(figures);
        if self.more { spread.p10 } else { spread.p90 }
    }

    fn text(&self, median: &[f64], wanted: &[f64], tenth: &[f64]) -> String {
        let digits = |figure: f64| format!("{figure:.*}", self.digits);
        let reached = self.list(median, digits);
        let bound = if wanted.iter().all(|wanted| wanted.is_nan()) {
            String::new()
        } else {
            let sign = if self.more { "≥" } else { "≤" };
            let rounded = |bound: f64| ((bound * 100.0).round() / 100.0).to_string();
            format!("{sign} {}, ", self.list(wanted, rounded))
        };
        let Self {
            name, unit, width, ..
        } = self;
        let tenth = self.list(tenth, digits);
        format!("{name}{reached:>width$}{unit} ({bound}{tenth})")
    }

    /// Joins the figures of all phases. The figures of a phase that is not judged are a dash.
    fn list(&self, figures: &[f64], text: impl Fn(f64) -> String) -> String {
        let text = |figure: &f64| {
            if figure.is_nan() {
                "–".to_owned()
            } else {
                text(figure * self.scale)
            }
        };
        figures.iter().map(text).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_jains_index() {
        assert_eq!(jain([0.5; 4].into_iter()), 1.0);
        assert_eq!(jain([1.0, 0.0, 0.0, 0.0].into_iter()), 0.25);
        assert_eq!(jain([1.0, 3.0].into_iter()), 0.8);
    }
}
