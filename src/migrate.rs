//! Coming from another crate: a table of old to new for each, and what behaves differently.
//!
//! | from | to | page |
//! |---|---|---|
//! | tokio's `Semaphore` | [`Semaphore`](crate::Semaphore) | [`from_tokio`] |
//! | async-lock's `Semaphore` | [`Semaphore`](crate::Semaphore) | [`from_async_lock`] |
//! | governor | [`RateLimiter`](crate::RateLimiter), [`Keyed`](crate::Keyed) | [`from_governor`] |
//! | tower_governor | `ThrottleLayer` and `Keyed` | [`from_tower_governor`] |
//! | leaky-bucket | [`RateLimiter`](crate::RateLimiter) | [`from_leaky_bucket`] |
//! | tower's `ConcurrencyLimit`, `RateLimit`, `LoadShed` | `ThrottleLayer` | [`from_tower`] |
//! | object_store's `LimitStore` | `Throttled` of [`tollgate-object-store`] | [`from_object_store`] |
//!
//! Each page names every public type, method, variant and field of the old limits, in the version that the
//! page was written for, and a script in the repository compares the page with their source. A dash means
//! that nothing here does that. The search of these pages also finds many of the new items by their old
//! names.
//!
//! You can migrate step by step: the semaphores of tokio and async-lock are [throttles](crate::Throttle), so
//! code that has not been migrated yet can use [`all`](crate::all), tokens, timeouts and layers with its
//! present semaphore.
//!
//! [`tollgate-object-store`]: https://docs.rs/tollgate-object-store/latest/tollgate_object_store/

pub mod from_async_lock {
    //! From async-lock's `Semaphore` (async-lock 3.5.0) to [`Semaphore`](crate::Semaphore).
    //!
    //! | async-lock | here |
    //! |---|---|
    //! | `Semaphore::new` | [`new`](crate::Semaphore::new) |
    //! | `acquire` | [`acquire`](crate::Semaphore::acquire), which returns a `Result` |
    //! | `acquire_arc` | [`acquire_owned`](crate::Semaphore::acquire_owned), on a clone of the `Arc` |
    //! | `try_acquire`, `try_acquire_arc` | [`try_acquire`](crate::Semaphore::try_acquire), [`try_acquire_owned`](crate::Semaphore::try_acquire_owned), with a `Result` for an `Option` |
    //! | `acquire_blocking`, `acquire_arc_blocking` | `acquire` or `acquire_owned`, and [`.wait()`](crate::wait::Waiting::wait) |
    //! | `add_permits(n)` | [`add_permits(n)`](crate::Semaphore::add_permits), or [`set_permits`](crate::Semaphore::set_permits), which also lowers the limit |
    //! | `available_permits` | [`available_permits`](crate::Semaphore::available_permits) |
    //! | `Acquire`, `AcquireArc` | [`Waiting`](crate::wait::Waiting) of [`<&Semaphore as Throttle>::Enter`](crate::Throttle::Enter), of `<Arc<Semaphore> as Throttle>::Enter` |
    //! | `SemaphoreGuard`, `SemaphoreGuardArc` | [`Permit<&Semaphore>`](crate::semaphore::Permit), [`OwnedPermit`](crate::semaphore::OwnedPermit) |
    //! | guard: `forget` | [`forget`](crate::semaphore::Permit::forget), which lowers the limit |
    //!
    //! Neither crate depends on an executor; without default features, this crate has 3 dependencies.
    //! async-lock also works without `std`, which this crate needs.
    //!
    //! # What is different
    //!
    //! - **Acquiring can fail**: with [`Closed`](crate::ErrorKind::Closed) after a
    //!   [`close`](crate::Semaphore::close). A semaphore that nobody closes, and whose requests are for 1
    //!   permit, never fails, so `expect` is right there.
    //! - **Newcomers never overtake.** async-lock's wakes a waiter when a permit comes back, and the
    //!   first to poll takes it; a waiter that finds no permit goes to the end of the queue. Here a permit is
    //!   granted to the first waiter. A task that takes a permit repeatedly may have profited from
    //!   overtaking, and now waits for its turn.
    //! - **A granted permit is held until the waiter runs or is dropped.** A future that was polled and is
    //!   then set aside blocks the queue, as with all fair semaphores; drop futures that are not polled.
    //! - **Each permit that returns wakes a waiter.** When two permits return at once, async-lock's semaphore
    //!   wakes the second waiter only when the first has run and its future is dropped.
    //! - **`acquire()` is `Unpin`** and allocates nothing for a wait.
    //!
    //! # Before and after
    //!
    #![cfg_attr(feature = "async-lock", doc = "```")]
    #![cfg_attr(not(feature = "async-lock"), doc = "```text")]
    //! use std::sync::Arc;
    //!
    //! # #[tokio::main(flavor = "current_thread")]
    //! # async fn main() -> Result<(), tollgate::AcquireError> {
    //! let old = Arc::new(async_lock::Semaphore::new(1));
    //! let guard = old.acquire_arc().await;
    //! assert!(old.try_acquire().is_none());
    //! drop(guard);
    //!
    //! let new = Arc::new(tollgate::Semaphore::new(1));
    //! let permit = Arc::clone(&new).acquire_owned().await?;
    //! assert!(new.try_acquire().is_err());
    //! drop(permit);
    //! # Ok(())
    //! # }
    //! ```
    //!
    //! Code that has not been migrated yet works as it is: with the feature `async-lock`, `&semaphore` and
    //! `Arc<async_lock::Semaphore>` are [throttles](crate::Throttle).
}

