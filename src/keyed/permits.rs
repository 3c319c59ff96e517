//! Semaphores by key.
//!
//! 1. An entry holds a semaphore, which its permits and waits share. The entry stays while one of
//!    them exists, or while a caller holds the semaphore, weakly or not.
//! 2. A semaphore is never used for another key, nor for the same key after its eviction: all
//!    changes to a semaphore are dropped with it.

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use super::Keyed;
use super::contents::{Contents, Entered, Limits};
use super::key::Key;
use super::kind::KeyLimit;
use super::map::Held;
use crate::concurrency::{Acquire, OwnedPermit, Semaphore};
use crate::error::{AcquireError, ErrorKind};
use crate::limit_status::LimitStatus;
use crate::snapshot::Snapshot;
use crate::sync::{AtomicUsize, Ordering};
use crate::time::Tick;

/// Returns the number of permits of a key.
type PermitsOf<K> = Arc<dyn Fn(&K) -> usize + Send + Sync>;

/// The options of a [`Keyed`] of semaphores.
pub struct Options<K> {
    permits: usize,
    max_waiters: usize,
    permits_of: Option<PermitsOf<K>>,
}

/// What all keys of a map of semaphores have in common.
pub struct Permits<K> {
    /// The limit of all keys that have none of their own. An insertion reads it under the lock of
    /// its shard, so [`set_permits`](Keyed::set_permits) finds the key there, or the key finds the
    /// new limit here.
    permits: AtomicUsize,
    max_waiters: usize,
    permits_of: Option<PermitsOf<K>>,
}

/// 16 bytes.
pub struct PermitSlot {
    hash: u32,
    semaphore: Arc<Semaphore>,
}

impl KeyLimit for Semaphore {
    type Permit = OwnedPermit;
    type Cost = u32;
    type Options<K> = Options<K>;
    type Contents<K> = Permits<K>;

    fn contents<K>(options: &Options<K>) -> Permits<K> {
        Permits {
            permits: AtomicUsize::new(options.permits),
            max_waiters: options.max_waiters,
            permits_of: options.permits_of.clone(),
        }
    }

    fn describe<K, S>(keyed: &Keyed<K, Self, S>, to: &mut fmt::DebugStruct<'_, '_>) {
        let permits = keyed.map.get().map(|map| map.contents.permits());
        to.field("permits", &permits.unwrap_or(keyed.options.permits));
    }

