//! Adaptive limits in real time: a server of axum on loopback whose capacity moves, under a client
//! with an open loop, beside the same server with fixed limits.
//!
//! Goodput is counted from the moment at which a request was due, so a client that falls behind
//! hides nothing. All runs of a table have the same arrivals. The program fails if an adaptive limit
//! reaches less than 90 % of the goodput of the best fixed one, or a concurrency limit more than half
//! of its p99: any high limit has the goodput, and a queue in the server. An adaptive connector of an object
//! store is judged by the rate of its server.

mod concurrency;
mod rate;
mod server;
mod slow_down;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use tollgate_bench::harness::Table;

/// Compares adaptive limits with fixed ones in real time
#[derive(Debug, Parser)]
#[command(name = "adaptive_real", version)]
struct Args {
    /// How long the capacity stays the same, in seconds
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,

    /// How long the rate of the refusing server stays the same, in seconds: refusals are rare, so a
    /// client needs ten seconds to find a rate
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    rate_seconds: u64,

    /// How long requests of an object store are counted, in seconds, after fifteen that are not
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    slow_down_seconds: u64,

    /// Run this table alone
    #[arg(long)]
    only: Option<Theme>,

    /// The seed of the arrivals
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Theme {
    /// A handler with a capacity that moves
    Concurrency,
    /// A server that refuses above a rate that moves
    Rate,
    /// A server that answers 503 to the connector of an object store
    SlowDown,
}

/// What a limit came to.
struct Outcome {
    limit: String,
    is_adaptive: bool,
    /// Requests that were answered in time.
    good: u64,
    /// The 99th percentile of their latencies, if it is judged.
    p99: Option<Duration>,
    /// Other columns of the table.
    others: Vec<String>,
}

/// The goodput of the best fixed limit that an adaptive one has to reach.
const TARGET: f64 = 0.9;

/// The p99 of the best fixed limit that an adaptive one may have, where it is judged.
const P99: f64 = 0.5;

/// Prints a table, and returns whether every adaptive limit reaches its target.
fn report(title: &str, headings: &[&str], outcomes: &[Outcome]) -> bool {
    let fixed = outcomes.iter().filter(|outcome| !outcome.is_adaptive);
    let Some(best) = fixed.max_by_key(|outcome| outcome.good) else {
        return false;
    };
    let may_last = |p99: Duration| best.p99.is_none_or(|best| p99 <= best.mul_f64(P99));
    let mut all = vec!["limit", "good answers", "of the best fixed"];
    all.extend(headings);
    all.push("verdict");
    let mut table = Table::new(&all);
    let mut holds = true;
    for outcome in outcomes {
        let share = outcome.good as f64 / best.good as f64;
        let is_reached = share >= TARGET && outcome.p99.is_none_or(may_last);
        let verdict = match (outcome.is_adaptive, is_reached) {
            (false, _) => "",
            (true, true) => "PASS",
            (true, false) => "FAIL",
        };
        holds &= verdict != "FAIL";
        let mut cells = vec![outcome.limit.clone(), outcome.good.to_string()];
        cells.push(format!("{share:.3}"));
        cells.extend(outcome.others.iter().cloned());
        cells.push(verdict.to_owned());
        table.push(cells);
    }
    println!("{title}\n");
    table.print(false);
    println!();
    holds
}

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let args = Args::parse();
    let wanted = |theme| args.only.is_none_or(|only| only == theme);
    let mut holds = true;
    if wanted(Theme::Concurrency) {
        holds &= concurrency::run(Duration::from_secs(args.seconds), args.seed).await?;
    }
    if wanted(Theme::Rate) {
        holds &= rate::run(Duration::from_secs(args.rate_seconds), args.seed).await?;
    }
    if wanted(Theme::SlowDown) {
        holds &= slow_down::run(Duration::from_secs(args.slow_down_seconds)).await?;
    }
    Ok(match holds {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
