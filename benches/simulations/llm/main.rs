//! Simulates a client of providers of language models, whose limits count requests and tokens, beside a client that
//! knows the state of the provider, and judges how many requests are refused and how much of the limits is used.
//!
//! Time is paused, and everything is computed from seeds: nothing depends on the machine.

mod client;
mod provider;
mod world;

use std::process::ExitCode;

use clap::Parser;
use simulations::figures::{Figures, on_all_processors};

use self::client::{Kind, Outcome, run};
use self::provider::{Charge, Counts};
use self::world::World;

/// Simulates a client of providers of language models. Exits with 1 if a row fails that is not known to miss, or if no
/// row has the wanted name
///
/// The client has 64 callers in a closed loop. Refused is in percent of the requests that were sent. Used is what the
/// provider counted for the client in six minutes, in percent of what it counted for a client that knows its state.
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

/// The most that may be refused and the least that is to be used, in percent. Without fields, nobody tells what another
/// user takes, so such rows are only printed.
fn wanted(world: &World) -> (f64, f64) {
    match (world.other, world.fields) {
        (false, _) => (0.5, 95.0),
        (true, true) if world.is_split() => (0.5, 93.0),
        (true, true) => (2.0, 93.0),
        (true, false) => (100.0, 0.0),
    }
}

/// Returns the least use of a row that is known to miss. A single refusal pauses the client until the next window, which
/// `Pauses` opens by slow start. Calls take up to ten seconds, so that takes most of the window, and the last one is not over
/// when the count ends.
fn known(world: &World) -> Option<f64> {
    let is_held = matches!(
        world.tokens,
        Charge::Corrected | Charge::UsedAtEnd | Charge::UsedAtArrival
    );
    let is_window = world.counts == Counts::Window;
    (is_window && is_held && world.other && world.fields).then_some(80.0)
}

struct Row {
    refused: Figures,
    used: Figures,
}

impl Row {
    fn of(world: &World, ideal: &[Outcome]) -> Self {
        let (mut refused, mut used) = (Vec::new(), Vec::new());
        for (seed, ideal) in (1..).zip(ideal) {
            let limits = run(world, Kind::Limits, seed);
            let of_limits = world.limits().into_iter().zip(&ideal.counted);
            let parts = of_limits.map(|((_, _, limit), counted)| counted / limit as f64);
            let (binds, _) = parts
                .enumerate()
                .max_by(|(_, one), (_, other)| one.total_cmp(other))
                .expect("there are limits");
            refused.push(limits.refused());
            used.push(100.0 * limits.counted[binds] / ideal.counted[binds]);
        }
        Self {
            refused: Figures::of(refused, true),
            used: Figures::of(used, false),
        }
    }
}

/// Runs the worlds on all processors, which changes no figure.
fn rows(worlds: &[World], seeds: u64) -> Vec<Row> {
    // An ideal client does not read the fields.
    let groups: Vec<_> = worlds.chunk_by(World::differs_in_fields_only).collect();
    let rows = on_all_processors(groups.len(), |index| {
        let group = groups[index];
        let ideal = (1..=seeds).map(|seed| run(&group[0], Kind::Ideal, seed));
        let ideal: Vec<_> = ideal.collect();
        let of_group = group.iter().map(|world| Row::of(world, &ideal));
        of_group.collect::<Vec<_>>()
    });
    rows.into_iter().flatten().collect()
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut worlds = World::all();
    worlds.retain(|world| {
        let name = world.to_string();
        args.rows.iter().all(|part| name.contains(part))
    });
    let mut failed = worlds.is_empty();
    for (world, Row { refused, used }) in worlds.iter().zip(rows(&worlds, args.seeds)) {
        let (most, least) = wanted(world);
        // NaN must fail too.
        let keeps = |least| refused.worst <= most && used.worst >= least;
        let verdict = match known(world) {
            _ if keeps(least) => "PASS",
            Some(least) if keeps(least) => "MISS",
            _ => "FAIL",
        };
        failed |= verdict == "FAIL";
        let wanted = if world.other && !world.fields {
            ["", ""].map(str::to_owned)
        } else {
            [format!(" (≤{most})"), format!(" (≥{least})")]
        };
        println!(
            "{verdict}  {:<86} refused {:>5.2}, {:>5.2} %{}  used {:>5.1}, {:>5.1} %{}",
            world.to_string(),
            refused.mean,
            refused.worst,
            wanted[0],
            used.mean,
            used.worst,
            wanted[1]
        );
    }
    ExitCode::from(u8::from(failed))
}
