//! `cargo bench -p tollgate-bench --bench memory`: bytes and allocations per waiter, with 10,000 waiting;
//! and those of rate limiters, keys and streams; with `--page`, the lines of BENCHMARKS.md. `tests/memory` asserts
//! the figures that the documentation states for each throttle.
//!
//! This is a program of its own, because its counting allocator would distort every timing. The futures lie in places
//! that are allocated before the counting starts, just as they would lie in their tasks. The count is what the
//! semaphore itself allocates; the size of the future is shown beside it.

mod limiters;

use std::alloc::System;
use std::process::ExitCode;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats, StatsAlloc};
use tokio::sync::Semaphore as Tokio;
use tollgate_bench::harness::{Options, Table, Work, verdict};
use tollgate_bench::line::{self, Line, Order, Part, WAITERS};
use tollgate_bench::page::print_bytes;
use tollgate_bench::peer::{Ours, TryPeer};
use tollgate_bench::semaphore::standing;

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> ExitCode {
    let options = Options::from_args();
    if options.page {
        page(&options);
        return ExitCode::SUCCESS;
    }
    let tables = [
        semaphores,
        // Before governor's thread, which keeps timers and frees them later.
        limiters::rules,
        limiters::limiters,
        limiters::keys,
        limiters::streams,
    ];
    let mut kept = true;
    for table in tables {
        kept &= table(&options);
        println!();
    }
    ExitCode::from(u8::from(options.check && !kept))
}

/// Prints the lines of BENCHMARKS.md.
fn page(options: &Options) {
    let bytes = |line: &mut dyn Line| {
        line.hold();
        let region = Region::new(COUNTING);
        line.enqueue();
        line.future_size() as f64 + held(&region) as f64 / WAITERS as f64
    };
    let [ours, tokio] = [line::boxed::<Ours>(WAITERS), line::boxed::<Tokio>(WAITERS)];
    let of_waiters = [ours, tokio].map(|mut line| bytes(&mut *line));
    print_bytes(
        options,
        "bytes of a waiter: semaphore",
        Tokio::NAME,
        of_waiters,
        "",
    );
    limiters::page(options);
}

/// Returns the number of allocations since then.
fn calls(region: &Region<'_, System>) -> usize {
    let Stats {
        allocations,
        reallocations,
        ..
    } = region.change();
    allocations + reallocations
}

/// Returns the growth of the heap since then. Both counts include the difference that a
/// reallocation makes.
fn held(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated - change.bytes_deallocated
}

/// Prints the targets of ours, and whether they are met.
fn print(claim: &str, kept: bool) -> bool {
    println!("tollgate: {claim}: {}", verdict(kept));
    kept
}

/// The targets of ours: bytes of the plain future, bytes per waiter in the arena, allocations once
/// warm.
const FUTURE: usize = 64;
const ARENA: f64 = 48.0;
const WARM_ALLOCATIONS: usize = 0;

/// Fills the queue of each semaphore once cold, then once warm, and drains it by handing on and by giving up in every
/// order. Returns whether ours keeps within its limits.
fn semaphores(options: &Options) -> bool {
    let mut table = Table::new(
        "semaphore | future bytes | heap bytes a waiter | both | allocations, cold \
         | allocations, warm | bytes, warm",
    );
    let orders = [Order::FirstIn, Order::LastIn, Order::Random].map(|order| order.places(WAITERS));
    let mut kept = true;
    for contender in standing(&Part::Both, 1.0) {
        let Work::Line(mut line, _) = contender.prepare_cold() else {
            unreachable!("all of them stand in line");
        };
        line.hold();
        let cold = Region::new(COUNTING);
        line.enqueue();
        let (allocations, heap) = (calls(&cold), held(&cold) as f64 / WAITERS as f64);
        line.drain();

        let warm = Region::new(COUNTING);
        line::warm(&mut *line);
        for order in &orders {
            line.hold();
            line.enqueue();
            line.cancel(order);
        }
        let (again, bytes) = (calls(&warm), warm.change().bytes_allocated);
        let (name, future) = (&contender.name, line.future_size());
        let both = future as f64 + heap;
        table.push(format!(
            "{name} | {future} | {heap:.1} | {both:.1} | {allocations} | {again} | {bytes}"
        ));
        if name == Ours::NAME {
            kept = future <= FUTURE && heap <= ARENA && again == WARM_ALLOCATIONS;
        }
    }
    table.print(options.markdown);
    let claim = format!(
        "future <= {FUTURE} bytes, arena <= {ARENA} bytes a waiter, {WARM_ALLOCATIONS} allocations once warm"
    );
    print(&claim, kept)
}
