//! What the runs of a scenario come to: in parts of an oracle's, as medians over seeds.

use std::ops::Range;

use tollgate::adaptive::{AdaptiveSemaphore, Aimd, EnvoyGradient, Gradient, Gradient2, Vegas};

use crate::jobs::{Job, Nanos, SECOND, jobs, p99, p99_alone};
use crate::limiter::Limiter;
use crate::scenario::Scenario;
use crate::simulation::{SPAN, Trace, run};

/// Makes a limit with a controller by its default settings.
pub(crate) type Make = fn() -> AdaptiveSemaphore;

/// The controllers, of which the first is the default.
pub(crate) const CONTROLLERS: [(&str, Make); 5] = [
    ("Gradient", || AdaptiveSemaphore::new(Gradient::default())),
    ("EnvoyGradient", || {
        AdaptiveSemaphore::new(EnvoyGradient::default())
    }),
    ("Vegas", || AdaptiveSemaphore::new(Vegas::default())),
    ("Gradient2", || AdaptiveSemaphore::new(Gradient2::default())),
    ("Aimd", || AdaptiveSemaphore::new(Aimd::default())),
];

/// The fixed limits of the oracle, in parts of the number of workers in the first phase.
const FIXED: [f64; 13] = [
    0.3, 0.5, 0.7, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 20.0,
];

/// A phase has settled at the first time from which the good answers in so many spans reach
/// `SETTLED` of the oracle's. What is lost later counts in the goodput of the phase.
const SETTLING: usize = (2 * SECOND / SPAN) as usize;
const SETTLED: f64 = 0.9;

/// What became of a controller in a scenario.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// For each phase, in parts of the oracle's.
    pub(crate) goodput: Vec<f64>,
    /// The 99th percentile of the time in service in parts of that in an idle server, for each
    /// phase.
    pub(crate) p99: Vec<f64>,
    /// Seconds, for each phase.
    pub(crate) settled: Vec<f64>,
    pub(crate) highest_limit: f64,
}

/// Runs a scenario with each controller.
pub(crate) fn outcomes(scenario: &Scenario, seed: u64) -> Vec<Outcome> {
    let jobs = jobs(scenario, seed);
    let oracles = oracles(scenario, &jobs);
    let outcome = |make: Make| {
        let trace = run(scenario, &jobs, Limiter::adaptive(make()), true);
        judge(scenario, &jobs, &trace, &oracles)
    };
    CONTROLLERS.iter().map(|(_, make)| outcome(*make)).collect()
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
        highest_limit: trace.highest_limit as f64,
    };
    for ((phase, span), oracle) in scenario.spans().into_iter().zip(oracles) {
        let best = good(oracle, &span) as f64;
        outcome.goodput.push(good(trace, &span) as f64 / best);
        let calls = trace.calls.iter().filter(|(end, _)| span.contains(end));
        let mut calls: Vec<_> = calls.map(|(_, seconds)| *seconds).collect();
        let alone = p99_alone(jobs, phase, &span);
        outcome.p99.push(p99(&mut calls) / alone);
        outcome.settled.push(settled(trace, oracle, &span));
    }
    outcome
}

/// Returns the number of good answers in a phase.
pub(crate) fn good(trace: &Trace, span: &Range<Nanos>) -> u64 {
    let answers = &trace.answers[spans(span)];
    answers.iter().map(|count| u64::from(*count)).sum()
}

fn spans(time: &Range<Nanos>) -> Range<usize> {
    (time.start / SPAN) as usize..(time.end / SPAN) as usize
}

/// Returns how many seconds of a phase passed before it settled.
fn settled(trace: &Trace, oracle: &Trace, span: &Range<Nanos>) -> f64 {
    let sum = |trace: &Trace, at: usize| {
        let answers = &trace.answers[at..at + SETTLING];
        f64::from(answers.iter().sum::<u32>())
    };
    let Range { start, end } = spans(span);
    let is_settled = |at: &usize| sum(trace, *at) >= SETTLED * sum(oracle, *at);
    match (start..=end - SETTLING).find(is_settled) {
        Some(at) => (at - start) as f64 * SPAN as f64 / SECOND as f64,
        None => f64::INFINITY,
    }
}

/// Returns the median of each figure over the seeds.
pub(crate) fn medians(outcomes: &[Outcome]) -> Outcome {
    let each = |figures: fn(&Outcome) -> &Vec<f64>| {
        let phases = 0..figures(&outcomes[0]).len();
        let median_of = |phase| median(outcomes.iter().map(|one| figures(one)[phase]).collect());
        phases.map(median_of).collect()
    };
    Outcome {
        goodput: each(|outcome| &outcome.goodput),
        p99: each(|outcome| &outcome.p99),
        settled: each(|outcome| &outcome.settled),
        highest_limit: median(outcomes.iter().map(|one| one.highest_limit).collect()),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
