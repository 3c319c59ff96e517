//! The rows of concurrency limits: each scenario with each contender.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::judge::{CONTROLLERS, FIXED_LIMIT, Outcome, medians, outcomes, worst};
use crate::scenario::Scenario;
use crate::table::{Row, figures};

/// Returns the rows of the scenarios, with the medians over the seeds. `start` is the first limit.
pub(crate) fn rows(scenarios: &[Scenario], seeds: &[u64], start: f64) -> Vec<Row> {
    let contenders: Vec<_> = CONTROLLERS.into_iter().chain([FIXED_LIMIT]).collect();
    let results = run_all(scenarios, seeds, |scenario, seed| {
        outcomes(scenario, seed, start, &contenders)
    });
    let of_scenario = |(scenario, results): (&Scenario, &[Vec<Outcome>])| {
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
    scenarios
        .iter()
        .zip(results.chunks(seeds.len()))
        .flat_map(of_scenario)
        .collect()
}

/// Runs each scenario with each seed, on all processors.
fn run_all(
    scenarios: &[Scenario],
    seeds: &[u64],
    outcomes: impl Fn(&Scenario, u64) -> Vec<Outcome> + Sync,
) -> Vec<Vec<Outcome>> {
    let tasks: Vec<_> = scenarios
        .iter()
        .flat_map(|scenario| seeds.iter().map(move |seed| (scenario, *seed)))
        .collect();
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            let sender = sender.clone();
            let (next, tasks, outcomes) = (&next, &tasks, &outcomes);
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
