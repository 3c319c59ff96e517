//! Simulates a client whose limiter follows what a server says, beside one that knows the count of the
//! server, and says whether that is good enough.
//!
//! Everything is computed from seeds: no clock is read and nothing depends on the machine.

mod server;
mod simulation;
mod world;

use std::process::ExitCode;

use clap::Parser;

use self::simulation::{Kind, run};
use self::world::{Counts, Latency, Others, SECOND, World};

/// The most that may be refused, and the least that is used, in percent.
const WANTED: (f64, f64) = (0.5, 95.0);

/// Simulates a client whose limiter follows what a server says. Exits with 1 if a row fails that is not known
/// to miss
///
/// The client has endless demand, and 64 requests under way at most. Others take half of the quota,
/// whatever remains. Refused is in percent of all requests of the client. Use is what it got in 20
/// minutes, in percent of what a client got that knows the count of the server.
#[derive(Debug, Parser)]
#[command(name = "following", version)]
struct Args {
    /// Others give other latencies, and other times of others
    #[arg(long, default_value_t = 7)]
    seed: u64,

    /// A part of the names of the worlds to run
    #[arg(default_value = "")]
    world: String,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut failed = false;
    for world in World::all() {
        let name = world.to_string();
        if !name.contains(&args.world) {
            continue;
        }
        let most = run(&world, Kind::Knows, args.seed).admitted as f64;
        for (kind, of_kind) in [(Kind::Follows, "follow"), (Kind::Spaced, "follow, spaced")] {
            let outcome = run(&world, kind, args.seed);
            let (refused, used) = (outcome.refused(), 100.0 * outcome.admitted as f64 / most);
            // NaN is not wanted.
            let passed = refused <= WANTED.0 && used >= WANTED.1;
            let known = !passed && !decides(&world, kind);
            failed |= !passed && !known;
            let verdict = match passed {
                true => "PASS",
                false if known => "MISS",
                false => "FAIL",
            };
            println!(
                "{verdict}  {name:<42} {of_kind:<14} refused {refused:>5.2} % (≤{})  use {used:>5.1} % (≥{})",
                WANTED.0, WANTED.1
            );
        }
    }
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Returns whether a failure is one of the program. The other failures are known:
///
/// - What others take at once is seen by a refusal only. A bucket of a whole minute has room for it, if the
///   client leaves some, which it does when it is spaced.
/// - Without spacing, a client uses up a log at once, and has no answer for a minute while others go on; and
///   a bucket is empty whenever others come.
/// - Of 60 a minute, the one that is kept for others is 3 % of the half that is left.
/// - A bucket of 6, or of 50, is smaller than what is under way for 5 seconds.
/// - What others take of a window of 500 is seen late at 5 seconds, and bursts are expected to go on.
fn decides(world: &World, kind: Kind) -> bool {
    let is_spaced = kind == Kind::Spaced;
    let is_far = world.latency == Latency::Constant(5 * SECOND);
    let is_near = world.latency == Latency::Constant(SECOND / 20);
    let (is_small, is_whole) = (world.most() < 50, world.percent == 100);
    match (world.counts, world.others) {
        (Counts::Window | Counts::Log, Others::Nobody) => true,
        (Counts::Window, Others::Steady) => world.quota != 500 || !is_far,
        (Counts::Window, Others::Bursts) => world.quota != 500,
        (Counts::Log, Others::Steady) => world.quota > 500 || is_spaced && world.quota > 60,
        (Counts::Bucket, Others::Nobody) if is_spaced => is_whole || is_near || world.quota > 500,
        (Counts::Bucket, Others::Nobody) => !is_small || !is_far,
        (Counts::Bucket, Others::Steady) if is_spaced => !is_small || !is_far,
        (Counts::Bucket, Others::Steady) => is_near || is_far || world.quota > 500,
        (Counts::Log, Others::Bursts) => world.quota > 500 && !is_near,
        (Counts::Bucket, Others::Bursts) => is_spaced && is_whole || world.quota > 500 && !is_near,
    }
}
