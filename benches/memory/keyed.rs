//! Limiters by key: bytes of a key on the heap, when the map is full, and under the default cap.

use stats_alloc::Region;
use tollgate::{Keyed, Quota, RateLimiter};
use tollgate_bench::harness::{Options, Spread, Table};
use tollgate_bench::keyed::{BenchKey, GovernorKeyed, KeyedLimiter};

use crate::COUNTING;

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
    Spread::of((0..3).map(|_| bytes::<K, L>(keys)).collect()).median
}

/// Bytes a key, without what keys themselves have on the heap: that is the same for both.
fn bytes<K: BenchKey, L: KeyedLimiter<K>>(keys: usize) -> f64 {
    assert!(L::with_keys(1).try_take(&K::of(0)), "there is plenty");
    let on_heap = {
        let region = Region::new(COUNTING);
        let all: Vec<K> = (0..keys as u64).map(|key| K::of(key).clone()).collect();
        let change = region.change();
        let held = change.bytes_allocated - change.bytes_deallocated;
        held - all.capacity() * size_of::<K>()
    };
    let region = Region::new(COUNTING);
    let limiter = L::with_keys(keys);
    for key in 0..keys as u64 {
        assert!(limiter.try_take(&K::of(key)), "there is plenty");
    }
    let change = region.change();
    let held = change.bytes_allocated - change.bytes_deallocated;
    (held - on_heap) as f64 / keys as f64
}

/// The table; whether few keys take no more than they should.
pub(crate) fn table(options: &Options) -> bool {
    let mut table = Table::new(&["keys", "tollgate", "governor"]);
    let few = settled::<u64, Uncapped>(1_000);
    let mut row = |name: String, [ours, theirs]: [f64; 2]| {
        table.push(vec![name, format!("{ours:.1}"), format!("{theirs:.1}")]);
    };
    row(
        "1000 u64, default cap".into(),
        [few, settled::<u64, GovernorKeyed<u64>>(1_000)],
    );
    for keys in KEYS {
        row(
            format!("{keys} u64"),
            [
                settled::<u64, Keyed<u64, RateLimiter>>(keys),
                settled::<u64, GovernorKeyed<u64>>(keys),
            ],
        );
        row(
            format!("{keys} String"),
            [
                settled::<String, Keyed<String, RateLimiter>>(keys),
                settled::<String, GovernorKeyed<String>>(keys),
            ],
        );
    }
    table.print(options.markdown);
    let missed = few > FEW;
    println!(
        "tollgate: 1000 keys under the default cap take at most {FEW} bytes each: {}",
        if missed { "MISS" } else { "PASS" }
    );
    !missed
}
