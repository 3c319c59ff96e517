//! From governor (0.10.4) to [`RateLimiter`](crate::RateLimiter) and [`Keyed`](crate::Keyed).
//!
//! | governor | here |
//! |---|---|
//! | `Quota::per_second(n)`, `per_minute(n)`, `per_hour(n)` | [`Quota::per_second(n).burst(n)`](crate::Quota::per_second), and so on |
//! | `Quota::with_period(d)`, `Quota::new(n, d)` | [`Quota::new(1, d)`](crate::Quota::new), `Quota::new(n, d).burst(n)` |
//! | `allow_burst(n)` | [`burst(n)`](crate::Quota::burst) |
//! | `replenish_interval`, `burst_size`, `burst_size_replenished_in` | [`period`](crate::Quota::period) / [`count`](crate::Quota::count), [`max_burst`](crate::Quota::max_burst), the product of both |
//! | `RateLimiter::direct`, `direct_with_clock`, `DefaultDirectRateLimiter` | [`RateLimiter::new`](crate::RateLimiter::new), which is `const`; [`.clock(..)`](crate::RateLimiter::clock) |
//! | `check`, `check_n` | [`try_acquire`](crate::RateLimiter::try_acquire), [`try_acquire_many`](crate::RateLimiter::try_acquire_many), with one `Result` |
//! | `until_ready`, `until_n_ready` | [`acquire`](crate::RateLimiter::acquire), [`acquire_many`](crate::RateLimiter::acquire_many) |
//! | `until_ready_with_jitter`, `until_n_ready_with_jitter`, and for keys `until_key_ready_with_jitter`, `until_key_n_ready_with_jitter` | the same without jitter: waiters are released one by one |
//! | `Jitter::up_to(d)`, `Jitter::new(min, d)` | [`.jitter(d)`](crate::RateLimiter::jitter), added to the `retry_after` of rejections; no minimum |
//! | `RateLimiter::keyed`, `dashmap`, `hashmap`, `DefaultKeyedRateLimiter` | [`Keyed::rate_limiters`](crate::Keyed::rate_limiters), a `Keyed<K, RateLimiter>` |
//! | `dashmap_with_clock`, `hashmap_with_clock`, `dashmap_with_hasher`, `hashmap_with_hasher`, `dashmap_with_clock_and_hasher`, `hashmap_with_clock_and_hasher` | `.clock(..)` of the limiter that [`Keyed::new`](crate::Keyed::new) takes, [`.hasher(..)`](crate::Keyed::hasher) |
//! | `check_key`, `check_key_n` | [`key(&k)`](crate::Keyed::key)[`.try_acquire()`](crate::keyed::Key::try_acquire), [`.try_acquire_many(n)`](crate::keyed::Key::try_acquire_many) |
//! | `until_key_ready`, `until_key_n_ready` | [`key(&k)`](crate::Keyed::key)[`.acquire()`](crate::keyed::Key::acquire), [`.acquire_many(n)`](crate::keyed::Key::acquire_many) |
//! | `retain_recent`, `shrink_to_fit` | not needed: [`max_keys`](crate::Keyed::max_keys) bounds the memory; [`shrink`](crate::Keyed::shrink) does both |
//! | `len`, `is_empty` | [`len`](crate::Keyed::len), [`is_empty`](crate::Keyed::is_empty) |
//! | `NotUntil`: `wait_time_from`, `earliest_possible`, `quota` | [`retry_after`](crate::AcquireError::retry_after) of the error, a duration; `clock.now()` and that; [`quota`](crate::RateLimiter::quota) of the limiter |
//! | `InsufficientCapacity` | [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity), with [`capacity`](crate::AcquireError::capacity) |
//! | `with_middleware`, `StateInformationMiddleware`, `StateSnapshot`: `quota`, `remaining_burst_capacity` | [`decision(&charge)`](crate::RateLimiter::decision), [`peek`](crate::RateLimiter::peek), [`snapshot`](crate::RateLimiter::snapshot) |
//! | `RateLimitingMiddleware`: `allow`, `disallow`; `NoOpMiddleware` | an observer of the crate `tollgate-observe`, around any throttle |
//! | `StreamRateLimitExt`, `RatelimitedStream`: `ratelimit_stream(&limiter)`, `ratelimit_stream_with_jitter` | `stream.map(std::future::ready).buffer_limited(&limiter)`, of `LimitStreamExt` in the crate `tollgate-io`; items become `Result<T, AcquireError>` |
//! | `SinkRateLimitExt`, `RatelimitedSink`: `ratelimit_sink(&limiter)`, `ratelimit_sink_with_jitter` | `sink.limited(&limiter, cost)`, of `LimitSinkExt` there |
//! | of these: `get_ref`, `get_mut`, `into_inner` | the same of a sink; of a stream – |
//! | `FakeRelativeClock`: `advance` | [`Clock::manual`](crate::Clock::manual), [`advance`](crate::ManualClock::advance) |
//! | `DefaultClock`, `QuantaClock`, `QuantaInstant`, `MonotonicClock` | [`Clock::system`](crate::Clock::system), the default; the feature `tsc` chooses the counter |
//! | `QuantaUpkeepClock`: `from_interval`, `from_builder`; `SystemClock` | – |
//! | `Clock`, `ReasonablyRealtime`, `Reference`: `now`, `reference_point`, `duration_since`, `saturating_sub` | [`Clock::now`](crate::Clock::now), [`Tick::saturating_since`](crate::Tick::saturating_since); clocks of one's own – |
//! | `Nanos`: `new`, `as_u64`, `saturating_sub` | `Duration` |
//! | `InMemoryState`, `NotKeyed` and its `NonKey`, `DirectStateStore` | – of a [`RateLimiter`](crate::RateLimiter), which has no type parameters |
//! | `DefaultKeyedStateStore`, `DashMapStateStore`, `HashMapStateStore`, `KeyedStateStore`, `ShrinkableKeyedStateStore`, `DefaultHasher` | the map of a [`Keyed`](crate::Keyed), whose parameters are the key, the kind of limit and the [hasher](crate::Keyed::hasher) |
//! | `RateLimiter::new(quota, state, clock)`, `clock`, `into_state_store`, `StateStore`: `measure_and_replace` | a store elsewhere is a [`Throttle`](crate::Throttle) of its own, such as those of the crate tollgate-redis |
//!
//! # What is different
//!
//! - **The burst is 1 unless you set it.** `per_second(50)` admits 50 at once in governor, and then one
//!   each 20 ms, so up to 100 in the first second. Here it spaces all calls by 20 ms; `.burst(50)` is the
//!   old behavior.
//! - **Waiting is first-in first-out.** governor's futures sleep and check again, each on its own timer;
//!   the first to check is admitted, and a large request may starve among small ones. Here one queue
//!   is served in order.
//! - **Waiting can fail**, with [`Closed`](crate::ErrorKind::Closed) or with
//!   [`QueueFull`](crate::ErrorKind::QueueFull), and more than the burst with
//!   [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity). A limiter that nobody closes, without
//!   [`max_waiters`](crate::RateLimiter::max_waiters), never refuses calls of cost 1; a full map of keys, see
//!   below, refuses new ones.
//! - **Dropping a wait** is harmless in both. Here the waiters behind it are due earlier at once.
//! - **Keys are bounded**: a [`Keyed`](crate::Keyed) keeps 100,000 keys, or
//!   [another number](crate::Keyed::max_keys), and rejects a new key with
//!   [`TooManyKeys`](crate::ErrorKind::TooManyKeys) if it finds no place that is free of debt. governor's
//!   map grows until `retain_recent` is called.
//! - **Rates are exact.** governor rounds the interval down to whole nanoseconds: 700,000,000 a second is
//!   1,000,000,000.
//!
//! # Before and after
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Clock, Keyed, Quota, RateLimiter};
//!
//! let clock = Clock::manual();
//! // Quota::per_second(nonzero!(50u32)), in governor:
//! let limiter = RateLimiter::new(Quota::per_second(50).burst(50)).clock(&clock);
//! limiter.try_acquire_many(50)?; // limiter.check_n(nonzero!(50u32))
//! let refused = limiter.try_acquire().unwrap_err();
//! // not_until.wait_time_from(clock.now())
//! assert_eq!(refused.retry_after(), Some(Duration::from_millis(20)));
//!
//! let users = Keyed::new(RateLimiter::new(Quota::per_minute(5).burst(5)).clock(&clock));
//! users.key("ann").try_acquire()?; // users.check_key(&"ann")
//! # Ok::<_, tollgate::AcquireError>(())
//! ```