pub mod from_governor {
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
    //! | `RateLimitingMiddleware`: `allow`, `disallow`; `NoOpMiddleware` | an observer of the crate [`tollgate-observe`], around any throttle |
    //! | `StreamRateLimitExt`, `RatelimitedStream`: `ratelimit_stream(&limiter)`, `ratelimit_stream_with_jitter` | `stream.map(std::future::ready).buffer_limited(&limiter)`, of `LimitStreamExt` in the crate [`tollgate-io`]; items become `Result<T, AcquireError>` |
    //! | `SinkRateLimitExt`, `RatelimitedSink`: `ratelimit_sink(&limiter)`, `ratelimit_sink_with_jitter` | `sink.limited(&limiter, cost)`, of `LimitSinkExt` there |
    //! | of these: `get_ref`, `get_mut`, `into_inner` | the same of a sink; of a stream – |
    //! | `FakeRelativeClock`: `advance` | [`Clock::manual`](crate::Clock::manual), [`advance`](crate::time::ManualClock::advance) |
    //! | `DefaultClock`, `QuantaClock`, `QuantaInstant`, `MonotonicClock` | [`Clock::system`](crate::Clock::system), the default; the feature `tsc` chooses the counter |
    //! | `QuantaUpkeepClock`: `from_interval`, `from_builder`; `SystemClock` | – |
    //! | `Clock`, `ReasonablyRealtime`, `Reference`: `now`, `reference_point`, `duration_since`, `saturating_sub` | [`Clock::now`](crate::Clock::now), [`Tick::saturating_since`](crate::time::Tick::saturating_since); clocks of one's own – |
    //! | `Nanos`: `new`, `as_u64`, `saturating_sub` | `Duration` |
    //! | `InMemoryState`, `NotKeyed` and its `NonKey`, `DirectStateStore` | – of a [`RateLimiter`](crate::RateLimiter), which has no type parameters |
    //! | `DefaultKeyedStateStore`, `DashMapStateStore`, `HashMapStateStore`, `KeyedStateStore`, `ShrinkableKeyedStateStore`, `DefaultHasher` | the map of a [`Keyed`](crate::Keyed), whose parameters are the key, the kind of limit and the [hasher](crate::Keyed::hasher) |
    //! | `RateLimiter::new(quota, state, clock)`, `clock`, `into_state_store`, `StateStore`: `measure_and_replace` | a store elsewhere is a [`Throttle`](crate::Throttle) of its own, such as those of the crate [`tollgate-redis`] |
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
    //! - **Dropping a wait** is harmless in both. Here the waiters behind it become due earlier, at once.
    //! - **Keys are bounded**: a [`Keyed`](crate::Keyed) keeps 100,000 keys, or
    //!   [another number](crate::Keyed::max_keys), and rejects a new key with
    //!   [`TooManyKeys`](crate::ErrorKind::TooManyKeys) if every key that it could replace is in debt.
    //!   governor's map grows until `retain_recent` is called.
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
    //!
    //! [`tollgate-io`]: https://docs.rs/tollgate-io/latest/tollgate_io/
    //! [`tollgate-observe`]: https://docs.rs/tollgate-observe/latest/tollgate_observe/
    //! [`tollgate-redis`]: https://docs.rs/tollgate-redis/latest/tollgate_redis/
}

