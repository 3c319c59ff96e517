//! The detector: bytes for so many callers, beside a limiter for each.
//!
//! Everybody calls once, and every thousand calls what was recorded is counted.

use std::sync::Arc;

use stats_alloc::Region;
use tollgate::{Gate, Quota};
use tollgate_bench::harness::{Options, Table};
use tollgate_bench::keyed::{GovernorKeyed, KeyedLimiter};
use tollgate_detector::Detector;

use crate::rates::held;
use crate::{COUNTING, calls};

/// What ours is held to: bytes of one that counts 1024 callers, with two processors' tables.
const DETECTOR: usize = 400_000;

/// Bytes, and allocations since the first thousand.
struct Asked {
    bytes: usize,
    warm: usize,
}

fn ours(callers: u64) -> Asked {
    let region = Region::new(COUNTING);
    let detector = Detector::new(Quota::per_hour(1_000_000));
    detector.pass();
    let warm = Region::new(COUNTING);
    for caller in 0..callers {
        detector.record(&caller);
        if caller % 1_000 == 999 {
            detector.pass();
        }
    }
    let warm = calls(&warm.change());
    Asked {
        bytes: held(&region),
        warm,
    }
}

fn governor(callers: u64) -> Asked {
    let region = Region::new(COUNTING);
    let limiter = GovernorKeyed::<u64>::with_keys(0);
    let warm = Region::new(COUNTING);
    for caller in 0..callers {
        assert!(limiter.try_take(&caller), "the first may go");
    }
    let warm = calls(&warm.change());
    Asked {
        bytes: held(&region),
        warm,
    }
}

/// Bytes of a gate that somebody has.
fn gate() -> usize {
    const GATES: u64 = 10_000;
    let detector = Arc::new(Detector::new(Quota::per_hour(1_000_000)));
    detector.pass();
    let mut gates: Vec<Gate> = Vec::with_capacity(GATES as usize);
    let region = Region::new(COUNTING);
    gates.extend((0..GATES).map(|key| detector.gate(&key)));
    held(&region) / GATES as usize
}

/// Prints the table; whether ours keeps within its limits.
pub(crate) fn table(options: &Options) -> bool {
    let mut table = Table::new(&[
        "callers",
        "tollgate Detector, bytes",
        "allocations, warm",
        "governor, keyed, bytes",
        "allocations",
    ]);
    let mut kept = true;
    for callers in [1_000, 100_000, 1_000_000] {
        let (ours, theirs) = (ours(callers), governor(callers));
        kept &= ours.bytes <= DETECTOR && ours.warm == 0;
        table.push(vec![
            callers.to_string(),
            ours.bytes.to_string(),
            ours.warm.to_string(),
            theirs.bytes.to_string(),
            theirs.warm.to_string(),
        ]);
    }
    table.print(options.markdown);
    println!(
        "tollgate: a detector <= {DETECTOR} bytes, 0 allocations once warm: {}; a gate that somebody has, {} bytes",
        if kept { "PASS" } else { "MISS" },
        gate()
    );
    kept
}