    fn status<Q, S>(key: &Key<'_, Self, Q, S>, permit: Option<&OwnedPermit>) -> LimitStatus
    where
        Q: Hash + Eq + ToOwned + ?Sized,
        S: BuildHasher,
    {
        match permit {
            Some(permit) => permit.semaphore().status(),
            None => LimitStatus::concurrency(key.snapshot()),
        }
    }

    fn chunk_and_max_units<Q, S>(key: &Key<'_, Self, Q, S>) -> (u64, u64)
    where
        Q: Hash + Eq + ToOwned + ?Sized,
        S: BuildHasher,
    {
        let most = key.snapshot().limit.clamp(1, u32::MAX.into());
        (most.div_ceil(2), most)
    }
}

impl<K> Contents for Permits<K> {
    type Key = K;
    type Slot = PermitSlot;
    type ShardState = ();
    type Asked = Option<usize>;
    type Shared = Arc<Semaphore>;

    #[inline]
    fn hash(slot: &PermitSlot) -> u32 {
        slot.hash
    }

    fn shard_state(&self) {}

    fn ask(&self, key: &K) -> Option<usize> {
        let permits = self.permits_of.as_ref()?(key);
        // Checked here, where no lock is held.
        assert_permits(permits);
        Some(permits)
    }

    fn slot(&self, (): &mut (), asked: &Option<usize>, hash: u32) -> PermitSlot {
        let permits = asked.unwrap_or_else(|| self.permits());
        let semaphore = Semaphore::new(permits).max_waiters(self.max_waiters);
        PermitSlot {
            hash,
            semaphore: Arc::new(semaphore),
        }
    }

    fn idle_after(&self, slot: &mut PermitSlot, (): &(), _: Tick) -> Option<u64> {
        // This is the only reference, no `Weak` can be upgraded, and no permit was leaked.
        let semaphore = Arc::get_mut(&mut slot.semaphore)?;
        (semaphore.available_permits() >= semaphore.permits()).then_some(0)
    }

    fn too_many_keys(&self, _: Option<u64>) -> AcquireError {
        AcquireError::new(ErrorKind::TooManyKeys)
    }
}

impl<K> Limits for Permits<K> {
    type Permit = OwnedPermit;
    type Cost = u32;
    type Wait = Acquire<Arc<Semaphore>>;

    #[inline]
    fn decide(
        &self,
        held: Held<'_, Self>,
        n: u32,
        _: Tick,
        waits: bool,
    ) -> Result<Entered<Self>, AcquireError> {
        let semaphore = || Arc::clone(&held.slot.semaphore);
        match Self::try_shared(semaphore(), n) {
            Err(_) if waits => Ok(Err(semaphore())),
            tried => tried.map(Ok),
        }
    }

    fn shared(slot: &PermitSlot) -> Option<Arc<Semaphore>> {
        Some(Arc::clone(&slot.semaphore))
    }

    #[inline]
    fn try_shared(semaphore: Arc<Semaphore>, n: u32) -> Result<OwnedPermit, AcquireError> {
        semaphore.try_take(n)?;
        Ok(OwnedPermit::new(semaphore, n))
    }

    fn wait_for_shared(semaphore: Arc<Semaphore>, n: u32) -> Acquire<Arc<Semaphore>> {
        Acquire::new(semaphore, n)
    }

    fn close(semaphore: &Arc<Semaphore>) {
        semaphore.close();
    }

    fn reset(semaphore: &Arc<Semaphore>, asked: &Option<usize>) {
        if let Some(permits) = *asked {
            semaphore.set_permits(permits);
        }
    }
}

impl<K> Permits<K> {
    fn permits(&self) -> usize {
        self.permits.load(Ordering::Relaxed)
    }

    /// Sets the current limit on the semaphore of a key. This wakes callers, which may set another
    /// limit, so no lock is held. A call that arrives too late with an old limit notices that, and
    /// sets the newer one.
    fn resize(&self, semaphore: &Semaphore) {
        loop {
            let permits = self.permits();
            semaphore.set_permits(permits);
            if self.permits() == permits {
                return;
            }
        }
    }
}

#[track_caller]
fn assert_permits(permits: usize) {
    assert!(
        permits <= Semaphore::MAX_PERMITS,
        "a semaphore cannot have {permits} permits, see MAX_PERMITS"
    );
}

/// One key of a map of semaphores.
///
/// A permit keeps its key alive, but not the map. Changes to the [semaphore of a
/// permit](OwnedPermit::semaphore), such as closing it, affect only its key, and last until the key
/// is dropped, which can happen as soon as the key is not in use. The same holds for a
/// [forgotten](OwnedPermit::forget) permit.
impl<Q: Hash + Eq + ToOwned + ?Sized, S: BuildHasher> Key<'_, Semaphore, Q, S> {
    /// Returns the state of the key at one moment. See [`Semaphore::snapshot`].
    ///
    /// # Examples
    ///
    /// ```
    /// let hosts = tollgate::Keyed::<u64, _>::semaphores(3);
    /// let _permit = hosts.key(&7).try_acquire()?;
    /// let snapshot = hosts.key(&7).snapshot();
    /// assert_eq!((snapshot.limit, snapshot.in_use, snapshot.waiting), (3, 1, 0));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        match self.present() {
            Some(semaphore) => semaphore.snapshot(),
            None => Snapshot::of_permits(self.permits_of_new(), 0, 0),
        }
    }

    /// Returns the limit that the key gets when it is inserted.
    fn permits_of_new(&self) -> usize {
        let permits = &self.map().contents;
        let asked = permits.ask(&self.key().to_owned());
        asked.unwrap_or_else(|| permits.permits())
    }
}

/// Construction of a map of semaphores.
impl<K> Keyed<K, Semaphore> {
    /// Creates a map with `permits` permits for every key.
    ///
    /// # Panics
    ///
    /// Panics if `permits` is above [`Semaphore::MAX_PERMITS`].
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Keyed;
    ///
    /// let hosts = Keyed::<String, _>::semaphores(2);
    /// let host = hosts.key("example.org");
    /// let permits = (host.try_acquire()?, host.try_acquire()?);
    /// assert!(host.try_acquire().is_err());
    /// assert!(hosts.key("example.com").try_acquire().is_ok());
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[doc(alias = "new")]
    #[track_caller]
    pub const fn semaphores(permits: usize) -> Self {
        assert!(
            permits <= Semaphore::MAX_PERMITS,
            "a semaphore cannot have so many permits, see MAX_PERMITS"
        );
        Self::with_options(Options {
            permits,
            max_waiters: usize::MAX,
            permits_of: None,
        })
    }
}

