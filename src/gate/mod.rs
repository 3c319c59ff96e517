//! The [`Gate`]: open, or blocked for a while.
//!
//! The crate [`tollgate-detector`] finds out which gates to block: it counts calls over a long period
//! in fixed memory.
//!
//! [`tollgate-detector`]: https://docs.rs/tollgate-detector/latest/tollgate_detector/

mod acquire;
mod state;

use std::sync::Arc;
use std::time::Duration;

use self::acquire::Acquire;
use self::state::{OPEN, State};
use crate::debug::debug_as;
use crate::error::AcquireError;
use crate::first_use::too_late;
use crate::status::{LimitStatus, Snapshot};
use crate::sync::{Ordering, fence};
use crate::throttle::{Gated, Inspect, Weighted, handles};
use crate::time::{Clock, Tick};
use crate::wait::Waiting;
use crate::{Throttle, TryThrottle};

/// Admits every caller while it is open, and none while it is blocked. It is cheap to clone; clones
/// are handles of one gate.
///
/// While the gate is open, a [check](Self::check) is one relaxed load and a branch: it reads no
/// clock, and writes nothing that other threads would have to fetch. A gate does not count calls;
/// other code, for example the `Detector` of the crate [`tollgate-detector`] or an operator, decides
/// when to [block](Self::block_for) it. It opens automatically, at the exact tick.
///
/// It is a [`Throttle`], by value and by reference. [`before`](Self::before) puts it in front of another
/// throttle. A [`Keyed<K, Gate>`](crate::Keyed) has a gate for each user, chat or host.
///
/// # Fairness
///
/// When a gate opens, it releases all its waiters in the order of their arrival. If it is blocked
/// again before it has released all of them, the rest keep waiting. A released waiter stays
/// released even if the gate is blocked again before the waiter is polled.
///
/// A gate does not space its waiters out: behind it, a
/// [`RateLimiter`](crate::RateLimiter) admits as many of them at once as its burst allows. To admit
/// them one by one, [pause](crate::RateLimiter::pause_for) the limiter for as long as the gate is
/// blocked; see [`all`](crate::all#behind-a-gate).
///
/// # Cancel safety
///
/// Dropping a waiting future removes it from the queue, and loses nothing.
///
/// # Memory ordering
///
/// Blocking and opening publish only themselves. A check on another thread sees them as soon as
/// that thread sees what happened before them; otherwise it sees them soon.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Clock, ErrorKind, Gate};
///
/// let clock = Clock::manual();
/// let gate = Gate::new().clock(&clock);
/// let connection = gate.clone();
/// connection.check()?;
///
/// gate.block_for(Duration::from_secs(60));
/// clock.advance(Duration::from_secs(20));
/// let rejected = connection.check().unwrap_err();
/// assert_eq!(rejected.kind(), ErrorKind::RateLimited);
/// assert_eq!(rejected.retry_after(), Some(Duration::from_secs(40)));
///
/// clock.advance(Duration::from_secs(40));
/// connection.check()?;
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
///
/// [`tollgate-detector`]: https://docs.rs/tollgate-detector/latest/tollgate_detector/
#[doc(alias = "circuit breaker")]
#[derive(Clone, Default)]
pub struct Gate(Arc<State>);

/// Construction.
impl Gate {
    /// Creates an open gate, on [`Clock::default`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the clock. On tokio's time a gate belongs to one runtime, because the times of two runtimes
    /// need not agree.
    ///
    /// # Panics
    ///
    /// Panics after the first use: if the gate has a clone, was waited at, or is blocked. A check of an open
    /// gate does not count as a use.
    #[must_use]
    #[track_caller]
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        let is_open = self.0.is_open_by_word();
        // The deadline of a gate that was waited at has a handle as well.
        match Arc::get_mut(&mut self.0).filter(|_| is_open) {
            Some(state) => state.clock = clock.into(),
            None => too_late(),
        }
        self
    }
}

/// Passing.
impl Gate {
    /// Passes if the gate is open now; otherwise returns an error.
    ///
    /// # Errors
    ///
    /// [`RateLimited`](crate::ErrorKind::RateLimited), with the exact time until the gate opens:
    /// one nanosecond earlier the gate is still blocked.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    #[inline(always)]
    pub fn check(&self) -> Result<(), AcquireError> {
        if self.0.is_open_by_word() {
            Ok(())
        } else {
            self.0.check_blocked()
        }
    }

    /// Waits until the gate is open.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing; see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// With a [timeout](crate::wait::Waiting::timeout) shorter than the time until the gate opens,
    /// [`TimedOut`](crate::ErrorKind::TimedOut) at once; otherwise none.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{ErrorKind, Gate};
    ///
    /// let gate = Gate::new();
    /// gate.block_for(Duration::from_millis(2));
    /// gate.acquire().wait()?;
    ///
    /// gate.block_for(Duration::from_secs(600));
    /// let rejected = gate.acquire().timeout(Duration::from_secs(5)).wait();
    /// assert_eq!(rejected.unwrap_err().kind(), ErrorKind::TimedOut);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline]
    pub fn acquire(&self) -> Waiting<Acquire<&Self>> {
        Waiting::new(Acquire::new(self))
    }

    /// Waits like [`acquire`](Self::acquire), with a future that can move into a task.
    #[inline]
    pub fn acquire_owned(&self) -> Waiting<Acquire<Self>> {
        Waiting::new(Acquire::new(self.clone()))
    }

