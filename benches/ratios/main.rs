//! `cargo bench -p tollgate-bench --bench ratios`: one table, ours over every peer's, all in the same run.
//!
//! A part of an operation's name measures only that operation; `--quick` takes fewer and shorter rounds, `--markdown`
//! prints for a document, `--check` fails when a target is missed, `--page` prints the table of BENCHMARKS.md. Pacing,
//! bandwidth and limits on a server are more than ratios of times, and have tables of their own below.

mod bandwidth;
mod pacing;
mod redis;

use std::process::ExitCode;

use tollgate_bench::harness::{Options, ratios};
use tollgate_bench::{THEMES, page};

fn main() -> ExitCode {
    let options = Options::from_args();
    if options.page {
        page::print(&options);
        return ExitCode::SUCCESS;
    }
    let rows: Vec<_> = THEMES.iter().flat_map(|(_, rows)| rows()).collect();
    let mut kept = ratios(&options, rows);
    println!();
    for table in [pacing::run, bandwidth::run, redis::run] {
        kept &= table(&options);
    }
    ExitCode::from(u8::from(options.check && !kept))
}