/// Options of a map of semaphores.
impl<K, S> Keyed<K, Semaphore, S> {
    /// Limits the length of the wait queue of each key. See [`Semaphore::max_waiters`].
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    #[must_use]
    #[track_caller]
    pub const fn max_waiters(mut self, max_waiters: usize) -> Self {
        self.first_use = self.first_use.assert_ahead();
        self.options.max_waiters = max_waiters;
        self
    }

    /// Gives keys limits of their own: `permits_of` is called, under no lock, for each key that the
    /// map inserts. Call [`requota`](Self::requota) when its answer for a key has changed.
    ///
    /// The function gets the key in the form that the map keeps. A call panics if the answer for
    /// its key is above [`Semaphore::MAX_PERMITS`].
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Keyed;
    ///
    /// let users = Keyed::<u64, _>::semaphores(1).permits(|user| if *user == 0 { 8 } else { 1 });
    /// assert_eq!(users.key(&0).snapshot().available, 8);
    /// assert_eq!(users.key(&7).snapshot().available, 1);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn permits(mut self, permits_of: impl Fn(&K) -> usize + Send + Sync + 'static) -> Self {
        self.first_use = self.first_use.assert_ahead();
        self.options.permits_of = Some(Arc::new(permits_of));
        self
    }
}

/// The limit of all keys.
impl<K: Hash + Eq, S: BuildHasher> Keyed<K, Semaphore, S> {
    /// Changes the limit of all keys, also while permits are held and callers are waiting; see
    /// [`Semaphore::set_permits`]. Waiters that now fit are admitted.
    ///
    /// The new limit applies to a key as soon as the call has visited it, and to all keys when the
    /// call returns. It replaces the limit that was set on the [semaphore of a
    /// permit](OwnedPermit::semaphore). Keys with [their own limits](Self::permits) keep them. The
    /// time that the call takes grows with the number of keys. Calls for keys continue meanwhile, but
    /// a key that the call is about to change cannot be evicted. A raise refuses no waiter, see
    /// [`reject_impossible`](Self::reject_impossible).
    ///
    /// # Panics
    ///
    /// Panics if `permits` is above [`Semaphore::MAX_PERMITS`]; then nothing has changed.
    ///
    /// # Examples
    ///
    /// ```
    /// let hosts = tollgate::Keyed::<u64, _>::semaphores(1);
    /// let _permit = hosts.key(&7).try_acquire()?;
    /// hosts.set_permits(3);
    /// assert_eq!(hosts.key(&7).snapshot().available, 2);
    /// assert_eq!(hosts.key(&8).snapshot().available, 3);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[track_caller]
    pub fn set_permits(&self, permits: usize) {
        assert_permits(permits);
        let map = self.map();
        let contents = &map.contents;
        contents.permits.store(permits, Ordering::Relaxed);
        if contents.permits_of.is_some() {
            return;
        }
        self.visit_each(|semaphore| contents.resize(semaphore));
    }

    /// Refuses the waiters of each key that request more than its limit; see
    /// [`Semaphore::reject_impossible`]. The time that the call takes grows with the number of keys.
    ///
    /// # Examples
    ///
    /// ```
    /// let hosts = tollgate::Keyed::<u64, _>::semaphores(0);
    /// // Calls for 5 permits of a host wait meanwhile.
    /// hosts.set_permits(2);
    /// hosts.reject_impossible();
    /// ```
    pub fn reject_impossible(&self) {
        self.visit_each(Semaphore::reject_impossible);
    }

    /// Calls `visit` for the semaphore of each key, under no lock.
    fn visit_each(&self, visit: impl Fn(&Semaphore)) {
        for shard in self.map().each_shard() {
            let slots = shard.table.iter().map(|entry| &entry.slot);
            let semaphores: Vec<_> = slots.filter_map(Permits::<K>::shared).collect();
            drop(shard);
            semaphores.iter().for_each(|semaphore| visit(semaphore));
        }
    }
}
