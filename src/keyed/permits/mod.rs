//! Semaphores by key.
//!
//! 1. An entry holds a semaphore, which permits and waits share. While one of them is there it
//!    cannot go: nobody else has the semaphore of an entry that is dropped, and nobody can get it but
//!    under the lock of its shard.
//! 2. A newcomer that takes the place of a key has its semaphore too, which nobody uses.

mod key;

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, OnceLock};

use super::map::{Map, Rule, Shard};
use super::table::{Home, Standing};
use super::{DEFAULT_KEYS, Keyed, checked_keys};
use crate::concurrency::Semaphore;
use crate::error::{AcquireError, ErrorKind};
use crate::sync::{Ordering, fence};

/// Says how many permits a key has.
type PermitsOf<K> = Arc<dyn Fn(&K) -> usize + Send + Sync>;

/// The map of a [`Keyed`] of semaphores.
pub struct Permits<K, S> {
    permits: usize,
    max_waiters: usize,
    max_keys: usize,
    permits_of: Option<PermitsOf<K>>,
    hasher: Option<S>,
    map: OnceLock<Box<Semaphores<K, S>>>,
}

type Semaphores<K, S> = Map<K, Arc<Semaphore>, (), S>;

impl<K, S: Default + Clone> Permits<K, S> {
    #[inline]
    fn map(&self) -> &Semaphores<K, S> {
        self.map.get_or_init(|| {
            let hasher = self.hasher.clone().unwrap_or_default();
            Box::new(Map::new(self.max_keys, hasher, |_| ()))
        })
    }
}

impl<K, S> Permits<K, S> {
    fn begun(&self) -> Option<&Semaphores<K, S>> {
        self.map.get().map(|map| &**map)
    }
}

impl<K, S> Permits<K, S>
where
    K: Hash + Eq,
    S: BuildHasher + Default + Clone,
{
    /// The semaphore of a key, which is made if it is not there.
    fn semaphore<Q>(&self, key: &Q) -> Result<Arc<Semaphore>, AcquireError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let map = self.map();
        let mut owned = None;
        let mut permits = self.permits;
        if let Some(permits_of) = &self.permits_of {
            permits = permits_of(owned.insert(key.to_owned()));
            // Here, where no lock is held yet.
            assert!(
                permits <= Semaphore::MAX_PERMITS,
                "a semaphore cannot have {permits} permits, see MAX_PERMITS"
            );
        }
        let hash = map.hash(key);
        let shard = map.lock(hash);
        if shard.closed {
            drop(shard);
            return Err(AcquireError::new(ErrorKind::Closed));
        }
        let found = shard.table.find(hash, |other| other.borrow() == key);
        let semaphore = match found {
            Some(number) => {
                let semaphore = Arc::clone(shard.table.get(number));
                drop(shard);
                semaphore
            }
            None => {
                let newcomer = Newcomer {
                    permits,
                    max_waiters: self.max_waiters,
                };
                map.newcomer((key, hash), owned, shard, &newcomer, |shard, number| {
                    Arc::clone(shard.table.get(number))
                })?
            }
        };
        if self.permits_of.is_some() && semaphore.permits() != permits {
            semaphore.set_permits(permits);
        }
        Ok(semaphore)
    }

    /// What is seen of a semaphore of a key; `None` if there is none.
    fn look<Q, R>(&self, key: &Q, look: impl FnOnce(&Semaphore) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let map = self.map();
        let hash = map.hash(key);
        let shard = map.lock(hash);
        let number = shard.table.find(hash, |other| other.borrow() == key)?;
        let semaphore = Arc::clone(shard.table.get(number));
        drop(shard);
        Some(look(&semaphore))
    }

    /// How many permits a key has that is not there.
    fn permits_of<Q>(&self, key: &Q) -> usize
    where
        Q: ToOwned<Owned = K> + ?Sized,
    {
        match &self.permits_of {
            Some(permits_of) => permits_of(&key.to_owned()),
            None => self.permits,
        }
    }
}

