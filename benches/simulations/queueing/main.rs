//! Simulates adaptive limits beside the best fixed limit, and judges them.
//!
//! Everything is computed from seeds: no clock is read and nothing depends on the machine.

mod jobs;
mod judge;
mod peers;
mod rate;
mod scenarios;
mod server;
mod simulation;
mod timeline;
mod worlds;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::{fs, io, thread};

use clap::Parser;

use self::judge::{CONTROLLERS, Contender, FIXED_LIMIT, Row, figures, outcomes, tenths};
use self::scenarios::{Scenario, scenarios};

/// Simulates adaptive limits beside the best fixed limit. Exits with 1 if a row of a default fails, or if no row has
/// the wanted names
///
/// Goodput is the number of answers within 20 mean service times of arrival, in percent of that with the
/// best of 13 fixed limits, for each phase. p99 is that of the time in service, in units of the p99 without
/// any other call; in a phase with a swiftness target, it covers the calls that end after that time. A phase
/// has settled when its first stretch of one second or 100 answers begins that has 90 % of the oracle's
/// goodput, and is swift when a stretch begins whose mean time in service is 1.5 times that without any
/// other call. Several clients share four of the fixed limits evenly; fair is Jain's index of the answered
/// fractions of their requests. L is the highest sum of all clients' limits. Figures are medians over the
/// seeds (rows of several clients have at most ten seeds); the parentheses give the target, and for each
/// phase the figure than which a tenth of the seeds is worse. A fixed limit of 20 stands beside the
/// controllers. With --worlds there are other rows: no miss among them decides, and the last lines count
/// their phases.
#[derive(Debug, Parser)]
#[command(name = "queueing", version)]
struct Args {
    /// The first seed: another one gives other requests
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// The number of seeds
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,

    /// Simulate the worlds of an audit instead of the rows with targets
    #[arg(long)]
    worlds: bool,

    /// Draw each controller while the server changes, into this directory, and print no table
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,

    /// Simulate only concurrency limits, and no rates
    #[arg(long)]
    no_rates: bool,

    /// Simulate only single clients, which takes half of the time
    #[arg(long)]
    no_fleets: bool,

    /// Run only the controller of this name
    #[arg(long, value_name = "NAME", value_parser = CONTROLLERS.map(|it| it.0))]
    controller: Option<String>,

    /// A part of the names of the scenarios to run, or several, separated by |
    #[arg(default_value = "")]
    scenario: String,
}

impl Args {
    /// Runs with different first seeds have no seed in common.
    fn seeds(&self) -> Vec<u64> {
        let first = self.seed.wrapping_mul(self.seeds);
        (0..self.seeds).map(|n| first.wrapping_add(n)).collect()
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(dir) = &args.svg {
        return match draw(&args, dir) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("queueing: cannot write to {}: {error}", dir.display());
                ExitCode::FAILURE
            }
        };
    }
    let rows = rows(&args);
    for row in &rows {
        println!("{row}");
    }
    if args.worlds {
        print!("{}", summary(&rows));
    }
    let failed = rows.is_empty() || rows.iter().any(|row| row.decides && !row.passed);
    ExitCode::from(u8::from(failed))
}

/// The scenarios to draw: the file, the name, and the title.
const PICTURES: [(&str, &str, &str); 2] = [
    (
        "adaptive-workers.svg",
        "c 10→5→20→10, load 1.5",
        "A server of 10 workers, then 5, 20, 10, at 1.5 times its capacity",
    ),
    (
        "adaptive-service.svg",
        "S 10→40→10 ms, load 1.5",
        "Calls that take 10 ms, then 40, then 10, at 1.5 times the capacity",
    ),
];

fn draw(args: &Args, dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let scenarios = scenarios();
    for (file, name, title) in PICTURES {
        let named = scenarios.iter().find(|scenario| scenario.name == name);
        let scenario = named.ok_or(io::ErrorKind::NotFound)?;
        fs::write(dir.join(file), timeline::svg(scenario, args.seed, title))?;
    }
    Ok(())
}

