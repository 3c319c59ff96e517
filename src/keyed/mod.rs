//! The same limit for every key: [`Keyed`], its keys and futures.
//!
//! The most used types are also exported at the crate root.

mod bulk;
mod contents;
mod key;
mod map;
mod permits;
mod rates;
#[cfg(test)]
mod tests;
mod throttle;
mod when_full;

use std::borrow::Borrow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;

pub use self::key::{Acquire, Key};
use self::kind::KeyLimit;
use self::map::Map;
pub use self::when_full::WhenFull;
use crate::first_use::FirstUse;

/// The default maximum number of keys of a map.
const DEFAULT_KEYS: usize = 100_000;

/// The same limit for each of many keys, such as users or addresses. `T` is a
/// [`RateLimiter`](crate::RateLimiter) or a [`Semaphore`](crate::Semaphore).
///
/// [`key`](Self::key) returns one [key](Key), which has the methods of a limiter or a semaphore.
/// Keys need no registration; a key that was never used, or has no debt any more, has its whole
/// burst or all its permits.
///
/// # Fairness
///
/// Each key has its own first-in first-out wait queue, like that of the
/// [`RateLimiter`](crate::RateLimiter#fairness) and the [`Semaphore`](crate::Semaphore#fairness). Keys do not
/// wait for each other.
///
/// # Memory
///
/// A map keeps at most [`max_keys`](Self::max_keys) keys, exactly: a new key is counted before it
/// is inserted. A key that has fully recovered makes room for a new one. It has recovered when it
/// has no debt, no permit in use and no waiters, and no caller holds its semaphore. A new key looks
/// at no more than six entries for such a key; a hand that moves through the table chooses them. If
/// none of them has recovered, rates apply the policy of [`when_full`](Keyed::when_full), and
/// semaphores reject the new key. While the map has room, a new key replaces one that it looks at
/// if that has been recovered for a minute (for a semaphore, at once).
///
/// Keys are in shards. Each shard has a lock and a hash table ([`hashbrown`]) that begins small and
/// doubles when it is filled to seven eighths. So the map allocates 8/7 to 16/7 slots for each key
/// that it keeps while keys are only inserted, and at most 32/7 when keys are also dropped. A slot
/// takes the size of the key and 16 bytes, with their padding, and 1 byte: 25 for a `u64`, 41 for a
/// `String`. A thousand `u64` keys take about 55 bytes each. In addition there are
///
/// - 256 bytes for each shard: there are 16 shards, or four for each hardware thread, rounded up to
///   a power of two, if that is more, but at most one for 64 keys of `max_keys`;
/// - what the keys themselves have on the heap;
/// - with [`quotas`](Keyed::quotas), about 40 bytes for each key, and 130 for each of the quotas;
/// - for a semaphore, about 250 bytes for each key;
/// - for a rate, about 2,000 bytes for each key that has its own limiter, because a caller had to
///   wait, has [reserved](Key::reserve), or has refunded a charge other than the last one. The
///   limiter is dropped when all charges are paid off: by later calls that wait or insert a key
///   (each checks two such limiters in turn), or by [`shrink`](Self::shrink);
/// - for a rate on [tokio's time](crate::Clock#limiters-that-are-used-in-several-runtimes), about
///   900 bytes for each key, and 720 for each runtime that uses the key.
///
/// # Hashing
///
/// By default keys are hashed with [foldhash](https://docs.rs/foldhash), which is fast and has a
/// random seed for each map. The seed prevents attackers who cannot observe the map from choosing
/// keys that collide. It is not cryptographic: an attacker who can choose keys *and* measure
/// response times, or read hashes, may learn enough of the seed to make keys collide. Calls for
/// colliding keys, and for keys of the same shard, then take longer in proportion to the
/// collisions; the limits themselves still hold. Where that matters, use [`std::hash::RandomState`]
/// (SipHash) with [`hasher`](Self::hasher).
///
/// # Pauses
///
/// When a table doubles, all its entries are moved under the lock of the shard, and calls for keys
/// of that shard wait. A shard has about 65,000 keys at most, whatever `max_keys` is, so such a
/// pause is of the order of a millisecond; it runs no code of the keys. As in every hash table,
/// doubling is so rare that an insertion takes amortized constant time.
///
/// # Locks
///
/// A call locks one shard briefly. Under the lock it calls the `Eq` and `Borrow` of the key, and in
/// [`keys`](Self::keys), [`retain`](Self::retain) and [`requota_all`](Self::requota_all) also
/// `Clone`; these must not use
/// the same map, or they deadlock. No lock is held while keys are hashed, made and dropped, while
/// wakers are called, and while the function of [`quotas`](Keyed::quotas) or
/// [`permits`](Keyed::permits) runs.
///
/// # Cancel safety
///
/// As with the [`RateLimiter`](crate::RateLimiter#cancel-safety) and the
/// [`Semaphore`](crate::Semaphore#cancel-safety), dropping a waiting future loses nothing. A key with
/// waiters is never evicted.
///
/// # Construction
///
/// [`Keyed::rate_limiters`] and [`Keyed::semaphores`] make one; both are `const`, and so are
/// [`max_keys`](Self::max_keys) and [`when_full`](Self::when_full), so a map with these options can
/// be a `static`. [`key`](Self::key) takes any type that `ToOwned` converts to the key: a `&str` for a
/// `String`, and the key itself for a type that is [`Clone`], such as an `Arc<str>`.
///
/// # Examples
///
/// ```
/// use tollgate::{Clock, ErrorKind, Keyed, Quota, RateLimiter};
///
/// let users: Keyed<String, RateLimiter> = Keyed::rate_limiters(Quota::per_second(10).burst(2))
///     .clock(Clock::manual());
///
/// users.key("ann").try_acquire()?;
/// users.key("ann").try_acquire()?;
/// let rejected = users.key("ann").try_acquire().unwrap_err();
/// assert_eq!(rejected.kind(), ErrorKind::RateLimited);
/// // Each key has its own limit.
/// users.key("bob").try_acquire()?;
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
///
/// Limits for a user, a team and everyone, the narrowest scope first:
///
/// ```
/// use tollgate::{Keyed, Quota, RateLimiter, all};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let users = Keyed::<u64, _>::semaphores(4);
/// let teams = Keyed::<String, _>::rate_limiters(Quota::per_second(100).burst(10));
/// let everyone = RateLimiter::new(Quota::per_second(1000).burst(50));
///
/// let (user, team) = (7, "blue");
/// let (slot, _, _) = all((users.key(&user), teams.key(team), &everyone)).acquire().await?;
/// assert_eq!(users.key(&user).snapshot().available, 3);
/// # drop(slot);
/// # Ok(())
/// # }
/// ```
///
/// [`hashbrown`]: https://docs.rs/hashbrown
#[doc(alias = "per_user")]
#[doc(alias = "DefaultKeyedRateLimiter")]
#[doc(alias = "SharedRateLimiter")]
pub struct Keyed<K, T: Kind, S = RandomState> {
    options: T::Options<K>,
    max_keys: usize,
    when_full: WhenFull,
    hasher: Option<S>,
    /// Creates the map at the first use. The constructors set it, so only they ask for `Default` and
    /// `Clone` of the hasher.
    make_map: fn(&Self) -> Map<T::Contents<K>, S>,
    map: OnceLock<Box<Map<T::Contents<K>, S>>>,
    first_use: FirstUse,
}

