//! `cargo bench -p tollgate-bench --bench worst_case`: the tail under 10 and 50 threads, lock against lock-free.
//!
//! Every operation is timed by itself and goes into a histogram; the result is the end of the tail. With more threads
//! than cores a thread is now and then preempted in the middle of an operation, for milliseconds. Under a mutex all
//! other threads then wait for it; on a lock-free path none does.
//!
//! - `try_acquire + drop`: a permit for every thread, so no thread waits for a permit: only the
//!   lock is in the way.
//! - `wait`: four permits and a blocking wait, and the holder yields its core, so that a queue forms. The wait is what
//!   is timed. It includes the turns of all waiters ahead, so the middle differs between a fair queue and an unfair
//!   one: a semaphore that lets newcomers pass is fast in the middle and slow at the end.
//!
//! The contenders take turns over several rounds, and their histograms are added up. Every figure includes two readings
//! of the clock, about 40 ns. The maximum is mostly the scheduler's: a thread that is preempted between two readings of
//! the clock. The 99.99th percentile tells the contenders apart.
//!
//! The rows of `crowd` are the longest single calls while a million waiters are released; those of `log` are corrections
//! of a long log.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use async_lock::Semaphore as AsyncLock;
use futures_intrusive::sync::Semaphore as Intrusive;
use hdrhistogram::Histogram;
use tokio::sync::Semaphore as Tokio;
use tollgate_bench::floor::CondvarSemaphore;
use tollgate_bench::harness::{Options, Table};
use tollgate_bench::peer::{BlockingPeer, Ours, TryPeer};

mod crowd;
mod log;

const THREADS: [usize; 2] = [10, 50];
/// Permits of the waiting operation.
const PERMITS: usize = 4;
/// Timed operations of all threads together, in one round.
const TRIES: usize = 2_000_000;
const WAITS: usize = 200_000;
const ROUNDS: usize = 5;

/// The number of threads and of operations of each; all latencies are in nanoseconds.
type Hammer = Box<dyn Fn(usize, usize) -> Histogram<u64>>;

fn main() {
    let options = Options::from_args();
    let (rounds, share) = options.choose([(1, 100), (2, 4), (ROUNDS, 1)]);
    let mut table = Table::new(
        "operation | contender | threads | count | p50 ns | p99 ns | p99.9 ns | p99.99 ns | max ns",
    );
    for threads in THREADS {
        let tries = vec![
            of(threads, tried::<Ours>),
            of(threads, tried::<CondvarSemaphore>),
            of(threads, tried::<Tokio>),
            of(threads, tried::<AsyncLock>),
            of(threads, tried::<Intrusive>),
        ];
        let waits = vec![
            of(PERMITS, waited::<Ours>),
            of(PERMITS, waited::<CondvarSemaphore>),
            of(PERMITS, waited::<Tokio>),
            of(PERMITS, waited::<AsyncLock>),
        ];
        for (operation, count, contenders) in [
            ("try_acquire + drop", TRIES / share, tries),
            ("wait, limit 4", WAITS / share, waits),
        ] {
            if !options.wants(operation) {
                continue;
            }
            let mut sums: Vec<Histogram<u64>> = contenders.iter().map(|_| histogram()).collect();
            for _ in 0..rounds {
                for ((name, hammer), sum) in contenders.iter().zip(&mut sums) {
                    eprintln!("measuring: {operation}, {name}, {threads} threads");
                    let took = hammer(threads, count / threads);
                    sum.add(took).expect("the same bounds");
                }
            }
            for ((name, _), sum) in contenders.iter().zip(&sums) {
                let tail =
                    [0.5, 0.99, 0.999, 0.9999].map(|at| sum.value_at_quantile(at).to_string());
                let (count, tail, max) = (sum.len(), tail.join(" | "), sum.max());
                table.push(format!(
                    "{operation} | {name} | {threads} | {count} | {tail} | {max}"
                ));
            }
        }
    }
    eprintln!();
    table.print(options.markdown);
    crowd::print(&options);
    log::print(&options);
}

/// Returns a contender with this many permits, and a function that times its operation.
fn of<P: TryPeer>(permits: usize, operation: fn(&P) -> Duration) -> (&'static str, Hammer) {
    let semaphore = P::with_permits(permits);
    let hammer = move |threads, count| hammer(threads, count, || operation(&semaphore));
    (P::NAME, Box::new(hammer))
}

fn tried<P: TryPeer>(semaphore: &P) -> Duration {
    let start = Instant::now();
    // A peer may refuse although there is room; a refusal is an operation as well.
    drop(black_box(black_box(semaphore).try_acquire()));
    start.elapsed()
}

fn waited<P: BlockingPeer>(semaphore: &P) -> Duration {
    let start = Instant::now();
    let held = semaphore.wait();
    let took = start.elapsed();
    thread::yield_now();
    drop(held);
    took
}

/// Starts the threads together; each runs `operation` again and again and records the time that it
/// returns.
fn hammer(threads: usize, count: usize, operation: impl Fn() -> Duration + Sync) -> Histogram<u64> {
    let line_up = Barrier::new(threads);
    let mut sum = histogram();
    thread::scope(|scope| {
        let runners: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut own = histogram();
                    line_up.wait();
                    for _ in 0..count {
                        let took = operation();
                        own.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
                    }
                    own
                })
            })
            .collect();
        for runner in runners {
            sum.add(runner.join().expect("it ran through"))
                .expect("the same bounds");
        }
    });
    sum
}

/// From a nanosecond to a minute, to one part in a hundred.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("sound bounds")
}
