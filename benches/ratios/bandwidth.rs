//! The bandwidth that streams keep, beside async-speed-limit: how far it is off, the processor time,
//! what a lower limit lets through, and what larger bursts give beside busy loops. Real time, so
//! `--quick` measures for two seconds in place of ten.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use async_speed_limit::Limiter;
use async_speed_limit::clock::StandardClock;
use tokio::runtime::Runtime;
use tollgate::{Clock, Quota, RateLimiter};
use tollgate_bench::bytes::{Bandwidth, Starved, bandwidth, lowered, starved};
use tollgate_bench::cells;
use tollgate_bench::harness::{Options, Table, Targets, verdict};

const MB: u64 = 1_000_000;

/// Bytes each second, and streams.
const PLANS: [(u64, usize); 7] = [
    (MB, 1),
    (10 * MB, 1),
    (100 * MB, 1),
    (MB, 64),
    (10 * MB, 64),
    (100 * MB, 64),
    (100 * MB, 1000),
];

/// How far off the rate may be.
const ERROR: f64 = 0.01;

/// What part of a processor 1,000 streams may take.
const CPU: f64 = 0.08;

/// Bursts of a limit beside busy loops, in milliseconds; the first is that of `Quota::bytes_per_second`.
const BURSTS: [u64; 4] = [80, 250, 1000, 4000];

/// Busy loops for each core.
const BUSY: usize = 30;

/// How long a stream may keep a rate that was lowered, in milliseconds.
const LOWERED: f64 = 20.0;

fn ours(rate: u64) -> RateLimiter {
    RateLimiter::new(Quota::bytes_per_second(rate))
}

fn peer(rate: u64) -> Limiter<StandardClock> {
    Limiter::new(rate as f64)
}

/// Measures what is wanted of it and prints it; whether no target was missed.
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
    let lowest = runtime.block_on(lowered(Arc::new(ours(10 * MB)), 10 * MB, MB));
    let theirs = runtime.block_on(lowered(peer(10 * MB), 10 * MB, MB));
    let beside = format!("async-speed-limit: {theirs:.1}");
    targets.at_most("tollgate", lowest, LOWERED, &beside);
    let is_lowered = targets.print(options.markdown);
    println!();

    beside_busy_loops(options, &runtime, duration);
    kept && is_lowered
}

/// How the streams of each plan keep their rate.
fn kept(options: &Options, runtime: &Runtime, duration: Duration) -> bool {
    let mut table = Table::new(&[
        "rate",
        "streams",
        "contender",
        "off by %",
        "CPU %",
        "first 100 ms",
        "verdict",
    ]);
    let mut kept = true;
    for (rate, streams) in PLANS {
        let megabytes = format!("{} MB/s", rate / MB);
        eprintln!("measuring: bandwidth, {megabytes}, {streams} streams");
        let mut push = |name: &str, figure: Bandwidth, is_held: bool| {
            let within = figure.error.abs() <= ERROR && (streams < 1000 || figure.cpu <= CPU);
            kept &= within || !is_held;
            table.push(cells![
                megabytes,
                streams,
                name,
                format!("{:+.2}", 100.0 * figure.error),
                format!("{:.1}", 100.0 * figure.cpu),
                format!("{:.0}", figure.start),
                if is_held { verdict(within) } else { "" },
            ]);
        };
        let limits = Arc::new(ours(rate));
        push(
            "tollgate",
            runtime.block_on(bandwidth(limits, rate, streams, duration)),
            true,
        );
        // On the timer of the runtime, in place of the timer thread of the process.
        let limits = Arc::new(ours(rate).clock(Clock::tokio()));
        let on_tokio = runtime.block_on(bandwidth(limits, rate, streams, duration));
        push("tollgate, Clock::tokio()", on_tokio, false);
        let theirs = runtime.block_on(bandwidth(peer(rate), rate, streams, duration));
        push("async-speed-limit", theirs, false);
    }
    table.print(options.markdown);
    kept
}

/// What larger bursts give beside busy loops.
fn beside_busy_loops(options: &Options, runtime: &Runtime, duration: Duration) {
    let busy = BUSY * available_parallelism().map_or(1, usize::from);
    let heading = format!("4 MB/s, 64 streams, {busy} busy loops");
    let mut table = Table::new(&[heading.as_str(), "of the rate", "above it by"]);
    let mut push = |name: &str, Starved { kept, above }: Starved| {
        table.push(cells![name, format!("{kept:.2}"), format!("{above:.2} s")]);
    };
    for burst in BURSTS {
        let quota = Quota::bytes_per_second(4 * MB).burst(4 * MB / 1000 * burst);
        let limiter = Arc::new(RateLimiter::new(quota));
        // What comes is to be the rate, and not the burst at the start.
        let spent = limiter.try_acquire_many(quota.max_burst());
        spent.expect("the burst of a new limiter");
        let figure = runtime.block_on(starved(limiter, 4 * MB, 64, busy, duration));
        push(&format!("tollgate, burst of {burst} ms"), figure);
    }
    let figure = runtime.block_on(starved(peer(4 * MB), 4 * MB, 64, busy, duration));
    push("async-speed-limit", figure);
    table.print(options.markdown);
}
