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
use tollgate_bench::peer::{Answer, Ours, Peer};
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

const THREADS: usize = 2;
const THREAD_LIMIT: usize = 8;
const TASKS: usize = 64;

/// Batches of 40 ms: within the usual 4 ms the second worker has hardly begun.
const STRETCH: u32 = 10;

/// Two threads run `work(times)` at the same time; from the first start to the last end.
fn abreast(name: &str, work: impl Fn(u64) + Send + Sync + 'static) -> Contender {
    Contender::batched(name, THREADS as u64, move |times| {
        let line_up = Barrier::new(THREADS);
        thread::scope(|scope| {
            let runners: Vec<_> = (0..THREADS)
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
    fn of<P: Peer>() -> Contender {
        let semaphore = P::with_permits(THREAD_LIMIT);
        abreast(P::NAME, move |times| {
            for _ in 0..times {
                let permit = black_box(&semaphore).try_acquire();
                assert!(black_box(permit).is_permit(), "a permit is free");
            }
        })
    }
    let floor = Floor::new(THREAD_LIMIT);
    let condvar = CondvarSemaphore::new(THREAD_LIMIT);
    Row::of(of::<Ours>())
        .beside(of::<Tokio>())
        .beside(abreast("floor: load, CAS, fetch_add", move |times| {
            for _ in 0..times {
                let permit = black_box(&floor).try_take();
                assert!(black_box(permit).is_some(), "a permit is free");
            }
        }))
        .beside(of::<AsyncLock>())
        .beside(of::<Intrusive>())
        .beside(of::<Asyncband>())
        .beside(abreast("mutex, condvar", move |times| {
            for _ in 0..times {
                let permit = black_box(&condvar).try_acquire();
                assert!(black_box(permit).is_permit(), "a permit is free");
            }
        }))
}

fn threads_acquire() -> Row {
    fn of<P: Peer>() -> Contender {
        let semaphore = P::with_permits(THREAD_LIMIT);
        abreast(P::NAME, move |times| {
            block_on(async {
                for _ in 0..times {
                    drop(black_box(black_box(&semaphore).acquire().await));
                }
            });
        })
    }
    let condvar = CondvarSemaphore::new(THREAD_LIMIT);
    let service = ConcurrencyLimit::new(Immediate, THREAD_LIMIT);
    Row::of(of::<Ours>())
        .at_most(0.50, of::<Tokio>())
        .beside(of::<AsyncLock>())
        .beside(of::<Intrusive>())
        .beside(of::<Asyncband>())
        .beside(abreast("mutex, condvar", move |times| {
            for _ in 0..times {
                drop(black_box(black_box(&condvar).acquire()));
            }
        }))
        .beside(abreast("tower ConcurrencyLimit", {
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

static WORKERS: LazyLock<Runtime> = LazyLock::new(|| {
    Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .expect("threads can be started")
});

/// 64 tasks take a permit, yield while they hold it, and give it back. A mutex and condvar cannot take part: it would
/// block the workers that the holders need.
fn tasks(limit: usize, target: f64) -> Row {
    fn of<P: Peer>(limit: usize) -> Contender {
        let semaphore = Arc::new(P::with_permits(limit));
        on_workers(P::NAME, move |times| {
            let semaphore = Arc::clone(&semaphore);
            async move {
                for _ in 0..times {
                    let held = semaphore.acquire().await;
                    yield_now().await;
                    drop(held);
                }
            }
        })
    }
    let service = ConcurrencyLimit::new(Immediate, limit);
    Row::of(of::<Ours>(limit))
        .at_most(target, of::<Tokio>(limit))
        .beside(of::<AsyncLock>(limit))
        .beside(of::<Intrusive>(limit))
        .beside(of::<Asyncband>(limit))
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
