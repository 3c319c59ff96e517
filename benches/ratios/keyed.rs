//! Decisions by key that allow, beside governor's default for keys: its own map, with its own hasher.

use tollgate::{Keyed, RateLimiter};
use tollgate_bench::harness::{Contender, Entry, Row};
use tollgate_bench::keyed::{self, BenchKey, GovernorKeyed, KeyedLimiter, Spread};

use crate::contended::{THREADS, abreast};
use crate::ready::timed;

const ALONE: usize = 1;

/// What we are held to, in all but a few rows.
const TARGET: f64 = 0.80;

fn contender<K: BenchKey, L: KeyedLimiter<K>>(
    threads: usize,
    keys: usize,
    spread: Spread,
) -> Contender {
    let work = keyed::allowed::<K, L>(keys, spread);
    if threads == 1 {
        timed(L::NAME, work)
    } else {
        abreast(threads, L::NAME, work)
    }
}

fn row<K: BenchKey>(threads: usize, keys: usize, spread: Spread) -> Row {
    Row::of(contender::<K, Keyed<K, RateLimiter>>(threads, keys, spread)).at_most(
        TARGET,
        contender::<K, GovernorKeyed<K>>(threads, keys, spread),
    )
}

macro_rules! rows {
    ($($threads:ident $prefix:literal { $($name:literal $key:ty, $keys:literal;)* })*) => {
        pub(crate) const ENTRIES: &[Entry] = &[$($(
            (concat!($prefix, $name, ", uniform"), || {
                row::<$key>($threads, $keys, Spread::Uniform)
            }),
            (concat!($prefix, $name, ", zipf"), || row::<$key>($threads, $keys, Spread::Zipf)),
        )*)*];
    };
}

rows! {
    ALONE "keyed: " {
        "1k u64" u64, 1_000;
        "100k u64" u64, 100_000;
        "1M u64" u64, 1_000_000;
        "1k String" String, 1_000;
        "100k String" String, 100_000;
        "1M String" String, 1_000_000;
    }
    THREADS "two threads, keyed: " {
        "1k u64" u64, 1_000;
        "100k u64" u64, 100_000;
        "1M u64" u64, 1_000_000;
        "1k String" String, 1_000;
        "100k String" String, 100_000;
        "1M String" String, 1_000_000;
    }
}