pub mod from_leaky_bucket {
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
    //! | `balance` | `available` of the [`snapshot`](crate::RateLimiter::snapshot), which includes all tokens up to now |
    //! | `refill`, `interval`, `max` | [`quota()`](crate::RateLimiter::quota) with [`count`](crate::Quota::count), [`period`](crate::Quota::period), [`max_burst`](crate::Quota::max_burst) |
    //! | `is_fair`, `is_core` of `Acquire` and `AcquireOwned` | – |
    //!
    //! A [`LeakyBucket`](crate::LeakyBucket) of this crate is something else: a bounded queue that releases
    //! one waiter at a time, without bursts.
    //!
    //! # What is different
    //!
    //! - **The bucket starts full.** leaky-bucket's starts with 0 unless `initial` is set, so its first calls
    //!   wait for an interval.
    //! - **Tokens come one by one**, each `interval / refill`, instead of `refill` tokens at each interval.
    //!   For batches, choose [`Algorithm::TokenBucket`](crate::Algorithm::TokenBucket), whose intervals are
    //!   aligned with the clock and do not begin when the limiter is created.
    //! - **The burst is 1 by default**, and `max` is ten times the larger of `refill` and `initial`.
    //! - **A request above the burst is refused**, with
    //!   [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity). leaky-bucket hands it tokens as they come,
    //!   until it has the number that it asked for. With [`Oversize::Overdraft`](crate::rate::Oversize::Overdraft)
    //!   it is admitted here, and the calls after it wait.
    //! - **No waiter does the work of others.** In leaky-bucket one waiter, the core, sleeps for all. If its
    //!   future is neither polled nor dropped, no waiter proceeds; here a timer serves the queue.
    //! - **Dropping a wait** returns its tokens in both. Here a waiter is charged nothing before its turn.
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
}

