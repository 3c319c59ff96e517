//! `cargo bench -p tollgate-bench --bench ratios`: one table, ours over every peer's, all in the same run.
//!
//! A part of an operation's name measures only that; `--quick` takes fewer and shorter rounds, `--markdown` prints for a
//! document, `--check` fails when a target is missed. A new theme is a file of rows and a line here. Pacing, bandwidth
//! and limits on a server are no ratios of times alone, and have tables of their own below.

mod bandwidth;
mod pacing;
mod redis;

use std::process::ExitCode;

use tollgate_bench::harness::{Options, ratios};
use tollgate_bench::{
    adaptive, bytes, fair, http, keyed, object_store, rates, semaphore, throttles,
};

fn main() -> ExitCode {
    let options = Options::from_args();
    let rows = [
        semaphore::ready(),
        semaphore::contended(),
        semaphore::waiters(),
        throttles::ready(),
        throttles::composed(),
        throttles::contended(),
        throttles::waiters(),
        rates::decisions(),
        rates::contended(),
        rates::local(),
        rates::rules(),
        keyed::gates(),
        keyed::rows(),
        object_store::rows(),
        object_store::over_loopback(),
        fair::rows(),
        http::rows(),
        http::origins(),
        adaptive::rows(),
        adaptive::contended(),
        bytes::rows(),
    ];
    let ratios = ratios(&options, &rows.into_iter().flatten().collect::<Vec<_>>());
    println!();
    let others = [
        pacing::run(&options),
        bandwidth::run(&options),
        redis::run(&options),
    ];
    if others == [true; 3] || !options.check {
        ratios
    } else {
        ExitCode::FAILURE
    }
}
