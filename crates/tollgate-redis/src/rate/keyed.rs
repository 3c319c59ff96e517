//! [`Keyed`]: a rate limit for each of many keys.
//!
//! 1. Callers that use a key at the same time get the same limiter.
//! 2. A limiter is kept while it has a handle elsewhere, or knows something that another one would not: waiters,
//!    turns, a denial, tokens, a failure. Otherwise it is at rest, and dropped. A key at rest takes memory only
//!    if its quota is its own.
//! 3. Each look-up examines the two entries that were not used or examined for the longest time, so at most one
//!    more entry is made than is examined, and an entry that is at rest soon goes.
//!
//! The lock is a leaf, and no limiter is dropped under it: that may return tokens.

use std::num::NonZeroUsize;

use lru::LruCache;
use tollgate::Quota;

use super::limiter::RateLimiter;
use crate::sync::{Mutex, lock};

/// The number of entries that a look-up examines.
const EXAMINED: usize = 2;

/// A rate limit for each of many keys: users, tenants, addresses.
///
/// Callers that use the same key at the same time get the same [`RateLimiter`], so they share its
/// calls, its queue, and its cached denials. Limiters that are created for each request do not.
///
/// # Memory
///
/// The map keeps the limiters that are in use, and those that know something: a denial, a failure of the store,
/// a [prefetch](RateLimiter::prefetch) that was made, the charges of a [`Local`](crate::Fallback::Local)
/// share. A key that is at rest takes no memory, or if its quota is not that of the model, the memory of its
/// name and its quota. Each look-up forgets up to two limiters that are at rest.
///
/// The numbers of limiters and of quotas are bounded. At the bound, the map evicts the one that was not used, or
/// not found in use, for the longest time. Callers that hold an evicted limiter can continue to use it; the next
/// caller for its key gets another one. Only the sharing is lost, because the server counts. While the store is
/// unavailable and a [`Local`](crate::Fallback::Local) share decides, the new limiter has a whole share again.
///
/// Tokens that an evicted limiter has prefetched are returned in the background, and so are those of a `Keyed`
/// that is dropped.
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
    keys: Mutex<Keys>,
}

/// Limiters that have left the map.
type Left = ([Option<Kept>; EXAMINED], Option<Kept>);

/// A limiter, and the quota of the model with which it began, unless it has one of its own.
#[derive(Clone, Debug)]
struct Kept {
    limiter: RateLimiter,
    inherited: Option<Quota>,
}

impl Kept {
    /// Returns the quota if it is its own.
    fn own_quota(&self) -> Option<Quota> {
        let quota = self.limiter.quota();
        Some(quota).filter(|_| self.inherited != Some(quota))
    }
}

#[derive(Debug)]
struct Keys {
    limiters: LruCache<String, Kept>,
    /// The quotas of keys that are at rest, if they are not that of the model.
    quotas: LruCache<String, Quota>,
}

impl Keys {
    /// Takes out limiters that are at rest, of those that were not used for the longest time.
    fn take_resting(&mut self) -> [Option<Kept>; EXAMINED] {
        [(); EXAMINED].map(|()| {
            let (key, kept) = self.limiters.pop_lru()?;
            if kept.limiter.is_at_rest() {
                return Some(self.forget(key, kept));
            }
            self.limiters.push(key, kept);
            None
        })
    }

    /// Keeps the quota of a limiter that leaves the map, if it is its own.
    fn forget(&mut self, key: String, kept: Kept) -> Kept {
        if let Some(quota) = kept.own_quota() {
            self.quotas.push(key, quota);
        }
        kept
    }
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
        // Grows as it is used.
        let mut keys = Keys {
            limiters: LruCache::unbounded(),
            quotas: LruCache::unbounded(),
        };
        keys.limiters.resize(max_keys);
        keys.quotas.resize(max_keys);
        Self {
            model,
            keys: Mutex::new(keys),
        }
    }

    /// Returns the limiter of a key, with its current quota, which is that of the model until
    /// [another one](Self::key_with) is set. Makes no call.
    pub fn key(&self, key: &str) -> RateLimiter {
        self.find(key).0
    }

    /// Returns the limiter of a key, and those that have left the map.
    fn find(&self, key: &str) -> (RateLimiter, Left) {
        let keys = &mut *lock(&self.keys);
        let found = keys.limiters.get(key).map(|kept| kept.limiter.clone());
        let resting = keys.take_resting();
        let mut evicted = None;
        let limiter = found.unwrap_or_else(|| {
            let limiter = self.model.of_key(key);
            let mut inherited = Some(limiter.quota());
            if let Some(quota) = keys.quotas.pop(key) {
                limiter.set_quota(quota);
                inherited = None;
            }
            let kept = Kept {
                limiter: limiter.clone(),
                inherited,
            };
            evicted = keys.limiters.push(key.to_owned(), kept);
            limiter
        });
        let evicted = evicted.map(|(key, kept)| keys.forget(key, kept));
        // These are dropped after the lock, because that may return tokens.
        (limiter, (resting, evicted))
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
        if let Some(kept) = lock(&self.keys).limiters.peek_mut(key) {
            kept.inherited = None;
        }
        limiter
    }

    /// Returns the number of limiters in the map: those that are in use, and those that are not known to be at
    /// rest.
    pub fn len(&self) -> usize {
        lock(&self.keys).limiters.len()
    }

    /// Returns whether there is no limiter in the map.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
