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
//! | object_store's `LimitStore` | `Throttled` of tollgate-object-store | [`from_object_store`] |
//!
//! Each page names every public type, method, variant and field of the old files, in the version that it
//! was written for, and a script of the repository compares it with their source. A dash means that nothing
//! here does that. The search of these pages also finds many of the new items by their old names.
//!
//! Code may move step by step: the semaphores of tokio and async-lock are [throttles](crate::Throttle),
//! so a part that is not moved yet can use [`all`](crate::all), tokens, timeouts and layers with the
//! semaphore that it has.

pub mod from_async_lock;
pub mod from_governor;
pub mod from_leaky_bucket;
pub mod from_object_store;
pub mod from_tokio;
pub mod from_tower;
pub mod from_tower_governor;
