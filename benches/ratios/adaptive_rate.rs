//! An adaptive rate beside a rate limiter that is not.

use tollgate_bench::adaptive_rate;
use tollgate_bench::harness::{Entry, Row};

use crate::ready::timed;

pub(crate) const ENTRIES: &[Entry] = &[
    ("adaptive rate: decision allowed + drop", || {
        Row::of(timed("AdaptiveRate", adaptive_rate::try_acquire()))
            .beside(timed("RateLimiter", adaptive_rate::bare_try_acquire()))
    }),
    ("adaptive rate: acquire ready + drop", || {
        Row::of(timed("AdaptiveRate", adaptive_rate::acquire()))
            .beside(timed("RateLimiter", adaptive_rate::bare_acquire()))
    }),
];
