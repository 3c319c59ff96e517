//! What the relaxed approach costs a request: a check of a gate, and a record.
//!
//! Records and keyed decisions go round a thousand keys, in an order that a processor does not foresee.
//! Nobody makes passes meanwhile, so after the first round every key has its place, as most of them have
//! between two passes; a row of its own has none.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tollgate::{Gate, Quota};
use tollgate_detector::Detector;

use crate::keyed::KeyedLimiter;

/// Keys that come again and again.
const KEYS: u64 = 1000;

/// What one would write by hand, if it were opened and shut by hand as well.
#[derive(Clone)]
pub struct Flag(Arc<AtomicBool>);

impl Flag {
    /// Lets through.
    #[must_use]
    pub fn open() -> Flag {
        Flag(Arc::new(AtomicBool::new(true)))
    }

    /// One relaxed load and a branch.
    ///
    /// # Errors
    ///
    /// When it is shut.
    #[inline(always)]
    #[expect(clippy::result_unit_err, reason = "there is nothing to be said")]
    pub fn check(&self) -> Result<(), ()> {
        if self.0.load(Ordering::Relaxed) {
            Ok(())
        } else {
            Err(())
        }
    }
}

/// The flag.
pub fn flag_check() -> impl Fn(u64) + Send + Sync + 'static {
    let flag = Flag::open();
    move |times| {
        for _ in 0..times {
            let answer = black_box(&flag).check();
            assert!(black_box(&answer).is_ok(), "it is open");
        }
    }
}

/// The gate, open.
pub fn gate_check() -> impl Fn(u64) + Send + Sync + 'static {
    let gate = Gate::new();
    move |times| {
        for _ in 0..times {
            let answer = black_box(&gate).check();
            assert!(black_box(&answer).is_ok(), "it is open");
        }
    }
}

/// The same, and the caller only branches: the answer goes nowhere.
pub fn flag_branch() -> impl Fn(u64) + Send + Sync + 'static {
    let flag = Flag::open();
    move |times| {
        for _ in 0..times {
            assert!(black_box(&flag).check().is_ok(), "it is open");
        }
    }
}

/// The gate, in the same way.
pub fn gate_branch() -> impl Fn(u64) + Send + Sync + 'static {
    let gate = Gate::new();
    move |times| {
        for _ in 0..times {
            assert!(black_box(&gate).check().is_ok(), "it is open");
        }
    }
}

/// Which key comes next.
fn next(key: &mut u64) -> u64 {
    *key = key
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*key >> 33) % KEYS
}

/// A record of a key that has its place.
pub fn record() -> impl Fn(u64) + Send + Sync + 'static {
    let detector = Detector::new(Quota::per_hour(1_000_000));
    move |times| {
        let mut key = 0;
        for _ in 0..times {
            black_box(&detector).record(&next(&mut key));
        }
    }
}

/// A record that is lost, as there is no room for its key.
pub fn record_lost() -> impl Fn(u64) + Send + Sync + 'static {
    let detector = Detector::new(Quota::per_hour(1_000_000)).buffer(1);
    detector.record(&KEYS);
    move |times| {
        let mut key = 0;
        for _ in 0..times {
            black_box(&detector).record(&next(&mut key));
        }
    }
}

/// A check by key, while one of a thousand is shut out.
pub fn check_by_key() -> impl Fn(u64) + Send + Sync + 'static {
    let detector = Detector::new(Quota::per_hour(1_000_000));
    detector
        .gate(&KEYS)
        .block_for(std::time::Duration::from_secs(3600));
    let gates: Vec<_> = (0..KEYS).map(|key| detector.gate(&key)).collect();
    move |times| {
        let _held = &gates;
        let mut key = 0;
        for _ in 0..times {
            let answer = black_box(&detector).check(&next(&mut key));
            assert!(black_box(&answer).is_ok(), "only another one is shut out");
        }
    }
}

/// A decision for a key.
pub fn decision<L: KeyedLimiter<u64>>() -> impl Fn(u64) + Send + Sync + 'static {
    let limiter = L::with_keys(KEYS as usize);
    move |times| {
        let mut key = 0;
        for _ in 0..times {
            let key = next(&mut key);
            assert!(black_box(&limiter).try_take(&key), "there is plenty");
        }
    }
}