/// The limit that a [`Keyed`] has for each key: a [`RateLimiter`](crate::RateLimiter) or a
/// [`Semaphore`](crate::Semaphore).
///
/// Its permit is a [`Charge`](crate::Charge) or an [`OwnedPermit`](crate::OwnedPermit), and its cost a `u64` or
/// a `u32`. Only this crate implements it.
pub trait Kind: KeyLimit {}

impl<T: KeyLimit> Kind for T {}

/// Of no name outside of this module, so that the trait is implemented here only.
mod kind {
    use std::fmt;
    use std::hash::{BuildHasher, Hash};

    use super::contents::Limits;
    use super::{Key, Keyed};
    use crate::limit_status::LimitStatus;

    /// What [`Kind`](super::Kind) consists of. No other crate can name it.
    pub trait KeyLimit: Sized + 'static {
        /// What an admitted caller gets.
        type Permit;

        /// The type of a cost: `u64` for rates, and `u32` for permits.
        type Cost: Copy + From<u8> + Into<u64> + TryFrom<u64>;

        /// The options, which can be set before the first use.
        type Options<K>;

        /// The state that all keys have in common.
        type Contents<K>: Limits<Key = K, Permit = Self::Permit, Cost = Self::Cost>;

        fn contents<K>(options: &Self::Options<K>) -> Self::Contents<K>;

        /// Adds the limit of all keys to a debug output.
        fn describe<K, S>(keyed: &Keyed<K, Self, S>, to: &mut fmt::DebugStruct<'_, '_>);

