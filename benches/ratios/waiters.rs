//! Ten thousand in line: joining, being let through, giving up.
//!
//! A mutex and condvar is not here: its waiters are threads.

use async_lock::Semaphore as AsyncLock;
use asyncband::semaphore::Semaphore as Asyncband;
use futures_intrusive::sync::Semaphore as Intrusive;
use std::time::Duration;
use tokio::sync::Semaphore as Tokio;
use tollgate_bench::harness::{Contender, Entry, Row};
use tollgate_bench::line::{self, Line, Order, WAITERS};
use tollgate_bench::peer::{Ours, TryPeer};

pub(crate) const ENTRIES: &[Entry] = &[
    ("10,000 waiters: enqueue", || {
        everybody(0.60, line::time_enqueue)
    }),
    ("10,000 waiters: drain", || {
        everybody(0.60, line::time_drain)
    }),
    ("10,000 waiters: enqueue + drain", || {
        everybody(0.60, line::time_both)
    }),
    ("cancel 10,000: first-in first", || cancel(Order::FirstIn)),
    ("cancel 10,000: last-in first", || cancel(Order::LastIn)),
    ("cancel 10,000: random", || cancel(Order::Random)),
];

pub(crate) fn timed<T>(name: &str, mut line: Box<dyn Line>, time: T) -> Contender
where
    T: Fn(&mut dyn Line, u64) -> Duration + 'static,
{
    line::warm(&mut *line);
    Contender::batched(name, WAITERS as u64, move |times| time(&mut *line, times))
}

fn everybody<T>(target: f64, time: T) -> Row
where
    T: Fn(&mut dyn Line, u64) -> Duration + Clone + 'static,
{
    let of = |name, line| timed(name, line, time.clone());
    Row::of(of(Ours::NAME, line::boxed::<Ours>(WAITERS)))
        .at_most(target, of(Tokio::NAME, line::boxed::<Tokio>(WAITERS)))
        .beside(of(AsyncLock::NAME, line::boxed::<AsyncLock>(WAITERS)))
        .beside(of(Intrusive::NAME, line::boxed::<Intrusive>(WAITERS)))
        .beside(of(Asyncband::NAME, line::boxed::<Asyncband>(WAITERS)))
        .beside(of("tower ConcurrencyLimit", line::tower(WAITERS)))
        .beside(of("tollgate, futures in a vector", line::flat(WAITERS)))
}

fn cancel(order: Order) -> Row {
    let places = order.places(WAITERS);
    everybody(1.0, move |line: &mut dyn Line, times| {
        line::time_cancel(line, &places, times)
    })
}