pub mod from_object_store {
    //! From object_store's `LimitStore` (object_store 0.14.2) to the crate [`tollgate-object-store`].
    //!
    //! | object_store | here |
    //! |---|---|
    //! | `LimitStore::new(store, n)` | `Throttled::new(store, Arc::new(Semaphore::new(n)))`: calls of any store |
    //! | the same around a store over HTTP | `.with_http_connector(ThrottledConnector::new(connector, throttle))` on its builder: every HTTP request |
    //! | methods of `ObjectStore` on it | the same |
    //! | `Display`: `LimitStore(n, inner)` | `Throttled(inner)` |
    //! | `LimitUpload::new(upload, n)` | a `Throttled` of its own for that upload: parts pass the throttle of their store |
    //! | `ThrottledStore`, which imitates a slow store in tests: `config`, `config_mut`, `ThrottleConfig` with `wait_get_per_call`, `wait_get_per_byte`, `wait_put_per_call`, `wait_delete_per_call`, `wait_list_per_call`, `wait_list_per_entry`, `wait_list_with_delimiter_per_call`, `wait_list_with_delimiter_per_entry` | – |
    //!
    //! The throttle is any [`Throttle`](crate::Throttle): a [`Semaphore`](crate::Semaphore), tokio's, a
    //! [`RateLimiter`](crate::RateLimiter), an adaptive limit, or [`all`](crate::all) of several.
    //!
    //! # What is different
    //!
    //! - **What counts**: `LimitStore` counts calls. A call that makes ten requests, such as a list of ten
    //!   pages or a put that is repeated, counts once, and holds its permit while it waits to be repeated.
    //!   `ThrottledConnector` counts each request, and frees the permit in between.
    //! - **A list** holds its permit in `LimitStore` until the stream ends or is dropped, also while the
    //!   caller works with the items that it has received. So with one permit, deleting the items of a list
    //!   never ends. `Throttled` holds one for each page and none between pages.
    //! - **`put_multipart`** takes no permit in `LimitStore` to create the upload; here it takes one, as its
    //!   parts do in both.
    //! - **`get`** holds its permit in both until the body has been read or is dropped; with
    //!   `.hold(Hold::Head)` only until the response has begun. A local file is not limited by `LimitStore`
    //!   once it is open; here it is read as a stream that holds the permit.
    //! - **A wait ends** after 120 seconds, or `.max_wait(d)`, with an error that says why, or through
    //!   `.cancel_on(token)`. `LimitStore` waits without end.
    //! - **Errors**: a call that is not admitted fails with `Error::Generic`, whose source has the reason; see
    //!   [`tollgate_object_store::cause`]. `LimitStore` adds no errors.
    //! - **Order and cancellation** are those of tokio's semaphore in `LimitStore`, and of the throttle here;
    //!   dropping a call is harmless in both.
    //! - **Bytes** have limits too, with `.bytes_sent(..)` and `.bytes_received(..)`.
    //!
    //! # Before and after
    //!
    //! The programs on the pages of the crate [`tollgate-object-store`] run in its tests; this is the change:
    //!
    //! ```text
    //! let store = LimitStore::new(InMemory::new(), 16);
    //!
    //! let slots = Arc::new(Semaphore::new(16));
    //! let store = Throttled::new(InMemory::new(), Arc::clone(&slots));
    //! slots.set_permits(4); // The limit can be changed while it is in use.
    //! ```
    //!
    //! [`tollgate-object-store`]: https://docs.rs/tollgate-object-store/latest/tollgate_object_store/
    //! [`tollgate_object_store::cause`]: https://docs.rs/tollgate-object-store/latest/tollgate_object_store/fn.cause.html
}

