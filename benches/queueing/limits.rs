//! The rows of concurrency limits: each scenario with each controller.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::judge::{CONTROLLERS, Outcome, medians, outcomes};
use crate::scenario::Scenario;
use crate::table::{Row, figures};

/// Returns the rows of the scenarios, with the medians over the seeds.
pub(crate) fn rows(scenarios: &[Scenario], seeds: &[u64]) -> Vec<Row> {
    let results = run_all(scenarios, seeds);
    let of_scenario = |(scenario, results): (&Scenario, &[Vec<Outcome>])| {
        let row = |(index, (controller, _)): (usize, &(&str, _))| {
            let of_seeds: Vec<_> = results.iter().map(|each| each[index].clone()).collect();
            let (figures, passed) = figures(&medians(&of_seeds), &scenario.wanted);
            Row {
                scenario: scenario.name.into(),
                controller: String::from(*controller),
                figures,
                passed,
                // The default controller is the first.
                decides: index == 0,
            }
        };
        let rows: Vec<_> = CONTROLLERS.iter().enumerate().map(row).collect();
        rows
    };
    scenarios
        .iter()
        .zip(results.chunks(seeds.len()))
        .flat_map(of_scenario)
        .collect()
}

/// Returns the outcomes of each scenario and seed, on all processors.
fn run_all(scenarios: &[Scenario], seeds: &[u64]) -> Vec<Vec<Outcome>> {
    let tasks: Vec<_> = scenarios
        .iter()
        .flat_map(|scenario| seeds.iter().map(move |seed| (scenario, *seed)))
        .collect();
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            let (sender, next, tasks) = (sender.clone(), &next, &tasks);
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
