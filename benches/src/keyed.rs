//! Measures decisions of limiters by key, with different distributions of keys; and the cost of the relaxed approach
//! per request: a check of a gate, and a record.
//!
//! Every key exists before the measurement. The cap is the default one, of 100,000 keys, or the number of keys, if
//! that is larger. The quota is never exhausted, so the measurement covers the path to the key's state, and the
//! decision. The keys of the calls are contiguous in memory, as if each had just been read from a request: the time
//! to determine the key is not included.

use std::hash::Hash;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tollgate::{Gate, Keyed, Quota, RateLimiter};
use tollgate_detector::Detector;

use crate::harness::{Row, Shared, alone, together};
use crate::rates::PLENTY;
use crate::{repeat, rows};

/// The limit for our ratio, in all rows except a few.
const TARGET: f64 = 0.80;

/// Decisions by key that allow, next to governor's default for keys: its own map, with its own hasher.
#[must_use]
pub fn rows() -> Vec<Row> {
    fn row<K: BenchKey>(threads: &str, name: &str, keys: usize, spread: Spread) -> Row {
        let ours = move || allowed::<K, Keyed<K, RateLimiter>>(keys, spread);
        let theirs = move || allowed::<K, GovernorKeyed<K>>(keys, spread);
        let contenders = match threads {
            "" => [
                alone("tollgate", ours),
                alone("governor", theirs).at_most(TARGET),
            ],
            _ => [
                together("tollgate", ours),
                together("governor", theirs).at_most(TARGET),
            ],
        };
        let spread = format!("{spread:?}").to_lowercase();
        Row::new(
            format!("{threads}keyed: {name} {}, {spread}", K::NAME),
            contenders,
        )
    }
    let mut rows = Vec::new();
    for threads in ["", "two threads, "] {
        for of in [row::<u64>, row::<String>] {
            for (name, keys) in [("1k", 1_000), ("100k", 100_000), ("1M", 1_000_000)] {
                rows.extend([Spread::Uniform, Spread::Zipf].map(|it| of(threads, name, keys, it)));
            }
        }
    }
    rows
}

/// The number of calls in an order, after which it begins again.
const CALLS: usize = 1 << 20;

/// A key that can be made from a number.
pub trait BenchKey: Clone + Eq + Hash + Send + Sync + 'static {
    /// The name in the table.
    const NAME: &'static str;

    /// Returns the key of a number.
    fn of(number: u64) -> Self;
}

impl BenchKey for u64 {
    const NAME: &'static str = "u64";

    fn of(number: u64) -> u64 {
        number
    }
}

impl BenchKey for String {
    const NAME: &'static str = "String";

    fn of(number: u64) -> String {
        format!("user-{number:012}")
    }
}

/// The distribution of the requested keys.
#[derive(Clone, Copy, Debug)]
enum Spread {
    /// All keys are equally frequent.
    Uniform,
    /// The second key is half as frequent as the first, the third a third as frequent, and so on.
    Zipf,
}

/// A limiter by key.
pub trait KeyedLimiter<K>: Send + Sync + Sized + 'static {
    /// The name in the table.
    const NAME: &'static str;

    /// Creates a limiter with room for `keys` keys, and plenty for each.
    fn with_keys(keys: usize) -> Self;

    /// Returns whether the key is admitted.
    fn try_take(&self, key: &K) -> bool;
}

impl<K: BenchKey> KeyedLimiter<K> for Keyed<K, RateLimiter> {
    const NAME: &'static str = "tollgate";

    fn with_keys(keys: usize) -> Self {
        let quota = Quota::per_second(u64::from(PLENTY.count)).burst(u64::from(PLENTY.burst));
        Keyed::<K, _>::rate_limiters(quota).max_keys(keys.max(100_000))
    }

    #[inline(always)]
    fn try_take(&self, key: &K) -> bool {
        black_box(self.key(key).try_acquire()).is_ok()
    }
}

/// governor's default for keys: a `DashMap` with its default hasher.
pub type GovernorKeyed<K> = governor::DefaultKeyedRateLimiter<K>;

impl<K: BenchKey> KeyedLimiter<K> for GovernorKeyed<K> {
    const NAME: &'static str = "governor";

    fn with_keys(_keys: usize) -> Self {
        Self::keyed(crate::peer::governor_quota(PLENTY))
    }

    #[inline(always)]
    fn try_take(&self, key: &K) -> bool {
        black_box(self.check_key(key)).is_ok()
    }
}

/// A sequence of pseudorandom numbers.
struct Lots(u64);