pub mod from_tokio {
    //! From tokio's `Semaphore` (tokio 1.54.1) to [`Semaphore`](crate::Semaphore).
    //!
    //! | tokio | here |
    //! |---|---|
    //! | `Semaphore`: `new`, `const_new`, `MAX_PERMITS` | [`new`](crate::Semaphore::new), which is `const`; [`MAX_PERMITS`](crate::Semaphore::MAX_PERMITS) is 2^59 - 1 in place of 2^61 - 1 |
    //! | `available_permits` | [`available_permits`](crate::Semaphore::available_permits); the limit itself is [`permits`](crate::Semaphore::permits) |
    //! | `add_permits(n)` | [`add_permits(n)`](crate::Semaphore::add_permits) raises the limit; to set it, [`set_permits(n)`](crate::Semaphore::set_permits) |
    //! | `forget_permits(n)` | [`forget_permits(n)`](crate::Semaphore::forget_permits) lowers the limit by at most the free permits; to lower it further, [`set_permits`](crate::Semaphore::set_permits) |
    //! | `acquire`, `acquire_many` | [`acquire`](crate::Semaphore::acquire), [`acquire_many`](crate::Semaphore::acquire_many) |
    //! | `acquire_owned`, `acquire_many_owned` | [`acquire_owned`](crate::Semaphore::acquire_owned), [`cost_owned(n).acquire()`](crate::Semaphore::cost_owned) |
    //! | `try_acquire`, `try_acquire_many` | [`try_acquire`](crate::Semaphore::try_acquire), [`try_acquire_many`](crate::Semaphore::try_acquire_many) |
    //! | `try_acquire_owned`, `try_acquire_many_owned` | [`try_acquire_owned`](crate::Semaphore::try_acquire_owned), [`cost_owned(n).try_acquire()`](crate::Semaphore::cost_owned) |
    //! | `blocking_acquire`, `blocking_acquire_many`, `blocking_acquire_owned`, `blocking_acquire_many_owned` | the same without `blocking_`, and [`.wait()`](crate::wait::Waiting::wait) |
    //! | `close`, `is_closed` | [`close`](crate::Semaphore::close), [`is_closed`](crate::Semaphore::is_closed) |
    //! | `SemaphorePermit`, `OwnedSemaphorePermit` | [`Permit<&Semaphore>`](crate::semaphore::Permit), [`OwnedPermit`](crate::semaphore::OwnedPermit) |
    //! | permit: `num_permits`, `semaphore` | [`count`](crate::semaphore::Permit::count), [`semaphore`](crate::semaphore::Permit::semaphore) |
    //! | permit: `split`, `merge`, `forget` | [`split`](crate::semaphore::Permit::split), [`merge`](crate::semaphore::Permit::merge), [`forget`](crate::semaphore::Permit::forget) |
    //! | `AcquireError` | [`AcquireError`](crate::AcquireError) of the kind [`Closed`](crate::ErrorKind::Closed) |
    //! | `TryAcquireError::Closed`, `NoPermits` | [`AcquireError`](crate::AcquireError) of the kinds [`Closed`](crate::ErrorKind::Closed), [`NoPermits`](crate::ErrorKind::NoPermits) |
    //! | `timeout(d, semaphore.acquire())` | [`semaphore.acquire().timeout(d)`](crate::wait::Waiting::timeout), with one error type |
    //! | `token.run_until_cancelled(semaphore.acquire())` | `semaphore.acquire().cancel_on(&token)`, with the feature `tokio` |
    //!
    //! # What is the same
    //!
    //! Both are strictly first-in first-out, also for large requests. A future joins the queue at its first
    //! poll, and loses its place when it is dropped; a permit that it had been granted passes to the next waiter.
    //!
    //! # What is different
    //!
    //! - **A request above the limit is refused at once**, with
    //!   [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity), whereas with tokio's semaphore it waits
    //!   until `add_permits` has made room. Every request waits only while the limit is 0, which is a pause.
    //! - **The limit is known.** `forget` and `add_permits` change it, and code that forgets a permit in one
    //!   place and adds one elsewhere works as before, with a limit that goes down and up: a request above it
    //!   is refused meanwhile. To pass a permit on, move an [`OwnedPermit`](crate::semaphore::OwnedPermit) to the place
    //!   that returns it; to wait until all work is done, use [`wait_idle`](crate::Semaphore::wait_idle).
    //!   `std::mem::forget` takes a permit away for good, and does not lower the limit.
    //! - **A latch of permits that are added fails**: `Semaphore::new(0)`, `add_permits(1)` by each of N tasks,
    //!   and `acquire_many(N)`. After the first `add_permits` the limit is 1, and a new request for N is
    //!   refused. Begin with N permits, have each task hold one until it is ready, and await
    //!   [`wait_idle()`](crate::Semaphore::wait_idle).
    //! - **Free permits stay in the semaphore** while they gather for a large request, whereas tokio gathers
    //!   them in the request: [`available_permits`](crate::Semaphore::available_permits) may be above 0 while
    //!   callers wait. Newcomers are behind them in both.
    //! - **More refusals**: a match on errors needs a branch for the other kinds, such as
    //!   [`QueueFull`](crate::ErrorKind::QueueFull) of a bounded queue.
    //! - **No cooperative budget**: acquiring free permits never yields to the executor. A loop that does
    //!   nothing else calls `tokio::task::consume_budget`.
    //! - **`.wait()` inside a runtime** panics in debug builds only; `blocking_acquire` panics in all.
    //!
    //! # Before and after
    //!
    #![cfg_attr(feature = "tokio", doc = "```")]
    #![cfg_attr(not(feature = "tokio"), doc = "```text")]
    //! use std::time::Duration;
    //! use tollgate::ErrorKind;
    //!
    //! # #[tokio::main(flavor = "current_thread", start_paused = true)]
    //! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    //! let second = Duration::from_secs(1);
    //!
    //! let old = tokio::sync::Semaphore::new(2);
    //! let permit = tokio::time::timeout(second, old.acquire()).await??;
    //! let too_many = tokio::time::timeout(second, old.acquire_many(3)).await;
    //! assert!(too_many.is_err()); // It waited for the whole second.
    //! permit.forget();
    //! assert_eq!(old.available_permits(), 1);
    //!
    //! let new = tollgate::Semaphore::new(2);
    //! let permit = new.acquire().timeout(second).await?;
    //! let too_many = new.acquire_many(3).timeout(second).await.unwrap_err();
    //! assert_eq!(too_many.kind(), ErrorKind::ExceedsCapacity); // At once.
    //! permit.forget();
    //! assert_eq!((new.available_permits(), new.permits()), (1, 1));
    //! # Ok(())
    //! # }
    //! ```
}

