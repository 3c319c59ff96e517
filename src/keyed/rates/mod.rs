//! Rates by key: the options, and changes of the quota of all keys.
//!
//! [`limits`] and [`slot`] decide calls; [`key`] has the methods that only keys of rates have.

mod key;
mod limits;
mod slot;

use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use self::limits::Rates;
use self::slot::{Kept, Terms};
use super::contents::{Contents, Limits};
use super::key::Key;
use super::kind::KeyLimit;
use super::map::Shard;
use super::{Keyed, WhenFull};
use crate::algorithm::{Algorithm, fresh_generation};
use crate::limit_status::LimitStatus;
use crate::quota::Quota;
use crate::rate::{Charge, MissedTickBehavior, Oversize, RateLimiter};
use crate::sync::lock;
use crate::time::Clock;

/// Returns the quota of a key.
type QuotaOf<K> = Arc<dyn Fn(&K) -> Quota + Send + Sync>;

/// The options of a [`Keyed`] of rates.
pub struct Options<K> {
    /// The limiter that is the model for the limiter of each key.
    template: RateLimiter,
    quota: Quota,
    quota_of: Option<QuotaOf<K>>,
}

impl KeyLimit for RateLimiter {
    type Permit = Charge;
    type Cost = u64;
    type Options<K> = Options<K>;
    type Contents<K> = Rates<K>;

    fn contents<K>(options: &Options<K>) -> Rates<K> {
        Rates::new(options)
    }

    fn describe<K, S>(keyed: &Keyed<K, Self, S>, to: &mut fmt::DebugStruct<'_, '_>) {
        to.field("quota", &format_args!("{}", keyed.quota()));
    }

