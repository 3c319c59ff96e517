//! One key of a map: [`Key`], the methods common to rates and semaphores, and the future of its
//! `acquire`.

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use foldhash::fast::RandomState;

use super::contents::{Contents, Entered, Limits};
use super::kind::KeyLimit;
use super::map::{Held, Map};
use super::{Keyed, Kind};
use crate::error::AcquireError;
use crate::time::Tick;
use crate::wait::Waiting;

/// The limits of all keys of a map.
type Of<T, Q> = <T as KeyLimit>::Contents<<Q as ToOwned>::Owned>;

/// One key of a [`Keyed`], with the methods of a [`RateLimiter`](crate::RateLimiter) or a
/// [`Semaphore`](crate::Semaphore).
///
/// [`Keyed::key`] makes one that borrows the map and the key, which may be of a borrowed type such
/// as `str`; [`Keyed::key_owned`] makes one that shares the map, and so may move into a task or an
/// adapter. `Q` is the type of the key that was given. Making one looks nothing up and allocates
/// nothing. The map may drop and insert the entry of the key during the life of this handle.
#[must_use = "a throttle does nothing until it is entered"]
pub struct Key<'a, T: Kind, Q: ToOwned + ?Sized, S = RandomState> {
    keyed: Source<'a, Keyed<Q::Owned, T, S>>,
    key: Cow<'a, Q>,
}

/// A borrowed or shared map.
enum Source<'a, M> {
    Borrowed(&'a M),
    Shared(Arc<M>),
}

impl<M> Deref for Source<'_, M> {
    type Target = M;

    #[inline(always)]
    fn deref(&self) -> &M {
        match self {
            Self::Borrowed(map) => map,
            Self::Shared(map) => map,
        }
    }
}

impl<M> Clone for Source<'_, M> {
    #[inline]
    fn clone(&self) -> Self {
        match self {
            Self::Borrowed(map) => Self::Borrowed(map),
            Self::Shared(map) => Self::Shared(Arc::clone(map)),
        }
    }
}

impl<'a, T: Kind, Q: ToOwned + ?Sized, S> Key<'a, T, Q, S> {
    #[inline]
    pub(super) fn borrowed(keyed: &'a Keyed<Q::Owned, T, S>, key: &'a Q) -> Self {
        Self {
            keyed: Source::Borrowed(keyed),
            key: Cow::Borrowed(key),
        }
    }

    #[inline]
    pub(super) fn shared(keyed: Arc<Keyed<Q::Owned, T, S>>, key: Q::Owned) -> Self {
        Self {
            keyed: Source::Shared(keyed),
            key: Cow::Owned(key),
        }
    }

    /// Returns the key.
    #[inline]
    pub fn key(&self) -> &Q {
        &self.key
    }

    /// Returns the map that the key belongs to.
    #[inline]
    pub fn keyed(&self) -> &Keyed<Q::Owned, T, S> {
        &self.keyed
    }
}

