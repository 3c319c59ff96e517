//! `cargo bench -p tollgate-bench --bench memory`: bytes and allocations a waiter, of 10,000.
//!
//! A program of its own, because its allocator counts and would be measured with every timing. The futures lie in
//! places that are allocated before the counting starts, as they would lie in their tasks: what is counted is what the
//! semaphore itself allocates, and the size of the future is shown beside it.

mod bytes;
mod gate;
mod keyed;
mod rates;
mod rules;
mod throttles;

use std::alloc::System;
use std::process::ExitCode;

use async_lock::Semaphore as AsyncLock;
use asyncband::semaphore::Semaphore as Asyncband;
use futures_intrusive::sync::Semaphore as Intrusive;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats, StatsAlloc};
use tokio::sync::Semaphore as Tokio;
use tollgate_bench::harness::{Options, Table};
use tollgate_bench::line::{self, Line, Order, WAITERS};
use tollgate_bench::peer::{Ours, TryPeer};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What we are held to: bytes of the plain future, bytes a waiter in the arena, allocations once warm.
const FUTURE: usize = 64;
const ARENA: f64 = 48.0;
const WARM_ALLOCATIONS: usize = 0;

/// How many wait while [`ask`] counts what is asked of a warm line.
const WAITS_WARM: usize = 4 * WAITERS;

/// What a line asked of the allocator.
struct Asked {
    /// Allocations while the first 10,000 joined.
    cold_allocations: usize,
    /// Bytes that were there when all of them stood in line.
    cold_bytes: usize,
    /// Allocations of joining, of handing on and of giving up, the second time and later.
    warm_allocations: usize,
    /// Bytes allocated by these.
    warm_bytes: usize,
}

fn main() -> ExitCode {
    let options = Options::from_args();
    let semaphores = semaphores(&options);
    println!();
    let throttles = throttles::table(&options);
    println!();
    let rates = rates::table(&options);
    println!();
    let rules = rules::table(&options);
    println!();
    let keyed = keyed::table(&options);
    println!();
    let gate = gate::table(&options);
    println!();
    let bytes = bytes::table(&options);
    if options.check && !(semaphores && throttles && rates && rules && keyed && gate && bytes) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// The table of the semaphores; whether ours keeps within its limits.
fn semaphores(options: &Options) -> bool {
    let contenders: [(&str, Box<dyn Line>); 6] = [
        (Ours::NAME, line::boxed::<Ours>(WAITERS)),
        (Tokio::NAME, line::boxed::<Tokio>(WAITERS)),
        (AsyncLock::NAME, line::boxed::<AsyncLock>(WAITERS)),
        (Intrusive::NAME, line::boxed::<Intrusive>(WAITERS)),
        (Asyncband::NAME, line::boxed::<Asyncband>(WAITERS)),
        ("tower ConcurrencyLimit", line::tower(WAITERS)),
    ];
    let mut table = Table::new(&[
        "semaphore",
        "future bytes",
        "heap bytes a waiter",
        "both",
        "allocations, cold",
        "allocations, warm",
        "bytes, warm",
    ]);
    let mut missed = false;
    for (name, mut line) in contenders {
        let asked = ask(&mut *line);
        let heap = asked.cold_bytes as f64 / WAITERS as f64;
        let future = line.future_size();
        table.push(vec![
            name.to_owned(),
            future.to_string(),
            format!("{heap:.1}"),
            format!("{:.1}", future as f64 + heap),
            asked.cold_allocations.to_string(),
            asked.warm_allocations.to_string(),
            asked.warm_bytes.to_string(),
        ]);
        if name == Ours::NAME {
            missed |= future > FUTURE || heap > ARENA || asked.warm_allocations > WARM_ALLOCATIONS;
        }
    }
    table.print(options.markdown);
    println!(
        "tollgate: future <= {FUTURE} bytes, arena <= {ARENA} bytes a waiter, {WARM_ALLOCATIONS} allocations once warm: {}",
        if missed { "MISS" } else { "PASS" }
    );
    !missed
}

/// Fills the line once cold; then once warm, handed on and given up in every order.
fn ask(line: &mut dyn Line) -> Asked {
    line.hold();
    let cold = Region::new(COUNTING);
    line.enqueue();
    let cold = cold.change();
    line.drain();

    let orders = [Order::FirstIn, Order::LastIn, Order::Random].map(|order| order.places(WAITERS));
    let warm = Region::new(COUNTING);
    line::warm(line);
    for order in &orders {
        line.hold();
        line.enqueue();
        line.cancel(order);
    }
    let warm = warm.change();

    Asked {
        cold_allocations: calls(&cold),
        // Both include the difference that a reallocation makes.
        cold_bytes: cold.bytes_allocated - cold.bytes_deallocated,
        warm_allocations: calls(&warm),
        warm_bytes: warm.bytes_allocated,
    }
}

fn calls(stats: &Stats) -> usize {
    stats.allocations + stats.reallocations
}
