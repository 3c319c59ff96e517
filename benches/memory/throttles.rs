//! The other throttles: what `src/guarantees.rs` says of each that it allocates to wait.
//!
//! The other figures are bytes: of the future, and on the heap while 10,000 wait.

use std::sync::Arc;

use async_lock::Semaphore as AsyncLock;
use tokio::sync::Semaphore as Tokio;
use tollgate::{BoxThrottle, ChannelSemaphore, Pool, Semaphore, Throttle, all};
use tollgate_bench::harness::{Options, Table};
use tollgate_bench::line::{self, Line, WAITERS};
use tollgate_bench::peer::{BusyAsyncChannel, BusyFlume, IdleAsyncChannel, IdleFlume, Peer};

use crate::{WAITS_WARM, ask};

/// A line, and how many allocations a wait in it is said to take; of channels nothing is said.
type Claim = (&'static str, Box<dyn Line>, Option<usize>);

/// A throttle that lives for ever, for futures that borrow it.
fn leak<T>(throttle: T) -> &'static T {
    Box::leak(Box::new(throttle))
}

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

/// Prints the table; whether everything is as it is said to be.
pub(crate) fn table(options: &Options) -> bool {
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
        let heap = asked.cold_bytes as f64 / WAITERS as f64;
        let future = line.future_size();
        let allocations = asked.warm_allocations as f64 / WAITS_WARM as f64;
        let as_claimed = claim.is_none_or(|claim| asked.warm_allocations <= claim * WAITS_WARM);
        kept &= as_claimed;
        table.push(vec![
            name.to_owned(),
            future.to_string(),
            format!("{heap:.1}"),
            format!("{:.1}", future as f64 + heap),
            format!("{:.1}", asked.warm_bytes as f64 / WAITS_WARM as f64),
            format!("{allocations:.2}"),
            claim.map_or_else(String::new, |claim| format!("<= {claim}")),
            match (claim, as_claimed) {
                (None, _) => "",
                (Some(_), true) => "PASS",
                (Some(_), false) => "MISS",
            }
            .to_owned(),
        ]);
    }
    table.print(options.markdown);
    kept
}
