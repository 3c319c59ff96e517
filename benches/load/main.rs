//! Loads an axum server over loopback with requests from ten million networks, against a map of
//! 100,000 keys, beside the same server with a thousand networks.
//!
//! wrk makes the requests in a process of its own, so the memory of this process is the server's. The
//! exact checks end the program with an error: no network is admitted above its quota, the map stays
//! within its cap, and clients that disconnect while they wait leave nothing behind. Memory and
//! latency are measured, and fail only with `--check`.

mod disconnects;
mod rounds;
mod server;
mod wrk;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;

/// Loads a server behind a throttle, and checks quotas, memory, latency and the leftovers of
/// disconnected clients
#[derive(Debug, Parser)]
#[command(name = "load", version)]
struct Args {
    /// The number of networks that make requests, beside a run with 1000
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u32).range(1000..=100_000_000))]
    networks: u32,

    /// The cap of the map, in keys
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    max_keys: u32,

    /// The length of a round, in seconds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,

    /// The number of rounds of each server; the servers take turns
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// The number of concurrent connections
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,

    /// The number of waves in which 500 clients disconnect
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=200))]
    waves: u32,

    /// Also fail if memory or latency miss their targets
    #[arg(long)]
    check: bool,
}

/// The result of the checks.
#[derive(Default)]
struct Checks {
    /// A promise is broken.
    broken: bool,
    /// A measured figure misses its target.
    missed: bool,
}

impl Checks {
    /// Prints a line for a promise.
    fn promise(&mut self, holds: bool, check: &str) {
        self.broken |= !holds;
        println!("{:<7} {check}", if holds { "OK" } else { "BROKEN" });
    }

    /// Prints a line for a measured figure.
    fn figure(&mut self, holds: bool, check: &str) {
        self.missed |= !holds;
        println!("{:<7} {check}", if holds { "OK" } else { "MISS" });
    }

    fn fail(&self, args: &Args) -> bool {
        self.broken || self.missed && args.check
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args = Args::parse();
    let mut checks = Checks::default();
    rounds::run(&args, &mut checks).await?;
    disconnects::run(args.waves, &mut checks).await?;
    Ok(ExitCode::from(u8::from(checks.fail(&args))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_fail_only_when_they_are_checked() {
        let fail = |arguments: &[&str]| {
            let args = Args::try_parse_from([&["load"], arguments].concat()).unwrap();
            [(false, false), (false, true), (true, false)]
                .map(|(broken, missed)| Checks { broken, missed }.fail(&args))
        };
        assert_eq!(fail(&[]), [false, false, true]);
        assert_eq!(fail(&["--check"]), [false, true, true]);
    }
}
