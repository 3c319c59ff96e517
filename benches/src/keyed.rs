//! Decisions of limiters by key: who is asked for, and in which order.
//!
//! Every key is there before anything is measured. The cap is the default one, of 100,000 keys, or as
//! many keys as there are, if those are more. The quota is one that is never exhausted, so what is
//! measured is the way to the key's state, and the decision. The keys of the calls lie in a row, as if
//! each had just been read from a request: how long it takes to find out who is asked for is no part
//! of it.

use std::hash::Hash;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

use tollgate::{Keyed, Quota, RateLimiter};

use crate::rates::PLENTY;

/// How many calls there are in an order, after which it begins again.
const CALLS: usize = 1 << 20;

/// A key: something that is made of a number.
pub trait BenchKey: Clone + Eq + Hash + Send + Sync + 'static {
    /// What it is called in the table.
    const NAME: &'static str;

    /// The key of a number.
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

/// Which keys are asked for.
#[derive(Clone, Copy, Debug)]
pub enum Spread {
    /// All of them equally often.
    Uniform,
    /// The second half as often as the first, the third a third as often, and so on.
    Zipf,
}

/// A limiter by key.
pub trait KeyedLimiter<K>: Send + Sync + Sized + 'static {
    /// What it is called in the table.
    const NAME: &'static str;

    /// With room for so many keys, and plenty for each.
    fn with_keys(keys: usize) -> Self;

    /// Whether the key may go on.
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

/// governor's default for keys: a `DashMap` with the hasher that it has by default.
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

/// So many numbers, one after the other, that look as if drawn by lot.
struct Lots(u64);

impl Lots {
    fn next(&mut self) -> u64 {
        // splitmix64, by Sebastiano Vigna.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// From 0 to below 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// In which order keys are asked for.
pub fn order(keys: usize, spread: Spread) -> Vec<u32> {
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

/// Decisions that allow, by many keys. Threads begin at different places of the order.
///
/// # Panics
///
/// When a key has no place.
pub fn allowed<K: BenchKey, L: KeyedLimiter<K>>(
    keys: usize,
    spread: Spread,
) -> impl Fn(u64) + Send + Sync + 'static {
    let limiter = L::with_keys(keys);
    for key in 0..keys as u64 {
        assert!(limiter.try_take(&K::of(key)), "there is plenty");
    }
    let order = order(keys, spread).into_iter();
    let calls: Vec<K> = order.map(|key| K::of(key.into())).collect();
    let place = AtomicUsize::new(0);
    move |times| {
        let from = place.fetch_add(CALLS / 8 + 1, Ordering::Relaxed);
        for time in 0..times as usize {
            let key = black_box(&calls[(from + time) % CALLS]);
            assert!(black_box(&limiter).try_take(key), "there is plenty");
        }
    }
}
