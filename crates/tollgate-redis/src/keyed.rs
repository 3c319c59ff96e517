//! [`Keyed`]: a rate limit, or a semaphore, for each of many keys.
//!
//! 1. Callers that use a key at the same time get the same limit.
//! 2. A limit is kept while it has a handle elsewhere, or knows something that another one would not: waiters, leases,
//!    turns, a denial, tokens, a failure. Otherwise it is at rest, and dropped. A key at rest takes memory only
//!    if its quota, or its number of permits, is its own.
//! 3. Each look-up examines the two entries that were not used or examined for the longest time, so at most one
//!    more entry is made than is examined, and an entry that is at rest soon goes.
//!
//! The locks of limits are taken under the lock, and never the other way round. No limit is dropped under it, because that
//! may return tokens.

use std::num::NonZeroUsize;

use lru::LruCache;
use tollgate::Quota;

use crate::lease::Semaphore;
use crate::queue::LimitStatistics;
use crate::rate::RateLimiter;
use crate::sync::{Mutex, lock};

/// The number of entries that a look-up examines.
const EXAMINED: usize = 2;

/// A [`RateLimiter`] or a [`Semaphore`] for each of many keys: users, tenants, addresses.
///
/// Callers that use the same key at the same time get the same limit, so they share its calls, its queue, and its cached
/// denials. Limits that are created for each request do not.
///
/// # Memory
///
/// The map keeps the limits that are in use, and those that know something: a denial, a failure of the store,
/// a [prefetch](RateLimiter::prefetch) that was made, the charges of a [`Local`](crate::Fallback::Local)
/// share. A semaphore is in use while a lease of it is held. A key that is at rest takes no memory, or if its quota or its
/// permits are not those of the model, the memory of its name and of these. Each look-up forgets up to two limits that
/// are at rest.
///
/// The numbers of limits and of quotas are bounded. At the bound, the map evicts the one that was not used, or
/// not found in use, for the longest time. Callers that hold an evicted limit can continue to use it; the next
/// caller for its key gets another one. Only the sharing is lost, because the server counts. While the store is
/// unavailable and a [`Local`](crate::Fallback::Local) share decides, the new limiter has a whole share again.
///
/// A limiter has one request under way for all of its waiters, so requests that hang are at most as many as keys that are
/// in use, beside those of `peek`, `reserve` and refunds, which are made for each call.
///
/// Tokens that an evicted limiter has prefetched are returned in the background, and so are those of a `Keyed`
/// that is dropped.
///
/// # Semaphores
///
/// The semaphores of all keys have one task for their waiters and one for their renewals, whatever the number of keys, and
/// calls that are made at the same time share requests: up to 11 keys in one request, which takes the server less than a
/// millisecond. In a cluster, only keys in the same slot do. A full key delays no other.
///
/// A process looks after each key that it waits for once a second, or less often behind many tickets, but makes at
/// most 500 looks a second, as long as each key has one in 10 seconds. A look repairs what was lost: a message, a ticket, the data of the server. Waiters that
/// get no messages [poll](Semaphore::poll), in the same way at most about 1,000 times a second; with 1,000 such
/// keys, a key may be free for a second or two before this process notices. So clusters suit fewer keys that are waited for
/// at once. Such a process keeps its places: it has two polls, so with 1,000 keys two seconds, with 10,000 or more 20
/// seconds, to claim a lease. If it dies in front of a line, it delays the others of that line once by as much.
///
/// Each key is renewed by itself, so a node of a cluster that hangs costs no lease on another. One `Keyed` has at most 16
/// requests of a slot under way; beyond 1,024 of all slots, it has one of each slot. So at most about 17,400 of its requests
/// hang with their nodes, each until its [deadline](crate::Store::deadline), and each slot of a node that answers still has
/// its request. Several `Keyed` have as many each, and calls whose callers have left are not counted. After a failure, the
/// next attempt for a key is made after a pause: up to 0.1 milliseconds for each lease that is held, each release, or each key
/// that is waited for, whichever are most, and at most a second. A renewal pauses for at most a tenth of the ttl.
///
/// On the server, a key that nobody holds or waits for takes no memory after twice the [ttl](Semaphore::ttl) (or the
/// [grace](Semaphore::grace) time, if that is longer). A [fencing](crate::Lease::fencing) number is greater than the earlier
/// ones of its key; those of other keys do not matter. After that time, numbers rise because they are never less than the
/// microsecond of the server's clock, so they may fall if that clock was set back meanwhile, unless the same process got
/// the earlier ones.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
/// use tollgate::Quota;
/// use tollgate_redis::{Fallback, Keyed, RateLimiter, Semaphore, Store};
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
///
/// // One import at a time for each tenant, on all machines together.
/// let imports = Keyed::new(Semaphore::new(&store, "imports", 1), 100_000);
/// let lease = imports.key("acme").acquire().timeout(Duration::from_secs(60)).await?;
/// println!("import {}", lease.fencing());
/// lease.release().await?;
/// // This tenant may have three.
/// let _lease = imports.key_with("globex", 3).acquire().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Keyed<T: Kind = RateLimiter> {
    model: T,
    keys: Mutex<Keys<T>>,
}

