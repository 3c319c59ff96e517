//! [`Keyed`]: its construction, and the options that all kinds of limits have; and [`Key`], a handle of
//! one key.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;

use super::kind::KeyLimit;
use super::map::{Map, SettingOf};
use super::when_full::WhenFull;
use crate::algorithm::QuotaChange;
use crate::first_use::FirstUse;

/// The default maximum number of keys of a map.
const DEFAULT_KEYS: usize = 100_000;

/// The same limit for each of many keys, such as users or addresses. `T` is a
/// [`RateLimiter`](crate::RateLimiter), a [`Semaphore`](crate::Semaphore) or a [`Gate`](crate::Gate).
///
/// [`key`](Self::key) returns one [key](super::Key), which has most methods of a limiter, a semaphore or a gate.
/// Keys need no registration; a key that was never used, or no longer has a backlog, has its whole
/// burst or all its permits, or is open.
///
/// A map is not `Clone`: share it in a `static`, by reference, or in an `Arc`;
/// [`key_owned`](Self::key_owned) takes an `Arc`.
///
/// # Fairness
///
/// Each key has its own first-in first-out wait queue, like that of the
/// [`RateLimiter`](crate::RateLimiter#fairness), the [`Semaphore`](crate::Semaphore#fairness) and the
/// [`Gate`](crate::Gate#fairness). Keys do not wait for each other.
///
/// # Memory
///
/// A map keeps at most [`max_keys`](Self::max_keys) keys, exactly: a new key is counted before it
/// is inserted. A key that has fully recovered makes room for a new one. It has recovered when it
/// has no backlog, no permit in use and no waiters, is not paused, and no caller holds its semaphore. A new key looks
/// at no more than six entries for such a key; a hand that moves through the table chooses them. If
/// none of them has recovered, rates apply the policy of [`when_full`](Keyed::when_full), and
/// semaphores reject the new key. While the map has room, a new key looks at one entry, and replaces
/// it if it has been recovered for a minute (for a semaphore or a gate, at once). What a key has refunded does
/// not count. A map of gates has only the keys that were paused: other keys pass without an entry. A new pause
/// looks at all entries before it is refused.
///
/// Keys are in shards. Each shard has a lock and a hash table ([`hashbrown`]) that begins small and
/// doubles when it is filled to seven eighths. So while keys are only inserted, the map allocates
/// 8/7 to 16/7 slots for each key, and when keys are also dropped, at most 32/7. A slot takes the
/// size of the key and 16 bytes, with their padding, and 1 byte: 25 for a `u64`, 41 for a `String`.
/// A thousand `u64` keys take about 55 bytes each. In addition there are
///
/// - 256 bytes for each shard: there are 16 shards, or four for each hardware thread, rounded up to
///   a power of two, if that is more, but at most one for 64 keys of `max_keys`;
/// - the heap memory of the keys themselves;
/// - with [`quotas`](Keyed::quotas), about 40 bytes for each key, and 130 for each of the quotas;
/// - for a semaphore, about 250 bytes for each key;
/// - for a gate, about 100 bytes for each paused key, and 900 more if callers wait for it;
/// - for a rate, about 2,000 bytes for each key with its own limiter. A key has one if a caller had
///   to wait, has [reserved](super::Key::reserve), or has refunded a charge other than the last one. The
///   limiter is dropped when the key owes nothing: by later calls that wait or insert a key
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
/// collisions; the limits themselves still hold. If that matters, use [`std::hash::RandomState`]
/// (SipHash) with [`hasher`](Self::hasher).
///
/// # Pauses
///
/// When a table doubles, all its entries are moved under the lock of the shard, and calls for keys
/// of that shard wait. A shard has about 65,000 keys at most, for any `max_keys`, so such a pause
/// is of the order of a millisecond; it runs no code of the keys. Like in every hash table,
/// doubling is so rare that an insertion takes amortized constant time.
///
/// # Locks
///
/// A call locks one shard briefly. Under the lock it calls the `Eq` and `Borrow` of the key, and in
/// [`keys`](Self::keys), [`retain`](Self::retain) and [`requota_all`](Self::requota_all) also
/// `Clone`; these must not use the same map, or they deadlock. No lock is held while keys are
/// hashed, created and dropped, while wakers are called, and while the function of
/// [`quotas`](Keyed::quotas) or [`permits`](Keyed::permits) runs.
///
/// # Cancel safety
///
/// Like with the [`RateLimiter`](crate::RateLimiter#cancel-safety) and the
/// [`Semaphore`](crate::Semaphore#cancel-safety), dropping a waiting future loses nothing. A key
/// with waiters is never evicted.
///
/// # Construction
///
/// [`Keyed::rate_limiters`] and [`Keyed::semaphores`] create a map from a quota, or from a number
/// of permits; [`Keyed::gates`] creates one of open gates. The first two are `const`, and so are [`max_keys`](Self::max_keys) and
/// [`when_full`](Self::when_full), so a map with these options can be a `static`. [`Keyed::new`]
/// creates a map whose limits have the options of a given limiter, semaphore or gate. [`key`](Self::key)
/// takes any type that `ToOwned` converts to the key: a `&str` for a `String`, and the key itself
/// for a type that is [`Clone`], such as an `Arc<str>`.
///
/// # Examples
///
/// ```
/// use tollgate::{Clock, ErrorKind, Keyed, Quota, RateLimiter};
///
/// let each = RateLimiter::new(Quota::per_second(10).burst(2)).clock(Clock::manual());
/// let users: Keyed<String, RateLimiter> = Keyed::new(each);
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
    /// The pattern, with the options of the limits of all keys.
    pub(super) pattern: T,
    pub(super) setting_of: Option<SettingOf<K, T::Setting>>,
    max_keys: usize,
    pub(super) when_full: WhenFull,
    /// How a key carries over what it has spent; `None` for the default of the algorithm.
    pub(super) quota_change: Option<QuotaChange>,
    hasher: Option<S>,
    /// Creates the map at the first use. The constructors set it, so only they require `Default`
    /// and `Clone` of the hasher.
    make_map: fn(&Self) -> Map<K, T, S>,
    pub(super) map: OnceLock<Box<Map<K, T, S>>>,
    pub(super) first_use: FirstUse,
}

