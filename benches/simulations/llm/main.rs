//! Simulates a client of providers of language models, whose limits count requests and tokens, beside a client that
//! knows the state of the provider, and judges how many requests are refused and how much of the limits is used.
//!
//! Time is paused, and everything is computed from seeds: nothing depends on the machine.

mod client;
mod provider;
mod world;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use clap::Parser;

use self::client::{Kind, run};
use self::world::World;

/// Simulates a client of providers of language models. Exits with 1 if a row fails that is not known to miss, or if no
/// row has the wanted name
///
/// The client has 64 callers in a closed loop. Refused is in percent of the requests that were sent. Used is what the
/// provider counted for the client in ten minutes, in percent of what it counted for a client that knows its state.
/// Beside each mean is the worst tenth of the seeds, which is judged.
#[derive(Debug, Parser)]
#[command(name = "llm", version)]
struct Args {
    /// The number of seeds
    #[arg(long, default_value_t = 30)]
    seeds: u64,

    /// Parts of the names of the rows to run, all of which a name must contain
    rows: Vec<String>,
}

/// The most that may be refused and the least that is to be used, in percent.
fn wanted(world: &World) -> (f64, f64) {
    match (world.is_split(), world.other, world.fields) {
        (_, true, false) => (100.0, 0.0),
        (true, false, _) => (0.5, 95.0),
        (true, true, true) => (0.5, 0.0),
        (false, false, _) => (0.5, 95.0),
        (false, true, true) => (2.0, 93.0),
    }
}

/// The mean of some figures, and that of the worst tenth which is best.
struct Figures {
    mean: f64,
    worst: f64,
}

impl Figures {
    fn of(figures: impl Iterator<Item = f64>, greater_is_worse: bool) -> Self {
        let mut figures: Vec<f64> = figures.collect();
        figures.sort_by(f64::total_cmp);
        if greater_is_worse {
            figures.reverse();
        }
        Self {
            mean: figures.iter().sum::<f64>() / figures.len() as f64,
            worst: figures[figures.len() / 10],
        }
    }
}

struct Row {
    refused: Figures,
    used: Figures,
}

impl Row {
    fn of(world: &World, seeds: u64) -> Self {
        let outcomes: Vec<_> = (1..=seeds)
            .map(|seed| {
                let [ideal, limits] = [Kind::Ideal, Kind::Limits].map(|kind| run(world, kind, seed));
                // The limit that binds.
                let limit_of = world.limits().into_iter().map(|(_, _, limit)| limit as f64);
                let parts = ideal.counted.iter().zip(limit_of).map(|(it, limit)| it / limit);
                let (binds, _) = parts
                    .enumerate()
                    .max_by(|(_, one), (_, other)| one.total_cmp(other))
                    .expect("there are limits");
                (limits.refused(), 100.0 * limits.counted[binds] / ideal.counted[binds])
            })
            .collect();
        Self {
            refused: Figures::of(outcomes.iter().map(|(refused, _)| *refused), true),
            used: Figures::of(outcomes.iter().map(|(_, used)| *used), false),
        }
    }
}

/// Runs the worlds on all processors, which changes no figure.
fn rows(worlds: &[World], seeds: u64) -> Vec<Row> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut rows = Vec::new();
        while let Some(world) = worlds.get(next.fetch_add(1, Ordering::Relaxed)) {
            let index = worlds.iter().position(|it| std::ptr::eq(it, world));
            rows.push((index, Row::of(world, seeds)));
        }
        rows
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let mut rows: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let rows = workers.into_iter().flat_map(|it| it.join().expect("no run panics"));
        rows.collect()
    });
    rows.sort_by_key(|(index, _)| *index);
    rows.into_iter().map(|(_, row)| row).collect()
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut worlds = World::all();
    worlds.retain(|world| {
        let name = world.to_string();
        args.rows.iter().all(|part| name.contains(part))
    });
    let mut failed = worlds.is_empty();
    for (world, row) in worlds.iter().zip(rows(&worlds, args.seeds)) {
        let (most, least) = wanted(world);
        let (refused, used) = (row.refused, row.used);
        // NaN must fail too.
        let passed = refused.worst <= most && used.worst >= least;
        failed |= !passed;
        let verdict = if passed { "PASS" } else { "FAIL" };
        let name = world.to_string();
        println!(
            "{verdict}  {name:<86} refused {:>5.2}, {:>5.2} % (≤{most})  used {:>5.1}, {:>5.1} % (≥{least})",
            refused.mean, refused.worst, used.mean, used.worst
        );
    }
    ExitCode::from(u8::from(failed))
}
