//! Simulates a client whose limiter follows the headers of a server, beside a client that knows the
//! server's count, and judges the result.
//!
//! Everything is computed from seeds: no clock is read and nothing depends on the machine.

mod server;
mod simulation;

use std::fmt::{self, Display};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tollgate::{Algorithm, Quota, RateLimiter};

use self::simulation::{Kind, run};

/// The most that may be refused, and the least use, in percent.
const WANTED: (f64, f64) = (0.5, 95.0);

/// Simulates a client whose limiter follows the headers of a server. Exits with 1 if a row fails that is not
/// known to miss, or if no world has the wanted name
///
/// The client has endless demand, and at most 64 requests in flight. Others take half of the quota,
/// whatever remains. Refused is in percent of all requests of the client. Use is the client's share
/// in 20 minutes, in percent of what a client got that knows the server's count.
#[derive(Debug, Parser)]
#[command(name = "following", version)]
struct Args {
    /// The seed of the latencies and of the others' requests
    #[arg(long, default_value_t = 7)]
    seed: u64,

    /// A part of the names of the worlds to run
    #[arg(default_value = "")]
    world: String,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut worlds = World::all();
    worlds.retain(|world| world.to_string().contains(&args.world));
    let mut failed = worlds.is_empty();
    for world in worlds {
        let name = world.to_string();
        let most = run(&world, Kind::Knows, args.seed).admitted as f64;
        for (kind, of_kind) in [(Kind::Follows, "follow"), (Kind::Spaced, "follow, spaced")] {
            let outcome = run(&world, kind, args.seed);
            let (refused, used) = (outcome.refused(), 100.0 * outcome.admitted as f64 / most);
            // NaN must fail too.
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
    ExitCode::from(u8::from(failed))
}

/// Returns whether a failure is one of the program. The other failures are known:
///
/// - A sudden burst of others shows only in a refusal. A bucket of a whole minute has room for the burst if
///   the client leaves some, which a spaced client does.
/// - Without spacing, a client uses up a log at once, and has no answer for a minute while others continue;
///   and a bucket is empty whenever others come.
/// - Of 60 a minute, the one that is reserved for others is 3 % of the remaining half.
/// - A bucket of 6, or of 50, is smaller than the number of requests in flight at 5 seconds. A spaced client with one of 6
///   a minute sometimes has all of them in flight for half a minute.
/// - At 5 seconds, the client learns late what others take of a window of 500, and expects bursts
///   to continue.
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
        (Counts::Bucket, Others::Nobody) if world.quota == 6 => is_whole && !is_spaced,
        (Counts::Bucket, Others::Nobody) if is_spaced => is_whole || is_near || world.quota > 500,
        (Counts::Bucket, Others::Nobody) => !is_small || !is_far,
        (Counts::Bucket, Others::Steady) if is_spaced => !is_small || !is_far,
        (Counts::Bucket, Others::Steady) => is_near || is_far || world.quota > 500,
        (Counts::Log, Others::Bursts) => world.quota > 500 && !is_near,
        (Counts::Bucket, Others::Bursts) => is_spaced && is_whole || world.quota > 500 && !is_near,
    }
}

type Nanos = u64;

const SECOND: Nanos = 1_000_000_000;

const MINUTE: Nanos = 60 * SECOND;

/// How a server counts.
#[derive(Clone, Copy, PartialEq)]
enum Counts {
    Window,
    Bucket,
    Log,
}

/// The latency of an answer. The way to the server is a small part of it.
#[derive(Clone, Copy, PartialEq)]
enum Latency {
    Constant(Nanos),
    /// Log-uniform, from 50 ms to 30 s.
    Spread,
}

/// The other users of the quota. Together they take half of it, whatever remains.
#[derive(Clone, Copy, PartialEq)]
enum Others {
    Nobody,
    /// Evenly, with a jitter of up to a tenth.
    Steady,
    /// A twelfth of the quota at once, each 5 to 15 seconds.
    Bursts,
}

#[derive(Clone, Copy)]
struct World {
    counts: Counts,
    /// Per minute.
    quota: u64,
    /// The capacity of a bucket, in percent of the quota.
    percent: u64,
    latency: Latency,
    others: Others,
}

impl World {
    /// Returns all worlds.
    fn all() -> Vec<Self> {
        let servers = [
            (Counts::Window, 100),
            (Counts::Log, 100),
            (Counts::Bucket, 10),
            (Counts::Bucket, 100),
        ];
        let latencies = [
            Latency::Constant(SECOND / 20),
            Latency::Constant(5 * SECOND),
            Latency::Spread,
        ];
        let mut worlds = Vec::new();
        for (counts, percent) in servers {
            // A bucket of a tenth of 6 has room for nothing.
            let quotas = [6, 60, 500, 5000].into_iter();
            for quota in quotas.filter(|quota| quota * percent >= 100) {
                for latency in latencies {
                    for others in [Others::Nobody, Others::Steady, Others::Bursts] {
                        // A twelfth of 6 is nothing.
                        if quota < 12 && others == Others::Bursts {
                            continue;
                        }
                        worlds.push(Self {
                            counts,
                            quota,
                            percent,
                            latency,
                            others,
                        });
                    }
                }
            }
        }
        worlds
    }

    /// The most that is available at once.
    fn most(&self) -> u64 {
        self.quota * self.percent / 100
    }

    /// Returns a limiter that counts as the server does, with `part` of its count less, and at least `least`,
    /// for others who come while an answer is under way; of a count below 40 it has less to spare. It is slower by
    /// what the ways to the server differ: a request may arrive up to 20 ms sooner after it was sent than the one
    /// whose place it takes. A window ends when the server says so.
    fn limiter(&self, part: u64, least: u64) -> RateLimiter {
        let less = |count: u64| count - (count / part).max(least.min(count / 20));
        let room = |most: u64| most - (most / part).max(least).min(most - 1);
        let slower = match self.counts {
            Counts::Window => 0,
            Counts::Bucket | Counts::Log => MINUTE / 1000,
        };
        let quota = Quota::new(less(self.quota), Duration::from_nanos(MINUTE + slower));
        let (quota, algorithm) = match self.counts {
            Counts::Window => (quota, Algorithm::FixedWindow),
            Counts::Bucket => (quota.burst(room(self.most())), Algorithm::Gcra),
            Counts::Log => (quota, Algorithm::SlidingLog),
        };
        RateLimiter::new(quota).algorithm(algorithm)
    }
}

impl Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.counts {
            Counts::Window => write!(f, "window")?,
            Counts::Log => write!(f, "log")?,
            Counts::Bucket => write!(f, "bucket {} %", self.percent)?,
        }
        write!(f, " {}/min, ", self.quota)?;
        match self.latency {
            Latency::Constant(latency) => write!(f, "{} ms", latency * 1000 / SECOND)?,
            Latency::Spread => write!(f, "50 ms..30 s")?,
        }
        f.write_str(match self.others {
            Others::Nobody => ", alone",
            Others::Steady => ", steady",
            Others::Bursts => ", bursts",
        })
    }
}