/// Whether nobody has it but its entry, and nothing is missing of it. Only under the lock of the
/// shard.
fn is_idle(semaphore: &Arc<Semaphore>) -> bool {
    if Arc::strong_count(semaphore) > 1 {
        return false;
    }
    // Pairs with the release by which others have dropped it: what they gave back is seen.
    fence(Ordering::Acquire);
    semaphore.available_permits() >= semaphore.permits()
}

/// What a newcomer brings.
struct Newcomer {
    permits: usize,
    max_waiters: usize,
}

impl<K> Rule<K, Arc<Semaphore>, ()> for Newcomer {
    type Released = ();

    fn standing(&self, _: &(), _: usize, semaphore: &Arc<Semaphore>, _spare: bool) -> Standing {
        if is_idle(semaphore) {
            Standing::Recovered
        } else {
            Standing::Pinned
        }
    }

    fn evicts(&self) -> bool {
        false
    }

    fn refused(&self, _after: Option<u64>) -> AcquireError {
        AcquireError::new(ErrorKind::TooManyKeys)
    }

    fn displace(&self, _: &mut (), _: Home, _: usize, _: &Arc<Semaphore>) {}

    fn make(&self, _: &mut (), _: Home, old: Option<&Arc<Semaphore>>) -> Arc<Semaphore> {
        match old {
            Some(old) if old.permits() == self.permits => Arc::clone(old),
            _ => Arc::new(Semaphore::new(self.permits).max_waiters(self.max_waiters)),
        }
    }

    fn released(&self, _: &mut (), _: &Arc<Semaphore>) {}

    fn moved(&self, _: &mut (), _: &Arc<Semaphore>, _: usize, _: usize) {}

    fn settled(&self, _: &mut (), _: usize) {}
}

/// Making one that caps how many there are at once.
impl<K> Keyed<K, Semaphore> {
    /// So many permits for every key.
    ///
    /// # Panics
    ///
    /// If `permits` is above [`Semaphore::MAX_PERMITS`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Keyed, Semaphore};
    ///
    /// let hosts = Keyed::<String, Semaphore>::new(2);
    /// let host = hosts.key("example.org");
    /// let permits = (host.try_acquire()?, host.try_acquire()?);
    /// assert!(host.try_acquire().is_err());
    /// assert!(hosts.key("example.com").try_acquire().is_ok());
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[track_caller]
    pub const fn new(permits: usize) -> Self {
        if permits > Semaphore::MAX_PERMITS {
            crate::const_panic::panic_with(
                "a semaphore cannot have ",
                permits,
                " permits, see MAX_PERMITS",
            );
        }
        Self {
            map: Permits {
                permits,
                max_waiters: usize::MAX,
                max_keys: DEFAULT_KEYS,
                permits_of: None,
                hasher: None,
                map: OnceLock::new(),
            },
        }
    }
}

/// Options of one that caps how many there are at once. They are settled by the first use.
impl<K, S> Keyed<K, Semaphore, S> {
    /// How many keys are kept at the most; 100,000 by default. Beyond that a new key is refused,
    /// with [`TooManyKeys`](crate::ErrorKind::TooManyKeys), unless one of those that it looks at is not
    /// in use.
    ///
    /// # Panics
    ///
    /// If it is 0 or above 2^32.
    #[must_use]
    #[track_caller]
    pub const fn max_keys(mut self, max_keys: usize) -> Self {
        self.map.max_keys = checked_keys(max_keys);
        self
    }

    /// Bounds the line of each key. See [`Semaphore::max_waiters`].
    #[must_use]
    pub fn max_waiters(mut self, max_waiters: usize) -> Self {
        self.map.max_waiters = max_waiters;
        self
    }