        /// Takes back an unused permit of a key.
        fn rollback<Q, S>(_key: &Key<'_, Self, Q, S>, permit: Self::Permit)
        where
            Q: Hash + Eq + ToOwned + ?Sized,
            S: BuildHasher,
        {
            drop(permit);
        }

        /// Gives back what was not used of a permit.
        fn settle<Q, S>(_key: &Key<'_, Self, Q, S>, permit: Self::Permit, _used: u64)
        where
            Q: Hash + Eq + ToOwned + ?Sized,
            S: BuildHasher,
        {
            drop(permit);
        }

        /// Returns what the limit of a key allows now.
        fn status<Q, S>(key: &Key<'_, Self, Q, S>, permit: Option<&Self::Permit>) -> LimitStatus
        where
            Q: Hash + Eq + ToOwned + ?Sized,
            S: BuildHasher;

        /// Returns how many units of a key adapters take at once, and the most that one call may ask for now, at
        /// least 1.
        fn chunk_and_max_units<Q, S>(key: &Key<'_, Self, Q, S>) -> (u64, u64)
        where
            Q: Hash + Eq + ToOwned + ?Sized,
            S: BuildHasher;
    }
}

impl<K, T: Kind> Keyed<K, T> {
    const fn with_options(options: T::Options<K>) -> Self {
        Self {
            options,
            max_keys: DEFAULT_KEYS,
            when_full: WhenFull::Reject,
            hasher: None,
            make_map: Self::new_map,
            map: OnceLock::new(),
            first_use: FirstUse::ahead(),
        }
    }
}

/// Options. They are set before the first use, which is any call for a key, and any change of all keys: an
/// option that is set later panics.
impl<K, T: Kind, S> Keyed<K, T, S> {
    /// Sets the maximum number of keys; 100,000 by default. When the map has as many, a new key is
    /// rejected with [`TooManyKeys`](crate::ErrorKind::TooManyKeys) unless it finds a key that can
    /// be evicted; see [`Keyed`](Keyed#memory).
    ///
    /// # Panics
    ///
    /// Panics after the first use, and if the number is 0 or above 2^32.
    #[must_use]
    #[track_caller]
    pub const fn max_keys(mut self, max_keys: usize) -> Self {
        assert!(
            max_keys > 0 && max_keys as u64 <= 1 << 32,
            "max_keys must be from 1 to 2^32"
        );
        self.first_use = self.first_use.assert_ahead();
        self.max_keys = max_keys;
        self
    }

    /// Hashes keys with another hasher than [the default](Self#hashing). With a predictable hasher,
    /// an attacker who chooses keys can make calls slow.
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::hash::RandomState;
    /// use tollgate::{Keyed, Quota};
    ///
    /// let users = Keyed::<String, _>::rate_limiters(Quota::per_second(10)).hasher(RandomState::new());
    /// users.key("ann").try_acquire()?;
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[doc(alias = "dashmap_with_hasher")]
    #[doc(alias = "hashmap_with_hasher")]
    #[must_use]
    #[track_caller]
    pub fn hasher<H: Default + Clone>(self, hasher: H) -> Keyed<K, T, H> {
        Keyed {
            options: self.options,
            max_keys: self.max_keys,
            when_full: self.when_full,
            hasher: Some(hasher),
            make_map: Keyed::new_map,
            map: OnceLock::new(),
            first_use: self.first_use.assert_ahead(),
        }
    }
}

/// Handles of single keys.
impl<K, T: Kind, S> Keyed<K, T, S> {
    /// Returns a handle of one key. The key may be borrowed: a `&str` for keys that are `String`s.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Keyed, Quota};
    ///
    /// let users = Keyed::<String, _>::rate_limiters(Quota::per_second(10));
    /// let ann = users.key("ann");
    /// assert!(ann.try_acquire().is_ok());
    /// assert_eq!(users.key(&String::from("ann")).snapshot().available, 0);
    /// ```
    #[inline]
    pub fn key<'a, Q>(&'a self, key: &'a Q) -> Key<'a, T, Q, S>
    where
        K: Borrow<Q>,
        Q: ToOwned<Owned = K> + ?Sized,
    {
        Key::borrowed(self, key)
    }

    /// Returns a handle of one key that shares the map, and so may move into a task, a stream or a
    /// service.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::Keyed;
    ///
    /// let users = Arc::new(Keyed::<u64, _>::semaphores(1));
    /// let user = Arc::clone(&users).key_owned(7);
    /// let permit = std::thread::spawn(move || user.try_acquire()).join().unwrap()?;
    /// assert_eq!(users.key(&7).snapshot().available, 0);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn key_owned(self: Arc<Self>, key: K) -> Key<'static, T, K, S>
    where
        K: Clone + 'static,
        S: 'static,
    {
        Key::shared(self, key)
    }
}

impl<K, T: Kind, S> Keyed<K, T, S> {
    #[inline]
    fn map(&self) -> &Map<T::Contents<K>, S> {
        match self.map.get() {
            Some(map) => map,
            None => self.begin(),
        }
    }

    #[cold]
    fn begin(&self) -> &Map<T::Contents<K>, S> {
        self.first_use.begin();
        self.map.get_or_init(|| Box::new((self.make_map)(self)))
    }

    fn new_map(&self) -> Map<T::Contents<K>, S>
    where
        S: Default + Clone,
    {
        let contents = T::contents(&self.options);
        let hasher = self.hasher.clone().unwrap_or_default();
        Map::new(contents, hasher, self.max_keys, self.when_full)
    }
}

impl<K, T: Kind, S> fmt::Debug for Keyed<K, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Keyed");
        T::describe(self, &mut debug);
        debug
            .field("max_keys", &self.max_keys)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