    /// Puts the gate in front of a throttle: a caller waits here, enters the throttle, and is admitted if the
    /// gate is still open. Otherwise its permit is rolled back, and it waits here again. See [`Gated`].
    ///
    /// # Examples
    ///
    /// See [`Gated`].
    #[inline]
    pub fn before<T: Throttle>(&self, throttle: T) -> Gated<Self, T> {
        Gated::new(self.clone(), throttle)
    }
}

/// Blocking and opening.
impl Gate {
    /// Blocks the gate for `duration` from now, unless it is already blocked for longer. This takes
    /// effect at once, also for waiters. A duration of zero does nothing; [`Duration::MAX`] blocks
    /// the gate until it is [opened](Self::open).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Gate};
    ///
    /// let gate = Gate::new().clock(Clock::manual());
    /// gate.block_for(Duration::from_secs(60));
    /// gate.block_for(Duration::from_secs(5));
    /// assert_eq!(gate.blocked_until().unwrap().as_nanos(), 60_000_000_000);
    /// ```
    pub fn block_for(&self, duration: Duration) {
        if !duration.is_zero() {
            let until = self.0.clock.now().saturating_add(duration);
            self.0.word.fetch_max(until.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Opens the gate now, and releases all waiters, unless it is blocked again first.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let gate = tollgate::Gate::new();
    /// gate.block_for(Duration::MAX);
    /// gate.open();
    /// gate.check()?;
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn open(&self) {
        self.0.open();
    }

    /// Returns whether the gate is open now.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.0.is_open_by_word() || self.0.blocked().is_none()
    }

    /// Returns the tick of its clock at which the gate opens; `None` if it is open.
    pub fn blocked_until(&self) -> Option<Tick> {
        self.0.blocked().map(|(until, _)| until)
    }

    /// Returns the state of the gate. A gate does not count its callers: the limit is `u64::MAX`,
    /// which is available while the gate is open, and nothing is in use.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let gate = tollgate::Gate::new();
    /// assert_eq!(gate.snapshot().available, u64::MAX);
    /// gate.block_for(Duration::MAX);
    /// assert_eq!((gate.snapshot().available, gate.snapshot().waiting), (0, 0));
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            limit: u64::MAX,
            in_use: 0,
            available: if self.is_open() { u64::MAX } else { 0 },
            waiting: self.0.waiting(),
            oldest_wait: None,
        }
    }

    /// Returns whether the gate is open and this is its only handle, so that dropping it loses
    /// nothing. A table of gates uses this to drop its unused gates. Futures of
    /// [`acquire_owned`](Self::acquire_owned) are handles too.
    pub fn is_unused(&self) -> bool {
        if !self.is_sole_handle() {
            return false;
        }
        // A read-modify-write reads the newest value.
        self.0.word.fetch_max(OPEN, Ordering::Relaxed) == OPEN || self.0.blocked().is_none()
    }
}

/// For gates of keys.
impl Gate {
    /// Returns another open gate, on the same clock.
    pub(crate) fn with_clock(&self) -> Self {
        Self::new().clock(self.0.clock.clone())
    }

    /// Returns whether this is the only handle.
    pub(crate) fn is_sole_handle(&self) -> bool {
        let is_sole = Arc::strong_count(&self.0) == 1;
        // Pairs with the release of the handles that were dropped: a read-modify-write sees a block through
        // one of them.
        fence(Ordering::Acquire);
        is_sole
    }

    /// Opens the gate if this is the only handle, which nobody can clone meanwhile. Then there is no waiter, so this
    /// allocates no queue. Returns whether it did.
    pub(crate) fn open_if_sole(&self) -> bool {
        let is_sole = self.is_sole_handle();
        if is_sole {
            self.0.word.swap(OPEN, Ordering::Relaxed);
        }
        is_sole
    }

    /// Returns how long the gate is still blocked: zero if it is open, [`Duration::MAX`] if that has no end.
    pub(crate) fn remaining(&self) -> Duration {
        self.0.blocked().map_or(Duration::ZERO, |(_, left)| left)
    }

    /// Refuses all waiters, and all that come to wait later. A caller that finds the gate open still passes.
    pub(crate) fn close(&self) {
        self.0.close();
    }
}

debug_as! { [] Gate, self => Gate { open: self.is_open(), waiting: self.snapshot().waiting, .. } }

impl Throttle for Gate {
    type Permit = ();
    type Enter = Acquire<Self>;

    #[inline]
    fn enter(&self) -> Waiting<Acquire<Self>> {
        self.acquire_owned()
    }

    handles!(enter_now);
    handles!(polled_by_wakers);
}

impl TryThrottle for Gate {
    #[inline]
    fn try_enter(&self) -> Result<(), AcquireError> {
        self.check()
    }
}

/// An open gate admits any number of units.
impl Weighted for Gate {
    type Many = Self;

    #[inline]
    fn cost(&self, _: u64) -> Self {
        self.clone()
    }

    #[inline]
    fn settle(&self, (): (), _: u64) {}

    #[inline]
    fn max_units(&self) -> u64 {
        u64::MAX
    }

    fn chunk_units(&self) -> u64 {
        u64::MAX
    }
}

/// A gate has no status.
impl Inspect for Gate {
    fn inspect(&self, _: Option<&()>, each: &mut dyn FnMut(usize, LimitStatus)) {
        each(0, LimitStatus::Unknown);
    }
}