    fn rollback<Q, S>(key: &Key<'_, Self, Q, S>, charge: Charge)
    where
        Q: Hash + Eq + ToOwned + ?Sized,
        S: BuildHasher,
    {
        key.refund(charge);
    }

    fn settle<Q, S>(key: &Key<'_, Self, Q, S>, charge: Charge, used: u64)
    where
        Q: Hash + Eq + ToOwned + ?Sized,
        S: BuildHasher,
    {
        // It fails only if the map has no room for the key, and then the key owes nothing.
        let _ = key.settle(charge, used);
    }

    fn status<Q, S>(key: &Key<'_, Self, Q, S>, _: Option<&Charge>) -> LimitStatus
    where
        Q: Hash + Eq + ToOwned + ?Sized,
        S: BuildHasher,
    {
        key.status()
    }

    fn chunk_and_max_units<Q, S>(key: &Key<'_, Self, Q, S>) -> (u64, u64)
    where
        Q: Hash + Eq + ToOwned + ?Sized,
        S: BuildHasher,
    {
        key.chunk_and_max_units()
    }
}

/// Construction of a map of rate limiters.
impl<K> Keyed<K, RateLimiter> {
    /// Creates a map with the same quota for every key, and no debts.
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
    #[doc(alias = "new")]
    #[doc(alias = "keyed")]
    #[doc(alias = "dashmap")]
    #[doc(alias = "hashmap")]
    #[doc(alias = "GovernorConfigBuilder")]
    #[doc(alias = "GovernorConfig")]
    pub const fn rate_limiters(quota: Quota) -> Self {
        Self::with_options(Options {
            template: RateLimiter::new(quota),
            quota,
            quota_of: None,
        })
    }
}

/// Options of a map of rate limiters.
impl<K, S> Keyed<K, RateLimiter, S> {
    #[track_caller]
    fn template(mut self, change: impl FnOnce(RateLimiter) -> RateLimiter) -> Self {
        self.first_use = self.first_use.assert_ahead();
        self.options.template = change(self.options.template);
        self
    }

    /// Sets what happens to a new key when the map is full. By default it is
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
    /// use tollgate::{Clock, ErrorKind, Keyed, Quota, WhenFull};
    ///
    /// let clock = Clock::manual();
    /// let users = Keyed::<String, _>::rate_limiters(Quota::per_second(1))
    ///     .max_keys(2)
    ///     .when_full(WhenFull::Reject)
    ///     .clock(&clock);
    /// users.key("ann").try_acquire()?;
    /// users.key("bob").try_acquire()?;
    /// let rejected = users.key("eve").try_acquire().unwrap_err();
    /// assert_eq!(rejected.kind(), ErrorKind::TooManyKeys);
    /// assert_eq!(rejected.retry_after(), Some(Duration::from_secs(1)));
    ///
    /// // A key without debts makes room.
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

    /// Gives keys quotas of their own: `quota_of` is called for each key that the map inserts. It
    /// is called under no lock, so it may run any code. Call [`requota`](Self::requota) when its
    /// answer for a key has changed.
    ///
    /// The function gets the key in the form that the map keeps. A key with its own quota takes
    /// about 40 more bytes.
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Keyed, Quota};
    ///
    /// let users = Keyed::<u64, _>::rate_limiters(Quota::per_minute(1))
    ///     .quotas(|user| Quota::per_minute(if *user == 0 { 100 } else { 1 }).burst(1 + *user))
    ///     .clock(Clock::manual());
    /// assert_eq!(users.key(&4).snapshot().available, 5);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn quotas(mut self, quota_of: impl Fn(&K) -> Quota + Send + Sync + 'static) -> Self {
        self.first_use = self.first_use.assert_ahead();
        self.options.quota_of = Some(Arc::new(quota_of));
        self
    }

    /// Sets the algorithm that decides for each key. Its state must be a single word:
    /// [`Gcra`](Algorithm::Gcra), the default, a token bucket, a fixed window, or sub-intervals.
    ///
    /// # Panics
    ///
    /// Panics after the first use, if the algorithm is a sliding window or a log, and if the quota does
    /// not fit it; see [`check`](Algorithm::check). A call panics if [the quota of its key](Self::quotas) does not
    /// fit.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Algorithm, Clock, Keyed, Quota};
    ///
    /// let users = Keyed::<u64, _>::rate_limiters(Quota::per_hour(4))
    ///     .algorithm(Algorithm::FixedWindow)
    ///     .clock(Clock::manual());
    /// assert_eq!(users.key(&1).snapshot().available, 4);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn algorithm(self, algorithm: Algorithm) -> Self {
        assert!(
            algorithm.keeps_a_word(),
            "there can be no {algorithm} by key: it keeps more than a word"
        );
        algorithm.check_or_panic(self.options.quota);
        self.template(|template| template.algorithm(algorithm))
    }

    /// Sets the clock. See [`RateLimiter::clock`].
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    #[doc(alias = "dashmap_with_clock")]
    #[doc(alias = "hashmap_with_clock")]
    #[must_use]
    #[track_caller]
    pub fn clock(self, clock: impl Into<Clock>) -> Self {
        self.template(|template| template.clock(clock))
    }

    /// Limits the length of the wait queue of each key. See [`RateLimiter::max_waiters`].
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    #[must_use]
    #[track_caller]
    pub fn max_waiters(self, max_waiters: usize) -> Self {
        self.template(|template| template.max_waiters(max_waiters))
    }

    /// Sets what happens when the timer is late. See [`RateLimiter::missed_tick`].
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    #[must_use]
    #[track_caller]
    pub fn missed_tick(self, missed_tick: MissedTickBehavior) -> Self {
        self.template(|template| template.missed_tick(missed_tick))
    }

    /// Sets what happens to a call that asks for more than the burst. See
    /// [`RateLimiter::oversize`].
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    #[must_use]
    #[track_caller]
    pub fn oversize(self, oversize: Oversize) -> Self {
        self.template(|template| template.oversize(oversize))
    }

    /// Adds a random delay of at most `max` to the `retry_after` of rejections. See
    /// [`RateLimiter::jitter`].
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    #[must_use]
    #[track_caller]
    pub fn jitter(self, max: Duration) -> Self {
        self.template(|template| template.jitter(max))
    }
}

/// The quota of all keys.
impl<K, S> Keyed<K, RateLimiter, S> {
    /// Returns the quota of all keys that have no quota of their own.
    pub fn quota(&self) -> Quota {
        let begun = self.map.get();
        begun.map_or(self.options.quota, |map| lock(&map.contents.terms).quota)
    }
}

impl<K: Hash + Eq, S: BuildHasher> Keyed<K, RateLimiter, S> {
    /// Changes the quota of all keys. What they spent stays spent, and the new quota decides when
    /// waiters are due; see [`RateLimiter::set_quota`].
    ///
    /// The windows of keys, also those of the new quota, begin at multiples of their length since
    /// the epoch of the clock. So if the period changes, a
    /// [`FixedWindow`](crate::Algorithm::FixedWindow) and a
    /// [`SubInterval`](crate::Algorithm::SubInterval) keep their bounds before the change and after
    /// it, but not across it.
    ///
    /// The new quota applies to a key as soon as the call has visited its shard, and to all keys
    /// when the call returns. Keys with [their own quotas](Self::quotas) keep them.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Keyed, Quota};
    ///
    /// let users = Keyed::<u64, _>::rate_limiters(Quota::per_hour(4).burst(4)).clock(Clock::manual());
    /// users.key(&1).try_acquire()?;
    /// users.set_quota(Quota::per_hour(8).burst(8));
    /// assert_eq!(users.key(&1).snapshot().available, 6);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the quota does not fit the [algorithm](Self::algorithm).
    #[track_caller]
    pub fn set_quota(&self, quota: Quota) {
        let map = self.map();
        let rates = &map.contents;
        *lock(&rates.terms) = Terms::new(rates.template.algorithm, quota);
        for mut shard in map.each_shard() {
            let limiters = rates.renew_terms(&mut shard);
            drop(shard);
            limiters
                .iter()
                .for_each(|dedicated| rates.set_quota_of(dedicated));
        }
    }
}

impl<K> Rates<K> {
    /// Applies the current terms to a shard, and returns the limiters that need the new quota.
    fn renew_terms(&self, shard: &mut Shard<Self>) -> Vec<Arc<RateLimiter>> {
        // Under the lock, so that no shard goes back to terms that were set before.
        let terms = *lock(&self.terms);
        let old = std::mem::replace(&mut shard.state.terms, terms);
        if self.has_own() {
            return Vec::new();
        }
        if !old.are(&terms) {
            let now = self.now();
            for entry in shard.table.iter_mut() {
                if let Kept::Common { debt, .. } = &mut entry.slot.0 {
                    *debt = old.carry(*debt, &terms, now);
                }
            }
            shard.state.generation = fresh_generation();
        }
        let slots = shard.table.iter().map(|entry| &entry.slot);
        slots.filter_map(Self::shared).collect()
    }

    /// Sets the current quota on a limiter. This wakes callers, which may set another quota, so no
    /// lock is held. A call that arrives too late with an old quota notices that, and sets the
    /// newer one.
    fn set_quota_of(&self, dedicated: &Arc<RateLimiter>) {
        loop {
            let quota = lock(&self.terms).quota;
            dedicated.set_quota(quota);
            if lock(&self.terms).quota == quota {
                return;
            }
        }
    }
}