/// The limit that a [`Keyed`](crate::Keyed) has for each key: a [`RateLimiter`](crate::RateLimiter),
/// a [`Semaphore`](crate::Semaphore) or a [`Gate`](crate::Gate).
///
/// Its permit is a [`Charge`](crate::rate::Charge), an [`OwnedPermit`](crate::semaphore::OwnedPermit) or `()`.
/// Only this crate implements it.
pub trait Kind: Settle {}

impl<T: Settle> Kind for T {}

/// How a key takes back its permits. It is apart from [`KeyLimit`], because the table knows no handles.
pub trait Settle: KeyLimit {
    /// Gives back the unused part of a permit.
    fn settle<Q, S>(_key: &Key<'_, Self, Q, S>, permit: Self::Permit, _used: u64)
    where
        Q: Hash + Eq + ToOwned + ?Sized,
        S: BuildHasher,
    {
        drop(permit);
    }
}

/// This implementation applies to no map, because a clone would be another map. To share a map, put
/// it in an [`Arc`]; the compiler's error says so.
impl<K, T: Kind, S> Clone for Keyed<K, T, S>
where
    Self: InAnArc,
{
    fn clone(&self) -> Self {
        InAnArc::handle(self)
    }
}

/// Marks a type whose clone is another handle of it. No map is one.
#[diagnostic::on_unimplemented(
    message = "a `Keyed` has no `clone`: put it in an `Arc`, and clone that",
    label = "the map itself, not a handle of it",
    note = "`let map = Arc::new(map);` and then `Arc::clone(&map)`; or put it in a `static`"
)]
pub trait InAnArc {
    fn handle(&self) -> Self;
}

/// Construction of a map of any kind.
impl<K, T: Kind> Keyed<K, T> {
    /// Creates a map whose keys each have a limit like this one: a
    /// [`RateLimiter`](crate::RateLimiter) with the same quota and options, a
    /// [`Semaphore`](crate::Semaphore) with as many permits and the same options, or a
    /// [`Gate`](crate::Gate) on the same clock. `pattern` itself admits no caller. This is not a `const fn`; for a map in a `static`, see
    /// [`rate_limiters`](Self::rate_limiters) and [`semaphores`](Self::semaphores).
    ///
    /// Rates must have an [algorithm](crate::RateLimiter::algorithm) whose state is a single word:
    /// [`Gcra`](crate::Algorithm::Gcra), the default, a token bucket, a fixed window, or sub-intervals.
    ///
    /// # Panics
    ///
    /// Panics if `pattern` has been used, that is, for a rate limiter after its first use, for
    /// a semaphore that is closed or has permits in use, and for a gate that is blocked or has another handle. Panics if the algorithm is a sliding
    /// window or a log.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Algorithm, Clock, ErrorKind, Keyed, Quota, RateLimiter, Semaphore};
    ///
    /// let each = RateLimiter::new(Quota::per_hour(4))
    ///     .algorithm(Algorithm::FixedWindow)
    ///     .clock(Clock::manual());
    /// let users = Keyed::<u64, _>::new(each);
    /// users.key(&1).try_acquire_many(4)?;
    /// assert!(users.key(&1).try_acquire().is_err());
    ///
    /// let hosts = Keyed::<u64, _>::new(Semaphore::new(1).max_waiters(0));
    /// let _permit = hosts.key(&7).try_acquire()?;
    /// let refused = hosts.key(&7).acquire().wait().unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::QueueFull);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[doc(alias = "dashmap_with_clock")]
    #[doc(alias = "hashmap_with_clock")]
    #[must_use]
    #[track_caller]
    pub fn new(pattern: T) -> Self {
        Self::of_pattern(pattern.into_pattern())
    }

