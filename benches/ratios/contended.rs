//! Several threads or tasks at one semaphore.

use std::hint::black_box;
use std::sync::{Arc, Barrier, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use async_lock::Semaphore as AsyncLock;
use asyncband::semaphore::Semaphore as Asyncband;
use futures::executor::block_on;
use futures_intrusive::sync::Semaphore as Intrusive;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore as Tokio;
use tokio::task::yield_now;
use tollgate_bench::condvar::CondvarSemaphore;
use tollgate_bench::floor::Floor;
use tollgate_bench::harness::{Contender, Entry, Row};
use tollgate_bench::peer::{Answer, BlockingPeer, Ours, Peer, TryPeer};
use tollgate_bench::service::Immediate;
use tower::limit::ConcurrencyLimit;
use tower::{Service, ServiceExt};

pub(crate) const ENTRIES: &[Entry] = &[
    ("two threads, limit 8: try", threads_try),
    ("two threads, limit 8: acquire", threads_acquire),
    ("64 tasks on 2 workers, limit 8", || tasks(8, 0.70)),
    ("64 tasks on 2 workers, limit 32", || tasks(32, 0.70)),
    ("64 tasks on 2 workers, limit 1", || tasks(1, 0.95)),
];

pub(crate) const THREADS: usize = 2;
pub(crate) const THREAD_LIMIT: usize = 8;
const TASKS: usize = 64;

/// Batches of 40 ms: within the usual 4 ms the second worker has hardly begun.
const STRETCH: u32 = 10;

/// So many threads run `work(times)` at the same time; from the first start to the last end.
pub(crate) fn abreast(
    threads: usize,
    name: &str,
    work: impl Fn(u64) + Send + Sync + 'static,
) -> Contender {
    Contender::batched(name, threads as u64, move |times| {
        let line_up = Barrier::new(threads);
        thread::scope(|scope| {
            let runners: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| {
                        line_up.wait();
                        let start = Instant::now();
                        work(times);
                        (start, Instant::now())
                    })
                })
                .collect();
            let spans: Vec<_> = runners
                .into_iter()
                .map(|runner| runner.join().expect("it ran through"))
                .collect();
            let first = spans
                .iter()
                .map(|span| span.0)
                .min()
                .expect("there are two");
            let last = spans
                .iter()
                .map(|span| span.1)
                .max()
                .expect("there are two");
            last - first
        })
    })
    .stretched(STRETCH)
}

/// The target is that of the acquire: two bare words that contend take more than half of what tokio's try does.
fn threads_try() -> Row {
    let floor = Floor::new(THREAD_LIMIT);
    Row::of(trying::<Ours>())
        .beside(trying::<Tokio>())
        .beside(abreast(
            THREADS,
            "floor: load, CAS, fetch_add",
            move |times| {
                for _ in 0..times {
                    let permit = black_box(&floor).try_take();
                    assert!(black_box(permit).is_some(), "a permit is free");
                }
            },
        ))
        .beside(trying::<AsyncLock>())
        .beside(trying::<Intrusive>())
        .beside(trying::<Asyncband>())
        .beside(trying::<CondvarSemaphore>())
}

/// Two threads try, with permits to spare.
pub(crate) fn trying<P: TryPeer>() -> Contender {
    let semaphore = P::with_permits(THREAD_LIMIT);
    abreast(THREADS, P::NAME, move |times| {
        for _ in 0..times {
            let permit = black_box(&semaphore).try_acquire();
            assert!(black_box(permit).is_permit(), "a permit is free");
            semaphore.give_back();
        }
    })
}

fn threads_acquire() -> Row {
    let service = ConcurrencyLimit::new(Immediate, THREAD_LIMIT);
    Row::of(acquiring::<Ours>())
        .at_most(0.50, acquiring::<Tokio>())
        .beside(acquiring::<AsyncLock>())
        .beside(acquiring::<Intrusive>())
        .beside(acquiring::<Asyncband>())
        .beside(waiting::<CondvarSemaphore>(THREADS, THREAD_LIMIT))
        .beside(abreast(THREADS, "tower ConcurrencyLimit", {
            let service = std::sync::Mutex::new(service);
            move |times| {
                let mut service = service.lock().expect("nobody panics").clone();
                block_on(async {
                    for _ in 0..times {
                        let ready = service.ready().await.expect("it never fails");
                        ready.call(()).await.expect("it never fails");
                    }
                });
            }
        }))
}

/// Two threads await at the same time, with permits to spare.
pub(crate) fn acquiring<P: Peer>() -> Contender {
    let semaphore = P::with_permits(THREAD_LIMIT);
    abreast(THREADS, P::NAME, move |times| {
        block_on(async {
            for _ in 0..times {
                drop(black_box(black_box(&semaphore).acquire().await));
                semaphore.give_back();
            }
        });
    })
}

/// Threads that block until they have a permit.
pub(crate) fn waiting<P: BlockingPeer>(threads: usize, limit: usize) -> Contender {
    let semaphore = P::with_permits(limit);
    abreast(threads, P::NAME, move |times| {
        for _ in 0..times {
            drop(black_box(black_box(&semaphore).wait()));
            semaphore.give_back();
        }
    })
}

/// The same, and each yields its core while it holds the permit, so that there is a line.
pub(crate) fn waiting_in_line<P: BlockingPeer>(threads: usize, limit: usize) -> Contender {
    let semaphore = P::with_permits(limit);
    abreast(threads, P::NAME, move |times| {
        for _ in 0..times {
            let held = black_box(black_box(&semaphore).wait());
            thread::yield_now();
            drop(held);
            semaphore.give_back();
        }
    })
}

static WORKERS: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .expect("threads can be started")
});

/// 64 tasks take a permit, yield while they hold it, and give it back. A mutex and condvar cannot take part: it would
/// block the workers that the holders need.
fn tasks(limit: usize, target: f64) -> Row {
    let service = ConcurrencyLimit::new(Immediate, limit);
    Row::of(yielding::<Ours>(limit))
        .at_most(target, yielding::<Tokio>(limit))
        .beside(yielding::<AsyncLock>(limit))
        .beside(yielding::<Intrusive>(limit))
        .beside(yielding::<Asyncband>(limit))
        .beside(on_workers("nothing: the yield alone", async |times| {
            for _ in 0..times {
                yield_now().await;
            }
        }))
        .beside(on_workers("tower ConcurrencyLimit", move |times| {
            let mut service = service.clone();
            async move {
                for _ in 0..times {
                    // The answer's future holds the permit.
                    let answer = service.ready().await.expect("it never fails").call(());
                    yield_now().await;
                    answer.await.expect("it never fails");
                }
            }
        }))
}

/// The tasks of one contender.
pub(crate) fn yielding<P: Peer>(limit: usize) -> Contender {
    let semaphore = Arc::new(P::with_permits(limit));
    on_workers(P::NAME, move |times| {
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

fn on_workers<F>(name: &str, task: impl Fn(u64) -> F + 'static) -> Contender
where
    F: Future<Output = ()> + Send + 'static,
{
    Contender::batched(name, TASKS as u64, move |times| -> Duration {
        WORKERS.block_on(async {
            let start = Instant::now();
            let running: Vec<_> = (0..TASKS).map(|_| tokio::spawn(task(times))).collect();
            for task in running {
                task.await.expect("it ran through");
            }
            start.elapsed()
        })
    })
    .stretched(STRETCH)
}
