//! Lines of 10,000: the semaphores, and the other throttles with what `src/guarantees.rs` says of each that it allocates
//! to wait.

use std::sync::Arc;

use async_lock::Semaphore as AsyncLock;
use stats_alloc::Region;
use tokio::sync::Semaphore as Tokio;
use tollgate::{BoxThrottle, ChannelSemaphore, Pool, Semaphore, Throttle, all};
use tollgate_bench::cells;
use tollgate_bench::harness::{Options, Table, Work, verdict};
use tollgate_bench::line::{self, Line, Order, Part, WAITERS};
use tollgate_bench::peer::{
    BusyAsyncChannel, BusyFlume, IdleAsyncChannel, IdleFlume, Ours, Peer, TryPeer,
};
use tollgate_bench::semaphore::standing;
use tollgate_bench::throttles::leak;

use crate::{COUNTING, calls, held, print};

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

/// Fills the line once cold; then once warm, handed on and given up in every order.
fn ask(line: &mut dyn Line) -> Asked {
    line.hold();
    let cold = Region::new(COUNTING);
    line.enqueue();
    let (cold_allocations, cold_bytes) = (calls(&cold), held(&cold));
    line.drain();

    let orders = [Order::FirstIn, Order::LastIn, Order::Random].map(|order| order.places(WAITERS));
    let warm = Region::new(COUNTING);
    line::warm(line);
    for order in &orders {
        line.hold();
        line.enqueue();
        line.cancel(order);
    }
    Asked {
        cold_allocations,
        cold_bytes,
        warm_allocations: calls(&warm),
        warm_bytes: warm.change().bytes_allocated,
    }
}

/// The first cells of every row: the bytes of a future, on the heap for each waiter, and of both.
fn cells_of(name: &str, future: usize, asked: &Asked) -> Vec<String> {
    let heap = asked.cold_bytes as f64 / WAITERS as f64;
    let both = future as f64 + heap;
    cells![name, future, format!("{heap:.1}"), format!("{both:.1}")]
}

/// The table of the semaphores; whether ours keeps within its limits.
pub(crate) fn semaphores(options: &Options) -> bool {
    let mut table = Table::new(&[
        "semaphore",
        "future bytes",
        "heap bytes a waiter",
        "both",
        "allocations, cold",
        "allocations, warm",
        "bytes, warm",
    ]);
    let mut kept = true;
    for contender in standing(&Part::Both, 1.0) {
        let Work::Line(mut line, _) = contender.prepare_cold() else {
            unreachable!("all of them stand in line");
        };
        let asked = ask(&mut *line);
        let future = line.future_size();
        let mut cells = cells_of(&contender.name, future, &asked);
        cells.extend(cells![
            asked.cold_allocations,
            asked.warm_allocations,
            asked.warm_bytes
        ]);
        table.push(cells);
        if contender.name == Ours::NAME {
            let heap = asked.cold_bytes as f64 / WAITERS as f64;
            kept = future <= FUTURE && heap <= ARENA && asked.warm_allocations == WARM_ALLOCATIONS;
        }
    }
    table.print(options.markdown);
    let claim = format!(
        "future <= {FUTURE} bytes, arena <= {ARENA} bytes a waiter, {WARM_ALLOCATIONS} allocations once warm"
    );
    print(&claim, kept)
}

/// A line, and how many allocations a wait in it is said to take; of channels nothing is said.
type Claim = (&'static str, Box<dyn Line>, Option<usize>);

fn claims() -> Vec<Claim> {
    fn of<T>(name: &'static str, throttle: T, claim: usize) -> Claim
    where
        T: Throttle<Enter: 'static, Permit: 'static> + 'static,
    {
        (name, line::entered(WAITERS, throttle), Some(claim))
    }
    // It allocates for each entry, waiting or not.
    let boxed = BoxThrottle::new(Arc::new(Semaphore::new(1)));
    let both = all((leak(Semaphore::new(1)), leak(Semaphore::new(1))));
    vec![
        of("Semaphore", leak(Semaphore::new(1)), 0),
        of("Semaphore, owned", Arc::new(Semaphore::new(1)), 0),
        of("Pool<()>", leak(Pool::new([()])), 1),
        of("Pool<()>, owned", Arc::new(Pool::new([()])), 2),
        of("ChannelSemaphore", leak(ChannelSemaphore::new(1)), 1),
        of(
            "ChannelSemaphore, owned",
            Arc::new(ChannelSemaphore::new(1)),
            2,
        ),
        of("tokio's as a throttle", leak(Tokio::new(1)), 1),
        of("tokio's as a throttle, owned", Arc::new(Tokio::new(1)), 1),
        of("async-lock's as a throttle", leak(AsyncLock::new(1)), 1),
        of(
            "async-lock's as a throttle, owned",
            Arc::new(AsyncLock::new(1)),
            1,
        ),
        of("all of two", both, 0),
        of("BoxThrottle", boxed, 2),
        bare::<IdleAsyncChannel>(),
        bare::<BusyAsyncChannel>(),
        bare::<IdleFlume>(),
        bare::<BusyFlume>(),
    ]
}

fn bare<P: Peer>() -> Claim {
    (P::NAME, line::boxed::<P>(WAITERS), None)
}

/// Prints the table of the throttles; whether everything is as it is said to be.
pub(crate) fn throttles(options: &Options) -> bool {
    let mut table = Table::new(&[
        "throttle",
        "future bytes",
        "heap bytes a waiter",
        "both",
        "bytes a wait, warm",
        "allocations a wait, warm",
        "claim",
        "verdict",
    ]);
    let mut kept = true;
    for (name, mut line, claim) in claims() {
        let asked = ask(&mut *line);
        let as_claimed = claim.map(|claim| asked.warm_allocations <= claim * WAITS_WARM);
        kept &= as_claimed != Some(false);
        let a_wait = |count| count as f64 / WAITS_WARM as f64;
        let mut cells = cells_of(name, line.future_size(), &asked);
        cells.extend(cells![
            format!("{:.1}", a_wait(asked.warm_bytes)),
            format!("{:.2}", a_wait(asked.warm_allocations)),
            claim.map_or_else(String::new, |claim| format!("<= {claim}")),
            as_claimed.map_or("", verdict),
        ]);
        table.push(cells);
    }
    table.print(options.markdown);
    kept
}
