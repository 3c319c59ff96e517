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
use simulations::figures::{Figures, on_all_processors};
use tollgate::{Algorithm, Quota, RateLimiter};

use self::simulation::{Kind, run};

/// The most that may be refused, and the least that others get of their half, in percent.
const REFUSED: f64 = 0.5;
const OF_OTHERS: f64 = 90.0;

/// Simulates a client whose limiter follows the headers of a server. Exits with 1 if a row fails that is not
/// known to miss, or if no world has the wanted name
///
/// The client has endless demand, and at most 64 requests in flight. Beside others, it is spaced. Refused is in percent
/// of all requests of the client. Use is what the client got, in percent of what a client got that knows the
/// server's count, while others take their part whatever remains. Others is what those got of their half who can be
/// refused. Beside each mean is the worst tenth of the seeds; both are judged.
#[derive(Debug, Parser)]
#[command(name = "following", version)]
struct Args {
    /// The number of seeds
    #[arg(long, default_value_t = 30)]
    seeds: u64,

    /// A part of the names of the worlds to run
    #[arg(default_value = "")]
    world: String,
}

/// The figures of a world.
struct Row {
    refused: Figures,
    used: Figures,
    others: Option<Figures>,
}

impl Row {
    fn of(world: &World, seeds: u64) -> Self {
        let (mut refused, mut used, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for seed in 1..=seeds {
            let most = run(&world.measure(), Kind::Knows, seed).0.admitted as f64;
            let most = most.min(world.share());
            let (ours, of_others) = run(world, Kind::Follows, seed);
            let part = |admitted: u64, most: f64| 100.0 * admitted as f64 / most;
            refused.push(ours.refused());
            used.push(part(ours.admitted, most));
            match world.others {
                Others::Ours => {
                    refused.push(of_others.refused());
                    used.push(part(of_others.admitted, most));
                }
                Others::StepsBack | Others::Pushes => {
                    let half = (world.quota * world.minutes()) as f64 / 2.0;
                    others.push(part(of_others.admitted, half));
                }
                Others::Nobody | Others::Steady(_) | Others::Bursts => {}
            }
        }
        Self {
            refused: Figures::of(refused, true),
            used: Figures::of(used, false),
            others: (!others.is_empty()).then(|| Figures::of(others, false)),
        }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut worlds = World::all();
    worlds.retain(|world| world.to_string().contains(&args.world));
    let mut failed = worlds.is_empty();
    let rows = on_all_processors(worlds.len(), |index| Row::of(&worlds[index], args.seeds));
    for (world, row) in worlds.iter().zip(rows) {
        let least = world.least_use();
        // NaN must fail too.
        let passed = row.refused.worst <= REFUSED
            && row.used.worst >= least
            && row.others.is_none_or(|others| others.worst >= OF_OTHERS);
        let verdict = match passed {
            true => "PASS",
            false if is_known(world) => "MISS",
            false => "FAIL",
        };
        failed |= verdict == "FAIL";
        let others = row
            .others
            .map_or_else(String::new, |Figures { mean, worst }| {
                format!("  others {mean:>5.1}, {worst:>5.1} % (≥{OF_OTHERS})")
            });
        println!(
            "{verdict}  {:<42} refused {:>5.2}, {:>5.2} % (≤{REFUSED})  use {:>5.1}, {:>5.1} % (≥{least}){others}",
            world.to_string(),
            row.refused.mean,
            row.refused.worst,
            row.used.mean,
            row.used.worst,
        );
    }
    ExitCode::from(u8::from(failed))
}

/// Returns whether a failure is known:
///
/// - A burst of others shows only in a refusal. A bucket of a whole minute has room for it.
/// - Of six, one request is a third of a half, so nobody can leave a part of it. In a bucket of six, this matters if answers
///   are older than its refill, or if others take each token when it comes.
/// - Others of a log take a place as often as one becomes free, so of 60 their use changes by one, which is 3 % of the
///   client's half, between two answers.
/// - At 5 seconds, the client of a log or a window of 500 learns late what others take.
fn is_known(world: &World) -> bool {
    let is_far = world.latency == Latency::Constant(5 * SECOND);
    let is_tiny = world.most() < 12;
    match (world.counts, world.others) {
        (Counts::Bucket, Others::Bursts) => world.percent < 100,
        (_, Others::Bursts) => true,
        (Counts::Bucket, Others::Nobody) => is_tiny && is_far,
        (_, Others::Nobody) => false,
        (Counts::Bucket, Others::Pushes) => is_tiny,
        (Counts::Bucket, _) => is_tiny && world.latency == Latency::Spread,
        (Counts::Window, Others::Steady(_)) => world.quota == 500 && is_far,
        (Counts::Window, _) => is_tiny,
        (Counts::Log, Others::StepsBack) => is_tiny || is_far,
        (Counts::Log, _) => world.quota <= 60 || is_far,
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

/// The other users of the quota.
#[derive(Clone, Copy, PartialEq)]
enum Others {
    Nobody,
    /// They take these percent of the quota, whatever remains: evenly, with a jitter of up to a tenth.
    Steady(u64),
    /// They take half of the quota, whatever remains: a twelfth at once, each 5 to 15 seconds.
    Bursts,
    /// One wants half of the quota, evenly. A refusal doubles its pause, and it heeds `Retry-After`.
    StepsBack,
    /// One wants three quarters of the quota, evenly, and repeats what is refused after `Retry-After`.
    Pushes,
    /// One is the same client once more.
    Ours,
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
                    for others in [
                        Others::Nobody,
                        Others::Steady(50),
                        Others::Bursts,
                        Others::StepsBack,
                        Others::Pushes,
                        Others::Ours,
                    ] {
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

    /// Returns in which world to measure the most that the client can get: the others take their part whatever remains.
    fn measure(&self) -> Self {
        let others = match self.others {
            Others::StepsBack | Others::Ours => Others::Steady(50),
            Others::Pushes => Others::Steady(75),
            others => others,
        };
        Self { others, ..*self }
    }

    /// Returns what others leave of the quota if they can be refused, for all minutes that count.
    fn share(&self) -> f64 {
        let percent = match self.others {
            Others::StepsBack | Others::Ours => 50,
            Others::Pushes => 25,
            _ => return f64::INFINITY,
        };
        (self.quota * self.minutes() * percent) as f64 / 100.0
    }

    /// The least use, in percent.
    fn least_use(&self) -> f64 {
        match self.others {
            Others::Ours => 90.0,
            _ => 95.0,
        }
    }

    /// How many minutes count: those of 6,000 requests, and at least 5.
    fn minutes(&self) -> u64 {
        (6_000 / self.quota).max(5)
    }

    /// Returns whether the client is spaced: if it is not alone. In a fixed window, spacing only helps others that can be
    /// refused.
    fn is_spaced(&self) -> bool {
        match self.others {
            Others::Nobody => false,
            Others::Steady(_) | Others::Bursts => self.counts != Counts::Window,
            Others::StepsBack | Others::Pushes | Others::Ours => true,
        }
    }

    /// Returns a limiter that counts as the server does, but somewhat less, for others who come while an answer is under
    /// way: 2 %, and at least 2; a spaced one half of that, and less of a count below 40. It is slower by
    /// what the ways to the server differ: a request may arrive up to 20 ms sooner after it was sent than the one
    /// whose place it takes. A window ends when the server says so.
    fn limiter(&self) -> RateLimiter {
        let (part, least) = if self.is_spaced() { (100, 1) } else { (50, 2) };
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
        match self.others {
            Others::Nobody => write!(f, ", alone"),
            Others::Steady(_) => write!(f, ", steady"),
            Others::Bursts => write!(f, ", bursts"),
            Others::StepsBack => write!(f, ", steps back"),
            Others::Pushes => write!(f, ", pushes"),
            Others::Ours => write!(f, ", ours"),
        }
    }
}
