//! A rate limit on a server.
//!
//! Flow: [`limiter`] and [`verbs`] (the public type) -> [`state`] (the [queue](crate::queue) of a
//! rate limit) -> [`charge`], [`prefetch`] and [`turns`] (decisions without a call) -> [`ask`] and
//! [`reserve`] (calls and replies), [`share`] (decisions without a server) -> [`rule`] (the arguments
//! of scripts).

mod ask;
mod charge;
mod limiter;
mod prefetch;
mod reserve;
mod rule;
mod share;
mod state;
mod token_cache;
mod turns;
mod verbs;

use std::num::NonZeroUsize;

use lru::LruCache;
use tollgate::Quota;

pub(crate) use self::ask::Reply;
pub(crate) use self::charge::jittered;
pub use self::charge::{Charge, Source};
pub use self::limiter::RateLimiter;
pub(crate) use self::rule::Rule;
pub use self::share::Fallback;
pub(crate) use self::share::LocalShare;
pub(crate) use self::turns::LATE;
pub use self::verbs::{Acquire, Cost, Reservation};
use crate::sync::{Mutex, lock};

/// A rate limit for each of many keys: users, tenants, addresses.
///
/// Callers that use the same key at the same time get the same [`RateLimiter`], so they share its
/// calls, its queue, and its cached denials. Limiters that are created for each request do not.
///
/// The map keeps a bounded number of limiters, and evicts the least recently used one. Callers that
/// hold an evicted limiter can continue to use it; the next caller for its key gets another one.
/// Only the sharing is lost, because the server counts. While the store is unavailable and a
/// [`Local`](Fallback::Local) share decides, the new limiter has a whole share again.
///
/// Tokens that an evicted limiter has [prefetched](RateLimiter::prefetch) are returned in the
/// background, and so are those of a `Keyed` that is dropped.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use tollgate::Quota;
/// use tollgate_redis::{Fallback, Keyed, RateLimiter, Store};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Store::new("redis://127.0.0.1/")?;
/// let each = RateLimiter::new(&store, "requests", Quota::per_minute(100).burst(10))
///     .fallback(Fallback::Local { share: 3 });
/// let users = Keyed::new(each, 100_000);
///
/// // Under the key `requests/42`.
/// users.key("42").acquire().timeout(Duration::from_secs(2)).await?;
/// // Paying customers get more.
/// let paid = Quota::per_minute(1000).burst(100);
/// users.key_with("77", paid).try_acquire().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Keyed {
    model: RateLimiter,
    limiters: Mutex<LruCache<String, RateLimiter>>,
}

impl Keyed {
    /// Creates a map of at most `max_keys` limiters like this one. On the server, the
    /// [key](crate#keys-on-the-server) of a limiter is the key of the model, a slash, and the
    /// limiter's own key. The model itself is a separate limit.
    ///
    /// In a cluster, all keys are in one slot if the name of the model has a tag in braces, and
    /// spread over all slots otherwise.
    ///
    /// # Panics
    ///
    /// Panics if `max_keys` is 0.
    #[track_caller]
    pub fn new(model: RateLimiter, max_keys: usize) -> Self {
        let Some(max_keys) = NonZeroUsize::new(max_keys) else {
            panic!("a map cannot be limited to 0 keys");
        };
        Self {
            model,
            limiters: Mutex::new(LruCache::new(max_keys)),
        }
    }

    /// Returns the limiter of a key, with its current quota, which is at first that of the model.
    /// Makes no call.
    pub fn key(&self, key: &str) -> RateLimiter {
        let mut evicted = None;
        let mut limiters = lock(&self.limiters);
        let found = limiters.get(key).cloned();
        let limiter = found.unwrap_or_else(|| {
            let limiter = self.model.of_key(key);
            evicted = limiters.push(key.to_owned(), limiter.clone());
            limiter
        });
        drop(limiters);
        // Dropped without the lock, because that may return tokens.
        drop(evicted);
        limiter
    }

    /// Returns the limiter of a key, and [sets](RateLimiter::set_quota) this quota if it differs.
    /// Makes no call.
    ///
    /// # Panics
    ///
    /// Panics in the cases of [`RateLimiter::set_quota`].
    #[track_caller]
    pub fn key_with(&self, key: &str, quota: Quota) -> RateLimiter {
        let limiter = self.key(key);
        limiter.set_quota(quota);
        limiter
    }

    /// Returns the number of limiters in the map.
    pub fn len(&self) -> usize {
        lock(&self.limiters).len()
    }

    /// Returns whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