pub mod from_tower {
    //! From tower's limits (tower 0.5.3) to `ThrottleLayer`, of the crate [`tollgate-tower`].
    //!
    //! | tower | here |
    //! |---|---|
    //! | `ServiceBuilder::concurrency_limit(n)`, `ConcurrencyLimitLayer::new(n)` | `ThrottleLayer::new(Arc::new(Semaphore::new(n)))` |
    //! | `GlobalConcurrencyLimitLayer::new(n)` | the same: all services of a layer share its throttle |
    //! | `GlobalConcurrencyLimitLayer::with_semaphore(s)`, `ConcurrencyLimit::with_semaphore` | `ThrottleLayer::new(s)`, also with tokio's semaphore |
    //! | `ServiceBuilder::rate_limit(n, d)`, `RateLimitLayer::new(n, d)` | `ThrottleLayer::new(Arc::new(RateLimiter::new(Quota::new(n, d).burst(n))))` |
    //! | `Rate::new(n, d)` | [`Quota::new(n, d)`](crate::Quota::new)[`.burst(n)`](crate::Quota::burst) |
    //! | `ServiceBuilder::load_shed()`, `LoadShedLayer::new` around a limit | `ThrottleLayer::new(..).refusing()` |
    //! | `Overloaded` and its `new` | a response of 429 or 503, with a `Retry-After` if the throttle knows one, or of 413 if the request costs more than the limit gives; with `.errors()` an [`AcquireError`](crate::AcquireError) |
    //! | `ConcurrencyLimit::new`, `RateLimit::new`, `LoadShed::new` | `layer.layer(service)` |
    //! | `get_ref`, `get_mut`, `into_inner` | –; keep an `Arc` of the throttle to look at it |
    //! | `ResponseFuture` of each | [`tollgate_tower::ResponseFuture`] |
    //! | `tower::buffer` around a limit that is not `Clone` | not needed: services are cloned with their limit |
    //!
    //! # What is different
    //!
    //! - **Where a request waits**: in its own future, and not in `poll_ready`. Thus a service that is ready
    //!   holds no permit, a request that is dropped leaves the queue, and `LoadShed` around a `ThrottleLayer`
    //!   sheds nothing. Use `refusing`, [`max_waiters`](crate::Semaphore::max_waiters) or `.timeout(d)`.
    //! - **One limit for all services of a layer.** axum applies a layer to each route of a router
    //!   separately, so `ConcurrencyLimitLayer` gives each route its own limit; a `ThrottleLayer` limits all
    //!   of them together. For a limit by route, create a layer for each, or choose the throttle per request.
    //! - **A permit is held to the end of the body**, and not only until the future returns the response: a
    //!   download counts until it has been sent.
    //! - **`RateLimit` is a window that begins with a request**: it admits `n` at the end of one and `n` at
    //!   the beginning of the next. [`Quota::new(n, d)`](crate::Quota::new) spaces calls evenly, with a burst
    //!   of 1; `.burst(n)` admits `n` at once, and then one each `d / n`. The old behavior without its double
    //!   burst is [`Algorithm::SlidingLog`](crate::Algorithm::SlidingLog). A `RateLimit` is not `Clone`.
    //! - **Order**: tower's limit is as fair as tokio's semaphore; `RateLimit` has one caller at a time.
    //!
    //! # Before and after
    //!
    //! ```
    //! use std::sync::Arc;
    //! use std::time::Duration;
    //!
    //! use tollgate_tower::ThrottleLayer;
    //! use tollgate::{Quota, RateLimiter, Semaphore, all};
    //! use tower::{Layer, Service, ServiceExt, service_fn};
    //!
    //! # #[tokio::main(flavor = "current_thread")]
    //! # async fn main() -> Result<(), tower::BoxError> {
    //! // ServiceBuilder::new()
    //! //     .load_shed()
    //! //     .concurrency_limit(64)
    //! //     .rate_limit(100, Duration::from_secs(1))
    //! let slots = Arc::new(Semaphore::new(64));
    //! let quota = Quota::new(100, Duration::from_secs(1)).burst(100);
    //! let rate = Arc::new(RateLimiter::new(quota));
    //! // This service does not speak HTTP, so rejections are errors.
    //! let layer = ThrottleLayer::new(all((Arc::clone(&slots), rate))).refusing().errors();
    //!
    //! let mut double = layer.layer(service_fn(async |n: u32| Ok::<_, tower::BoxError>(2 * n)));
    //! assert_eq!(double.ready().await?.call(21).await?, 42);
    //! assert_eq!(double.ready().await?.call(22).await?, 44);
    //! slots.set_permits(0);
    //! assert!(double.ready().await?.call(21).await.is_err());
    //! # Ok(())
    //! # }
    //! ```
    //!
    //! [`tollgate-tower`]: https://docs.rs/tollgate-tower/latest/tollgate_tower/
    //! [`tollgate_tower::ResponseFuture`]: https://docs.rs/tollgate-tower/latest/tollgate_tower/struct.ResponseFuture.html
}

