//! Time that moves only when it is advanced.
//!
//! 1. `now` and the entries are under one lock, which is never held while a waker is called, cloned
//!    or dropped.
//! 2. Time moves from one due entry to the next, and stops at each while its waker runs. Everything
//!    that the waker does happens at that tick. An entry that it sets is woken too if it is due
//!    before the end.

use std::fmt;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use super::entries::{Key, Queue, pop_due};
use super::tick::Tick;
use crate::panic::contain_panic;
use crate::sync::{Mutex, MutexGuard, lock};

/// A clock that moves only when it is [advanced](Self::advance), for tests and simulations. Created
/// by [`Clock::manual`](crate::Clock::manual).
///
/// Clones share the same time. The clock needs no runtime.
///
/// # Examples
///
/// ```
/// use std::future::Future;
/// use std::pin::pin;
/// use std::task::{Context, Waker};
/// use std::time::Duration;
/// use tollgate::{Clock, Quota, RateLimiter};
///
/// let clock = Clock::manual();
/// let limiter = RateLimiter::new(Quota::per_second(10)).clock(&clock);
/// limiter.try_acquire()?;
///
/// let mut context = Context::from_waker(Waker::noop());
/// let mut waiting = pin!(limiter.acquire());
/// assert!(waiting.as_mut().poll(&mut context).is_pending());
///
/// clock.advance(Duration::from_nanos(99_999_999));
/// assert!(waiting.as_mut().poll(&mut context).is_pending());
/// clock.advance(Duration::from_nanos(1));
/// assert!(waiting.as_mut().poll(&mut context).is_ready());
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
#[derive(Clone)]
pub struct ManualClock(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    now: Tick,
    /// The tick at which all calls of `advance` together end.
    target: Tick,
    /// The number of calls that are advancing the clock: they also wake the entries that others
    /// set.
    movers: usize,
    queue: Queue,
}

impl ManualClock {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State::default())))
    }

    /// Returns the current tick.
    #[cold]
    pub fn now(&self) -> Tick {
        lock(&self.0).now
    }

    /// Advances time by `duration`, from one due tick to the next.
    ///
    /// Time stops at each due tick while the waiters are woken, in the order of their ticks and, at
    /// one tick, in the order in which they began to wait. They are only woken: a task runs when
    /// its executor runs it, which may be after this call returns. A limiter, however, charges a
    /// waiter at its due tick. A call that advances time while another call does, on another thread
    /// or in a waker, extends both.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let clock = tollgate::Clock::manual();
    /// clock.advance(Duration::from_secs(3600));
    /// assert_eq!(clock.now().as_nanos(), 3_600_000_000_000);
    /// ```
    pub fn advance(&self, duration: Duration) {
        self.run(lock(&self.0), duration, || Duration::ZERO);
    }

    /// Advances time by `duration` like [`advance`](Self::advance), with timers that are late, as on a
    /// busy machine: each due tick is passed by a time that `lateness` returns, and only then are the
    /// waiters woken. Those that have become due in the meantime are woken with them. The call ends
    /// later if the last timer is late beyond its end. A panic of `lateness` is caught, and counts as no lateness.
    ///
    /// # Examples
    ///
    /// A limiter makes up for late timers, so the rate holds:
    ///
    /// ```
    /// use std::future::Future;
    /// use std::pin::pin;
    /// use std::task::{Context, Waker};
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let clock = Clock::manual();
    /// let limiter = RateLimiter::new(Quota::per_second(10)).clock(&clock);
    /// limiter.try_acquire()?;
    ///
    /// let mut context = Context::from_waker(Waker::noop());
    /// let (mut first, mut second) = (pin!(limiter.acquire()), pin!(limiter.acquire()));
    /// assert!(first.as_mut().poll(&mut context).is_pending());
    /// assert!(second.as_mut().poll(&mut context).is_pending());
    ///
    /// clock.advance_late(Duration::from_millis(200), || Duration::from_millis(30));
    /// assert_eq!(clock.now().as_nanos(), 230_000_000);
    /// assert!(first.as_mut().poll(&mut context).is_ready());
    /// assert!(second.as_mut().poll(&mut context).is_ready());
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn advance_late(&self, duration: Duration, lateness: impl FnMut() -> Duration) {
        self.run(lock(&self.0), duration, lateness);
    }

    fn run<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        duration: Duration,
        mut lateness: impl FnMut() -> Duration,
    ) {
        if state.movers == 0 {
            // Late timers may have passed it.
            state.target = state.target.max(state.now);
        }
        state.target = state.target.saturating_add(duration);
        let target = state.target;
        state.movers += 1;
        loop {
            // A waker may have advanced time past an entry that was then set.
            let until = target.max(state.now);
            let Some((due, waker)) = pop_due(&mut state.queue, until) else {
                break;
            };
            let is_ahead = due > state.now;
            drop(state);
            // This is foreign code, so it runs without the lock.
            let late = if is_ahead {
                contain_panic(&mut lateness)
            } else {
                None
            };
            state = lock(&self.0);
            state.now = state.now.max(due.saturating_add(late.unwrap_or_default()));
            drop(state);
            contain_panic(|| waker.wake());
            state = lock(&self.0);
        }
        state.now = state.now.max(target);
        state.movers -= 1;
    }

    /// Wakes the entries that are already due, unless another call is doing so: time may have
    /// passed the due tick of an entry before the entry was set.
    pub(super) fn catch_up(&self) {
        let state = lock(&self.0);
        if state.movers == 0 {
            self.run(state, Duration::ZERO, || Duration::ZERO);
        }
    }

    /// Returns the address of its state, which is above 1.
    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Sets an entry. No other one has this key.
    pub(super) fn start(&self, key: Key, waker: Waker) -> Entry {
        lock(&self.0).queue.insert(key, waker);
        Entry(Arc::downgrade(&self.0), key)
    }

    /// Calls `run` while everybody who reads the clock has to wait.
    #[cfg(test)]
    pub(crate) fn with_lock<R>(&self, run: impl FnOnce() -> R) -> R {
        let _guard = lock(&self.0);
        run()
    }
}

/// An entry. Dropping it cancels it, which does nothing if it has expired. It does not keep the clock,
/// so a waker may own its entry.
pub(super) struct Entry(Weak<Mutex<State>>, Key);

impl Drop for Entry {
    fn drop(&mut self) {
        let state = self.0.upgrade();
        let waker = state.map(|state| lock(&state).queue.remove(&self.1));
        // The lock was a temporary, so the waker is dropped after it.
        drop(waker);
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock").field(&self.now()).finish()
    }
}
