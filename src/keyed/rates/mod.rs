//! Rates by key: construction, the options that only rates have, and changes of the quota of all keys.
//!
//! [`limits`] and [`slot`] decide calls; [`key`] has the methods of keys of rates, and [`restore`] goes on from
//! the states of another map.

mod key;
mod limits;
mod restore;
mod slot;

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use super::{Keyed, WhenFull};
use crate::RateLimiter;
use crate::algorithm::QuotaChange;
use crate::quota::Quota;

/// Construction of a map of rate limiters.
impl<K> Keyed<K, RateLimiter> {
    /// Creates a map with the same quota for every key, and no backlogs. See [`new`](Self::new) for a map
    /// of rate limiters with options.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Keyed, Quota, RateLimiter};
    ///
    /// static USERS: Keyed<u64, RateLimiter> = Keyed::rate_limiters(Quota::per_hour(1));
    ///
    /// assert!(USERS.key(&7).try_acquire().is_ok());
    /// assert!(USERS.key(&7).try_acquire().is_err());
    /// assert!(USERS.key(&8).try_acquire().is_ok());
    /// ```
    #[doc(alias = "keyed")]
    #[doc(alias = "dashmap")]
    #[doc(alias = "hashmap")]
    #[doc(alias = "GovernorConfigBuilder")]
    #[doc(alias = "GovernorConfig")]
    pub const fn rate_limiters(quota: Quota) -> Self {
        Self::of_pattern(RateLimiter::new(quota).aligned())
    }
}

/// Options of a map of rate limiters.
impl<K, S> Keyed<K, RateLimiter, S> {
    /// Sets the policy for a new key when the map is full. By default it is
    /// [rejected](WhenFull::Reject).
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::keyed::WhenFull;
    /// use tollgate::{Clock, ErrorKind, Keyed, Quota, RateLimiter};
    ///
    /// let clock = Clock::manual();
    /// let users = Keyed::<String, _>::new(RateLimiter::new(Quota::per_second(1)).clock(&clock))
    ///     .max_keys(2)
    ///     .when_full(WhenFull::Reject);
    /// users.key("ann").try_acquire()?;
    /// users.key("bob").try_acquire()?;
    /// let rejected = users.key("eve").try_acquire().unwrap_err();
    /// assert_eq!(rejected.kind(), ErrorKind::TooManyKeys);
    /// assert_eq!(rejected.retry_after(), Some(Duration::from_secs(1)));
    ///
    /// // A key without a backlog makes room.
    /// clock.advance(Duration::from_secs(1));
    /// users.key("eve").try_acquire()?;
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub const fn when_full(mut self, when_full: WhenFull) -> Self {
        self.first_use = self.first_use.assert_ahead();
        self.when_full = when_full;
        self
    }

    /// Sets how the spent part of a key carries over when its quota changes: in
    /// [`set_quota`](Self::set_quota), [`requota`](Self::requota) and
    /// [`requota_all`](Self::requota_all). By default it carries over like in
    /// [`RateLimiter::set_quota`].
    ///
    /// For plans that customers change, use [`KeepSpent`](QuotaChange::KeepSpent): an upgrade gives
    /// the difference of the bursts at once.
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::rate::QuotaChange;
    /// use tollgate::{Clock, Keyed, Quota, RateLimiter};
    ///
    /// let each = RateLimiter::new(Quota::per_second(5).burst(5)).clock(Clock::manual());
    /// let users = Keyed::<u64, _>::new(each).quota_change(QuotaChange::KeepSpent);
    /// users.key(&1).try_acquire_many(5)?;
    /// users.set_quota(Quota::per_second(50).burst(50));
    /// assert_eq!(users.key(&1).snapshot().available, 45);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub const fn quota_change(mut self, how: QuotaChange) -> Self {
        self.first_use = self.first_use.assert_ahead();
        self.quota_change = Some(how);
        self
    }

    /// Gives keys their own quotas: the map calls `quota_of` for each key that it inserts. The call
    /// is under no lock, so it may run any code. Call [`requota`](Self::requota) when the quota
    /// that it returns for a key has changed.
    ///
    /// The function gets the key in the form that the map keeps. A key with its own quota takes
    /// about 40 more bytes. A call panics if the quota of its key does not fit the
    /// [algorithm](RateLimiter::algorithm).
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Keyed, Quota};
    ///
    /// let users = Keyed::<u64, _>::rate_limiters(Quota::per_minute(1))
    ///     .quotas(|user| Quota::per_minute(if *user == 0 { 100 } else { 1 }).burst(1 + *user));
    /// assert_eq!(users.key(&4).snapshot().available, 5);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn quotas(self, quota_of: impl Fn(&K) -> Quota + Send + Sync + 'static) -> Self {
        self.with_settings(quota_of)
    }
}

