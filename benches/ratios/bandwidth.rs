//! The bandwidth that streams keep, beside async-speed-limit: how far it is off, the processor time,
//! what a lower limit lets through, and what larger bursts give beside busy loops. Real time, so
//! `--quick` measures for two seconds in place of ten.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use async_speed_limit::Limiter;
use async_speed_limit::clock::StandardClock;
use tollgate::{Quota, RateLimiter};
use tollgate_bench::bytes::{Bandwidth, Limits, OnTokioTime, Starved, bandwidth, lowered, starved};
use tollgate_bench::harness::{Options, Table};

const NAME: &str = "bandwidth";
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

/// Measures what is wanted of it and prints it; whether no target was missed.
pub(crate) fn run(options: &Options) -> bool {
    if !options.wants(NAME) {
        return true;
    }
    let duration = match options.rounds {
        1 => Duration::from_millis(20),
        2..=10 => Duration::from_secs(2),
        _ => Duration::from_secs(10),
    };
    println!(
        "bandwidth: off the rate, processor time, and what came in the first 100 ms, in ms of the rate; a measurement takes {duration:?}"
    );
    println!();
    let mut table = Table::new(&[
        "rate",
        "streams",
        "contender",
        "off by %",
        "CPU %",
        "first 100 ms",
        "verdict",
    ]);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut kept = true;
    for (rate, streams) in PLANS {
        let mut push = |name: &str, figure: Bandwidth, target: bool| {
            let within = figure.error.abs() <= ERROR && (streams < 1000 || figure.cpu <= CPU);
            kept &= within || !target;
            table.push(vec![
                format!("{} MB/s", rate / MB),
                streams.to_string(),
                name.to_owned(),
                format!("{:+.2}", 100.0 * figure.error),
                format!("{:.1}", 100.0 * figure.cpu),
                format!("{:.0}", figure.start),
                match (target, within) {
                    (false, _) => "",
                    (true, true) => "PASS",
                    (true, false) => "MISS",
                }
                .to_owned(),
            ]);
        };
        eprintln!(
            "measuring: bandwidth, {} MB/s, {streams} streams",
            rate / MB
        );
        let ours = runtime.block_on(bandwidth::<Arc<RateLimiter>>(rate, streams, duration));
        push(<Arc<RateLimiter>>::NAME, ours, true);
        let on_tokio = runtime.block_on(bandwidth::<OnTokioTime>(rate, streams, duration));
        push(OnTokioTime::NAME, on_tokio, false);
        let peer = runtime.block_on(bandwidth::<Limiter<StandardClock>>(rate, streams, duration));
        push(<Limiter<StandardClock>>::NAME, peer, false);
    }
    table.print(options.markdown);
    println!();

    let mut table = Table::new(&["10 MB/s to 1 MB/s", "old rate for ms", "target", "verdict"]);
    let ours = runtime.block_on(lowered::<Arc<RateLimiter>>(10 * MB, MB));
    let peer = runtime.block_on(lowered::<Limiter<StandardClock>>(10 * MB, MB));
    kept &= ours <= LOWERED;
    let verdict = if ours <= LOWERED { "PASS" } else { "MISS" };
    let rows = [
        (
            <Arc<RateLimiter>>::NAME,
            ours,
            format!("<= {LOWERED}"),
            verdict,
        ),
        (<Limiter<StandardClock>>::NAME, peer, String::new(), ""),
    ];
    for (name, figure, target, verdict) in rows {
        let figure = format!("{figure:.1}");
        table.push(vec![name.to_owned(), figure, target, verdict.to_owned()]);
    }
    table.print(options.markdown);
    println!();

    let busy = BUSY * available_parallelism().map_or(1, usize::from);
    let heading = format!("4 MB/s, 64 streams, {busy} busy loops");
    let mut table = Table::new(&[heading.as_str(), "of the rate", "above it by"]);
    let mut push = |name: String, figure: Starved| {
        table.push(vec![
            name,
            format!("{:.2}", figure.kept),
            format!("{:.2} s", figure.above),
        ]);
    };
    for burst in BURSTS {
        let quota = Quota::bytes_per_second(4 * MB).burst(4 * MB / 1000 * burst);
        let limiter = Arc::new(RateLimiter::new(quota));
        // What comes is to be the rate, and not the burst at the start.
        let spent = limiter.try_acquire_many(quota.max_burst());
        spent.expect("the burst of a new limiter");
        let figure = runtime.block_on(starved(limiter, 4 * MB, 64, busy, duration));
        push(format!("tollgate, burst of {burst} ms"), figure);
    }
    let peer = <Limiter<StandardClock> as Limits>::new(4 * MB);
    let figure = runtime.block_on(starved(peer, 4 * MB, 64, busy, duration));
    push(<Limiter<StandardClock>>::NAME.to_owned(), figure);
    table.print(options.markdown);
    kept
}