impl Lots {
    fn next(&mut self) -> u64 {
        // splitmix64, by Sebastiano Vigna.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number from 0 to below 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Returns the order in which keys are requested.
fn order(keys: usize, spread: Spread) -> Vec<u32> {
    let mut lots = Lots(7);
    let sums: Vec<f64> = (1..=keys)
        .scan(0.0, |sum, rank| {
            *sum += 1.0 / rank as f64;
            Some(*sum)
        })
        .collect();
    let whole = sums.last().copied().unwrap_or(0.0);
    let draw = |_| match spread {
        Spread::Uniform => (lots.fraction() * keys as f64) as u32,
        Spread::Zipf => {
            let at = lots.fraction() * whole;
            sums.partition_point(|sum| *sum < at) as u32
        }
    };
    (0..CALLS).map(draw).collect()
}

/// Measures allowed decisions by many keys. Threads begin at different places of the order.
fn allowed<K: BenchKey, L: KeyedLimiter<K>>(keys: usize, spread: Spread) -> Shared {
    let limiter = L::with_keys(keys);
    for key in 0..keys as u64 {
        assert!(limiter.try_take(&K::of(key)), "there is plenty");
    }
    let order = order(keys, spread).into_iter();
    let calls: Vec<K> = order.map(|key| K::of(key.into())).collect();
    let place = AtomicUsize::new(0);
    Box::new(move |times| {
        let from = place.fetch_add(CALLS / 8 + 1, Ordering::Relaxed);
        for time in 0..times as usize {
            let key = black_box(&calls[(from + time) % CALLS]);
            assert!(black_box(&limiter).try_take(key), "there is plenty");
        }
    })
}

/// The number of keys that are requested repeatedly.
const KEYS: u64 = 1000;

/// A hand-written gate that is also opened and shut by hand.
#[derive(Clone)]
struct Flag(Arc<AtomicBool>);

impl Flag {
    /// Creates an open flag.
    fn open() -> Flag {
        Flag(Arc::new(AtomicBool::new(true)))
    }

    /// Executes one relaxed load and a branch.
    #[inline(always)]
    fn check(&self) -> Result<(), ()> {
        if self.0.load(Ordering::Relaxed) {
            Ok(())
        } else {
            Err(())
        }
    }
}

/// The cost of a gate and a detector per request, on one thread and on two. A record is next to a decision for
/// each key.
///
/// Records and keyed decisions cycle through a thousand keys, in an order that a processor does not predict. No
/// passes run meanwhile, so after the first round every key has its place, as most keys have between two passes. A
/// separate row has keys without a place.
/// of its own has none.
#[must_use]
pub fn gates() -> Vec<Row> {
    type Ours = Keyed<u64, RateLimiter>;
    type Theirs = GovernorKeyed<u64>;
    rows! {
        alone "gate: check, open"
            {"tollgate" => gate_check, "Arc<AtomicBool> by hand": 1.3 => flag_check};
        alone "gate: check, open, and a branch"
            {"tollgate" => gate_branch, "Arc<AtomicBool> by hand": 1.3 => flag_branch};
        together "two threads, gate: check, open"
            {"tollgate" => gate_check, "Arc<AtomicBool> by hand": 1.3 => flag_check};
        alone "gate: record"
            {"tollgate" => record, "tollgate, keyed": 1.5 => decision::<Ours>,
             "governor, keyed" => decision::<Theirs>};
        alone "gate: record, lost"
            {"tollgate" => record_lost, "tollgate, keyed": 1.5 => decision::<Ours>,
             "governor, keyed" => decision::<Theirs>};
        alone "gate: check by key, one shut out"
            {"tollgate" => check_by_key, "tollgate, keyed": 1.5 => decision::<Ours>,
             "governor, keyed" => decision::<Theirs>};
        together "two threads, gate: record"
            {"tollgate" => record, "tollgate, keyed": 1.5 => decision::<Ours>,
             "governor, keyed" => decision::<Theirs>};
        together "two threads, gate: record, lost"
            {"tollgate" => record_lost, "tollgate, keyed": 1.5 => decision::<Ours>,
             "governor, keyed" => decision::<Theirs>};
        together "two threads, gate: check by key, one shut out"
            {"tollgate" => check_by_key, "tollgate, keyed": 1.5 => decision::<Ours>,
             "governor, keyed" => decision::<Theirs>};
    }
}

/// Checks the flag.
fn flag_check() -> Shared {
    repeat!(Flag::open(), |flag| {
        let answer = flag.check();
        assert!(black_box(&answer).is_ok(), "it is open");
    })
}

/// Checks the gate, which is open.
fn gate_check() -> Shared {
    repeat!(Gate::new(), |gate| {
        let answer = gate.check();
        assert!(black_box(&answer).is_ok(), "it is open");
    })
}

/// Checks the flag, and the caller only branches: the answer is not stored.
fn flag_branch() -> Shared {
    repeat!(Flag::open(), |flag| assert!(
        flag.check().is_ok(),
        "it is open"
    ))
}

/// Checks the gate in the same way.
fn gate_branch() -> Shared {
    repeat!(Gate::new(), |gate| assert!(
        gate.check().is_ok(),
        "it is open"
    ))
}

/// Returns the next key.
fn next(key: &mut u64) -> u64 {
    *key = key
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*key >> 33) % KEYS
}

/// Records a key that has its place.
fn record() -> Shared {
    let detector = Detector::new(Quota::per_hour(1_000_000));
    Box::new(move |times| {
        let mut key = 0;
        for _ in 0..times {
            black_box(&detector).record(&next(&mut key));
        }
    })
}

/// Loses a record, because there is no room for its key.
fn record_lost() -> Shared {
    let detector = Detector::new(Quota::per_hour(1_000_000)).buffer(1);
    detector.record(&KEYS);
    Box::new(move |times| {
        let mut key = 0;
        for _ in 0..times {
            black_box(&detector).record(&next(&mut key));
        }
    })
}

/// Checks by key, while one of a thousand is blocked.
fn check_by_key() -> Shared {
    let detector = Detector::new(Quota::per_hour(1_000_000));
    detector.gate(&KEYS).block_for(Duration::from_secs(3600));
    let gates: Vec<_> = (0..KEYS).map(|key| detector.gate(&key)).collect();
    Box::new(move |times| {
        let _held = &gates;
        let mut key = 0;
        for _ in 0..times {
            let answer = black_box(&detector).check(&next(&mut key));
            assert!(black_box(&answer).is_ok(), "only another one is shut out");
        }
    })
}

/// Decides for a key.
fn decision<L: KeyedLimiter<u64>>() -> Shared {
    let limiter = L::with_keys(KEYS as usize);
    Box::new(move |times| {
        let mut key = 0;
        for _ in 0..times {
            let key = next(&mut key);
            assert!(black_box(&limiter).try_take(&key), "there is plenty");
        }
    })
}