/// The methods common to keys of rate limiters and of semaphores.
///
/// While the map is full, and finds [no key to evict](crate::WhenFull), all methods that charge a
/// key, or take a permit of it, fail with [`TooManyKeys`](crate::ErrorKind::TooManyKeys) for keys
/// that the map does not keep.
impl<'a, T: Kind, Q: Hash + Eq + ToOwned + ?Sized, S: BuildHasher> Key<'a, T, Q, S> {
    /// Charges 1, or takes a permit of the key, without waiting. See
    /// [`RateLimiter::try_acquire`](crate::RateLimiter::try_acquire) and
    /// [`Semaphore::try_acquire`](crate::Semaphore::try_acquire).
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
    /// use tollgate::{Clock, ErrorKind, Keyed, Quota};
    ///
    /// let users = Keyed::<u64, _>::rate_limiters(Quota::per_second(10)).clock(Clock::manual());
    /// let users = Arc::new(users);
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
        self.try_acquire_many(1.into())
    }

    /// Charges `n`, or takes `n` permits of the key, without waiting.
    ///
    /// # Errors
    ///
    /// The errors of [`try_acquire`](Self::try_acquire).
    #[inline(always)]
    #[doc(alias = "check_key_n")]
    pub fn try_acquire_many(&self, n: T::Cost) -> Result<T::Permit, AcquireError> {
        // Nearly every call needs only this: one hash, one reading of the clock, one lock.
        let (map, key) = (self.map(), self.key());
        let hash = map.hash(key);
        let now = map.contents.now();
        let mut shard = map.lock(hash);
        if let Some(held) = shard.find(hash, key).filter(|held| !held.closed) {
            match map.contents.decide(held, n, now, false) {
                Ok(Ok(permit)) => return Ok(permit),
                Ok(Err(_)) => {}
                Err(error) => return Err(error),
            }
        }
        drop(shard);
        self.try_slowly(n)
    }

    #[inline(never)]
    fn try_slowly(&self, n: T::Cost) -> Result<T::Permit, AcquireError> {
        match self.enter(n, false)? {
            Ok(permit) => Ok(permit),
            Err(shared) => Of::<T, Q>::try_shared(shared, n),
        }
    }

    /// Waits in the queue of the key, and charges 1 or takes a permit. See
    /// [`RateLimiter::acquire`](crate::RateLimiter::acquire) and
    /// [`Semaphore::acquire`](crate::Semaphore::acquire).
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
        self.acquire_many(1.into())
    }

    /// Waits in the queue of the key, and charges `n` or takes `n` permits, all at once.
    ///
    /// # Cancel safety, errors
    ///
    /// See [`acquire`](Self::acquire).
    #[inline]
    #[doc(alias = "until_key_n_ready")]
    #[doc(alias = "until_key_n_ready_with_jitter")]
    pub fn acquire_many(&self, n: T::Cost) -> Waiting<Acquire<'a, T, Q, S>> {
        Waiting::new(Acquire(State::New(self.clone(), n)))
    }

    /// Waits as of a tick, if the key has something that is shared with waiters; without it, nobody
    /// has waited for the key lately.
    pub(crate) fn acquire_many_as_of(
        &self,
        n: T::Cost,
        tick: Tick,
    ) -> Waiting<Acquire<'a, T, Q, S>> {
        match self.present() {
            Some(shared) => {
                let wait = Of::<T, Q>::wait_as_of(shared, n, tick);
                Waiting::new(Acquire(State::Waiting(wait)))
            }
            None => self.acquire_many(n),
        }
    }

    /// Returns the tick of a permit, or the current one, if the limit is a rate.
    pub(crate) fn tick(&self, permit: Option<&T::Permit>) -> Option<Tick> {
        self.map().contents.tick(permit)
    }

    #[inline]
    pub(super) fn map(&self) -> &Map<Of<T, Q>, S> {
        self.keyed().map()
    }

    /// Takes a permit now, or is rejected, or returns the shared part that decides the call.
    fn enter(&self, cost: T::Cost, waits: bool) -> Result<Entered<Of<T, Q>>, AcquireError> {
        self.with_entry(Some(cost), |limits, held, now| {
            limits.decide(held, cost, now, waits)
        })
    }

    /// Calls `then` with the entry of the key. A missing key is inserted, unless this cost needs no
    /// entry.
    pub(super) fn with_entry(
        &self,
        cost: Option<T::Cost>,
        then: impl FnOnce(
            &Of<T, Q>,
            Held<'_, Of<T, Q>>,
            Tick,
        ) -> Result<Entered<Of<T, Q>>, AcquireError>,
    ) -> Result<Entered<Of<T, Q>>, AcquireError> {
        let (map, key) = (self.map(), self.key());
        let (limits, hash) = (&map.contents, map.hash(key));
        let entered = map.with_entry(
            key,
            hash,
            |state, now| Some(limits.decide_absent(state, cost?, now)?.map(Ok)),
            |held, now| then(limits, held, now),
        )??;
        if entered.is_err() {
            map.tidy(hash);
        }
        Ok(entered)
    }

    /// Returns what the entry of the key shares, if the entry exists and shares anything.
    pub(super) fn present(&self) -> Option<<Of<T, Q> as Contents>::Shared> {
        let (map, key) = (self.map(), self.key());
        let hash = map.hash(key);
        let mut shard = map.lock(hash);
        Of::<T, Q>::shared(shard.find(hash, key)?.slot)
    }
}

impl<T: Kind, Q: ToOwned + ?Sized, S> Clone for Key<'_, T, Q, S> {
    #[inline]
    fn clone(&self) -> Self {
        Self {
            keyed: self.keyed.clone(),
            key: self.key.clone(),
        }
    }
}

impl<T: Kind, Q: ToOwned + fmt::Debug + ?Sized, S> fmt::Debug for Key<'_, T, Q, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.key()).finish()
    }
}

/// The future of `acquire` and `acquire_many` of a [`Key`].
///
/// It joins the wait queue of its key when it is first polled. See
/// [`Keyed`](crate::Keyed#cancel-safety) for what dropping it does.
///
/// # Panics
///
/// Panics if it is polled again after completion.
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<'a, T: Kind, Q: ToOwned + ?Sized, S = RandomState>(State<'a, T, Q, S>);

enum State<'a, T: Kind, Q: ToOwned + ?Sized, S> {
    New(Key<'a, T, Q, S>, T::Cost),
    Waiting(<Of<T, Q> as Limits>::Wait),
    Over,
}

// The key is never pinned.
impl<T: Kind, Q: ToOwned + ?Sized, S> Unpin for Acquire<'_, T, Q, S> {}

impl<T: Kind, Q: Hash + Eq + ToOwned + ?Sized, S: BuildHasher> Future for Acquire<'_, T, Q, S> {
    type Output = Result<T::Permit, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let State::New(key, cost) = &self.0 {
            let (entered, cost) = (key.enter(*cost, true), *cost);
            self.0 = State::Over;
            match entered? {
                Ok(permit) => return Poll::Ready(Ok(permit)),
                Err(shared) => {
                    let wait = Of::<T, Q>::wait_for_shared(shared, cost);
                    self.0 = State::Waiting(wait);
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

impl<T: Kind, Q: ToOwned + ?Sized, S> fmt::Debug for Acquire<'_, T, Q, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire").finish_non_exhaustive()
    }
}