    pub(super) const fn of_pattern(pattern: T) -> Self {
        Self {
            pattern,
            setting_of: None,
            max_keys: DEFAULT_KEYS,
            when_full: WhenFull::Reject,
            quota_change: None,
            hasher: None,
            make_map: Self::new_map,
            map: OnceLock::new(),
            first_use: FirstUse::ahead(),
        }
    }
}

/// Options. Set them before the first use; a later option panics. Any call for a key, and any
/// change of all keys, is a use.
impl<K, T: Kind, S> Keyed<K, T, S> {
    /// Sets the maximum number of keys; 100,000 by default. When the map has this number, a new key
    /// is rejected with [`TooManyKeys`](crate::ErrorKind::TooManyKeys) unless it finds a key that
    /// can be evicted; see [`Keyed`](Keyed#memory).
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

    /// Sets the hasher of keys, in place of [the default](Self#hashing). With a predictable hasher,
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
            pattern: self.pattern,
            setting_of: self.setting_of,
            max_keys: self.max_keys,
            when_full: self.when_full,
            quota_change: self.quota_change,
            hasher: Some(hasher),
            make_map: Keyed::new_map,
            map: OnceLock::new(),
            first_use: self.first_use.assert_ahead(),
        }
    }

    #[inline]
    pub(super) fn map(&self) -> &Map<K, T, S> {
        match self.map.get() {
            Some(map) => map,
            None => self.begin(),
        }
    }

    #[cold]
    fn begin(&self) -> &Map<K, T, S> {
        self.first_use.begin();
        self.map.get_or_init(|| Box::new((self.make_map)(self)))
    }

    fn new_map(&self) -> Map<K, T, S>
    where
        S: Default + Clone,
    {
        Map::new(
            self.pattern.map_state(self.setting_of.is_some()),
            self.setting_of.clone(),
            self.hasher.clone().unwrap_or_default(),
            self.max_keys,
            self.when_full,
        )
    }

    /// Returns the setting of all keys without their own setting.
    pub(super) fn setting(&self) -> T::Setting {
        let begun = self.map.get();
        begun
            .map_or(&self.pattern, |map| T::pattern(&map.state))
            .setting()
    }

    /// Gives keys their own settings.
    #[track_caller]
    pub(super) fn with_settings(
        mut self,
        of: impl Fn(&K) -> T::Setting + Send + Sync + 'static,
    ) -> Self {
        self.first_use = self.first_use.assert_ahead();
        self.setting_of = Some(Arc::new(of));
        self
    }
}

impl<K, T: Kind, S> fmt::Debug for Keyed<K, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed")
            .field(T::SETTING, &format_args!("{}", self.setting()))
            .field("max_keys", &self.max_keys)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// One key of a [`Keyed`], with the methods of a [`RateLimiter`](crate::RateLimiter), except for pauses, holds,
/// following a server and local handles, of a [`Semaphore`](crate::Semaphore) or of a [`Gate`](crate::Gate).
///
/// [`Keyed::key`] makes one that borrows the map and the key, which may be of a borrowed type such
/// as `str`; [`Keyed::key_owned`] makes one that shares the map, and so may move into a task or an
/// adapter. `Q` is the type of the key that was given. Making one looks nothing up and allocates
/// nothing. The map may drop and insert the entry of the key while this handle exists.
#[must_use = "a throttle does nothing until it is entered"]
pub struct Key<'a, T: Kind, Q: ToOwned + ?Sized, S = RandomState>(Parts<'a, T, Q, S>);

/// A map and a key, either both borrowed or both owned.
enum Parts<'a, T: Kind, Q: ToOwned + ?Sized, S> {
    Borrowed(&'a Keyed<Q::Owned, T, S>, &'a Q),
    Shared(Arc<Keyed<Q::Owned, T, S>>, Q::Owned),
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
        Key(Parts::Borrowed(self, key))
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
        Key(Parts::Shared(self, key))
    }
}

impl<T: Kind, Q: ToOwned + ?Sized, S> Key<'_, T, Q, S> {
    /// Returns the key.
    #[inline]
    pub fn key(&self) -> &Q {
        match &self.0 {
            Parts::Borrowed(_, key) => key,
            Parts::Shared(_, key) => key.borrow(),
        }
    }

    /// Returns the map that the key belongs to.
    #[inline]
    pub fn keyed(&self) -> &Keyed<Q::Owned, T, S> {
        match &self.0 {
            Parts::Borrowed(keyed, _) => keyed,
            Parts::Shared(keyed, _) => keyed,
        }
    }
}

impl<T: Kind, Q: ToOwned + ?Sized, S> Clone for Key<'_, T, Q, S> {
    #[inline]
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Parts::Borrowed(keyed, key) => Parts::Borrowed(keyed, key),
            Parts::Shared(keyed, key) => Parts::Shared(Arc::clone(keyed), key.borrow().to_owned()),
        })
    }
}

impl<T: Kind, Q: ToOwned + fmt::Debug + ?Sized, S> fmt::Debug for Key<'_, T, Q, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.key()).finish()
    }
}
