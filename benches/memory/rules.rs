//! The rules: bytes of a limiter of 10,000 a day.

use stats_alloc::Region;
use tollgate::{Algorithm, Quota, RateLimiter};
use tollgate_bench::harness::{Options, Table};

use crate::COUNTING;
use crate::rates::held;

const QUOTA: Quota = Quota::per_day(10_000);

/// What ours is held to, beside the places of a log: what every limiter has, and what it has for who needs its lock.
const BESIDE: usize = 768;

/// Bytes, with the limiter itself, when it has decided once.
fn bytes(algorithm: Algorithm) -> usize {
    drop(RateLimiter::new(QUOTA).try_acquire());
    let region = Region::new(COUNTING);
    let limiter = RateLimiter::new(QUOTA).algorithm(algorithm);
    assert!(limiter.try_acquire().is_ok(), "the first may go");
    held(&region) + size_of::<RateLimiter>()
}

/// Prints the table; whether ours keeps within its limits.
pub(crate) fn table(options: &Options) -> bool {
    let mut table = Table::new(&["10,000 a day", "bytes", "of them places"]);
    let mut kept = true;
    for &algorithm in Algorithm::all() {
        // All but the log take as much for any count.
        let place = if algorithm == Algorithm::SlidingLog {
            8
        } else {
            0
        };
        let (bytes, places) = (bytes(algorithm), 10_000 * place);
        kept &= bytes <= places + BESIDE;
        table.push(vec![
            algorithm.to_string(),
            bytes.to_string(),
            places.to_string(),
        ]);
    }
    table.print(options.markdown);
    println!(
        "tollgate: at most {BESIDE} bytes beside the places: {}",
        if kept { "PASS" } else { "MISS" }
    );
    kept
}
