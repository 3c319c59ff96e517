//! From leaky-bucket (1.1.2) to [`RateLimiter`](crate::RateLimiter).
//!
//! | leaky-bucket | here |
//! |---|---|
//! | `RateLimiter::builder`, `Builder::build` | [`RateLimiter::new(quota)`](crate::RateLimiter::new), which is `const` |
//! | the defaults of the builder | `Quota::new(1, Duration::from_millis(100)).burst(10)`, and an empty bucket |
//! | builder: `refill(n)`, `interval(d)` | [`Quota::new(n, d)`](crate::Quota::new) |
//! | builder: `max(n)` | [`.burst(n)`](crate::Quota::burst) of the quota |
//! | builder: `initial(n)` | the whole burst is free at first; [`charge(burst - n)`](crate::RateLimiter::charge) takes the rest |
//! | builder: `fair(true)` | always |
//! | builder: `fair(false)` | – |
//! | `acquire_one()`, `acquire(n)` | [`acquire()`](crate::RateLimiter::acquire), [`acquire_many(n)`](crate::RateLimiter::acquire_many) |
//! | `acquire_owned(n)` | [`cost_owned(n)`](crate::RateLimiter::cost_owned)`.acquire()` |
//! | `try_acquire(n)` | [`try_acquire_many(n)`](crate::RateLimiter::try_acquire_many), whose error says [when](crate::AcquireError::retry_after) |
//! | `balance` | `available` of the [`snapshot`](crate::RateLimiter::snapshot), which counts what time has given until now |
//! | `refill`, `interval`, `max` | [`quota()`](crate::RateLimiter::quota) with [`count`](crate::Quota::count), [`period`](crate::Quota::period), [`max_burst`](crate::Quota::max_burst) |
//! | `is_fair`, `is_core` of `Acquire` and `AcquireOwned` | – |
//!
//! A [`LeakyBucket`](crate::LeakyBucket) of this crate is something else: a bounded queue that releases
//! one waiter at a time, without bursts.
//!
//! # What is different
//!
//! - **The bucket starts full**, and leaky-bucket's starts with 0 unless `initial` is set: its first
//!   calls wait for an interval.
//! - **Tokens come one by one**, each `interval / refill`, in place of `refill` at each interval. For
//!   batches, choose [`Algorithm::TokenBucket`](crate::Algorithm::TokenBucket), whose intervals are those
//!   of the clock and do not begin when it is made.
//! - **The burst is 1 by default**, and `max` is ten times the larger of `refill` and `initial`.
//! - **A request above the burst is refused**, with
//!   [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity). leaky-bucket hands it tokens as they come,
//!   until it has as many as it asked for. With
//!   [`Oversize::Overdraft`](crate::Oversize::Overdraft) it is admitted here, and what follows waits.
//! - **No waiter does the work of others.** In leaky-bucket one waiter, the core, sleeps for all. If its
//!   future is neither polled nor dropped, nobody proceeds; here a timer serves the queue.
//! - **Dropping a wait** gives back in both what it had been given. Here a waiter is charged nothing
//!   before its turn.
//! - **No runtime is needed.** leaky-bucket sleeps on tokio's timer. With paused time in tests, choose
//!   `Clock::tokio()` or the feature `test-util`.
//! - **Waiting can fail**, for example with [`Closed`](crate::ErrorKind::Closed); leaky-bucket returns
//!   nothing.
//!
//! # Before and after
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Algorithm, Clock, Quota, RateLimiter};
//!
//! let (second, clock) = (Duration::from_secs(1), Clock::manual());
//! // RateLimiter::builder().refill(10).interval(second).max(10).build()
//! let limiter = RateLimiter::new(Quota::new(10, second).burst(10))
//!     .algorithm(Algorithm::TokenBucket)
//!     .clock(&clock);
//! limiter.charge(10); // As with `initial(0)`.
//! assert!(limiter.try_acquire().is_err());
//!
//! clock.advance(second);
//! limiter.try_acquire_many(10)?; // All ten came at once.
//! # Ok::<_, tollgate::AcquireError>(())
//! ```
