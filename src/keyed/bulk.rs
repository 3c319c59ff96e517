//! Operations on all keys of a map, and administration of one key.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use super::shard::Shard;
use super::{Keyed, Kind};
use crate::algorithm::QuotaChange;

/// Operations on all keys.
impl<K, T: Kind, S> Keyed<K, T, S> {
    /// Returns the number of keys that the map keeps: those that were used and have not been
    /// dropped, including those that have recovered.
    pub fn len(&self) -> usize {
        self.map.get().map_or(0, |map| map.len())
    }

    /// Returns whether the map keeps no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Operations on all keys. These methods visit one shard after the other, so their duration grows
/// with the number of keys. Calls for keys of other shards continue in the meantime.
impl<K: Hash + Eq, T: Kind, S: BuildHasher> Keyed<K, T, S> {
    /// Returns the keys that have not fully recovered: those with a backlog, a permit in use, a pause or a
    /// waiter. They are the keys that [`shrink`](Self::shrink) keeps.
    ///
    /// The keys of one shard are copied at once, under its lock. When the iterator has returned
    /// them, it visits the next shard, in its state at that time. No lock is held between two calls
    /// of the iterator, so its caller may use the map. Keys that are inserted in the meantime may
    /// be missed.
    ///
    /// # Examples
    ///
    /// The keys with the most permits in use:
    ///
    /// ```
    /// use tollgate::Keyed;
    ///
    /// let hosts = Keyed::<u64, _>::semaphores(4);
    /// let _permits = (hosts.key(&1).try_acquire()?, hosts.key(&2).try_acquire_many(3)?);
    /// drop(hosts.key(&3).try_acquire()?);
    ///
    /// let in_use = |host: &u64| hosts.key(host).snapshot().in_use;
    /// let mut busiest: Vec<_> = hosts.keys().map(|host| (in_use(&host), host)).collect();
    /// busiest.sort_unstable_by(|one, other| other.cmp(one));
    /// assert_eq!(busiest, [(3, 2), (1, 1)]);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn keys(&self) -> impl Iterator<Item = K>
    where
        K: Clone,
    {
        let map = self.map.get();
        map.into_iter().flat_map(|map| {
            map.copies(|slot, shard, now| !T::is_idle(&map.state, shard, slot, now))
        })
    }

    /// Drops the keys for which `keep` returns `false`, with their backlogs and pauses. A key that is in use
    /// stays: one with waiters, or with a permit in use. On tokio's time, keys are dropped with their backlogs in all runtimes.
    ///
    /// `keep` runs under no lock, on copies of the keys, and may use the map. It may miss keys that
    /// are inserted in the meantime.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Keyed, Quota, RateLimiter};
    ///
    /// let each = RateLimiter::new(Quota::per_hour(1)).clock(Clock::manual());
    /// let users = Keyed::<u64, _>::new(each);
    /// users.key(&1).try_acquire()?;
    /// users.key(&2).try_acquire()?;
    /// users.retain(|user| *user == 1);
    /// assert_eq!(users.len(), 1);
    /// users.key(&2).try_acquire()?;
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn retain(&self, mut keep: impl FnMut(&K) -> bool)
    where
        K: Clone,
    {
        let Some(map) = self.map.get() else { return };
        let now = map.now();
        for key in map.copies(|_, _, _| true) {
            if !keep(&key) {
                map.remove(&key, now);
            }
        }
    }

    /// Drops the keys that have fully recovered, and frees unused memory.
    #[doc(alias = "retain_recent")]
    #[doc(alias = "shrink_to_fit")]
    pub fn shrink(&self) {
        if let Some(map) = self.map.get() {
            map.shrink(map.now());
        }
    }

