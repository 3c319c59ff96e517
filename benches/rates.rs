//! `cargo bench -p tollgate-bench --bench rates`: criterion's groups,
//! `rate/decision/operation/contender`, of the rate limiters.
//!
//! The same operations as in the table of ratios, for who wants criterion's statistics or its
//! comparison with the run before. Contenders run one after the other here, so compare them in the
//! table of ratios, where they take turns.

use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use ratelimit::Ratelimiter;
use throttle_net::Throttle as ThrottleNet;
use tollgate_bench::floor::Reading;
use tollgate_bench::peer::{
    Governor, LeakyBucket, OurLimiter, SharedRateLimit, TryLimiter, UpkeptGovernor, WaitLimiter,
};
use tollgate_bench::rates;

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

fn decisions(criterion: &mut Criterion) {
    fn of<L: TryLimiter>(group: &mut Group<'_>) {
        work(group, "allowed", L::NAME, rates::allowed::<L>());
        work(group, "denied", L::NAME, rates::denied::<L>());
    }
    fn floor<C: Reading>(group: &mut Group<'_>) {
        work(group, "allowed", C::NAME, rates::allowed_floor::<C>());
        work(group, "denied", C::NAME, rates::denied_floor::<C>());
    }
    let mut group = criterion.benchmark_group("rate/decision");
    of::<OurLimiter>(&mut group);
    of::<Governor>(&mut group);
    of::<UpkeptGovernor>(&mut group);
    of::<Ratelimiter>(&mut group);
    of::<LeakyBucket>(&mut group);
    of::<ThrottleNet>(&mut group);
    work(
        &mut group,
        "allowed",
        "tower RateLimit",
        rates::tower_allowed(),
    );
    work(
        &mut group,
        "denied",
        "tower RateLimit",
        rates::tower_denied(),
    );
    floor::<quanta::Clock>(&mut group);
    floor::<Instant>(&mut group);
    group.finish();
}

fn ready(criterion: &mut Criterion) {
    fn of<L: WaitLimiter>(group: &mut Group<'_>) {
        work(group, "ready", L::NAME, rates::ready::<L>());
    }
    let mut group = criterion.benchmark_group("rate/acquire");
    of::<OurLimiter>(&mut group);
    of::<Governor>(&mut group);
    of::<LeakyBucket>(&mut group);
    of::<ThrottleNet>(&mut group);
    of::<SharedRateLimit>(&mut group);
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600));
    targets = decisions, ready
}
criterion_main!(benches);