    /// Gives keys limits of their own: `permits_of` is called in each call that asks for permits,
    /// before any lock is taken. When it says something else than before, that takes effect then, as
    /// with [`Semaphore::set_permits`].
    ///
    /// It is given the key as it is kept, which is made for that from what the handle has: for a
    /// `String` that is an allocation in each call. A call for a key of which it says more than
    /// [`Semaphore::MAX_PERMITS`] panics.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Keyed, Semaphore};
    ///
    /// let users = Keyed::<u64, Semaphore>::new(1).permits(|user| if *user == 0 { 8 } else { 1 });
    /// assert_eq!(users.key(&0).available_permits(), 8);
    /// assert_eq!(users.key(&7).available_permits(), 1);
    /// ```
    #[must_use]
    pub fn permits(mut self, permits_of: impl Fn(&K) -> usize + Send + Sync + 'static) -> Self {
        self.map.permits_of = Some(Arc::new(permits_of));
        self
    }

    /// Hashes keys in another way than by [`KeyHashing`](super::KeyHashing). Who can choose keys,
    /// and knows how they are hashed, can see to it that some find no room.
    #[must_use]
    pub fn hasher<H>(self, hasher: H) -> Keyed<K, Semaphore, H> {
        let map = self.map;
        Keyed {
            map: Permits {
                permits: map.permits,
                max_waiters: map.max_waiters,
                max_keys: map.max_keys,
                permits_of: map.permits_of,
                hasher: Some(hasher),
                map: OnceLock::new(),
            },
        }
    }

    /// How many keys are kept: those that are in use, and some that are not.
    pub fn len(&self) -> usize {
        self.map.begun().map_or(0, Map::len)
    }

    /// Whether no key is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys are kept at the most.
    pub fn capacity(&self) -> usize {
        self.map.max_keys
    }
}

/// Of all keys; these go through them shard by shard, and take the longer the more there are. Calls
/// for keys of other shards go on meanwhile.
impl<K, S> Keyed<K, Semaphore, S>
where
    K: Hash + Eq,
    S: BuildHasher + Default + Clone,
{
    /// Drops the keys that are not in use and for which `keep` says `false`. For a key that is not
    /// in use that changes nothing but the memory that it takes.
    ///
    /// `keep` is called under no lock, with copies of the keys, and may use the map.
    pub fn retain(&self, mut keep: impl FnMut(&K) -> bool)
    where
        K: Clone,
    {
        if let Some(map) = self.map.begun() {
            let copy = |_: &(), key: &K, semaphore: &Arc<Semaphore>| {
                is_idle(semaphore).then(|| key.clone())
            };
            let take = |shard: &mut Shard<K, Arc<Semaphore>, ()>, number: usize| {
                let idle = is_idle(shard.table.get(number));
                let removed = idle.then(|| map.take(&mut shard.table, number));
                (removed.flatten(), None::<()>)
            };
            map.clear(copy, &mut |key| !keep(key), take);
        }
    }

    /// Drops the keys that are not in use, and gives back what memory that leaves unused.
    pub fn shrink(&self)
    where
        K: Clone,
    {
        self.retain(|_| false);
    }

    /// Admits nobody any more, whatever the key. Everybody in line gets
    /// [`Closed`](crate::ErrorKind::Closed), and so does everybody who comes later. Permits that are
    /// held stay valid.
    pub fn close(&self) {
        let map = self.map.map();
        for shard in 0..map.shards() {
            let mut shard = map.lock_shard(shard);
            shard.closed = true;
            let numbers = shard.table.all().into_iter();
            let semaphores = numbers.map(|number| Arc::clone(shard.table.get(number)));
            let semaphores: Vec<_> = semaphores.collect();
            drop(shard);
            for semaphore in semaphores {
                semaphore.close();
            }
        }
    }

    /// Whether it was [closed](Self::close).
    pub fn is_closed(&self) -> bool {
        let begun = self.map.begun();
        begun.is_some_and(|map| map.lock_shard(map.shards() - 1).closed)
    }
}

impl<K, S> fmt::Debug for Permits<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed")
            .field("permits", &self.permits)
            .field("max_keys", &self.max_keys)
            .field("len", &self.begun().map_or(0, Map::len))
            .finish_non_exhaustive()
    }
}
