//! Choose an algorithm: keep the default, unless a provider counts your calls differently.
//!
//! The default, [`Gcra`](crate::Algorithm::Gcra), spaces calls most evenly, which is easiest on the service
//! behind it, in one word of memory. Give the [`Quota`](crate::Quota) a
//! [burst](crate::Quota::burst) if calls come in groups. `N` is the count of the quota, `T` its period.
//!
//! | You need | Choose |
//! |---|---|
//! | even load on a database, an API, your own service | [`Gcra`](crate::Algorithm::Gcra) |
//! | a provider's limit: 10,000 in any 24 hours, or in a calendar day (a limit for any day also holds for theirs) | [`SlidingLog`](crate::Algorithm::SlidingLog); in one word of memory, [`SubInterval`](crate::Algorithm::SubInterval), or `Gcra` with a burst of `b` and a count of `N - b` |
//! | credits that come in batches and accumulate: a thousand on the hour | [`TokenBucket`](crate::Algorithm::TokenBucket) |
//! | a documented "N in each window", if twice that number across a boundary does no harm | [`FixedWindow`](crate::Algorithm::FixedWindow) |
//! | about `N` in any `T` for a very large `N` | [`SlidingWindow`](crate::Algorithm::SlidingWindow) |
//! | a bounded queue in front of a slow service | [`LeakyBucket`](crate::LeakyBucket), a type of its own |
//! | the same [for each tenant](super::per_tenant_limits) | one that fits into a word: `Gcra`, `TokenBucket`, `FixedWindow`, `SubInterval` |
//!
//! ```toml
//! [dependencies]
//! tollgate = { path = "../tollgate" }
//! ```
//!
//! ```
//! use std::time::Duration;
//!
//! use tollgate::{Algorithm, Clock, Quota, RateLimiter};
//!
//! /// Admits ten a second, just before a full second, at it, 0.5 s and 1 s later.
//! fn admitted(algorithm: Algorithm, burst: u64) -> [usize; 4] {
//!     let clock = Clock::manual();
//!     let limiter = RateLimiter::new(Quota::per_second(10).burst(burst))
//!         .algorithm(algorithm)
//!         .clock(&clock);
//!     [999, 1, 500, 500].map(|milliseconds| {
//!         clock.advance(Duration::from_millis(milliseconds));
//!         (0..100).filter(|_| limiter.try_acquire().is_ok()).count()
//!     })
//! }
//!
//! fn main() {
//!     assert_eq!(admitted(Algorithm::Gcra, 1), [1, 0, 1, 1]);
//!     assert_eq!(admitted(Algorithm::Gcra, 10), [10, 0, 5, 5]);
//!     assert_eq!(admitted(Algorithm::TokenBucket, 20), [20, 10, 0, 10]);
//!     assert_eq!(admitted(Algorithm::FixedWindow, 1), [10, 10, 0, 10]);
//!     assert_eq!(admitted(Algorithm::SlidingWindow, 1), [10, 0, 5, 5]);
//!     assert_eq!(admitted(Algorithm::SlidingLog, 1), [10, 0, 0, 10]);
//!     assert_eq!(admitted(Algorithm::SubInterval { parts: 4 }, 1), [2, 2, 2, 2]);
//! }
//! ```
//!
//! # The same calls with each
//!
//! All have a quota of 10 a second. Calls come in a burst at the end of a second, in another at the
//! beginning of the next, at five times the rate for two seconds, not at all, and then forty at once. The
//! pale area is the number of calls admitted in the last second, as an observer counts them.
//!
//! <div style="overflow-x: auto">
#![doc = include_str!("../../docs/algorithms.svg")]
//! </div>
//!
//! # Traps
//!
//! - A burst comes on top of the rate: `per_hour(30).burst(30)` admits 30 at once and one each two minutes after that,
//!   so up to 60 in an hour. For at most 30 in any hour use `per_hour(15).burst(15)`, a burst of `b` and a count of
//!   `N - b`, or a `SlidingLog`.
//! - `per_second(50)` without a burst is one call each 20 ms with `Gcra`. Windows and logs have their whole
//!   count as the burst.
//! - Windows begin at multiples of their length since the first use of the clock. They are not aligned
//!   with the calendar or with a provider's windows, so either may count up to `2N` of your calls, unless the limiter
//!   begins [within such a window](super::reset_at_midnight).
//! - The state is in memory: a new process has its whole quota. For long periods, store the
//!   [state](crate::RateLimiter::state) and [restore](crate::RateLimiter::restore) it, or [keep the limit on a
//!   server](super::share_a_limit).
//! - [`Algorithm`](crate::Algorithm) documents the bound, the memory and the source of each algorithm, and the quotas
//!   that it refuses.
