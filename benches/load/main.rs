//! Loads a server of axum over loopback with requests of ten million networks, against a map of
//! 100,000 keys, beside the same server with a thousand networks.
//!
//! wrk makes the requests, in a process of its own, so what this process holds is the server's. The
//! exact checks end the program with an error: no network is admitted above its quota, the map keeps
//! no more keys than it may, and clients that disconnect while they wait leave nothing behind. Memory
//! and latency are measured, and fail only with `--check`.

mod disconnects;
mod memory;
mod rounds;
mod server;
mod tally;
mod wrk;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

/// Loads a server behind a throttle, and checks quotas, memory, latency and what disconnected
/// clients leave behind
#[derive(Debug, Parser)]
#[command(name = "load", version)]
struct Args {
    /// How many networks make requests, beside a run with 1000
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u32).range(1000..=100_000_000))]
    networks: u32,

    /// How many keys the map may keep
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    max_keys: u32,

    /// How long a round is, in seconds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,

    /// How many rounds each server has; the servers take turns
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// How many connections make requests at once
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,

    /// How many waves of 500 clients disconnect
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=200))]
    waves: u32,

    /// Fail also if memory or latency miss their targets
    #[arg(long)]
    check: bool,
}

impl Args {
    fn round(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

/// What a check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Holds,
    /// A measured figure misses its target.
    Misses,
    /// A promise is broken.
    Broken,
}

impl Verdict {
    fn of_figure(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Misses }
    }

    fn of_promise(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Broken }
    }

    /// Prints a line for a check.
    fn print(self, check: &str) -> Self {
        let word = match self {
            Self::Holds => "OK",
            Self::Misses => "MISS",
            Self::Broken => "BROKEN",
        };
        println!("{word:<7} {check}");
        self
    }

    fn fails(self, args: &Args) -> bool {
        self == Self::Broken || (self == Self::Misses && args.check)
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let verdicts = runtime
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(run(&args)));
    match verdicts {
        Ok(verdicts) if verdicts.iter().any(|verdict| verdict.fails(&args)) => ExitCode::FAILURE,
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<Vec<Verdict>, Box<dyn Error>> {
    let mut verdicts = rounds::run(args).await?;
    verdicts.push(disconnects::run(args.waves).await?);
    Ok(verdicts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn figures_fail_only_when_they_are_checked() {
        let fails = |arguments: &[&str]| {
            let args = Args::try_parse_from([&["load"], arguments].concat()).unwrap();
            [Verdict::Holds, Verdict::Misses, Verdict::Broken].map(|verdict| verdict.fails(&args))
        };
        assert_eq!(fails(&[]), [false, false, true]);
        assert_eq!(fails(&["--check"]), [false, true, true]);
    }
}
