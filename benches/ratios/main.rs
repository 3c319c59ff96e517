//! `cargo bench -p tollgate-bench --bench ratios`: one table, ours over every peer's, all in the same run.
//!
//! A part of an operation's name measures only that; `--quick` takes fewer and shorter rounds, `--markdown` prints for a
//! document, `--check` fails when a target is missed. A new theme is a file of entries and a line here. Pacing, bandwidth
//! and limits on a server are no ratios of times alone, and have tables of their own below.

mod adaptive;
mod adaptive_rate;
mod bandwidth;
mod bytes;
mod contended;
mod fair;
mod gate;
mod http;
mod keyed;
mod local;
mod object_store;
mod observed;
mod pacing;
mod rates;
mod ready;
mod redis;
mod rules;
mod throttles;
mod throttles_contended;
mod waiters;

use std::process::ExitCode;

use tollgate_bench::harness::{Options, run};

fn main() -> ExitCode {
    let entries = [
        ready::ENTRIES,
        contended::ENTRIES,
        waiters::ENTRIES,
        throttles::ENTRIES,
        throttles_contended::ENTRIES,
        rates::ENTRIES,
        adaptive_rate::ENTRIES,
        local::ENTRIES,
        rules::ENTRIES,
        gate::ENTRIES,
        keyed::ENTRIES,
        object_store::ENTRIES,
        observed::ENTRIES,
        fair::ENTRIES,
        http::ENTRIES,
        adaptive::ENTRIES,
        bytes::ENTRIES,
    ]
    .concat();
    let options = Options::from_args();
    let ratios = run(&options, &entries);
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
