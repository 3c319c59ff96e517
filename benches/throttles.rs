//! `cargo bench -p tollgate-bench --bench throttles`: criterion's groups,
//! `group/operation/contender`, of the other throttles, the channels that they stand on, and what
//! is made of throttles.
//!
//! The same operations as in the table of ratios, for who wants criterion's statistics or its
//! comparison with the run before. Contenders run one after the other here, so compare them in the
//! table of ratios, where they take turns.

use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use tollgate::{ChannelSemaphore, CondvarSemaphore, Pool};
use tollgate_bench::composed;
use tollgate_bench::line::{self, WAITERS};
use tollgate_bench::peer::{
    BlockingPeer, BusyAsyncChannel, BusyFlume, IdleAsyncChannel, IdleFlume, IdleQueue, Ours, Peer,
    SyncChannel, TryPeer,
};
use tollgate_bench::{condvar, ready};

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
    fn tried<P: TryPeer>(group: &mut Group<'_>) {
        work(group, "try_acquire", P::NAME, ready::try_acquire::<P>());
    }
    fn awaited<P: Peer>(group: &mut Group<'_>) {
        tried::<P>(group);
        work(group, "acquire", P::NAME, ready::acquire::<P>());
    }
    fn waited<P: BlockingPeer>(group: &mut Group<'_>) {
        tried::<P>(group);
        work(group, "wait", P::NAME, ready::wait::<P>());
    }
    let mut group = criterion.benchmark_group("throttles");
    awaited::<Pool<()>>(&mut group);
    awaited::<Pool<Vec<u8>>>(&mut group);
    awaited::<ChannelSemaphore>(&mut group);
    awaited::<IdleAsyncChannel>(&mut group);
    awaited::<BusyAsyncChannel>(&mut group);
    awaited::<IdleFlume>(&mut group);
    awaited::<BusyFlume>(&mut group);
    awaited::<Ours>(&mut group);
    tried::<IdleQueue>(&mut group);
    waited::<CondvarSemaphore>(&mut group);
    waited::<condvar::CondvarSemaphore>(&mut group);
    waited::<SyncChannel>(&mut group);
    group.finish();
}

fn compositions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("compositions");
    let mut add = |operation, name, batch: Box<dyn FnMut(u64)>| {
        work(&mut group, operation, name, batch);
    };
    add("try_two", "all", Box::new(composed::try_all_of_two()));
    add("try_two", "by hand", Box::new(composed::try_two_by_hand()));
    add("two", "all", Box::new(composed::all_of_two()));
    add("two", "by hand", Box::new(composed::two_by_hand()));
    add("three", "all", Box::new(composed::all_of_three()));
    add("three", "by hand", Box::new(composed::three_by_hand()));
    add("boxed", "BoxThrottle", Box::new(composed::enter_boxed()));
    add("cost", "Cost", Box::new(composed::enter_with_cost()));
    group.finish();
}

fn waiters(criterion: &mut Criterion) {
    fn of<P: Peer>(group: &mut Group<'_>) {
        let mut line = line::boxed::<P>(WAITERS);
        line::warm(&mut *line);
        group.bench_function(BenchmarkId::new("enqueue_drain", P::NAME), |bencher| {
            bencher.iter_custom(|times| line::time_both(&mut *line, times));
        });
    }
    let mut group = criterion.benchmark_group("throttles_10000_waiters");
    group.throughput(Throughput::Elements(WAITERS as u64));
    of::<Pool<()>>(&mut group);
    of::<ChannelSemaphore>(&mut group);
    of::<IdleAsyncChannel>(&mut group);
    of::<BusyAsyncChannel>(&mut group);
    of::<Ours>(&mut group);
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600));
    targets = ready_paths, compositions, waiters
}
criterion_main!(benches);