/// The limits that a [`Keyed`] has: [`RateLimiter`] and [`Semaphore`].
pub trait Kind: KeyLimit {}

impl<T: KeyLimit> Kind for T {}

/// What a limit of a key can do for its map.
pub trait KeyLimit: Clone + std::fmt::Debug {
    /// What a key may have of its own.
    type Own: Clone + std::fmt::Debug + PartialEq;

    /// Returns a model whose keys share what they can.
    fn model(self) -> Self {
        self
    }

    /// Returns the limit of a key.
    fn of_key(&self, key: &str) -> Self;

    fn own(&self) -> Self::Own;

    fn set_own(&self, own: Self::Own);

    /// Returns whether this is the only handle, and another limit of the key would decide in the same way.
    fn is_at_rest(&self) -> bool;
}

impl KeyLimit for RateLimiter {
    type Own = Quota;

    fn of_key(&self, key: &str) -> Self {
        self.of_key(key)
    }

    fn own(&self) -> Quota {
        self.quota()
    }

    #[track_caller]
    fn set_own(&self, quota: Quota) {
        self.set_quota(quota);
    }

    fn is_at_rest(&self) -> bool {
        self.is_at_rest()
    }
}

impl KeyLimit for Semaphore {
    type Own = usize;

    fn model(self) -> Self {
        self.of_keys()
    }

    fn of_key(&self, key: &str) -> Self {
        self.of_key(key)
    }

    fn own(&self) -> usize {
        self.permits()
    }

    fn set_own(&self, permits: usize) {
        if permits != self.permits() {
            self.set_permits(permits);
        }
    }

    fn is_at_rest(&self) -> bool {
        self.is_at_rest()
    }
}

/// Limits that have left the map.
type Left<T> = ([Option<Kept<T>>; EXAMINED], Option<Kept<T>>);

/// A limit, and the quota of the model with which it began, unless it has one of its own.
#[derive(Clone, Debug)]
struct Kept<T: KeyLimit> {
    limit: T,
    inherited: Option<T::Own>,
}

impl<T: KeyLimit> Kept<T> {
    /// Returns the quota if it is its own.
    fn own(&self) -> Option<T::Own> {
        let own = self.limit.own();
        (self.inherited.as_ref() != Some(&own)).then_some(own)
    }
}

#[derive(Debug)]
struct Keys<T: KeyLimit> {
    limits: LruCache<String, Kept<T>>,
    /// The quotas of keys that are at rest, if they are not that of the model.
    owns: LruCache<String, T::Own>,
}

impl<T: KeyLimit> Keys<T> {
    /// Takes out limits that are at rest, of those that were not used for the longest time.
    fn take_resting(&mut self) -> [Option<Kept<T>>; EXAMINED] {
        [(); EXAMINED].map(|()| {
            let (key, kept) = self.limits.pop_lru()?;
            if kept.limit.is_at_rest() {
                return Some(self.forget(key, kept));
            }
            self.limits.push(key, kept);
            None
        })
    }

