//! Semaphores: their ready paths, on one thread and on two with permits to spare; tasks that wait in turn; and ten
//! thousand waiters.
//!
//! The asynchronous ones run inside one future on a plain `block_on` and never return to it. tokio's semaphore checks
//! its cooperative budget on every completed acquire; outside tokio's own runtime that budget is unlimited, so tokio
//! pays for the check, as always, but never for the forced yield after 128 operations. That is the best case for tokio,
//! and the executor is the same for every contender.
//!
//! Every permit goes through `black_box`: it is in memory, like a permit that is held during work, and the crate
//! with the best inlining cannot split it into registers.

use std::hint::black_box;
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use async_lock::Semaphore as AsyncLock;
use asyncband::semaphore::Semaphore as Asyncband;
use futures::executor::block_on;
use futures_intrusive::sync::Semaphore as Intrusive;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore as Tokio;
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;
use tower::limit::ConcurrencyLimit;
use tower::{Service, ServiceExt};

use crate::floor::{CondvarSemaphore, Floor};
use crate::harness::{Contender, Row, Shared, Work, alone, tasks, together};
use crate::line::{self, Order, Part, WAITERS};
use crate::peer::{Answer, BlockingPeer, Immediate, Ours, OwnedPeer, Peer, TryPeer};
use crate::{repeat, repeat_async, rows};

/// The permits of every ready path.
pub const LIMIT: usize = 8;

/// Returns all rows.
pub fn rows() -> Vec<Row> {
    let all = [ready(), contended(), waiters()];
    all.into_iter().flatten().collect()
}

/// One thread, permits to spare: the price of a semaphore without waiters.
fn ready() -> Vec<Row> {
    // A token can wrap every future; a blocking wait and tower's readiness are no futures.
    let mut rows = rows! {
        alone "try_acquire + drop"
            [try_acquire: Ours, Tokio: 0.60, AsyncLock, Intrusive, Asyncband, CondvarSemaphore, Floor: 1.15];
        alone "acquire ready + drop"
            [acquire: Ours, Tokio: 0.45, AsyncLock, Intrusive, Asyncband]
            {"floor: load, CAS, fetch_add": 1.3 => try_acquire::<Floor>,
             "mutex, condvar" => wait::<CondvarSemaphore>, "tower ConcurrencyLimit" => tower_call};
        alone "acquire_cancellable ready + drop"
            [acquire_cancellable: Ours, Tokio: 0.40, AsyncLock, Intrusive, Asyncband];
        alone "owned try + drop"
            [try_acquire_owned: Ours, Tokio: 0.65, AsyncLock, Asyncband]
            {"futures-intrusive" => try_acquire_shared_intrusive};
    };
    rows[0].contenders[0].instructions = Some(30.0);
    rows
}

/// Several threads or tasks at one semaphore. The target of two threads that try is that of the acquire: two bare words
/// under contention take more than half of the time of tokio's try.
fn contended() -> Vec<Row> {
    // A mutex and condvar cannot be compared with tasks here: it would block the workers that the
    // holders need.
    rows! {
        together "two threads, limit 8: try"
            [try_acquire: Ours, Tokio, AsyncLock, Intrusive, Asyncband, CondvarSemaphore, Floor];
        together "two threads, limit 8: acquire"
            [acquire: Ours, Tokio: 0.50, AsyncLock, Intrusive, Asyncband]
            {"mutex, condvar" => wait::<CondvarSemaphore>, "tower ConcurrencyLimit" => tower_call};
        tasks "64 tasks on 2 workers, limit 8"
            [yielding(8): Ours, Tokio: 0.70, AsyncLock, Intrusive, Asyncband]
            {"nothing: the yield alone" => nothing, "tower ConcurrencyLimit" => || tower_yielding(8)};
        tasks "64 tasks on 2 workers, limit 32"
            [yielding(32): Ours, Tokio: 0.70, AsyncLock, Intrusive, Asyncband]
            {"nothing: the yield alone" => nothing, "tower ConcurrencyLimit" => || tower_yielding(32)};
        tasks "64 tasks on 2 workers, limit 1"
            [yielding(1): Ours, Tokio: 0.95, AsyncLock, Intrusive, Asyncband]
            {"nothing: the yield alone" => nothing, "tower ConcurrencyLimit" => || tower_yielding(1)};
        tasks "64 tasks on 2 workers, limit 8, 1 µs of work"
            [working(8, Duration::from_micros(1)): Ours, Tokio, AsyncLock, Intrusive, Asyncband];
        tasks "64 tasks on 2 workers, limit 8, 10 µs of work"
            [working(8, Duration::from_micros(10)): Ours, Tokio, AsyncLock, Intrusive, Asyncband];
    }
}

/// Ten thousand waiters: joining, being admitted, giving up. The mutex and condvar is left out, because its
/// waiters are threads.
fn waiters() -> Vec<Row> {
    // An O(1) operation costs the same in a short queue.
    const SHORT: usize = 1_000;
    let short = Part::cancel(Order::Random, SHORT);
    let short = [
        line::of::<Ours>(SHORT, &short),
        line::of::<Tokio>(SHORT, &short),
    ];
    let row = |name: &str, target, part| Row::new(name, standing(&part, target));
    let cancel = |order| Part::cancel(order, WAITERS);
    vec![
        row("10,000 waiters: enqueue", 0.60, Part::Enqueue),
        row("10,000 waiters: drain", 0.60, Part::Drain),
        row("10,000 waiters: enqueue + drain", 0.60, Part::Both),
        row("cancel 10,000: first-in first", 1.0, cancel(Order::FirstIn)),
        row("cancel 10,000: last-in first", 1.0, cancel(Order::LastIn)),
        row("cancel 10,000: random", 1.0, cancel(Order::Random)),
        Row::new("cancel 1,000: random", short),
    ]
}

