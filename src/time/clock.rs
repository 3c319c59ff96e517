//! Where ticks come from, and who calls when one is due.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use super::manual::{Manual, ManualClock};
use super::queue::Key;
use super::runtime;
use super::system;
use super::tick::Tick;
use super::timer::TIMER;

/// What a rate limiter tells the time by, and is woken by.
///
/// - [`system`](Self::system), the default: the time of the machine, and one timer thread for the
///   whole process, started when somebody first has to wait. It runs on any executor, wakes within
///   a fraction of a millisecond, and does not depend on a runtime that is being driven.
/// - `tokio` (feature `tokio`): tokio's time and timer, so that a test may pause and advance it.
///   Its timer counts in milliseconds.
/// - [`manual`](Self::manual): time that moves only when it is told to. No runtime is needed.
///
/// With the feature `test-util`, a limiter for which no clock was chosen, and which is first used
/// inside a tokio runtime, runs on tokio's time.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Clock, Quota, RateLimiter};
///
/// let clock = Clock::manual();
/// let limiter = RateLimiter::new(Quota::per_second(10)).clock(&clock);
/// limiter.try_acquire()?;
/// assert!(limiter.try_acquire().is_err());
///
/// clock.advance(Duration::from_millis(100));
/// limiter.try_acquire()?;
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
#[derive(Clone)]
pub struct Clock(Kind);

#[derive(Clone)]
enum Kind {
    /// Not chosen: to be [resolved](Clock::resolved) at the first use.
    Default,
    System,
    #[cfg_attr(not(feature = "tokio"), expect(dead_code, reason = "there is none"))]
    Runtime(runtime::Time),
    Manual(Arc<Manual>),
}

/// What the clock of the system reads.
#[derive(Clone, Copy)]
pub(crate) struct Counter(&'static system::SystemCounter);

impl Counter {
    /// Now.
    #[inline(always)]
    pub(crate) fn now(self) -> Tick {
        self.0.now()
    }
}

/// An alarm that was set, to be unset.
pub(super) enum TimerEntry {
    System(Key),
    #[cfg_attr(not(feature = "tokio"), expect(dead_code, reason = "there is none"))]
    Runtime(runtime::Entry),
    Manual(Arc<Manual>, Key),
}

impl Clock {
    /// The time of the machine, and the timer thread of the process.
    ///
    /// With the feature `tsc`, a default, it is read from the processor's counter, where that is
    /// fit for it. That may run ahead of the time of the operating system by some 50 millionths,
    /// and is set right when it is 10 ms behind, as after a suspension. It goes forward, unless the
    /// machine sets its counter back: then it may go back by as much as it had been ahead.
    ///
    /// The first call in a process measures the counter, which takes some milliseconds, more on a
    /// busy machine; to have that over with, call `Clock::system().now()` at the start.
    ///
    /// The thread calls wakers one after the other: one that blocks delays all limiters. A process
    /// that was forked, and runs no other program, has no such thread, and must not wait.
    ///
    /// # Examples
    ///
    /// ```
    /// let clock = tollgate::Clock::system();
    /// let earlier = clock.now();
    /// assert!(clock.now() >= earlier);
    /// ```
    pub const fn system() -> Self {
        Self(Kind::System)
    }

    /// Time that stands still until it is [advanced](ManualClock::advance).
    ///
    /// # Examples
    ///
    /// See [`ManualClock`].
    pub fn manual() -> ManualClock {
        ManualClock::new()
    }

    /// The one that is used when none was chosen.
    pub(crate) const fn unchosen() -> Self {
        Self(Kind::Default)
    }

    #[cfg(feature = "tokio")]
    pub(super) const fn of_runtime(time: runtime::Time) -> Self {
        Self(Kind::Runtime(time))
    }

    /// The one that this stands for, if it was not chosen.
    pub(crate) fn resolved(&self) -> Self {
        match self.0 {
            Kind::Default => runtime::unchosen(),
            _ => self.clone(),
        }
    }

    /// What the clock of the system reads, if it is that: to be kept by whoever asks often.
    pub(crate) fn counter(&self) -> Option<Counter> {
        matches!(self.0, Kind::System).then(|| Counter(system::counter()))
    }

    /// Whether it is the time of tokio.
    pub(crate) fn is_of_runtime(&self) -> bool {
        matches!(self.0, Kind::Runtime(_))
    }

    /// Now. Never earlier than an answer that the same thread had before, in one and the same
    /// runtime if it is tokio's. On the system's clock, two threads may disagree by a microsecond or two.
    #[inline]
    pub fn now(&self) -> Tick {
        match &self.0 {
            Kind::System | Kind::Default => system::now(),
            other => other.now_elsewhere(),
        }
    }

    /// Has `waker` called once it is `due`. To be followed by [`catch_up`](Self::catch_up).
    ///
    /// # Panics
    ///
    /// If the timer thread cannot be started, or the runtime has no timer.
    pub(super) fn start_timer(&self, due: Tick, waker: Waker) -> TimerEntry {
        match &self.0 {
            Kind::System | Kind::Default => TimerEntry::System(TIMER.set(due, waker)),
            Kind::Runtime(time) => time.start_timer(due, waker),
            Kind::Manual(manual) => TimerEntry::Manual(Arc::clone(manual), manual.set(due, waker)),
        }
    }
}

impl Clock {
    /// Sees to it that it agrees with the operating system's, if it is the system's.
    pub(crate) fn correct(&self) {
        if matches!(self.0, Kind::System | Kind::Default) {
            system::counter().checked_now();
        }
    }

    /// Calls whoever is due already, where nobody else does: on a clock that is moved by hand. Not
    /// under a lock.
    pub(super) fn catch_up(&self) {
        if let Kind::Manual(manual) = &self.0 {
            manual.catch_up();
        }
    }
}

impl Kind {
    #[cold]
    fn now_elsewhere(&self) -> Tick {
        match self {
            Self::System | Self::Default => system::now(),
            Self::Runtime(time) => time.now(),
            Self::Manual(manual) => manual.now(),
        }
    }
}

impl TimerEntry {
    /// Sees to it that it calls `waker`; it may be set anew for that.
    pub(super) fn set_waker(&self, waker: &Waker) {
        match self {
            Self::System(key) => TIMER.set_waker(*key, waker),
            // Only lines set these, and their wakers do not change.
            Self::Runtime(_) => {}
            Self::Manual(manual, key) => manual.set_waker(*key, waker),
        }
    }

    /// Takes it back. Harmless if it has gone off.
    pub(super) fn cancel(self) {
        match self {
            Self::System(key) => TIMER.cancel(key),
            Self::Runtime(alarm) => alarm.cancel(),
            Self::Manual(manual, key) => manual.cancel(key),
        }
    }
}

/// The clock of a limiter for which none is chosen: the [system's](Clock::system); with the feature
/// `test-util`, and inside a tokio runtime, tokio's.
impl Default for Clock {
    fn default() -> Self {
        Self::unchosen().resolved()
    }
}

impl From<ManualClock> for Clock {
    fn from(clock: ManualClock) -> Self {
        Self(Kind::Manual(clock.0))
    }
}

impl From<&ManualClock> for Clock {
    fn from(clock: &ManualClock) -> Self {
        clock.clone().into()
    }
}

impl From<&Clock> for Clock {
    fn from(clock: &Clock) -> Self {
        clock.clone()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Default => "Clock(system, unless in a test)",
            Kind::System => "Clock(system)",
            Kind::Runtime(_) => "Clock(tokio)",
            Kind::Manual(_) => "Clock(manual)",
        })
    }
}
