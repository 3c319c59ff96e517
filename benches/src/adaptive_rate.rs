//! What an adaptive rate costs above the rate limiter that it owns, while nothing is refused.
//!
//! Neither is exhausted: both are replaced after fewer calls than their burst, which is the largest
//! that an adaptive rate can have.

use std::hint::black_box;

use futures::executor::block_on;
use tollgate::adaptive::AdaptiveRate;
use tollgate::{Quota, RateLimiter};

const BURST: u64 = 250_000;

fn adaptive() -> AdaptiveRate {
    AdaptiveRate::new().limits(1e6..=1e6).burst(BURST)
}

fn bare() -> RateLimiter {
    RateLimiter::new(Quota::per_second(1_000_000).burst(BURST))
}

/// Runs as many of the times with each new limiter as it has burst for.
fn renewed<L: 'static>(make: fn() -> L, run: fn(&L, u64)) -> impl FnMut(u64) + 'static {
    move |mut times| {
        while times > 0 {
            let now = times.min(BURST);
            run(&make(), now);
            times -= now;
        }
    }
}

/// `try_acquire` and drop of an adaptive rate.
pub fn try_acquire() -> impl FnMut(u64) + 'static {
    renewed(adaptive, |rate, times| {
        for _ in 0..times {
            let permit = black_box(rate).try_acquire();
            assert!(black_box(permit).is_ok(), "there is plenty");
        }
    })
}

/// `try_acquire` of a rate limiter.
pub fn bare_try_acquire() -> impl FnMut(u64) + 'static {
    renewed(bare, |rate, times| {
        for _ in 0..times {
            let charge = black_box(rate).try_acquire();
            assert!(black_box(charge).is_ok(), "there is plenty");
        }
    })
}

/// `acquire().await` and drop of an adaptive rate.
pub fn acquire() -> impl FnMut(u64) + 'static {
    renewed(adaptive, |rate, times| {
        block_on(async {
            for _ in 0..times {
                drop(black_box(black_box(rate).acquire().await));
            }
        });
    })
}

/// `acquire().await` of a rate limiter.
pub fn bare_acquire() -> impl FnMut(u64) + 'static {
    renewed(bare, |rate, times| {
        block_on(async {
            for _ in 0..times {
                drop(black_box(black_box(rate).acquire().await));
            }
        });
    })
}
