//! Measures semaphores: their ready paths, on one thread and on two with permits to spare; tasks that wait in turn;
//! and ten thousand in line.
//!
//! The asynchronous ones run inside one future on a plain `block_on` and never return to it. tokio's semaphore checks
//! its cooperative budget on every completed acquire; outside tokio's own runtime that budget is unlimited, so tokio
//! pays for the check, as it always does, but never for the forced yield after 128 operations. This is the best case
//! for tokio, and the executor is the same for all.
//!
//! Every permit goes through `black_box`: it is held in memory, like a permit that is held during real work, and
//! cannot be split into registers by the crate that happens to be inlined best.

use std::hint::black_box;
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::Instant;

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
use crate::harness::{Contender, Row, Shared, Work, alone, made, together};
use crate::line::{self, Order, Part, WAITERS};
use crate::peer::{Answer, BlockingPeer, Ours, OwnedPeer, Peer, TryPeer};
use crate::service::Immediate;
use crate::{repeat, repeat_async, rows};

/// The permits of every ready path.
pub const LIMIT: usize = 8;

/// One thread with permits to spare: the cost of a semaphore without waiters.
#[must_use]
pub fn ready() -> Vec<Row> {
    // A token can be put around every future; a blocking wait and tower's readiness are not futures.
    let mut rows = rows! {
        alone "try_acquire + drop"
            [try_acquire: Ours, Tokio: 0.60, AsyncLock, Intrusive, Asyncband, CondvarSemaphore]
            {"floor: load, CAS, fetch_add": 1.15 => floor, "strict floor: CAS, increment" => strict_floor};
        alone "acquire ready + drop"
            [acquire: Ours, Tokio: 0.45, AsyncLock, Intrusive, Asyncband]
            {"floor: load, CAS, fetch_add": 1.3 => floor, "strict floor: CAS, increment" => strict_floor,
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
/// that contend take more than half of the time of tokio's try.
#[must_use]
pub fn contended() -> Vec<Row> {
    // A mutex and condvar cannot take part with tasks: it would block the workers that the holders need.
    rows! {
        together "two threads, limit 8: try"
            [try_acquire: Ours, Tokio, AsyncLock, Intrusive, Asyncband, CondvarSemaphore]
            {"floor: load, CAS, fetch_add" => floor};
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
    }
}

/// Ten thousand in line: joining, being admitted, giving up. A mutex and condvar is missing here: its waiters are
/// threads.
#[must_use]
pub fn waiters() -> Vec<Row> {
    let row = |name: &str, target, part| Row::new(name, standing(&part, target));
    let cancel = |order| Part::cancel(order, WAITERS);
    vec![
        row("10,000 waiters: enqueue", 0.60, Part::Enqueue),
        row("10,000 waiters: drain", 0.60, Part::Drain),
        row("10,000 waiters: enqueue + drain", 0.60, Part::Both),
        row("cancel 10,000: first-in first", 1.0, cancel(Order::FirstIn)),
        row("cancel 10,000: last-in first", 1.0, cancel(Order::LastIn)),
        row("cancel 10,000: random", 1.0, cancel(Order::Random)),
    ]
}

/// Returns the lines of all contenders with the timed part, and our limit relative to tokio's.
pub fn standing(part: &Part, target: f64) -> [Contender; 7] {
    const FLAT: &str = "tollgate, futures in a vector";
    const TOWER: &str = "tower ConcurrencyLimit";
    [
        line::of::<Ours>(WAITERS, part),
        line::of::<Tokio>(WAITERS, part).at_most(target),
        line::of::<AsyncLock>(WAITERS, part),
        line::of::<Intrusive>(WAITERS, part),
        line::of::<Asyncband>(WAITERS, part),
        line::in_line(WAITERS, TOWER, line::tower, part),
        line::in_line(WAITERS, FLAT, line::flat, part),
    ]
}

/// A short line next to [`waiters`], only for counts: an O(1) operation costs the same in both.
#[must_use]
pub fn short_line() -> Vec<Row> {
    const SHORT: usize = 1_000;
    let part = Part::cancel(Order::Random, SHORT);
    let contenders = [
        line::of::<Ours>(SHORT, &part),
        line::of::<Tokio>(SHORT, &part),
    ];
    vec![Row::new("cancel 1,000: random", contenders)]
}

/// Measures the minimum of a semaphore over one word.
fn floor() -> Shared {
    repeat!(Floor::new(LIMIT), |floor| {
        let permit = floor.try_take();
        assert!(black_box(permit).is_some(), "a permit is free");
    })
}

/// Measures two atomic operations, and nothing else.
fn strict_floor() -> Shared {
    repeat!(Floor::new(LIMIT), |floor| floor.bare_pair())
}

/// Measures `try_acquire` and the release.
pub fn try_acquire<P: TryPeer>() -> Shared {
    repeat!(P::with_permits(LIMIT), |semaphore| {
        let permit = semaphore.try_acquire();
        assert!(black_box(permit).is_permit(), "a permit is free");
        semaphore.give_back();
    })
}

/// Measures `acquire().await` and the release.
pub fn acquire<P: Peer>() -> Shared {
    repeat_async!(P::with_permits(LIMIT), |semaphore| {
        drop(black_box(semaphore.acquire().await));
        semaphore.give_back();
    })
}

/// Measures the blocking form and the release.
pub fn wait<P: BlockingPeer>() -> Shared {
    waiting::<P>(LIMIT, false)
}

/// Measures the same with another limit. If each yields its core while it holds the permit, a line forms.
pub fn waiting<P: BlockingPeer>(limit: usize, yields: bool) -> Shared {
    if yields {
        return repeat!(P::with_permits(limit), |semaphore| {
            let held = black_box(semaphore.wait());
            thread::yield_now();
            drop(held);
            semaphore.give_back();
        });
    }
    repeat!(P::with_permits(limit), |semaphore| {
        drop(black_box(semaphore.wait()));
        semaphore.give_back();
    })
}

/// Measures `acquire().await` under a token that is never cancelled.
fn acquire_cancellable<P: Peer>() -> Shared {
    let both = (P::with_permits(LIMIT), CancellationToken::new());
    repeat_async!(both, |both| {
        let permit = both.0.acquire_cancellable(&both.1);
        drop(black_box(permit.await));
    })
}

/// Clones the `Arc`, tries, and drops the result.
fn try_acquire_owned<P: OwnedPeer>() -> Shared {
    repeat!(Arc::new(P::with_permits(LIMIT)), |semaphore| {
        let permit = semaphore.try_acquire_owned();
        assert!(black_box(permit).is_permit(), "a permit is free");
    })
}

/// futures-intrusive keeps its owned form in a type of its own, which is an `Arc` inside.
fn try_acquire_shared_intrusive() -> Shared {
    let fair = true;
    let semaphore = futures_intrusive::sync::SharedSemaphore::new(fair, LIMIT);
    repeat!(semaphore, |semaphore| {
        let permit = semaphore.try_acquire(1);
        assert!(black_box(permit).is_permit(), "a permit is free");
    })
}

/// Measures tower's limit around a service that answers at once: ready, call, answer.
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

/// Measures tasks that take a permit, yield while they hold it, and give it back.
pub fn yielding<P: Peer>(limit: usize) -> Work {
    let semaphore = Arc::new(P::with_permits(limit));
    on_workers(move |times| {
        let semaphore = Arc::clone(&semaphore);
        async move {
            for _ in 0..times {
                let held = semaphore.acquire().await;
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
                // The answer's future holds the permit.
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

/// Makes a contender whose tasks share two workers.
pub fn tasks(name: impl Into<String>, prepare: impl Fn() -> Work + 'static) -> Contender {
    made(name, prepare).stretched(10)
}
