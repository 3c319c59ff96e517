//! Decisions of handles that take a chunk ahead: each thread has its own.
//!
//! The answer is seen by `black_box`, and so is the handle before each call, as everywhere in these
//! benchmarks: so what is in hand is in memory, and not in a register; and to copy an answer takes
//! longer than to make it, so there is each decision [by reference](crate::rates) as well.

use std::hint::black_box;

use futures::executor::block_on;

use crate::peer::{Limiter, OurLimiter};
use crate::rates::{PLENTY, exhausted};

/// How much is taken ahead.
pub const CHUNK: u64 = 32;

/// A decision that allows. The handle is made and dropped once in a batch.
pub fn allowed() -> impl Fn(u64) + Send + Sync + 'static {
    let limiter = OurLimiter::with_rate(PLENTY);
    assert!(limiter.try_acquire().is_ok(), "there is plenty");
    move |times| {
        let mut local = limiter.local(CHUNK);
        for _ in 0..times {
            let answer = black_box(&mut local).try_acquire();
            assert!(black_box(answer).is_ok(), "there is plenty");
        }
    }
}

/// A decision that allows, and whose answer stays in its place.
pub fn allowed_by_reference() -> impl Fn(u64) + Send + Sync + 'static {
    let limiter = OurLimiter::with_rate(PLENTY);
    assert!(limiter.try_acquire().is_ok(), "there is plenty");
    move |times| {
        let mut local = limiter.local(CHUNK);
        for _ in 0..times {
            let answer = black_box(&mut local).try_acquire();
            assert!(black_box(&answer).is_ok(), "there is plenty");
        }
    }
}

/// A decision that refuses: there is nothing in hand, so the limiter is asked each time.
pub fn denied() -> impl Fn(u64) + Send + Sync + 'static {
    let limiter = exhausted::<OurLimiter>();
    move |times| {
        let mut local = limiter.local(CHUNK);
        for _ in 0..times {
            let answer = black_box(&mut local).try_acquire();
            assert!(black_box(answer).is_err(), "it is scarce");
        }
    }
}

/// A wait that ends when it is first polled.
pub fn ready() -> impl FnMut(u64) + 'static {
    let mut local = OurLimiter::with_rate(PLENTY).local(CHUNK);
    move |times| {
        block_on(async {
            for _ in 0..times {
                let waited = black_box(&mut local).acquire().await;
                assert!(black_box(waited).is_ok(), "there is plenty");
            }
        });
    }
}
