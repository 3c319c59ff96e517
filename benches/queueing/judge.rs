//! What the runs of a scenario come to: in parts of an oracle's, as medians over seeds.

use std::ops::Range;

use tollgate::adaptive::{AdaptiveSemaphore, Aimd, Controller, Gradient};

use crate::jobs::{Job, Nanos, SECOND, jobs, p99, p99_alone};
use crate::limiter::Limiter;
use crate::peers::envoy_gradient::EnvoyGradient;
use crate::peers::gradient2::Gradient2;
use crate::peers::vegas::Vegas;
use crate::scenario::{Phase, SPANS, Scenario};
use crate::simulation::{Trace, run};

/// The first limit of the controllers by default, and the limit of [`FIXED_LIMIT`].
pub(crate) const START: f64 = 20.0;

/// Makes a limiter that begins with a limit, by its default settings otherwise.
pub(crate) type Make = fn(f64) -> Limiter;

/// The controllers of tollgate and its peers; the first is the default.
pub(crate) const CONTROLLERS: [(&str, Make); 5] = [
    ("Gradient", |start| {
        adaptive(Gradient::default().initial_limit(start))
    }),
    // It always begins with its least limit.
    ("EnvoyGradient", |_| adaptive(EnvoyGradient::default())),
    ("Vegas", |start| adaptive(Vegas::new(start))),
    ("Gradient2", |start| adaptive(Gradient2::new(start))),
    ("Aimd", |start| {
        adaptive(Aimd::default().initial_limit(start))
    }),
];

/// Stands beside the controllers: what it reaches too is no merit of theirs.
pub(crate) const FIXED_LIMIT: (&str, Make) = ("Fixed 20", |_| Limiter::fixed(START as usize));

fn adaptive(controller: impl Controller + 'static) -> Limiter {
    Limiter::adaptive(AdaptiveSemaphore::new(controller))
}

/// The fixed limits of the oracle, in parts of the number of workers in the first phase.
const FIXED: [f64; 13] = [
    0.3, 0.5, 0.7, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 20.0,
];

/// A phase has settled when the first stretch of it begins whose good answers reach `SETTLED` of the
/// oracle's. What is lost later is part of the goodput. A stretch is two seconds, and longer if that
/// is not enough for so many answers: of fewer, two runs with good limits differ by a tenth by
/// chance.
const SETTLING: usize = 2 * SPANS as usize;
const SETTLING_ANSWERS: f64 = 2_000.0;
const SETTLED: f64 = 0.9;

/// What became of a controller in a scenario.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// For each phase, in parts of the oracle's. NaN, as the next two, if the oracle has no good
    /// answer either.
    pub(crate) goodput: Vec<f64>,
    /// The 99th percentile of the time in service in parts of that in an idle server, for each
    /// phase.
    pub(crate) p99: Vec<f64>,
    /// Seconds, for each phase.
    pub(crate) settled: Vec<f64>,
    /// The refused part of the calls, for each phase.
    pub(crate) refused: Vec<f64>,
    pub(crate) highest_limit: f64,
    /// See [`Wanted::growth`](crate::scenario::Wanted::growth). NaN if the server always answers.
    pub(crate) growth: f64,
}

/// Runs a scenario with each contender.
pub(crate) fn outcomes(
    scenario: &Scenario,
    seed: u64,
    start: f64,
    contenders: &[(&str, Make)],
) -> Vec<Outcome> {
    let jobs = jobs(scenario, seed);
    let oracles = oracles(scenario, &jobs);
    let outcome = |make: Make| {
        let trace = run(scenario, &jobs, make(start), true);
        judge(scenario, &jobs, &trace, &oracles)
    };
    contenders.iter().map(|(_, make)| outcome(*make)).collect()
}

/// Returns the runs with fixed limits, from the least to the highest.
fn fixed_runs(scenario: &Scenario, jobs: &[Job]) -> [(usize, Trace); 13] {
    fixed_limits(scenario).map(|limit| {
        let limiter = Limiter::fixed(limit);
        (limit, run(scenario, jobs, limiter, false))
    })
}

/// Returns the run with the best fixed limit for each phase.
fn oracles(scenario: &Scenario, jobs: &[Job]) -> Vec<Trace> {
    let fixed = fixed_runs(scenario, jobs);
    let best = |span: Range<Nanos>| {
        let best = fixed.iter().max_by_key(|(_, trace)| good(trace, &span));
        best.expect("there are thirteen").1.clone()
    };
    let spans = scenario.spans().into_iter();
    spans.map(|(_, span)| best(span)).collect()
}

/// Returns for each phase the least fixed limit that has 99 % of the goodput of the best one.
pub(crate) fn oracle_limits(scenario: &Scenario, jobs: &[Job]) -> Vec<usize> {
    let fixed = fixed_runs(scenario, jobs);
    let least = |span: Range<Nanos>| {
        let goods = fixed.each_ref().map(|(_, trace)| good(trace, &span));
        let best = goods.into_iter().max().unwrap_or(0);
        let least = goods.iter().position(|good| good * 100 >= best * 99);
        least.map_or(1, |index| fixed[index].0)
    };
    let spans = scenario.spans().into_iter();
    spans.map(|(_, span)| least(span)).collect()
}