pub mod from_tower_governor {
    //! From tower_governor (0.8.0) to `ThrottleLayer`, of the crate [`tollgate-tower`], and [`Keyed`](crate::Keyed).
    //!
    //! | tower_governor | here |
    //! |---|---|
    //! | `GovernorLayer::new(config)` | `ThrottleLayer::by(closure).refusing()`: the closure returns the throttle of a request |
    //! | `GovernorConfigBuilder`: `finish` | [`Keyed::rate_limiters(quota)`](crate::Keyed::rate_limiters) in an `Arc` |
    //! | `period(d)`, `per_second(n)`, `per_millisecond(n)`, `per_nanosecond(n)` | [`Quota::new(1, d)`](crate::Quota::new): the numbers are intervals, see below |
    //! | `burst_size(n)` | [`.burst(n)`](crate::Quota::burst) of the quota |
    //! | `const_default`, `const_period`, `const_per_second`, `const_per_millisecond`, `const_per_nanosecond`, `const_burst_size` | all of these are `const` |
    //! | `GovernorConfig::default()`, `DEFAULT_PERIOD` and `DEFAULT_BURST_SIZE`; `secure()` | `Quota::new(1, Duration::from_millis(500)).burst(8)`; `Quota::new(1, Duration::from_secs(4)).burst(2)` |
    //! | `methods(list)` | `None` from the closure, for all other methods |
    //! | `key_extractor(e)`, `KeyExtractor`: `extract`, `name`, `key_name` | the closure, which may use the head of a request |
    //! | `PeerIpKeyExtractor` | `ClientIp::peer(..)` |
    //! | `SmartIpKeyExtractor` | `ClientIp::peer(..)` with `.behind(n)` or `.trusting(networks)`, and `.header(..)` |
    //! | `GlobalKeyExtractor` | `ThrottleLayer::new(Arc<RateLimiter>).refusing()` |
    //! | `use_headers()` | `.headers(RateLimitHeaders::Legacy)`, or the fields of the IETF's draft |
    //! | `error_handler(f)`, `GovernorError::into_response` | `.rejection_format(RejectionFormat::ProblemJson)`, `.status(..)`; or a layer outside, which finds the [`AcquireError`](crate::AcquireError) in the extensions of a rejection |
    //! | `GovernorError::TooManyRequests`, `UnableToExtractKey`, `Other` | the kind [`RateLimited`](crate::ErrorKind::RateLimited); – for the others, because the closure returns no errors |
    //! | `Response::from(error)` of tonic | `.rejection_format(RejectionFormat::Grpc)` |
    //! | `GovernorConfig`: `limiter`; `SharedRateLimiter` | your own `Arc<Keyed<..>>` |
    //! | `limiter().retain_recent()` in a thread | not needed |
    //! | `Governor::new(service, &config)`; its fields `key_extractor`, `limiter`, `methods`, `inner`; `ResponseFuture` | `layer.layer(service)`; –; [`tollgate_tower::ResponseFuture`] |
    //!
    //! # What is different
    //!
    //! - **`per_second(n)` of its builder is an interval of `n` seconds**: `per_second(2).burst_size(5)`
    //!   gives one request in two seconds. That is `Quota::new(1, Duration::from_secs(2)).burst(5)` here;
    //!   [`Quota::per_second(2)`](crate::Quota::per_second) means two in a second.
    //! - **Clients cannot choose their address.** `SmartIpKeyExtractor` believes the first address in
    //!   `X-Forwarded-For`, which the client can write. `ClientIp` counts trusted proxies from the right, and
    //!   counts an IPv6 client by its network of 64 bits.
    //! - **A request without an address** gets a 500 there. Here all of them share one key, so a server without
    //!   `into_make_service_with_connect_info` silently has one limit for all clients.
    //! - **Memory is bounded**, by [`max_keys`](crate::Keyed::max_keys).
    //! - **`Retry-After` is rounded up**, at least 1; there it is rounded down, and may be 0.
    //! - **Fields**: each refusal there has `x-ratelimit-after`, a copy of `Retry-After`. Its `use_headers` also
    //!   adds `x-ratelimit-whitelisted` for methods without a limit. Nothing here sends these two.
    //! - **Both reject without a wait.** Without `refusing`, `ThrottleLayer::by` waits in order, and
    //!   `.timeout(d)` bounds the wait; when one of several limits in a layer refuses, the charges of the
    //!   others are refunded.
    //!
    //! # Before and after
    //!
    //! ```
    //! use std::net::SocketAddr;
    //! use std::sync::Arc;
    //! use std::time::Duration;
    //!
    //! use axum::Router;
    //! use axum::body::Body;
    //! use axum::extract::ConnectInfo;
    //! use axum::http::{Extensions, Request};
    //! use tollgate_tower::{ClientIp, RateLimitHeaders, ThrottleLayer};
    //! use tollgate::{Keyed, Quota};
    //! # use tower::{Service, ServiceExt};
    //!
    //! fn peer(extensions: &Extensions) -> Option<SocketAddr> {
    //!     Some(extensions.get::<ConnectInfo<SocketAddr>>()?.0)
    //! }
    //!
    //! # #[tokio::main(flavor = "current_thread")]
    //! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    //! // GovernorConfigBuilder::default().per_second(2).burst_size(5).use_headers().finish()
    //! let quota = Quota::new(1, Duration::from_secs(2)).burst(5);
    //! let clients = Arc::new(Keyed::rate_limiters(quota));
    //! let address = ClientIp::peer(peer);
    //! let layer = ThrottleLayer::by(move |parts| {
    //!     Arc::clone(&clients).key_owned(address.of(parts))
    //! }).refusing();
    //! let app: Router = Router::new().layer(layer.headers(RateLimitHeaders::Legacy));
    //! let mut server = app.into_make_service_with_connect_info::<SocketAddr>(); // For `axum::serve`.
    //! # let mut connect = async |address| server.call(SocketAddr::new(address, 1234)).await;
    //! # let (ann, ben) = (connect([192, 0, 2, 1].into()).await?, connect([192, 0, 2, 2].into()).await?);
    //! # for expected in [404, 404, 404, 404, 404, 429] {
    //! #     let answer = ann.clone().oneshot(Request::new(Body::empty())).await?;
    //! #     assert_eq!(answer.status(), expected);
    //! # }
    //! # assert_eq!(ben.oneshot(Request::new(Body::empty())).await?.status(), 404);
    //! # Ok(())
    //! # }
    //! ```
    //!
    //! [`tollgate-tower`]: https://docs.rs/tollgate-tower/latest/tollgate_tower/
    //! [`tollgate_tower::ResponseFuture`]: https://docs.rs/tollgate-tower/latest/tollgate_tower/struct.ResponseFuture.html
}