    /// Calls the function of [`quotas`](Keyed::quotas) or [`permits`](Keyed::permits) for a key
    /// again, and applies the result at once, also to the waiters of the key, like
    /// [`RateLimiter::set_quota`](crate::RateLimiter::set_quota) and
    /// [`Semaphore::set_permits`](crate::Semaphore::set_permits). Earlier charges cannot be
    /// refunded.
    ///
    /// The spent part of a rate carries over as [`quota_change`](Keyed::quota_change) says. By
    /// default that is in proportion under the default algorithm: a key that has spent all 5 of 5
    /// has 0 of 50 just after the change. [`requota_with`](Keyed::requota_with) chooses for one
    /// call.
    ///
    /// Call it when the result of the function for the key has changed; otherwise a key keeps its
    /// quota until it is dropped. Nothing happens if there is no function, or if the map does not
    /// keep the key: the function is called when the key is inserted. The function runs under no
    /// lock. If two calls for one key run at once, the older result may win.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use tollgate::{Clock, Keyed, Quota, RateLimiter};
    ///
    /// let burst = Arc::new(AtomicU64::new(1));
    /// let plan = Arc::clone(&burst);
    /// let users = Keyed::<u64, _>::new(RateLimiter::new(Quota::per_hour(1)).clock(Clock::manual()))
    ///     .quotas(move |_| Quota::per_hour(1).burst(plan.load(Ordering::Relaxed)));
    /// users.key(&7).try_acquire()?;
    ///
    /// // The user pays for more.
    /// burst.store(4, Ordering::Relaxed);
    /// assert_eq!(users.key(&7).snapshot().available, 0);
    /// users.requota(&7);
    /// assert_eq!(users.key(&7).quota().max_burst(), 4);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn requota<Q>(&self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.replace_setting(key, self.quota_change);
    }

    /// Does the same, and carries over the spent part in this way.
    pub(super) fn replace_setting<Q>(&self, key: &Q, how: Option<QuotaChange>)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let (Some(map), Some(setting_of)) = (self.map.get(), &self.setting_of) else {
            return;
        };
        let (setting, hash) = (setting_of(&key.to_owned()), map.hash(key));
        let new = T::slot_with(&map.state, setting, hash);
        let mut shard = map.lock(hash);
        let Some(entry) = shard.find(hash, key) else {
            return;
        };
        let limiter = T::limiter(entry.slot).cloned();
        T::replace_setting(&map.state, entry, new, how);
        drop(shard);
        if let Some(limiter) = limiter {
            let limit: &T = limiter.borrow();
            limit.set(setting, how);
        }
    }

    /// Calls the function for all keys again; see [`requota`](Self::requota).
    pub fn requota_all(&self)
    where
        K: Clone,
    {
        if let Some(map) = self.map.get() {
            map.copies(|_, _, _| true)
                .for_each(|key| self.requota(&key));
        }
    }

    /// Closes the map: it admits no more callers for any key. All waiters, and all later calls, get
    /// [`Closed`](crate::ErrorKind::Closed). Permits in use stay valid.
    pub fn close(&self) {
        let close = |shard: &mut Shard<_, _>| {
            shard.closed = true;
            shard.limiters()
        };
        self.map().visit_limiters(close, T::close);
    }

    /// Returns whether the map was [closed](Self::close).
    pub fn is_closed(&self) -> bool {
        let map = self.map.get();
        map.is_some_and(|map| map.each_shard().all(|shard| shard.closed))
    }

    /// Changes the setting of all keys without their own setting. Under the lock of each shard,
    /// `change` changes the entries without a limiter.
    #[track_caller]
    pub(super) fn set_all(
        &self,
        setting: T::Setting,
        change: impl Fn(&T::MapState, &mut Shard<K, T>),
    ) {
        let map = self.map();
        let pattern = T::pattern(&map.state);
        let how = self.quota_change;
        pattern.set(setting, how);
        let limiters = |shard: &mut Shard<_, _>| {
            change(&map.state, shard);
            match self.setting_of {
                Some(_) => Vec::new(),
                None => shard.limiters(),
            }
        };
        // This wakes callers, which may change the setting again. A call that arrives too late with an
        // old setting notices that, and sets the newer one.
        map.visit_limiters(limiters, |limiter| {
            loop {
                let current = pattern.setting();
                limiter.set(current, how);
                if pattern.setting() == current {
                    return;
                }
            }
        });
    }
}