fn fixed_limits(scenario: &Scenario) -> [usize; 13] {
    let workers = scenario.phases[0].workers as f64;
    FIXED.map(|part| (part * workers).round().max(1.0) as usize)
}

fn judge(scenario: &Scenario, jobs: &[Job], trace: &Trace, oracles: &[Trace]) -> Outcome {
    let mut outcome = Outcome {
        goodput: Vec::new(),
        p99: Vec::new(),
        settled: Vec::new(),
        refused: Vec::new(),
        highest_limit: trace.highest_limit as f64,
        growth: growth(scenario, trace),
    };
    for ((phase, span), oracle) in scenario.spans().into_iter().zip(oracles) {
        let best = good(oracle, &span) as f64;
        outcome.goodput.push(good(trace, &span) as f64 / best);
        let refused = sum(&trace.refused[spans(trace, &span)]);
        let calls = trace.calls.iter().filter(|(end, _)| span.contains(end));
        let mut calls: Vec<_> = calls.map(|(_, seconds)| *seconds).collect();
        let alone = p99_alone(jobs, phase, &span);
        let part = refused as f64 / (refused as usize + calls.len()).max(1) as f64;
        outcome.refused.push(part);
        let is_judged = best > 0.0;
        let judged = |figure: f64| if is_judged { figure } else { f64::NAN };
        outcome.p99.push(judged(p99(&mut calls) / alone));
        outcome
            .settled
            .push(judged(settled(trace, oracle, &span, phase)));
    }
    outcome
}

/// Returns the number of good answers in a phase.
pub(crate) fn good(trace: &Trace, span: &Range<Nanos>) -> u64 {
    sum(&trace.answers[spans(trace, span)])
}

fn sum(counts: &[u32]) -> u64 {
    counts.iter().map(|count| u64::from(*count)).sum()
}

fn spans(trace: &Trace, time: &Range<Nanos>) -> Range<usize> {
    (time.start / trace.span) as usize..(time.end / trace.span) as usize
}

/// Returns how many seconds of a phase passed before it settled.
fn settled(trace: &Trace, oracle: &Trace, span: &Range<Nanos>, phase: &Phase) -> f64 {
    let Range { start, end } = spans(trace, span);
    let seconds = SETTLING_ANSWERS * phase.service / phase.workers as f64;
    let long = (seconds * SECOND as f64 / trace.span as f64).ceil() as usize;
    let stretch = long.max(SETTLING).min(end - start);
    let good = |trace: &Trace, at: usize| sum(&trace.answers[at..at + stretch]) as f64;
    let is_settled = |at: &usize| good(trace, *at) >= SETTLED * good(oracle, *at);
    let first = (start..=end - stretch).find(is_settled);
    first.map_or(f64::INFINITY, |at| (at - start) as f64 / SPANS as f64)
}

/// Returns the highest limit since the server answered nothing, in parts of the mean limit of the
/// phase before.
fn growth(scenario: &Scenario, trace: &Trace) -> f64 {
    let phases = scenario.spans();
    let is_outage = |pair: &&[(&Phase, Range<Nanos>)]| pair[1].0.workers == 0;
    let Some([(_, before), (_, outage)]) = phases.windows(2).find(is_outage) else {
        return f64::NAN;
    };
    let before = &trace.limits[spans(trace, before)];
    let mean = before.iter().sum::<usize>() as f64 / before.len() as f64;
    let since = &trace.limits[spans(trace, outage).start..];
    since.iter().copied().max().unwrap_or(0) as f64 / mean
}

/// Chooses one of the figures of several seeds.
type Choose = fn(Vec<f64>) -> f64;

/// Returns the median of each figure over the seeds.
pub(crate) fn medians(outcomes: &[Outcome]) -> Outcome {
    over(outcomes, median, median)
}

/// Returns the worst of each figure over the seeds.
pub(crate) fn worst(outcomes: &[Outcome]) -> Outcome {
    let least = |values: Vec<f64>| values.into_iter().fold(f64::NAN, f64::min);
    let most = |values: Vec<f64>| values.into_iter().fold(f64::NAN, f64::max);
    over(outcomes, least, most)
}

/// `goodput` chooses among the figures for which more is better, `others` among the others.
fn over(outcomes: &[Outcome], goodput: Choose, others: Choose) -> Outcome {
    let each = |figures: fn(&Outcome) -> &Vec<f64>, choose: Choose| {
        let phases = 0..figures(&outcomes[0]).len();
        let of_phase = |phase| choose(outcomes.iter().map(|one| figures(one)[phase]).collect());
        phases.map(of_phase).collect()
    };
    let one = |figure: fn(&Outcome) -> f64| others(outcomes.iter().map(figure).collect());
    Outcome {
        goodput: each(|outcome| &outcome.goodput, goodput),
        p99: each(|outcome| &outcome.p99, others),
        settled: each(|outcome| &outcome.settled, others),
        refused: each(|outcome| &outcome.refused, others),
        highest_limit: one(|outcome| outcome.highest_limit),
        growth: one(|outcome| outcome.growth),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
