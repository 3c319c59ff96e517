//! `cargo bench -p tollgate-bench --bench memory`: bytes and allocations a waiter, of 10,000.
//!
//! A program of its own, because its allocator counts and would be measured with every timing. The futures lie in
//! places that are allocated before the counting starts, as they would lie in their tasks: what is counted is what the
//! semaphore itself allocates, and the size of the future is shown beside it.

mod keyed;
mod lines;
mod rates;

use std::alloc::System;
use std::process::ExitCode;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats, StatsAlloc};
use tollgate_bench::harness::{Options, verdict};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    let options = Options::from_args();
    let tables = [
        lines::semaphores,
        lines::throttles,
        rates::limiters,
        rates::rules,
        keyed::keys,
        keyed::detector,
        rates::streams,
    ];
    let mut kept = true;
    for table in tables {
        kept &= table(&options);
        println!();
    }
    ExitCode::from(u8::from(options.check && !kept))
}

/// How many times more was allocated since.
fn calls(region: &Region<'_, System>) -> usize {
    let Stats {
        allocations,
        reallocations,
        ..
    } = region.change();
    allocations + reallocations
}

/// How much more there is on the heap since. Both counts include the difference that a reallocation makes.
fn held(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated - change.bytes_deallocated
}

/// Prints what ours is held to, and whether it is so.
fn print(claim: &str, kept: bool) -> bool {
    println!("tollgate: {claim}: {}", verdict(kept));
    kept
}
