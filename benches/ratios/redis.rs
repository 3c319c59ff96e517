//! A limit on a server, beside redis-rs with the plainest script: the extra cost of a decision, and
//! the savings of shared calls and prefetch.
//!
//! The figures are differences and counts, not only ratios of times, so they have a table of their
//! own.

use std::process::Command;
use std::time::{Duration, Instant};

use redis_on_loopback::Server;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tollgate_bench::harness::{Options, Spread, Targets};
use tollgate_bench::redis::{Plainest, plenty, runtime};
use tollgate_redis::{RateLimiter, Source};

/// Runs the measurements and returns whether every target was met.
pub(crate) fn run(options: &Options) -> bool {
    type Measure = fn(&Runtime, &mut Targets);
    let all: [(&str, Measure); 3] = [
        ("redis: one decision", one_decision),
        ("redis: a hot key, 256 tasks", hot_key),
        ("redis: taken ahead", taken_ahead),
    ];
    let wanted = all.into_iter().filter(|(name, _)| options.wants(name));
    let wanted: Vec<_> = wanted.collect();
    if wanted.is_empty() {
        return true;
    }
    if Command::new("redis-server")
        .arg("--version")
        .output()
        .is_err()
    {
        println!("redis-server is not installed: its rows are missing");
        return !options.check;
    }
    let runtime = runtime();
    let mut targets = Targets::of("operation");
    for (name, measure) in wanted {
        eprintln!("measuring: {name}");
        measure(&runtime, &mut targets);
    }
    eprintln!();
    println!();
    targets.print(options.markdown)
}

/// Returns the median, in microseconds.
fn middle(times: Vec<Duration>) -> f64 {
    Spread::of(times.iter().map(|time| time.as_nanos() as f64 / 1e3)).median
}

fn one_decision(runtime: &Runtime, targets: &mut Targets) {
    let server = Server::start();
    let decide = async move {
        let limiter = RateLimiter::new(&server.store(), "ours", plenty());
        let mut plainest = Plainest::new(&server, plenty()).await;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..20_000 {
            let start = Instant::now();
            limiter.acquire().await.expect("there is plenty");
            let between = Instant::now();
            assert!(plainest.decide().await, "there is plenty");
            ours.push(between - start);
            theirs.push(between.elapsed());
        }
        (middle(ours), middle(theirs))
    };
    // In a task, as in a real program.
    let (ours, theirs) = runtime
        .block_on(runtime.spawn(decide))
        .expect("it ran through");
    targets.at_most(
        "redis: one decision, µs more at the median",
        ours - theirs,
        5.0,
        &format!("{ours:.1} beside {theirs:.1} of redis-rs with the plainest script"),
    );
}

/// Returns the decisions per second of 256 tasks, each with this many in sequence.
async fn rate<D>(times: u64, decide: impl Fn() -> D) -> f64
where
    D: Future<Output = ()> + Send + 'static,
{
    let start = Instant::now();
    let tasks: JoinSet<()> = (0..256).map(|_| decide()).collect();
    tasks.join_all().await;
    (256 * times) as f64 / start.elapsed().as_secs_f64()
}

/// Does the same as [`rate`], for a limiter.
async fn limited_rate(limiter: &RateLimiter, times: u64) -> f64 {
    let decide = || {
        let limiter = limiter.clone();
        async move {
            for _ in 0..times {
                limiter.acquire().await.expect("there is plenty");
            }
        }
    };
    rate(times, decide).await
}

fn hot_key(runtime: &Runtime, targets: &mut Targets) {
    let server = Server::start();
    runtime.block_on(async {
        let store = server.store();
        let limiter = RateLimiter::new(&store, "ours", plenty());
        let alone = RateLimiter::new(&store, "alone", plenty()).coalesce(false);
        let plainest = Plainest::new(&server, plenty()).await;
        let (mut ratios, mut apart, mut ours, mut theirs) = (Vec::new(), Vec::new(), 0.0, 0.0);
        for _ in 0..5 {
            theirs = rate(200, || {
                let mut plainest = plainest.clone();
                async move {
                    for _ in 0..200 {
                        assert!(plainest.decide().await, "there is plenty");
                    }
                }
            })
            .await;
            ours = limited_rate(&limiter, 2000).await;
            ratios.push(ours / theirs);
            apart.push(ours / limited_rate(&alone, 20).await);
        }
        targets.at_least(
            "redis: a hot key, 256 tasks, times as many",
            Spread::of(ratios).median,
            10.0,
            &format!(
                "{ours:.0} a second, coalesced, beside {theirs:.0} of redis-rs, which pipelines"
            ),
        );
        targets.at_least(
            "redis: a hot key, 256 tasks, of the same without coalescing",
            Spread::of(apart).median,
            10.0,
            "one call at a time, for one caller",
        );
    });
}

/// Returns the nanoseconds of a decision while enough is held, and of one in the process.
async fn time_ahead(server: &Server) -> (f64, f64) {
    let limiter = RateLimiter::new(&server.store(), "time", plenty())
        .prefetch(400_000, Duration::from_secs(60));
    let local = tollgate::RateLimiter::new(plenty());
    while limiter.acquire().await.expect("there is plenty").source() != Source::TokenCache {}
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..200 {
        let start = Instant::now();
        for _ in 0..1000 {
            limiter.acquire().await.expect("there is plenty");
        }
        let between = Instant::now();
        for _ in 0..1000 {
            local.acquire().await.expect("there is plenty");
        }
        ours.push(between - start);
        theirs.push(between.elapsed());
    }
    (middle(ours), middle(theirs))
}

fn taken_ahead(runtime: &Runtime, targets: &mut Targets) {
    let server = Server::start();
    let (ours, theirs) = runtime.block_on(time_ahead(&server));
    targets.at_most(
        "redis: taken ahead, of a decision in the process",
        ours / theirs,
        2.0,
        &format!("{ours:.1} ns beside {theirs:.1}, both awaited"),
    );
}