/// The quota of all keys.
impl<K, S> Keyed<K, RateLimiter, S> {
    /// Returns the quota of all keys that have no quota of their own.
    pub fn quota(&self) -> Quota {
        self.setting()
    }
}

impl<K: Hash + Eq, S: BuildHasher> Keyed<K, RateLimiter, S> {
    /// Changes the quota of all keys. The spent part of each key carries over like in
    /// [`RateLimiter::set_quota`], unless the map has another
    /// [`quota_change`](Self::quota_change). The new quota decides when waiters are due.
    ///
    /// The windows of keys, including those of the new quota, begin at multiples of their length
    /// since the epoch of the clock. So if the period changes, a
    /// [`FixedWindow`](crate::Algorithm::FixedWindow) and a
    /// [`SubInterval`](crate::Algorithm::SubInterval) keep their bounds before the change and after
    /// it, but not across it: windows of two periods that alternate may admit the sum of both.
    ///
    /// The new quota applies to a key as soon as the call has visited its shard, and to all keys
    /// when the call returns. Keys with [their own quotas](Self::quotas) keep them.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Keyed, Quota, RateLimiter};
    ///
    /// let each = RateLimiter::new(Quota::per_hour(4).burst(4)).clock(Clock::manual());
    /// let users = Keyed::<u64, _>::new(each);
    /// users.key(&1).try_acquire()?;
    /// users.set_quota(Quota::per_hour(8).burst(8));
    /// assert_eq!(users.key(&1).snapshot().available, 6);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the quota does not fit the [algorithm](RateLimiter::algorithm).
    #[track_caller]
    pub fn set_quota(&self, quota: Quota) {
        let how = self.quota_change;
        self.set_all(quota, |rates, shard| rates.adopt_quota(shard, how));
    }

    /// Does the same as [`requota`](Self::requota), and chooses how the spent part carries over.
    ///
    /// # Panics
    ///
    /// Panics if the quota does not fit the [algorithm](RateLimiter::algorithm).
    ///
    /// # Examples
    ///
    /// A customer who has spent all 5 upgrades to 50:
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use tollgate::rate::QuotaChange;
    /// use tollgate::{Clock, Keyed, Quota, RateLimiter};
    ///
    /// let plan = Arc::new(AtomicU64::new(5));
    /// let plan_of = Arc::clone(&plan);
    /// let each = RateLimiter::new(Quota::per_hour(5)).clock(Clock::manual());
    /// let users = Keyed::<u64, _>::new(each)
    ///     .quotas(move |_| Quota::per_hour(5).burst(plan_of.load(Ordering::Relaxed)));
    /// users.key(&7).try_acquire_many(5)?;
    ///
    /// plan.store(50, Ordering::Relaxed);
    /// users.requota_with(&7, QuotaChange::KeepSpent);
    /// assert_eq!(users.key(&7).snapshot().available, 45);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn requota_with<Q>(&self, key: &Q, how: QuotaChange)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.replace_setting(key, Some(how));
    }
}
