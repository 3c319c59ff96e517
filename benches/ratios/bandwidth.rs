//! The bandwidth of streams, beside async-speed-limit: its error, the processor time, the reaction
//! to a lower limit, and the benefit of larger bursts beside busy loops. Runs in real time, so
//! `--quick` measures for two seconds instead of ten.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, available_parallelism};
use std::time::{Duration, Instant};

use async_speed_limit::Limiter;
use async_speed_limit::clock::StandardClock;
use cpu_time::ProcessTime;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::runtime::Runtime;
use tollgate::{Clock, Quota, RateLimiter};
use tollgate_bench::bytes::{Blocks, LARGE};
use tollgate_bench::harness::{Options, Table, Targets, verdict};
use tollgate_io::ThrottleIoExt;

const MB: u64 = 1_000_000;

/// Bytes per second, and the number of streams.
const PLANS: [(u64, usize); 7] = [
    (MB, 1),
    (10 * MB, 1),
    (100 * MB, 1),
    (MB, 64),
    (10 * MB, 64),
    (100 * MB, 64),
    (100 * MB, 1000),
];

/// The greatest allowed error of the rate.
const ERROR: f64 = 0.01;

/// The fraction of a processor that 1,000 streams may use.
const CPU: f64 = 0.08;

/// Bursts of a limit beside busy loops, in milliseconds; the first is that of
/// `Quota::bytes_per_second`.
const BURSTS: [u64; 4] = [80, 250, 1000, 4000];

/// Busy loops per core.
const BUSY: usize = 30;

/// How long a stream may keep the old rate after a lower one was set, in milliseconds.
const LOWERED: f64 = 20.0;

fn ours(rate: u64) -> Arc<RateLimiter> {
    Arc::new(RateLimiter::new(Quota::bytes_per_second(rate)))
}

fn peer(rate: u64) -> Limiter<StandardClock> {
    Limiter::new(rate as f64)
}

/// Runs and prints the selected measurements, and returns whether every target was met.
pub(crate) fn run(options: &Options) -> bool {
    if !options.wants("bandwidth") {
        return true;
    }
    let seconds = [0.02, 2.0, 10.0].map(Duration::from_secs_f64);
    let duration = options.choose(seconds);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    println!(
        "bandwidth: off the rate, processor time, and what came in the first 100 ms, in ms of the rate; a measurement takes {duration:?}\n"
    );
    let kept = kept(options, &runtime, duration);
    println!();

    let mut targets = Targets::of("10 MB/s to 1 MB/s: old rate for ms");
    let lowest = runtime.block_on(lowered(ours(10 * MB), 10 * MB, MB));
    let theirs = runtime.block_on(lowered(peer(10 * MB), 10 * MB, MB));
    let beside = format!("async-speed-limit: {theirs:.1}");
    targets.at_most("tollgate", lowest, LOWERED, &beside);
    let is_lowered = targets.print(options.markdown);
    println!();

    beside_busy_loops(options, &runtime, duration);
    kept && is_lowered
}

/// Measures how the streams of each plan keep their rate.
fn kept(options: &Options, runtime: &Runtime, duration: Duration) -> bool {
    let mut table =
        Table::new("rate | streams | contender | off by % | CPU % | first 100 ms | verdict");
    let mut kept = true;
    for (rate, streams) in PLANS {
        let plan = format!("{} MB/s | {streams}", rate / MB);
        eprintln!("measuring: bandwidth, {plan} streams");
        let mut push = |name: &str, one: Bandwidth| {
            let within = one.error.abs() <= ERROR && (streams < 1000 || one.cpu <= CPU);
            let is_held = name == "tollgate";
            kept &= within || !is_held;
            let (off, cpu, start) = (100.0 * one.error, 100.0 * one.cpu, one.start);
            let verdict = if is_held { verdict(within) } else { "" };
            table.push(format!(
                "{plan} | {name} | {off:+.2} | {cpu:.1} | {start:.0} | {verdict}"
            ));
        };
        let limits = ours(rate);
        push(
            "tollgate",
            runtime.block_on(bandwidth(limits, rate, streams, duration)),
        );
        // On the runtime's timer, instead of the process's timer thread.
        let limits = RateLimiter::new(Quota::bytes_per_second(rate)).clock(Clock::tokio());
        let on_tokio = bandwidth(Arc::new(limits), rate, streams, duration);
        push("tollgate, Clock::tokio()", runtime.block_on(on_tokio));
        let theirs = runtime.block_on(bandwidth(peer(rate), rate, streams, duration));
        push("async-speed-limit", theirs);
    }
    table.print(options.markdown);
    kept
}

/// Measures the benefit of larger bursts beside busy loops.
fn beside_busy_loops(options: &Options, runtime: &Runtime, duration: Duration) {
    let busy = BUSY * available_parallelism().map_or(1, usize::from);
    let heading = format!("4 MB/s, 64 streams, {busy} busy loops | of the rate | above it by");
    let mut table = Table::new(&heading);
    let mut push = |name: &str, Starved { kept, above }: Starved| {
        table.push(format!("{name} | {kept:.2} | {above:.2} s"));
    };
    for burst in BURSTS {
        let quota = Quota::bytes_per_second(4 * MB).burst(4 * MB / 1000 * burst);
        let limiter = Arc::new(RateLimiter::new(quota));
        // The measurement is meant to show the rate, not the burst at the start.
        let spent = limiter.try_acquire_many(quota.max_burst());
        spent.expect("the burst of a new limiter");
        let figure = runtime.block_on(starved(limiter, 4 * MB, 64, busy, duration));
        push(&format!("tollgate, burst of {burst} ms"), figure);
    }
    let figure = runtime.block_on(starved(peer(4 * MB), 4 * MB, 64, busy, duration));
    push("async-speed-limit", figure);
    table.print(options.markdown);
}

