//! [`Keyed`]: the limiters of many keys.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use tollgate::Quota;

use super::limiter::RateLimiter;

/// A limit for each of many keys: users, tenants, addresses.
///
/// Those who use the same key at the same time have the same [`RateLimiter`] of it, so they share its
/// calls, its line, and what it knows of denials, as they would not with one made for each request.
///
/// It remembers so many limiters at most. The one that was not asked for for longest is forgotten
/// first: who has it goes on with it, and who asks for its key then gets another one. Nothing is
/// lost by that but what they would have shared, as it is the server that counts; while it is away,
/// and a [`Local`](super::Fallback::Local) share decides, that is a whole share anew.
///
/// What a forgotten one has [taken ahead](RateLimiter::ahead), and those of a `Keyed` that is dropped,
/// goes back in the background.
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
/// // Under the key `requests:42`.
/// users.get("42").acquire().timeout(Duration::from_secs(2)).await?;
/// // Whoever pays has more.
/// let paid = Quota::per_minute(1000).burst(100);
/// users.get_with("77", paid).try_acquire().await?;
/// # Ok(())
/// # }
/// ```
pub struct Keyed {
    model: RateLimiter,
    limiters: Mutex<LruCache<String, RateLimiter>>,
}

impl Keyed {
    /// Limiters as this one, each under its key, a colon, and a key of its own. At most so many are
    /// remembered.
    ///
    /// On a cluster all keys are in one slot if the first part has a part in braces, and anywhere
    /// if it has none.
    ///
    /// # Panics
    ///
    /// If `most` is 0.
    #[track_caller]
    pub fn new(model: RateLimiter, most: usize) -> Self {
        let Some(most) = NonZeroUsize::new(most) else {
            panic!("limiters of at most 0 keys cannot be shared");
        };
        Self {
            model,
            limiters: Mutex::new(LruCache::new(most)),
        }
    }

    fn limiters(&self) -> MutexGuard<'_, LruCache<String, RateLimiter>> {
        // What is there stays whole, whatever panics.
        self.limiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limiter of a key, by the quota that it has, which is that of the model at first. Makes no
    /// call.
    pub fn get(&self, key: &str) -> RateLimiter {
        let mut forgotten = None;
        let mut limiters = self.limiters();
        let found = limiters.get(key).cloned();
        let limiter = found.unwrap_or_else(|| {
            let limiter = self.model.of_key(key);
            forgotten = limiters.push(key.to_owned(), limiter.clone());
            limiter
        });
        drop(limiters);
        // Outside of the lock, as it may give back what it has taken ahead.
        drop(forgotten);
        limiter
    }

    /// The limiter of a key, which [goes on](RateLimiter::set_quota) by this quota if it has another
    /// one. Makes no call.
    ///
    /// # Panics
    ///
    /// As [`RateLimiter::set_quota`].
    #[track_caller]
    pub fn get_with(&self, key: &str, quota: Quota) -> RateLimiter {
        let limiter = self.get(key);
        if limiter.quota() != quota {
            limiter.set_quota(quota);
        }
        limiter
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.limiters().len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Keyed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed")
            .field("key", &self.model.key())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
