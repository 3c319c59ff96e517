//! The rows of concurrency limits: each scenario with each contender.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::judge::{CONTROLLERS, FIXED_LIMIT, medians, outcomes, worst};
use crate::scenario::Scenario;
use crate::table::{Outcome, Row, figures};

/// The most seeds for several clients, whose scenarios take long.
const SEEDS_OF_MANY: usize = 3;

/// Returns the rows of the scenarios, with the medians over the seeds.
pub(crate) fn rows(scenarios: &[Scenario], seeds: &[u64]) -> Vec<Row> {
    let contenders: Vec<_> = CONTROLLERS.into_iter().chain([FIXED_LIMIT]).collect();
    let seeds_of = |scenario: &Scenario| match scenario.clients.len() {
        1 => seeds,
        _ => &seeds[..seeds.len().min(SEEDS_OF_MANY)],
    };
    let tasks: Vec<_> = scenarios
        .iter()
        .flat_map(|scenario| seeds_of(scenario).iter().map(move |seed| (scenario, *seed)))
        .collect();
    let results = run_all(&tasks, |scenario, seed| {
        outcomes(scenario, seed, &contenders)
    });
    let mut results = results.into_iter();
    let of_scenario = |scenario| {
        let seeds = seeds_of(scenario).len();
        let results: Vec<_> = results.by_ref().take(seeds).collect();
        let row = |(index, (controller, _)): (usize, &(&str, _))| {
            let of_seeds: Vec<_> = results.iter().map(|each| each[index].clone()).collect();
            let (median, worst) = (medians(&of_seeds), worst(&of_seeds));
            let (figures, passed) = figures(&median, &worst, &scenario.wanted);
            Row {
                scenario: scenario.name.into(),
                controller: String::from(*controller),
                figures,
                passed,
                // The default controller is the first.
                decides: index == 0,
            }
        };
        contenders.iter().enumerate().map(row).collect::<Vec<_>>()
    };
    scenarios.iter().flat_map(of_scenario).collect()
}

/// Runs each scenario with its seed, on all processors.
fn run_all(
    tasks: &[(&Scenario, u64)],
    outcomes: impl Fn(&Scenario, u64) -> Vec<Outcome> + Sync,
) -> Vec<Vec<Outcome>> {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            let sender = sender.clone();
            let (next, outcomes) = (&next, &outcomes);
            scope.spawn(move || {
                // The last scenario takes the longest, so it begins first.
                while let Some(index) = tasks
                    .len()
                    .checked_sub(1 + next.fetch_add(1, Ordering::Relaxed))
                {
                    let (scenario, seed) = tasks[index];
                    let result = (index, outcomes(scenario, seed));
                    sender.send(result).expect("the receiver is there");
                }
            });
        }
    });
    drop(sender);
    let mut results: Vec<_> = receiver.iter().collect();
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, outcomes)| outcomes).collect()
}
