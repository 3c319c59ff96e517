//! `cargo bench -p tollgate-bench --bench clocks`: compares the clocks that limiters could read.
//!
//! - *reading*: the median over rounds in which the clocks take turns, in processor time of the
//!   thread.
//! - *first*: the first reading of the process, including the set-up. fastant and minstant set up
//!   before `main`, where this measurement misses it.
//! - *behind*: the most that one thread's reading was below one that another thread had already
//!   published.
//! - *off*: the drift from the standard library's clock, over some seconds.

use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_bench::harness::{Options, Spread, Stopwatch, Table};

/// A function that returns the nanoseconds since the first reading, or since another fixed moment.
type Read = fn() -> u64;

const CLOCKS: [(&str, Read); 5] = [
    ("std::time::Instant", standard),
    ("tollgate (quanta 0.13)", ours),
    ("quanta 0.12", by_quanta),
    ("fastant", by_fastant),
    ("minstant", by_minstant),
];

const READINGS: u32 = 10_000;
const RACED: usize = 2_000_000;

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("less than 584 years")
}

fn standard() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    nanos(START.get_or_init(Instant::now).elapsed())
}

fn ours() -> u64 {
    tollgate::Clock::system().now().as_nanos()
}

fn by_quanta() -> u64 {
    static START: OnceLock<quanta::Instant> = OnceLock::new();
    nanos(START.get_or_init(quanta::Instant::now).elapsed())
}

fn by_fastant() -> u64 {
    static ANCHOR: OnceLock<fastant::Anchor> = OnceLock::new();
    fastant::Instant::now().as_unix_nanos(ANCHOR.get_or_init(fastant::Anchor::new))
}

fn by_minstant() -> u64 {
    static ANCHOR: OnceLock<minstant::Anchor> = OnceLock::new();
    minstant::Instant::now().as_unix_nanos(ANCHOR.get_or_init(minstant::Anchor::new))
}

/// Returns the nanoseconds per reading of each clock.
fn readings(rounds: usize) -> Vec<f64> {
    let mut taken = vec![Vec::new(); CLOCKS.len()];
    for round in 0..rounds {
        for at in 0..CLOCKS.len() {
            let at = (at + round) % CLOCKS.len();
            let (_, read) = CLOCKS[at];
            let watch = Stopwatch::now();
            for _ in 0..READINGS {
                black_box(black_box(read)());
            }
            taken[at].push(watch.elapsed().as_nanos() as f64 / f64::from(READINGS));
        }
    }
    let medians = taken.into_iter().map(|taken| Spread::of(taken).median);
    medians.collect()
}

fn first(read: Read) -> Duration {
    let begun = Instant::now();
    black_box(read());
    begun.elapsed()
}

/// Returns the most that one of two threads was behind what the other had published.
fn behind(read: Read) -> u64 {
    let latest = AtomicU64::new(0);
    let race = || {
        let mut most = 0;
        for _ in 0..RACED {
            let before = latest.load(Ordering::Acquire);
            let now = read();
            most = most.max(before.saturating_sub(now));
            latest.fetch_max(now, Ordering::AcqRel);
        }
        most
    };
    thread::scope(|scope| {
        let other = scope.spawn(race);
        race().max(other.join().expect("it does not panic"))
    })
}

/// Returns a reading of the clock and one of the standard clock at the same time: of many attempts,
/// the pair whose readings were closest together.
fn beside_standard(read: Read) -> (i128, i128) {
    let attempts = (0..2000).map(|_| (standard(), read(), standard()));
    let closest = attempts.min_by_key(|(before, _, after)| after - before);
    let (before, shown, after) = closest.expect("there were some");
    (i128::from(shown), i128::from(before.midpoint(after)))
}

fn main() {
    let options = Options::from_args();
    let firsts = CLOCKS.map(|(_, read)| first(read));
    let began = CLOCKS.map(|(_, read)| beside_standard(read));
    // All clocks have to run for long, because their drift is small.
    let short = (10, Duration::from_millis(100));
    let (rounds, long) = options.choose([short, short, (400, Duration::from_secs(20))]);
    let begun = Instant::now();
    let readings = readings(rounds);
    let behind = CLOCKS.map(|(_, read)| behind(read));
    thread::sleep(long.saturating_sub(begun.elapsed()));

    let mut table = Table::new("clock | reading ns | first ms | behind ns | off ppm");
    for (at, (name, read)) in CLOCKS.into_iter().enumerate() {
        let (shown, truth) = beside_standard(read);
        let (shown, truth) = (shown - began[at].0, truth - began[at].1);
        let off = (shown - truth) as f64 / truth as f64 * 1e6;
        let (reading, first, behind) = (readings[at], firsts[at].as_secs_f64() * 1e3, behind[at]);
        table.push(format!(
            "{name} | {reading:.1} | {first:.3} | {behind} | {off:+.1}"
        ));
    }
    table.print(options.markdown);
}
