//! Limiters by key: bytes of a key on the heap, when the map is full, and under the default cap. The detector: bytes for so
//! many callers, beside a limiter for each.

use std::sync::Arc;

use stats_alloc::Region;
use tollgate::{Gate, Keyed, Quota, RateLimiter};
use tollgate_bench::cells;
use tollgate_bench::harness::{Options, Spread, Table};
use tollgate_bench::keyed::{BenchKey, GovernorKeyed, KeyedLimiter};
use tollgate_detector::Detector;

use crate::{COUNTING, calls, held, print};

const KEYS: [usize; 3] = [1_000, 100_000, 1_000_000];

/// What we are held to for a thousand keys under the default cap.
const FEW: f64 = 80.0;

/// A map with the default cap, however many keys are meant to come.
struct Uncapped(Keyed<u64, RateLimiter>);

impl KeyedLimiter<u64> for Uncapped {
    const NAME: &'static str = "tollgate, default cap";

    fn with_keys(_keys: usize) -> Self {
        Self(Keyed::rate_limiters(Quota::per_hour(10).burst(10)))
    }

    fn try_take(&self, key: &u64) -> bool {
        self.0.key(key).try_acquire().is_ok()
    }
}

/// The one in the middle of three: somebody else may free something meanwhile.
fn settled<K: BenchKey, L: KeyedLimiter<K>>(keys: usize) -> f64 {
    Spread::of((0..3).map(|_| bytes::<K, L>(keys))).median
}

/// Bytes a key, without what keys themselves have on the heap: that is the same for both.
fn bytes<K: BenchKey, L: KeyedLimiter<K>>(keys: usize) -> f64 {
    assert!(L::with_keys(1).try_take(&K::of(0)), "there is plenty");
    let on_heap = {
        let region = Region::new(COUNTING);
        let all: Vec<K> = (0..keys as u64).map(|key| K::of(key).clone()).collect();
        held(&region) - all.capacity() * size_of::<K>()
    };
    let region = Region::new(COUNTING);
    let limiter = L::with_keys(keys);
    for key in 0..keys as u64 {
        assert!(limiter.try_take(&K::of(key)), "there is plenty");
    }
    (held(&region) - on_heap) as f64 / keys as f64
}

/// The table; whether few keys take no more than they should.
pub(crate) fn keys(options: &Options) -> bool {
    let mut table = Table::new(&["keys", "tollgate", "governor"]);
    let few = settled::<u64, Uncapped>(1_000);
    let mut row = |name: String, ours: f64, theirs: f64| {
        table.push(cells![name, format!("{ours:.1}"), format!("{theirs:.1}")]);
    };
    let theirs = settled::<u64, GovernorKeyed<u64>>(1_000);
    row("1000 u64, default cap".into(), few, theirs);
    for keys in KEYS {
        let ours = settled::<u64, Keyed<u64, RateLimiter>>(keys);
        row(
            format!("{keys} u64"),
            ours,
            settled::<u64, GovernorKeyed<u64>>(keys),
        );
        let ours = settled::<String, Keyed<String, RateLimiter>>(keys);
        row(
            format!("{keys} String"),
            ours,
            settled::<String, GovernorKeyed<String>>(keys),
        );
    }
    table.print(options.markdown);
    let claim = format!("1000 keys under the default cap take at most {FEW} bytes each");
    print(&claim, few <= FEW)
}

/// What ours is held to: bytes of one that counts 1024 callers, with two processors' tables.
const DETECTOR: usize = 400_000;

/// Bytes of ours, and allocations since the first thousand. Everybody calls once, and every thousand calls what was
/// recorded is counted.
fn ours(callers: u64) -> [usize; 2] {
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
    let warm = calls(&warm);
    [held(&region), warm]
}

fn governor(callers: u64) -> [usize; 2] {
    let region = Region::new(COUNTING);
    let limiter = GovernorKeyed::<u64>::with_keys(0);
    let warm = Region::new(COUNTING);
    for caller in 0..callers {
        assert!(limiter.try_take(&caller), "the first may go");
    }
    let warm = calls(&warm);
    [held(&region), warm]
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
pub(crate) fn detector(options: &Options) -> bool {
    let mut table = Table::new(&[
        "callers",
        "tollgate Detector, bytes",
        "allocations, warm",
        "governor, keyed, bytes",
        "allocations",
    ]);
    let mut kept = true;
    for callers in [1_000, 100_000, 1_000_000] {
        let ([bytes, warm], theirs) = (ours(callers), governor(callers));
        kept &= bytes <= DETECTOR && warm == 0;
        table.push(cells![callers, bytes, warm, theirs[0], theirs[1]]);
    }
    table.print(options.markdown);
    println!("a gate that somebody has: {} bytes", gate());
    print(
        &format!("a detector <= {DETECTOR} bytes, 0 allocations once warm"),
        kept,
    )
}
