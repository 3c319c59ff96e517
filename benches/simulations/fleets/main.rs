//! Simulates large fleets on one server of limits: up to 10,000 processes, 1 to 50 ms away, that wait for one
//! limit, also through a failover, or that ask for a million keys.
//!
//! The rules of the server and of the processes are those of `tollgate-redis`, written once more, for calls that
//! cost one unit; `fleet-audit` shows the same figures of up to 200 real processes. Everything is computed from
//! seeds: nothing depends on the machine.

mod keys;
mod process;
mod server;
mod world;

use std::process::ExitCode;

use clap::Parser;
use simulations::figures::on_all_processors;

use self::world::{Failover, Outcome, SECOND, World};

/// Simulates large fleets: replies are awaited for 250 ms, unless another deadline is named. Each figure is the
/// mean of all seeds. Exits with 1 if no row has the wanted name
///
/// used: the part of the rate. calls/s, each: calls of the server in a second, and for each admission. core: the
/// part of a core of the server. joins: seconds until the first turn of a process that begins to wait, the median
/// and the most. jain: Jain's index of the shares. tenths: what the worst and the best tenth get of a fair share.
///
/// Of failovers, above: the calls above the burst and the rate. used: from the failure until ten seconds after the
/// return. rush: the most calls in a tenth of a second after the return. queued: the most seconds that a call then
/// waits at the server.
#[derive(Debug, Parser)]
#[command(name = "fleets", version)]
struct Args {
    /// The number of seeds
    #[arg(long, default_value_t = 30)]
    seeds: u64,

    /// Parts of the names of the rows to run, all of which a name must contain
    rows: Vec<String>,
}

const HALF_SECOND: u64 = SECOND / 2;

fn main() -> ExitCode {
    let args = Args::parse();
    let is_wanted = |name: &str| args.rows.iter().all(|part| name.contains(part.as_str()));
    let mut count = 0;
    for (name, world) in worlds() {
        if is_wanted(&name) {
            count += 1;
            let run = |seed| world.run(seed as u64 + 1);
            print_world(&name, world, &on_all_processors(args.seeds as usize, run));
        }
    }
    for processes in [10, 1_000, 10_000] {
        let name = format!("{processes} processes, a million keys");
        if is_wanted(&name) {
            count += 1;
            let run = |seed| keys::run(processes, seed as u64 + 1);
            print_keys(&name, &on_all_processors(args.seeds as usize, run));
        }
    }
    if count > 0 {
        ExitCode::SUCCESS
    } else {
        eprintln!("no row has this name");
        ExitCode::FAILURE
    }
}

fn worlds() -> Vec<(String, World)> {
    let mut worlds = Vec::new();
    for processes in [10, 1_000, 10_000] {
        for rate in [100, 1_000, 10_000] {
            for horizon in [SECOND / 4, SECOND, 5 * SECOND] {
                let name = format!(
                    "{processes} processes, {rate}/s, horizon {} ms",
                    horizon / 1_000
                );
                let world = World {
                    processes,
                    rate,
                    horizon,
                    deadline: SECOND / 4,
                    failover: Failover::No,
                };
                worlds.push((name, world));
            }
        }
    }
    for processes in [10, 1_000, 10_000] {
        let lag = SECOND / 10;
        for (what, failover) in [
            (
                "a replica takes over after 5 s",
                Failover::Replica {
                    gone: 5 * SECOND,
                    lag,
                },
            ),
            (
                "a replica takes over after 0.5 s",
                Failover::Replica {
                    gone: HALF_SECOND,
                    lag,
                },
            ),
            (
                "without data after 5 s",
                Failover::Empty { gone: 5 * SECOND },
            ),
            (
                "without data after 0.5 s",
                Failover::Empty { gone: HALF_SECOND },
            ),
        ] {
            let world = World {
                processes,
                rate: 1_000,
                horizon: SECOND / 4,
                deadline: SECOND / 4,
                failover,
            };
            worlds.push((format!("{processes} processes, 1000/s, {what}"), world));
        }
    }
    let patient: Vec<_> = worlds
        .iter()
        .filter(|(_, world)| {
            world.processes == 10_000 && (world.rate == 10_000 || world.failover != Failover::No)
        })
        .map(|(name, world)| {
            let deadline = 2 * SECOND;
            (
                format!("{name}, deadline 2 s"),
                World { deadline, ..*world },
            )
        })
        .collect();
    worlds.extend(patient);
    worlds
}

fn print_world(name: &str, world: World, outcomes: &[Outcome]) {
    let mean = |figure: fn(&Outcome) -> f64| {
        outcomes.iter().map(figure).sum::<f64>() / outcomes.len() as f64
    };
    print!("{name:65}");
    if world.failover == Failover::No {
        println!(
            " used {:.3}, {:5.0} calls/s, {:.2} each, core {:.2}, joins {:.2} {:.2}, jain {:.4}, tenths {:.2} {:.2}",
            mean(|it| it.used),
            mean(|it| it.calls),
            mean(|it| it.calls_each),
            mean(|it| it.busy),
            mean(|it| it.joins[0]),
            mean(|it| it.joins[1]),
            mean(|it| it.jain),
            mean(|it| it.tenths[0]),
            mean(|it| it.tenths[1]),
        );
    } else {
        println!(
            " above {:.1}, used {:.3}, rush {:.0}, queued {:.3}",
            mean(|it| it.above),
            mean(|it| it.used_after),
            mean(|it| it.rush),
            mean(|it| it.queued),
        );
    }
}

fn print_keys(name: &str, outcomes: &[keys::Outcome]) {
    let mean = |figure: fn(&keys::Outcome) -> f64| {
        outcomes.iter().map(figure).sum::<f64>() / outcomes.len() as f64
    };
    println!(
        "{name:65} {} requests/s, {:5.0} calls/s, core {:.2}, coalesced {:.3}, known {:.3}, denied {:.3}",
        keys::REQUESTS,
        mean(|it| it.calls),
        mean(|it| it.busy),
        mean(|it| it.coalesced),
        mean(|it| it.known),
        mean(|it| it.denied),
    );
}
