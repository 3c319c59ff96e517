//! What calls of many tokens and corrections cost in a sliding log, beside the default algorithm.
//!
//! A client keeps 20 calls of 4,000 tokens in flight. Each step settles one for half of its tokens, and begins another
//! one. The result is the median of each call over the steps, by the processor time of the thread.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Duration;

use tollgate::{Algorithm, Clock, Quota, RateLimiter};
use tollgate_bench::harness::{Options, Stopwatch, Table};

const TOKENS: u64 = 4_000;

/// Prints the times of the calls, for logs of some sizes.
pub(crate) fn print(options: &Options) {
    if !options.wants("log") {
        return;
    }
    let steps = options.choose([21, 51, 201]);
    let mut table = Table::new("tokens | algorithm | acquire of 4,000 | hold | settle for 2,000");
    for count in [200_000, 2_000_000] {
        for algorithm in [Algorithm::SlidingLog, Algorithm::Gcra] {
            let medians = medians(algorithm, count, steps).map(|took| format!("{took:?}"));
            table.push(format!("{count} | {algorithm} | {}", medians.join(" | ")));
        }
    }
    table.print(options.markdown);
}

fn medians(algorithm: Algorithm, count: u64, steps: usize) -> [Duration; 3] {
    let clock = Clock::manual();
    let quota = Quota::per_minute(count).burst(count);
    let limiter = RateLimiter::new(quota).algorithm(algorithm).clock(&clock);
    let mut holds = VecDeque::new();
    let mut times = [(); 3].map(|()| Vec::new());
    for step in 0..steps + 20 {
        clock.advance(Duration::from_secs(2));
        let (charge, acquire) = timed(|| limiter.try_acquire_many(TOKENS).expect("there is room"));
        let (hold, held) = timed(|| limiter.hold(charge));
        holds.push_back(hold);
        if step >= 20 {
            let hold = holds.pop_front().expect("20 are in flight");
            let ((), settle) = timed(|| hold.settle(TOKENS / 2));
            for (times, took) in times.iter_mut().zip([acquire, held, settle]) {
                times.push(took);
            }
        }
    }
    times.map(|mut times| {
        times.sort();
        times[times.len() / 2]
    })
}

fn timed<R>(call: impl FnOnce() -> R) -> (R, Duration) {
    let watch = Stopwatch::now();
    let result = black_box(call());
    (result, watch.elapsed())
}