/// How well some streams kept to a bandwidth.
struct Bandwidth {
    /// The delivered bytes relative to the allowed bytes; 0.01 is one per cent more.
    error: f64,
    /// Processor time of the process, relative to the time that passed on the clock.
    cpu: f64,
    /// The bytes that the streams delivered in their first 100 milliseconds, in milliseconds of the
    /// rate.
    start: f64,
}

/// A bandwidth limiter for streams.
trait Limits: Send + 'static {
    /// Sets another rate.
    fn set(&self, rate: u64);

    /// Returns a stream that shares the limit.
    fn limit(&self, blocks: Blocks) -> impl AsyncRead + Unpin + Send + 'static;
}

impl Limits for Arc<RateLimiter> {
    fn set(&self, rate: u64) {
        self.set_quota(Quota::bytes_per_second(rate));
    }

    fn limit(&self, blocks: Blocks) -> impl AsyncRead + Unpin + Send + 'static {
        blocks.throttled(Arc::clone(self))
    }
}

impl Limits for Limiter<StandardClock> {
    fn set(&self, rate: u64) {
        self.set_speed_limit(rate as f64);
    }

    fn limit(&self, blocks: Blocks) -> impl AsyncRead + Unpin + Send + 'static {
        self.clone().limit(blocks)
    }
}

/// Runs streams of `limits` and calls `measure` with the bytes that they have delivered so far.
async fn with_streams<L: Limits, R>(
    limits: &L,
    streams: usize,
    measure: impl AsyncFnOnce(&AtomicU64) -> R,
) -> R {
    let delivered = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..streams {
        let mut reader = limits.limit(Blocks::of(LARGE));
        let delivered = Arc::clone(&delivered);
        tasks.spawn(async move {
            let mut buffer = vec![0; LARGE];
            loop {
                let read = reader.read(&mut buffer).await.expect("blocks never fail");
                delivered.fetch_add(read as u64, Ordering::Relaxed);
            }
        });
    }
    let measured = measure(&delivered).await;
    tasks.shutdown().await;
    measured
}

/// Measures streams that share a limit of `rate` bytes per second, for `duration` after the start.
async fn bandwidth(
    limits: impl Limits,
    rate: u64,
    streams: usize,
    duration: Duration,
) -> Bandwidth {
    const START: Duration = Duration::from_millis(100);
    with_streams(&limits, streams, async |delivered| {
        tokio::time::sleep(START).await;
        let before = delivered.load(Ordering::Relaxed);
        let (clock, cpu) = (Instant::now(), ProcessTime::now());
        tokio::time::sleep(duration).await;
        let (passed, cpu) = (clock.elapsed().as_secs_f64(), cpu.elapsed().as_secs_f64());
        let moved = delivered.load(Ordering::Relaxed) - before;
        Bandwidth {
            error: moved as f64 / (rate as f64 * passed) - 1.0,
            cpu: cpu / passed,
            start: before as f64 / rate as f64 * 1e3,
        }
    })
    .await
}

/// Lowers the rate of one stream, and returns for how many milliseconds it kept the old rate: the bytes above the new
/// rate in the next half second, in milliseconds of the old rate.
async fn lowered(limits: impl Limits, old: u64, new: u64) -> f64 {
    with_streams(&limits, 1, async |delivered| {
        tokio::time::sleep(Duration::from_millis(500)).await;
        limits.set(new);
        let (clock, before) = (Instant::now(), delivered.load(Ordering::Relaxed));
        tokio::time::sleep(Duration::from_millis(500)).await;
        let moved = (delivered.load(Ordering::Relaxed) - before) as f64;
        (moved - new as f64 * clock.elapsed().as_secs_f64()) / old as f64 * 1e3
    })
    .await
}

/// How well some streams kept to a bandwidth beside busy loops.
struct Starved {
    /// The delivered fraction of the allowed bytes.
    kept: f64,
    /// The greatest excess over the rate in any time, in seconds of the rate.
    above: f64,
}

/// Measures streams that share a limit of `rate` bytes per second, while this many threads compute.
async fn starved(
    limits: impl Limits,
    rate: u64,
    streams: usize,
    busy: usize,
    duration: Duration,
) -> Starved {
    let over = Arc::new(AtomicBool::new(false));
    for _ in 0..busy {
        let over = Arc::clone(&over);
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
    }
    let start = Instant::now();
    // The lowest value so far of the delivered minus the allowed bytes, and the greatest rise above
    // it.
    let mut ahead = (f64::MAX, 0.0_f64);
    let kept = with_streams(&limits, streams, async |delivered| {
        let mut passed = 0.0;
        while passed < duration.as_secs_f64() {
            passed = start.elapsed().as_secs_f64();
            let moved = delivered.load(Ordering::Relaxed) as f64 / rate as f64;
            let lead = moved - passed;
            ahead = (ahead.0.min(lead), ahead.1.max(lead - ahead.0));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        delivered.load(Ordering::Relaxed) as f64 / rate as f64 / start.elapsed().as_secs_f64()
    })
    .await;
    over.store(true, Ordering::Relaxed);
    let above = ahead.1;
    Starved { kept, above }
}
