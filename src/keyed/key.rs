//! The methods of a [`Key`] that are common to all kinds of limits, and the future of its `acquire`.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::pin::Pin;
use std::task::{Context, Poll};

use foldhash::fast::RandomState;

use super::kind::{Decided, EnterLimiter, KeyStatus, LockedEntry};
use super::map::Map;
use super::shard::Shard;
use super::{Key, Kind};
use crate::debug::debug_as;
use crate::error::{AcquireError, ErrorKind};
use crate::status::LimitStatus;
use crate::sync::MutexGuard;
use crate::throttle::{Inspect, Weighted};
use crate::time::Tick;
use crate::wait::{Waiting, is_entrant};
use crate::{Throttle, TryThrottle};

/// The methods common to keys of rate limiters, of semaphores and of gates.
///
/// If the map is full and finds [no key to evict](crate::keyed::WhenFull), all methods that charge a key,
/// or take a permit of it, fail with [`TooManyKeys`](crate::ErrorKind::TooManyKeys) for keys that
/// the map does not keep.
impl<'a, T: Kind, Q: Hash + Eq + ToOwned + ?Sized, S: BuildHasher> Key<'a, T, Q, S> {
    /// Charges 1, takes a permit of the key, or passes its gate, without waiting. See
    /// [`RateLimiter::try_acquire`](crate::RateLimiter::try_acquire),
    /// [`Semaphore::try_acquire`](crate::Semaphore::try_acquire) and [`Gate::check`](crate::Gate::check).
    ///
    /// # Errors
    ///
    /// The errors of these methods, and [`TooManyKeys`](crate::ErrorKind::TooManyKeys) if there is
    /// no room for another key.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use tollgate::{Clock, ErrorKind, Keyed, Quota, RateLimiter};
    ///
    /// let each = RateLimiter::new(Quota::per_second(10)).clock(Clock::manual());
    /// let users = Arc::new(Keyed::<u64, _>::new(each));
    /// users.key(&7).try_acquire()?;
    /// let rejected = Arc::clone(&users).key_owned(7).try_acquire().unwrap_err();
    /// assert_eq!(rejected.retry_after(), Some(Duration::from_millis(100)));
    ///
    /// let hosts = Keyed::<String, _>::semaphores(1);
    /// let permit = hosts.key("example.org").try_acquire()?;
    /// let rejected = hosts.key("example.org").try_acquire().unwrap_err();
    /// assert_eq!(rejected.kind(), ErrorKind::NoPermits);
    /// drop(permit);
    /// assert!(hosts.key("example.org").try_acquire().is_ok());
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline(always)]
    #[doc(alias = "check_key")]
    pub fn try_acquire(&self) -> Result<T::Permit, AcquireError> {
        self.try_acquire_many(1)
    }

    /// Charges `n`, or takes `n` permits of the key, without waiting.
    ///
    /// # Errors
    ///
    /// The errors of [`try_acquire`](Self::try_acquire).
    #[inline(always)]
    #[doc(alias = "check_key_n")]
    pub fn try_acquire_many(&self, n: u64) -> Result<T::Permit, AcquireError> {
        // Nearly every call needs only this: one hash, one reading of the clock, one lock.
        let (map, key) = (self.map(), self.key());
        let hash = map.hash(key);
        let now = map.now();
        let mut shard = map.lock(hash);
        let Some(mut entry) = shard.find(hash, key) else {
            return self.try_absent(shard, hash, now, n);
        };
        if entry.closed {
            return Err(AcquireError::new(ErrorKind::Closed));
        }
        if let Some(permit) = T::take(&map.state, &mut entry, n, now) {
            return Ok(permit);
        }
        let decided = T::decide(&map.state, entry, n, false)?;
        drop(shard);
        self.try_decided(decided, hash, n)
    }

    /// Does the same for a key that the map does not keep.
    #[inline(never)]
    fn try_absent(
        &self,
        shard: MutexGuard<'_, Shard<Q::Owned, T>>,
        hash: u32,
        now: Tick,
        n: u64,
    ) -> Result<T::Permit, AcquireError> {
        let map = self.map();
        let decided = map.with_absent(
            shard,
            self.key(),
            hash,
            now,
            |state, now| T::decide_absent(&map.state, state, n, now),
            |entry, now| Self::take_or_decide(map, entry, n, now, false),
        )??;
        self.try_decided(decided, hash, n)
    }

    /// Does the same after the decision of the entry, under no lock.
    #[inline(never)]
    fn try_decided(
        &self,
        decided: Decided<T>,
        hash: u32,
        n: u64,
    ) -> Result<T::Permit, AcquireError> {
        match decided {
            Decided::Admitted(permit) => Ok(permit),
            Decided::ByLimiter(limiter) => {
                self.map().reclaim_limiters(hash);
                limiter.cost(n).try_enter()
            }
        }
    }

    /// Waits in the queue of the key, and charges 1, takes a permit, or passes its gate. See
    /// [`RateLimiter::acquire`](crate::RateLimiter::acquire),
    /// [`Semaphore::acquire`](crate::Semaphore::acquire) and [`Gate::acquire`](crate::Gate::acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing; see [`Keyed`](crate::Keyed#cancel-safety).
    ///
    /// # Errors
    ///
    /// The errors of these methods, and [`TooManyKeys`](crate::ErrorKind::TooManyKeys) if there is
    /// no room for another key.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Keyed, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let users = Keyed::<u64, _>::rate_limiters(Quota::per_second(1000));
    /// let ann = users.key(&7);
    /// let (first, second) = tokio::try_join!(ann.acquire(), ann.acquire())?;
    /// assert!(second.at().saturating_since(first.at()).as_nanos() >= 999_999);
    ///
    /// let slots = Keyed::<u64, _>::semaphores(1);
    /// let permit = slots.key(&7).acquire().await?;
    /// assert_eq!(slots.key(&7).snapshot().available, 0);
    /// # drop(permit);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    #[doc(alias = "until_key_ready")]
    #[doc(alias = "until_key_ready_with_jitter")]
    pub fn acquire(&self) -> Waiting<Acquire<'a, T, Q, S>> {
        self.acquire_many(1)
    }

    /// Waits in the queue of the key, and charges `n` or takes `n` permits, all at once.
    ///
    /// # Cancel safety, errors
    ///
    /// See [`acquire`](Self::acquire).
    #[inline]
    #[doc(alias = "until_key_n_ready")]
    #[doc(alias = "until_key_n_ready_with_jitter")]
    pub fn acquire_many(&self, n: u64) -> Waiting<Acquire<'a, T, Q, S>> {
        Waiting::new(Acquire(State::New(self.clone(), n)))
    }

    #[inline]
    pub(super) fn map(&self) -> &Map<Q::Owned, T, S> {
        self.keyed().map()
    }

    /// Takes a permit now, refuses, or returns the limiter that decides the call.
    fn decide(&self, hash: u32, cost: u64, waits: bool) -> Result<Decided<T>, AcquireError> {
        let map = self.map();
        map.with_entry(
            self.key(),
            hash,
            |state, now| T::decide_absent(&map.state, state, cost, now),
            |entry, now| Self::take_or_decide(map, entry, cost, now, waits),
        )?
    }

    fn take_or_decide(
        map: &Map<Q::Owned, T, S>,
        mut entry: LockedEntry<'_, T>,
        cost: u64,
        now: Tick,
        waits: bool,
    ) -> Result<Decided<T>, AcquireError> {
        match T::take(&map.state, &mut entry, cost, now) {
            Some(permit) => Ok(Decided::Admitted(permit)),
            None => T::decide(&map.state, entry, cost, waits),
        }
    }

    /// Reads the entry of the key, if it exists, under the lock of its shard.
    pub(super) fn read<R>(&self, read: impl FnOnce(LockedEntry<'_, T>) -> R) -> Option<R> {
        let (map, key) = (self.map(), self.key());
        let hash = map.hash(key);
        let mut shard = map.lock(hash);
        shard.find(hash, key).map(read)
    }

    /// Reads the entry of the key, or the one that it would have if it were inserted.
    pub(super) fn read_or_new<R>(&self, read: impl Fn(LockedEntry<'_, T>) -> R) -> R {
        if let Some(result) = self.read(&read) {
            return result;
        }
        let (map, key) = (self.map(), self.key());
        let hash = map.hash(key);
        let slot = map.slot_with_setting(|| key.to_owned(), hash);
        let mut shard = map.lock(hash);
        let mut slot = slot.unwrap_or_else(|| T::slot(&map.state, &mut shard.state, hash));
        if shard.closed {
            // Nobody waits for a new limiter, so this wakes nobody.
            T::limiter(&slot)
                .map(Borrow::borrow)
                .inspect(|limit: &&T| limit.close());
        }
        read(LockedEntry {
            slot: &mut slot,
            closed: shard.closed,
            state: &mut shard.state,
        })
    }

    /// Returns the capacity that the limit of the key allows now.
    pub(super) fn status(&self) -> KeyStatus {
        let state = &self.map().state;
        let limiter = match self.read_or_new(|entry| T::status(state, entry)) {
            Ok(status) => return status,
            Err(limiter) => limiter,
        };
        let mut status = LimitStatus::Unknown;
        limiter.inspect(None, &mut |_, of_limiter| status = of_limiter);
        KeyStatus {
            status,
            chunk_units: limiter.chunk_units(),
            max_units: limiter.max_units(),
        }
    }
}

/// The future of `acquire` and `acquire_many` of a [`Key`].
///
/// It joins the wait queue of its key when it is first polled.
/// [`Keyed`](crate::Keyed#cancel-safety) describes the effect of dropping it.
///
/// # Panics
///
/// Panics if it is polled again after completion.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<'a, T: Kind, Q: ToOwned + ?Sized, S = RandomState>(State<'a, T, Q, S>);

enum State<'a, T: Kind, Q: ToOwned + ?Sized, S> {
    New(Key<'a, T, Q, S>, u64),
    Waiting(EnterLimiter<T>),
    Over,
}

// The key is never pinned.
impl<T: Kind, Q: ToOwned + ?Sized, S> Unpin for Acquire<'_, T, Q, S> {}

impl<T: Kind, Q: Hash + Eq + ToOwned + ?Sized, S: BuildHasher> Future for Acquire<'_, T, Q, S> {
    type Output = Result<T::Permit, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::New(key, cost) = &self.0 {
            let (map, cost) = (key.map(), *cost);
            let hash = map.hash(key.key());
            let decided = key.decide(hash, cost, true);
            if let Ok(Decided::ByLimiter(_)) = decided {
                map.reclaim_limiters(hash);
            }
            match &decided {
                Ok(Decided::Admitted(permit)) if is_entrant() => T::report(&map.state, permit),
                _ => {}
            }
            self.0 = State::Over;
            match decided? {
                Decided::Admitted(permit) => return Poll::Ready(Ok(permit)),
                Decided::ByLimiter(limiter) => {
                    let enter = limiter.cost(cost).enter();
                    self.0 = State::Waiting(enter.into_inner());
                }
            }
        }
        let State::Waiting(wait) = &mut self.0 else {
            panic!("polled again after it was ready");
        };
        let polled = Pin::new(wait).poll(context);
        if polled.is_ready() {
            self.0 = State::Over;
        }
        polled
    }
}

debug_as! { [T: Kind, Q: ToOwned + ?Sized, S] Acquire<'_, T, Q, S>, self => Acquire { .. } }