/// Measures a part of every contender's queue, with the targets of ours against tokio.
pub fn standing(part: &Part, target: f64) -> [Contender; 6] {
    [
        line::of::<Ours>(WAITERS, part),
        line::of::<Tokio>(WAITERS, part).at_most(target),
        line::of::<AsyncLock>(WAITERS, part),
        line::of::<Intrusive>(WAITERS, part),
        line::of::<Asyncband>(WAITERS, part),
        line::in_line(WAITERS, "tower ConcurrencyLimit", line::tower, part),
    ]
}

/// `try_acquire` and give back.
pub fn try_acquire<P: TryPeer>() -> Shared {
    repeat!(P::with_permits(LIMIT), |semaphore| {
        let permit = semaphore.try_acquire();
        assert!(black_box(permit).is_permit(), "a permit is free");
        semaphore.give_back();
    })
}

/// `acquire().await` and give back.
pub fn acquire<P: Peer>() -> Shared {
    repeat_async!(P::with_permits(LIMIT), |semaphore| {
        drop(black_box(semaphore.acquire().await));
        semaphore.give_back();
    })
}

/// The blocking form, and give back.
pub fn wait<P: BlockingPeer>() -> Shared {
    waiting::<P>(LIMIT, false)
}

/// The same with another limit. Where each yields its core while it holds the permit, a queue
/// forms.
pub fn waiting<P: BlockingPeer>(limit: usize, yields: bool) -> Shared {
    repeat!(P::with_permits(limit), |semaphore| {
        let held = black_box(semaphore.wait());
        if yields {
            thread::yield_now();
        }
        drop(held);
        semaphore.give_back();
    })
}

/// `acquire().await` under a token that is never cancelled.
fn acquire_cancellable<P: Peer>() -> Shared {
    let both = (P::with_permits(LIMIT), CancellationToken::new());
    repeat_async!(both, |both| {
        let permit = both.0.acquire_cancellable(&both.1);
        drop(black_box(permit.await));
    })
}

/// Clone the `Arc`, try, drop what came out.
fn try_acquire_owned<P: OwnedPeer>() -> Shared {
    repeat!(Arc::new(P::with_permits(LIMIT)), |semaphore| {
        let permit = semaphore.try_acquire_owned();
        assert!(black_box(permit).is_permit(), "a permit is free");
    })
}

/// futures-intrusive has a separate type for the owned form, with an `Arc` inside.
fn try_acquire_shared_intrusive() -> Shared {
    let fair = true;
    let semaphore = futures_intrusive::sync::SharedSemaphore::new(fair, LIMIT);
    repeat!(semaphore, |semaphore| {
        let permit = semaphore.try_acquire(1);
        assert!(black_box(permit).is_permit(), "a permit is free");
    })
}

/// tower's limit around a service that answers at once: ready, call, answer.
fn tower_call() -> Shared {
    let service = Mutex::new(ConcurrencyLimit::new(Immediate, LIMIT));
    Box::new(move |times| {
        let mut service = service.lock().expect("nobody panics").clone();
        block_on(async {
            for _ in 0..times {
                let ready = black_box(&mut service).ready().await;
                let answer = ready.expect("it never fails").call(()).await;
                answer.expect("it never fails");
            }
        });
    })
}

const TASKS: usize = 64;

static WORKERS: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .expect("threads can be started")
});

/// Tasks that take a permit, yield while they hold it, and give it back.
pub fn yielding<P: Peer>(limit: usize) -> Work {
    working::<P>(limit, Duration::ZERO)
}

/// The same, with this much work before the yield. Without work, the fastest tasks are those that stay on one core;
/// with work, those lose that leave the other core idle.
fn working<P: Peer>(limit: usize, work: Duration) -> Work {
    let semaphore = Arc::new(P::with_permits(limit));
    on_workers(move |times| {
        let semaphore = Arc::clone(&semaphore);
        async move {
            for _ in 0..times {
                let held = semaphore.acquire().await;
                if !work.is_zero() {
                    let begin = Instant::now();
                    while begin.elapsed() < work {}
                }
                yield_now().await;
                drop(held);
                semaphore.give_back();
            }
        }
    })
}

fn nothing() -> Work {
    on_workers(async |times| {
        for _ in 0..times {
            yield_now().await;
        }
    })
}

fn tower_yielding(limit: usize) -> Work {
    let service = ConcurrencyLimit::new(Immediate, limit);
    on_workers(move |times| {
        let mut service = service.clone();
        async move {
            for _ in 0..times {
                // The response future holds the permit.
                let answer = service.ready().await.expect("it never fails").call(());
                yield_now().await;
                answer.await.expect("it never fails");
            }
        }
    })
}

fn on_workers<F>(task: impl Fn(u64) -> F + 'static) -> Work
where
    F: Future<Output = ()> + Send + 'static,
{
    let batch = Box::new(move |times| {
        WORKERS.block_on(async {
            let start = Instant::now();
            let running: Vec<_> = (0..TASKS).map(|_| tokio::spawn(task(times))).collect();
            for task in running {
                task.await.expect("it ran through");
            }
            start.elapsed()
        })
    });
    let unit = TASKS as u64;
    Work::Timed { unit, batch }
}
