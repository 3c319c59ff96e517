//! Rates by key: the options, and what is done with all keys.
//!
//! What is done with one key is in [`key`], how calls decide in [`state`].

mod administered;
mod charging;
mod key;
mod lines;
mod newcomer;
mod side;
mod state;
mod word;

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::OnceLock;
use std::time::Duration;

use self::state::{Entered, QuotaOf, State, charge, is_astray};
use self::word::Word;
use super::at_cap::AtCap;
use super::{DEFAULT_KEYS, Keyed, checked_keys};
use crate::algorithm::Algorithm;
use crate::error::AcquireError;
use crate::quota::Quota;
use crate::rate::{Charge, MissedTickBehavior, Oversize, RateLimiter};
use crate::time::Clock;

/// The map of a [`Keyed`] of rates.
pub struct Rates<K, S> {
    template: RateLimiter,
    quota: Quota,
    max_keys: usize,
    at_cap: AtCap,
    quota_of: Option<QuotaOf<K>>,
    hasher: Option<S>,
    state: OnceLock<Box<State<K, S>>>,
}

impl<K, S> Rates<K, S> {
    /// What can be chosen, changed; before the first use.
    fn template(mut self, change: impl FnOnce(RateLimiter) -> RateLimiter) -> Self {
        self.template = change(self.template);
        self
    }

    /// If it has been used.
    fn begun(&self) -> Option<&State<K, S>> {
        self.state.get().map(|state| &**state)
    }
}

impl<K, S: Default + Clone> Rates<K, S> {
    #[inline]
    fn state(&self) -> &State<K, S> {
        match self.state.get() {
            Some(state) => state,
            None => self.begin(),
        }
    }

    #[cold]
    fn begin(&self) -> &State<K, S> {
        self.state.get_or_init(|| {
            Box::new(State::new(
                self.template.template(),
                self.quota,
                self.max_keys,
                self.at_cap,
                self.quota_of.clone(),
                self.hasher.clone().unwrap_or_default(),
            ))
        })
    }
}

impl<K, S> Rates<K, S>
where
    K: Hash + Eq,
    S: BuildHasher + Default + Clone,
{
    /// Takes so much now, or not at all. What nearly everybody needs is here: one hash, one look at
    /// the counter, one lock.
    #[inline]
    fn try_take<Q>(&self, key: &Q, cost: u64) -> Result<Charge, AcquireError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let state = self.state();
        if !state.has_own() {
            state.enter_runtime();
            let hash = state.map.hash(key);
            let now = state.now();
            let mut guard = state.map.lock(hash);
            let found = guard.table.find(hash, |other| other.borrow() == key);
            if let Some(number) = found {
                let shard = &mut *guard;
                let terms = &shard.side.terms;
                let (unit, price) = (terms.limits.units_at(now), terms.limits.units_of(cost));
                let ordinary = cost > 0 && price <= terms.limits.burst_tolerance && !shard.closed;
                let word = shard.table.get_mut(number);
                if let Some(debt) = word.debt().filter(|_| ordinary) {
                    match debt.take(&terms.limits, unit, price) {
                        Ok(debt) => {
                            *word = Word::owes(debt);
                            return Ok(charge(debt, terms, shard.side.generation, cost, now));
                        }
                        Err(due) if !is_astray(debt, terms, now) => {
                            let due = terms.inverse.tick_at(due);
                            drop(guard);
                            return Err(state.template.limited(due, now));
                        }
                        Err(_) => {}
                    }
                }
            }
        }
        self.try_slowly(key, cost)
    }

    #[inline(never)]
    fn try_slowly<Q>(&self, key: &Q, cost: u64) -> Result<Charge, AcquireError>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let state = self.state();
        match state.enter(state.ask(key), cost, false)? {
            Entered::Charged(charge) => Ok(charge),
            Entered::Line(line, _) => line.limiter().try_acquire_many(cost),
        }
    }
}

/// Making one that limits rates.
///
/// What is chosen here is settled by the first use: an option that is set after a call has been
/// made changes nothing.
impl<K> Keyed<K, RateLimiter> {
    /// The same quota for every key, each of which owes nothing at first.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Keyed, Quota, RateLimiter};
    ///
    /// static USERS: Keyed<u64, RateLimiter> = Keyed::<_, RateLimiter>::new(Quota::per_hour(1));
    ///
    /// assert!(USERS.key(&7).try_acquire().is_ok());
    /// assert!(USERS.key(&7).try_acquire().is_err());
    /// assert!(USERS.key(&8).try_acquire().is_ok());
    /// ```
    pub const fn new(quota: Quota) -> Self {
        Self {
            map: Rates {
                template: RateLimiter::new(quota),
                quota,
                max_keys: DEFAULT_KEYS,
                at_cap: AtCap::Refuse,
                quota_of: None,
                hasher: None,
                state: OnceLock::new(),
            },
        }
    }
}

/// Options of one that limits rates.
impl<K, S> Keyed<K, RateLimiter, S> {
    /// How many keys are kept at the most; 100,000 by default. [`at_cap`](Self::at_cap) says what
    /// happens then.
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

