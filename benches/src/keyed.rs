//! Decisions of limiters by key, by key type and by access order; and the cost of the relaxed approach per request: a
//! check of a gate, and a record.
//!
//! Every key exists before the measurement. The cap is the default of 100,000 keys, or the number of
//! keys if that is larger. The quota is never exhausted, so the measurement covers the way to the
//! key's state, and the decision. The keys of the calls lie in a row, as if each had just been read
//! from a request: identifying the caller is not part of the measurement.

use std::hash::Hash;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use oorandom::Rand64;
use tollgate::{Gate, Keyed, Quota, RateLimiter};
use tollgate_detector::Detector;

use crate::harness::{Contender, Row, Shared, Stopwatch, Work, alone, made, together};
use crate::{repeat, rows};
use ready_paths::quotas::PLENTY;

/// The target in all but a few rows.
const TARGET: f64 = 0.80;

/// Returns all rows.
pub fn rows() -> Vec<Row> {
    gates().into_iter().chain(decisions()).collect()
}

/// Compares allowed decisions by key with governor's default for keys: its own map, with its own
/// hasher.
fn decisions() -> Vec<Row> {
    fn row<K: BenchKey>(threads: &str, name: &str, keys: usize, spread: Spread) -> Row {
        let ours = move || allowed::<K, Keyed<K, RateLimiter>>(keys, spread);
        let theirs = move || allowed::<K, GovernorKeyed<K>>(keys, spread);
        let contenders = match threads {
            "" => [alone("tollgate", ours), alone("governor", theirs)],
            _ => [together("tollgate", ours), together("governor", theirs)],
        };
        let spread = format!("{spread:?}").to_lowercase();
        let name = format!("{threads}keyed: {name} {}, {spread}", K::NAME);
        Row::new(name, contenders).held(1, TARGET)
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

/// The number of calls in an access order, after which it repeats.
const CALLS: usize = 1 << 20;

/// A key that is made from a number.
pub trait BenchKey: Clone + Eq + Hash + Send + Sync + 'static {
    /// Its name in the table.
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

/// The distribution of the keys.
#[derive(Clone, Copy, Debug)]
enum Spread {
    /// All equally often.
    Uniform,
    /// The second half as often as the first, the third a third as often, and so on.
    Zipf,
}

/// A limiter by key.
pub trait KeyedLimiter<K>: Send + Sync + Sized + 'static {
    /// Creates one with room for this many keys, and plenty for each.
    fn with_keys(keys: usize) -> Self;

    /// Returns whether the key is admitted.
    fn try_take(&self, key: &K) -> bool;
}

impl<K: BenchKey> KeyedLimiter<K> for Keyed<K, RateLimiter> {
    fn with_keys(keys: usize) -> Self {
        Keyed::<K, _>::rate_limiters(PLENTY).max_keys(keys.max(100_000))
    }

    #[inline(always)]
    fn try_take(&self, key: &K) -> bool {
        black_box(self.key(key).try_acquire()).is_ok()
    }
}

/// governor's default for keys: a `DashMap` with the hasher that it has by default.
pub type GovernorKeyed<K> = governor::DefaultKeyedRateLimiter<K>;

impl<K: BenchKey> KeyedLimiter<K> for GovernorKeyed<K> {
    fn with_keys(_keys: usize) -> Self {
        Self::keyed(crate::peer::governor_quota(PLENTY))
    }

    #[inline(always)]
    fn try_take(&self, key: &K) -> bool {
        black_box(self.check_key(key)).is_ok()
    }
}

/// Returns the access order of the keys.
fn order(keys: usize, spread: Spread) -> Vec<u32> {
    let mut random = Rand64::new(7);
    let add = |sum: &mut f64, rank| {
        *sum += 1.0 / rank as f64;
        Some(*sum)
    };
    let sums: Vec<f64> = (1..=keys).scan(0.0, add).collect();
    let whole = sums.last().copied().unwrap_or(0.0);
    let draw = |_| match spread {
        Spread::Uniform => (random.rand_float() * keys as f64) as u32,
        Spread::Zipf => {
            let at = random.rand_float() * whole;
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

/// Compares the first decisions of many keys: an empty map is filled, its growth included.
pub fn first_decisions() -> Vec<Row> {
    let row = |name: &str, keys| {
        let contenders = [
            filled::<Keyed<u64, RateLimiter>>("tollgate", keys),
            filled::<GovernorKeyed<u64>>("governor", keys),
        ];
        Row::new(format!("keyed: first decision of {name} keys"), contenders)
    };
    vec![
        row("1,000", 1_000),
        row("100,000", 100_000),
        row("1,000,000", 1_000_000),
    ]
}

fn filled<L: KeyedLimiter<u64>>(name: &str, keys: u64) -> Contender {
    let fill = move |_| {
        let limiter = L::with_keys(keys as usize);
        let watch = Stopwatch::now();
        for key in 0..keys {
            assert!(black_box(&limiter).try_take(&key), "there is plenty");
        }
        watch.elapsed()
    };
    let contender = made(name, move || Work::Timed {
        unit: keys,
        batch: Box::new(move |times| (0..times).map(fill).sum()),
    });
    contender.counted(keys)
}

/// The number of keys that come repeatedly.
const KEYS: u64 = 1000;

/// Measures the cost of a gate and of a detector per request, on one thread and on two. A record is compared with a
/// decision for each key.
///
/// Records and keyed decisions go round a thousand keys, in an order that a processor cannot predict. No pass runs
/// meanwhile, so after the first round every key has its slot, like most keys between two passes. A separate row
/// measures keys without a slot.
fn gates() -> Vec<Row> {
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

/// Checks a handwritten gate, opened and shut by hand as well: one relaxed load and a branch.
fn flag_check() -> Shared {
    repeat!(Arc::new(AtomicBool::new(true)), |flag| {
        let answer = flag.load(Ordering::Relaxed).then_some(()).ok_or(());
        assert!(black_box(&answer).is_ok(), "it is open");
    })
}

/// The gate, open.
fn gate_check() -> Shared {
    repeat!(Gate::new(), |gate| {
        let answer = gate.check();
        assert!(black_box(&answer).is_ok(), "it is open");
    })
}

/// The same, but the caller only branches: the result is discarded.
fn flag_branch() -> Shared {
    let flag = Arc::new(AtomicBool::new(true));
    repeat!(flag, |flag| assert!(
        flag.load(Ordering::Relaxed),
        "it is open"
    ))
}

/// The gate, in the same way.
fn gate_branch() -> Shared {
    repeat!(Gate::new(), |gate| assert!(
        gate.check().is_ok(),
        "it is open"
    ))
}

/// Goes round the keys, this many times.
fn round(call: impl Fn(u64) + Send + Sync + 'static) -> Shared {
    Box::new(move |times| {
        let mut key: u64 = 0;
        for _ in 0..times {
            let mixed = key.wrapping_mul(6_364_136_223_846_793_005);
            key = mixed.wrapping_add(1_442_695_040_888_963_407);
            call((key >> 33) % KEYS);
        }
    })
}

/// Records a key that has its slot.
fn record() -> Shared {
    let detector = Detector::new(Quota::per_hour(1_000_000));
    round(move |key| black_box(&detector).record(&key))
}

/// Makes a record that is lost, because there is no room for its key.
fn record_lost() -> Shared {
    let detector = Detector::new(Quota::per_hour(1_000_000)).buffer(1);
    detector.record(&KEYS);
    round(move |key| black_box(&detector).record(&key))
}

/// Checks by key, while one of a thousand is shut out.
fn check_by_key() -> Shared {
    let detector = Detector::new(Quota::per_hour(1_000_000));
    detector.gate(&KEYS).block_for(Duration::from_secs(3600));
    let gates: Vec<_> = (0..KEYS).map(|key| detector.gate(&key)).collect();
    round(move |key| {
        let (answer, _held) = (black_box(&detector).check(&key), &gates);
        assert!(black_box(&answer).is_ok(), "only another one is shut out");
    })
}

/// A decision for a key.
fn decision<L: KeyedLimiter<u64>>() -> Shared {
    let limiter = L::with_keys(KEYS as usize);
    round(move |key| assert!(black_box(&limiter).try_take(&key), "there is plenty"))
}