    /// Keeps the quota of a limit that leaves the map, if it is its own.
    fn forget(&mut self, key: String, kept: Kept<T>) -> Kept<T> {
        if let Some(own) = kept.own() {
            self.owns.push(key, own);
        }
        kept
    }
}

impl<T: Kind> Keyed<T> {
    /// Creates a map of at most `max_keys` limits like this one. The model itself is a separate limit.
    ///
    /// On the server, the [key](crate#keys-on-the-server) of a limiter is the key of the model, a slash, and the
    /// limiter's own key. The name of a semaphore is that of the model, a slash, and its own key.
    ///
    /// In a cluster, all keys are in one slot if the name of the model has a tag in braces, and
    /// spread over all slots otherwise.
    ///
    /// # Panics
    ///
    /// Panics if `max_keys` is 0.
    #[track_caller]
    pub fn new(model: T, max_keys: usize) -> Self {
        let Some(max_keys) = NonZeroUsize::new(max_keys) else {
            panic!("a map cannot be limited to 0 keys");
        };
        // Grows as it is used.
        let mut keys = Keys {
            limits: LruCache::unbounded(),
            owns: LruCache::unbounded(),
        };
        keys.limits.resize(max_keys);
        keys.owns.resize(max_keys);
        Self {
            model: model.model(),
            keys: Mutex::new(keys),
        }
    }

    /// Returns the limit of a key, with its current quota or permits, which are those of the model until
    /// `key_with` sets others. Makes no call.
    pub fn key(&self, key: &str) -> T {
        self.find(key).0
    }

    /// Returns the limit of a key, and those that have left the map.
    fn find(&self, key: &str) -> (T, Left<T>) {
        let keys = &mut *lock(&self.keys);
        let found = keys.limits.get(key).map(|kept| kept.limit.clone());
        let resting = keys.take_resting();
        let mut evicted = None;
        let limit = found.unwrap_or_else(|| {
            let limit = self.model.of_key(key);
            let mut inherited = Some(limit.own());
            if let Some(own) = keys.owns.pop(key) {
                limit.set_own(own);
                inherited = None;
            }
            let kept = Kept {
                limit: limit.clone(),
                inherited,
            };
            evicted = keys.limits.push(key.to_owned(), kept);
            limit
        });
        let evicted = evicted.map(|(key, kept)| keys.forget(key, kept));
        // These are dropped after the lock, because that may return tokens.
        (limit, (resting, evicted))
    }

    /// Returns the limit of a key, which has this quota of its own.
    #[track_caller]
    fn with_own(&self, key: &str, own: T::Own) -> T {
        let limit = self.key(key);
        limit.set_own(own);
        if let Some(kept) = lock(&self.keys).limits.peek_mut(key) {
            kept.inherited = None;
        }
        limit
    }

    /// Returns the number of limits in the map: those that are in use, and those that are not known to be at
    /// rest.
    pub fn len(&self) -> usize {
        lock(&self.keys).limits.len()
    }

    /// Returns whether there is no limit in the map.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Keyed<RateLimiter> {
    /// Returns the limiter of a key, and [sets](RateLimiter::set_quota) this quota if it differs.
    /// Makes no call.
    ///
    /// # Panics
    ///
    /// Panics in the cases of [`RateLimiter::set_quota`].
    #[track_caller]
    pub fn key_with(&self, key: &str, quota: Quota) -> RateLimiter {
        self.with_own(key, quota)
    }
}

impl Keyed<Semaphore> {
    /// Returns the semaphore of a key, and [sets](Semaphore::set_permits) its number of permits if that differs. Makes no
    /// call.
    pub fn key_with(&self, key: &str, permits: usize) -> Semaphore {
        self.with_own(key, permits)
    }

    /// Returns what the semaphores of all keys have done. A snapshot.
    pub fn statistics(&self) -> LimitStatistics {
        self.model.statistics()
    }
}