    /// What happens to a new key when there are as many as there may be. By default it is
    /// [refused](AtCap::Refuse).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{AtCap, Clock, ErrorKind, Keyed, Quota, RateLimiter};
    ///
    /// let clock = Clock::manual();
    /// let users = Keyed::<String, RateLimiter>::new(Quota::per_second(1))
    ///     .max_keys(2)
    ///     .at_cap(AtCap::Refuse)
    ///     .clock(&clock);
    /// users.key("ann").try_acquire()?;
    /// users.key("bob").try_acquire()?;
    /// let refused = users.key("eve").try_acquire().unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::TooManyKeys);
    /// assert_eq!(refused.retry_after(), Some(Duration::from_secs(1)));
    ///
    /// // Who owes nothing any more makes room.
    /// clock.advance(Duration::from_secs(1));
    /// users.key("eve").try_acquire()?;
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[must_use]
    pub const fn at_cap(mut self, at_cap: AtCap) -> Self {
        self.map.at_cap = at_cap;
        self
    }

    /// Gives keys quotas of their own: `quota_of` is called in each call, before any lock is taken,
    /// and so it may do what it wants.
    ///
    /// When it says something else than before, that takes effect with the next call of the key:
    /// what was spent stays spent, as with
    /// [`set_quota`](RateLimiter::set_quota), and charges from before cannot be refunded.
    ///
    /// It is given the key as it is kept, which is made for that from what the handle has: for a
    /// `String` that is an allocation in each call. What is kept for a key is larger by 32 bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Keyed, Quota, RateLimiter};
    ///
    /// let users = Keyed::<u64, RateLimiter>::new(Quota::per_minute(1))
    ///     .quotas(|user| Quota::per_minute(if *user == 0 { 100 } else { 1 }).burst(1 + *user))
    ///     .clock(Clock::manual());
    /// assert_eq!(users.key(&4).available(), 5);
    /// ```
    #[must_use]
    pub fn quotas(mut self, quota_of: impl Fn(&K) -> Quota + Send + Sync + 'static) -> Self {
        self.map.quota_of = Some(std::sync::Arc::new(quota_of));
        self
    }

    /// By which rule keys are decided, one that keeps no more than a word: by default
    /// [`Gcra`](Algorithm::Gcra), or a token bucket, a fixed window, or sub-intervals.
    ///
    /// # Panics
    ///
    /// If it is a sliding window or a log, or if the quota does not fit it, as
    /// [`check`](Algorithm::check) tells. A call panics if [the quota of its key](Self::quotas) does
    /// not.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Algorithm, Clock, Keyed, Quota, RateLimiter};
    ///
    /// let users = Keyed::<u64, RateLimiter>::new(Quota::per_hour(4))
    ///     .algorithm(Algorithm::FixedWindow)
    ///     .clock(Clock::manual());
    /// assert_eq!(users.key(&1).available(), 4);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        assert!(
            algorithm.keeps_a_word(),
            "there can be no {algorithm} by key: it keeps more than a word"
        );
        algorithm.check_or_panic(self.map.quota);
        self.map = self.map.template(|template| template.algorithm(algorithm));
        self
    }

    /// The clock that it lives by. See [`RateLimiter::clock`].
    #[must_use]
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.map = self.map.template(|template| template.clock(clock));
        self
    }

    /// Bounds the line of each key. See [`RateLimiter::max_waiters`].
    #[must_use]
    pub fn max_waiters(mut self, max_waiters: usize) -> Self {
        self.map = self.map.template(|it| it.max_waiters(max_waiters));
        self
    }

    /// What happens when the timer is late. See [`RateLimiter::missed_tick`].
    #[must_use]
    pub fn missed_tick(mut self, missed_tick: MissedTickBehavior) -> Self {
        self.map = self.map.template(|it| it.missed_tick(missed_tick));
        self
    }

    /// What happens to a call that asks for more than the burst. See [`RateLimiter::oversize`].
    #[must_use]
    pub fn oversize(mut self, oversize: Oversize) -> Self {
        self.map = self.map.template(|it| it.oversize(oversize));
        self
    }

    /// Adds up to `most`, at random, to what those are told who are to come again. See
    /// [`RateLimiter::jitter`].
    #[must_use]
    pub fn jitter(mut self, most: Duration) -> Self {
        self.map = self.map.template(|template| template.jitter(most));
        self
    }

    /// Hashes keys in another way than by [`KeyHashing`](super::KeyHashing). Who can choose keys, and knows how they
    /// are hashed, can see to it that some find no room.
    #[must_use]
    pub fn hasher<H>(self, hasher: H) -> Keyed<K, RateLimiter, H> {
        let map = self.map;
        Keyed {
            map: Rates {
                template: map.template,
                quota: map.quota,
                max_keys: map.max_keys,
                at_cap: map.at_cap,
                quota_of: map.quota_of,
                hasher: Some(hasher),
                state: OnceLock::new(),
            },
        }
    }
}
