//! `cargo bench -p tollgate-bench --bench semaphore`: criterion's groups, `semaphore/operation/contender`.
//!
//! The same operations as in the table of ratios, for who wants criterion's statistics or its comparison with the run
//! before. Contenders run one after the other here, so compare them in the table of ratios, where they take turns.

use std::time::{Duration, Instant};

use async_lock::Semaphore as AsyncLock;
use asyncband::semaphore::Semaphore as Asyncband;
use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use futures_intrusive::sync::Semaphore as Intrusive;
use tokio::sync::Semaphore as Tokio;
use tollgate_bench::condvar::CondvarSemaphore;
use tollgate_bench::line::{self, Line, Order, WAITERS};
use tollgate_bench::peer::{Ours, Peer, TryPeer};
use tollgate_bench::ready;

type Group<'a> = BenchmarkGroup<'a, WallTime>;

fn work(group: &mut Group<'_>, operation: &str, name: &str, mut work: impl FnMut(u64)) {
    group.bench_function(BenchmarkId::new(operation, name), |bencher| {
        bencher.iter_custom(|times| {
            let start = Instant::now();
            work(times);
            start.elapsed()
        });
    });
}

fn ready_paths(criterion: &mut Criterion) {
    fn of<P: Peer>(group: &mut Group<'_>) {
        work(group, "try_acquire", P::NAME, ready::try_acquire::<P>());
        work(group, "acquire", P::NAME, ready::acquire::<P>());
        work(
            group,
            "acquire_cancellable",
            P::NAME,
            ready::acquire_cancellable::<P>(),
        );
    }
    let mut group = criterion.benchmark_group("semaphore");
    work(&mut group, "try_acquire", "floor", ready::floor());
    of::<Ours>(&mut group);
    of::<Tokio>(&mut group);
    of::<AsyncLock>(&mut group);
    of::<Intrusive>(&mut group);
    of::<Asyncband>(&mut group);
    work(
        &mut group,
        "try_acquire",
        "condvar",
        ready::try_acquire::<CondvarSemaphore>(),
    );
    work(
        &mut group,
        "acquire",
        "condvar",
        ready::wait::<CondvarSemaphore>(),
    );
    work(&mut group, "acquire", "tower", ready::tower_call());
    work(
        &mut group,
        "try_acquire_owned",
        Ours::NAME,
        ready::try_acquire_owned::<Ours>(),
    );
    work(
        &mut group,
        "try_acquire_owned",
        Tokio::NAME,
        ready::try_acquire_owned::<Tokio>(),
    );
    work(
        &mut group,
        "try_acquire_owned",
        AsyncLock::NAME,
        ready::try_acquire_owned::<AsyncLock>(),
    );
    work(
        &mut group,
        "try_acquire_owned",
        Intrusive::NAME,
        ready::try_acquire_shared_intrusive(),
    );
    work(
        &mut group,
        "try_acquire_owned",
        Asyncband::NAME,
        ready::try_acquire_owned::<Asyncband>(),
    );
    group.finish();
}

fn waiters(criterion: &mut Criterion) {
    fn of(group: &mut Group<'_>, name: &str, mut line: Box<dyn Line>) {
        line::warm(&mut *line);
        let mut add = |operation: &str, time: &dyn Fn(&mut dyn Line, u64) -> Duration| {
            group.bench_function(BenchmarkId::new(operation, name), |bencher| {
                bencher.iter_custom(|times| time(&mut *line, times));
            });
        };
        add("enqueue", &line::time_enqueue);
        add("drain", &line::time_drain);
        for (operation, order) in [
            ("cancel_first_in", Order::FirstIn),
            ("cancel_last_in", Order::LastIn),
            ("cancel_random", Order::Random),
        ] {
            let places = order.places(WAITERS);
            add(operation, &|line, times| {
                line::time_cancel(line, &places, times)
            });
        }
    }
    let mut group = criterion.benchmark_group("semaphore_10000_waiters");
    group.throughput(Throughput::Elements(WAITERS as u64));
    of(&mut group, Ours::NAME, line::boxed::<Ours>(WAITERS));
    of(&mut group, Tokio::NAME, line::boxed::<Tokio>(WAITERS));
    of(
        &mut group,
        AsyncLock::NAME,
        line::boxed::<AsyncLock>(WAITERS),
    );
    of(
        &mut group,
        Intrusive::NAME,
        line::boxed::<Intrusive>(WAITERS),
    );
    of(
        &mut group,
        Asyncband::NAME,
        line::boxed::<Asyncband>(WAITERS),
    );
    of(&mut group, "tower", line::tower(WAITERS));
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600));
    targets = ready_paths, waiters
}
criterion_main!(benches);