/// Returns all rows. Add rows of another kind of limit here.
fn rows(args: &Args) -> Vec<Row> {
    let mut scenarios = scenarios();
    let is_named = |name: &str| args.scenario.split('|').any(|part| name.contains(part));
    scenarios.retain(|scenario| {
        let is_fleet = scenario.clients.len() > 1;
        let is_asked = scenario.is_world == args.worlds && is_named(scenario.name);
        is_asked && !(args.no_fleets && is_fleet)
    });
    let mut contenders: Vec<_> = CONTROLLERS.into_iter().chain([FIXED_LIMIT]).collect();
    contenders.retain(|it| args.controller.as_ref().is_none_or(|name| name == it.0));
    let mut rows = limits(&scenarios, &args.seeds(), &contenders);
    if !args.no_rates && !args.worlds {
        rows.extend(rate::rows(&args.seeds(), &args.scenario));
    }
    rows
}

/// Counts the phases of the worlds by their worst tenth, for each contender.
fn summary(rows: &[Row]) -> String {
    let mut text = String::new();
    for (name, _) in CONTROLLERS.iter().chain([&FIXED_LIMIT]) {
        let of_name = rows.iter().filter(|row| row.controller == *name);
        let tenths: Vec<_> = of_name.flat_map(|row| row.tenths.iter().copied()).collect();
        let phases = tenths.len();
        if phases == 0 {
            continue;
        }
        let below = |bound| tenths.iter().filter(|tenth| **tenth < bound).count();
        let (few, fewer) = (below(0.9), below(0.7));
        // More than the oracle has counts as as much.
        let mean = tenths.iter().map(|tenth| tenth.min(1.0)).sum::<f64>() / phases as f64;
        text += &format!(
            "{name}: {phases} phases, by their worst tenth: {few} under 90 %, {fewer} under 70 %, \
             mean {:.1} %\n",
            100.0 * mean
        );
    }
    text
}

/// The most seeds for several clients, whose scenarios take long.
const SEEDS_OF_MANY: usize = 10;

/// Returns the rows of concurrency limits: each scenario with each contender.
fn limits(scenarios: &[Scenario], seeds: &[u64], contenders: &[Contender]) -> Vec<Row> {
    let seeds_of = |scenario: &Scenario| match scenario.clients.len() {
        1 => seeds,
        _ => &seeds[..seeds.len().min(SEEDS_OF_MANY)],
    };
    let of_scenario = |it| seeds_of(it).iter().map(move |seed| (it, *seed));
    let tasks: Vec<_> = scenarios.iter().flat_map(of_scenario).collect();
    let results = parallel(&tasks, |(scenario, seed)| {
        outcomes(scenario, *seed, contenders)
    });
    let mut results = results.into_iter();
    let of_scenario = |scenario: &Scenario| {
        let seeds = seeds_of(scenario).len();
        let results: Vec<_> = results.by_ref().take(seeds).collect();
        let row = |(index, (controller, _)): (usize, &(&str, _))| {
            let of_seeds: Vec<_> = results.iter().map(|each| each[index].clone()).collect();
            let (figures, passed) = figures(&of_seeds, &scenario.wanted);
            Row {
                scenario: scenario.name.into(),
                controller: String::from(*controller),
                figures,
                passed,
                tenths: tenths(&of_seeds),
                // The default controller is the first.
                decides: *controller == CONTROLLERS[0].0 && !scenario.is_world,
                is_world: scenario.is_world,
            }
        };
        contenders.iter().enumerate().map(row).collect::<Vec<_>>()
    };
    scenarios.iter().flat_map(of_scenario).collect()
}

/// Runs all tasks, on all processors.
fn parallel<T: Sync, R: Send>(tasks: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let mut results: Vec<_> = tasks.iter().map(|_| None).collect();
    // The last task takes the longest, so it begins first.
    let next = Mutex::new(tasks.iter().zip(&mut results).rev());
    let work = || {
        let take = || next.lock().expect("no task panics").next();
        while let Some((task, result)) = take() {
            *result = Some(run(task));
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    results.into_iter().flatten().collect()
}
