//! [`Clock`]: the source of ticks, and the timer that wakes waiters; and [`Deadline`], the one
//! timer entry of a queue, which is only ever moved earlier.
//!
//! 1. A caller that makes the head of a queue due earlier, or adds the first waiter,
//!    [arms](Deadline::arm) the deadline, after it has released the lock of the queue. It may do so
//!    late: an earlier deadline stays.
//! 2. The callback first [disarms](Deadline::disarm) the deadline, then checks the queue, then arms
//!    the deadline again. So a change of the queue is either seen by this check, or its caller arms
//!    the deadline after it was disarmed.
//! 3. The deadline may expire early, or for nothing: when a head has left, or now has to wait
//!    longer.
//!
//! The lock of a deadline is a leaf, except that the lock of the timer, under which no waker is
//! called, may be taken under it.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, SystemTime};

use super::entries::Key;
use super::manual::{self, ManualClock};
use super::runtime::{self, Home, Id as RuntimeId};
use super::system;
use super::tick::Tick;
use super::timer::{self, TIMER};
use crate::sync::{Mutex, const_fn, lock};

/// The clock of a rate limiter, and the timer that wakes its waiters. An
/// [`AdaptiveSemaphore`] measures calls with a clock, and a
/// [`FairQueue`](crate::fair::FairQueue) measures waits.
///
/// - [`system`](Self::system), the default: the time of the machine, and one timer thread for the
///   whole process, which the first waiter starts. It works on any executor, wakes waiters within a
///   fraction of a millisecond, and does not need a runtime that is being driven.
/// - `tokio` (feature `tokio`): tokio's time and timer, which a test can pause and advance. Its
///   timer counts in milliseconds.
/// - [`manual`](Self::manual): time that moves only when it is advanced. It needs no runtime.
///
/// With the feature `test-util`, a limiter without an explicit clock runs on tokio's time, with a state for [each
/// runtime](Self#limiters-that-are-used-in-several-runtimes), and so does an `AdaptiveSemaphore` or a `FairQueue` that is
/// created inside a tokio runtime. [`Clock::default`] is the clock of every type without an explicit one.
///
/// # In tests with paused time
///
/// `tokio::time::timeout` around a wait on the system clock returns `Elapsed` **at once** if
/// tokio's time is paused, however short the wait. The wait needs real time, so the runtime finds
/// all its tasks idle and advances its paused time to the next timer, which is the timeout. Run the
/// limiter on the runtime's time, with `Clock::tokio()` or the feature `test-util`. Alternatively,
/// end the wait with its own `.timeout(..)`, which runs on the clock of the limiter.
///
/// An `AdaptiveSemaphore` on the system clock does not see paused time pass, so calls seem to take no
/// time. A `FairQueue` on it sees no wait, so its
/// [aging](crate::fair::FairQueue::aging) does not begin. The same two remedies help.
///
/// [`AdaptiveSemaphore`]: https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/struct.AdaptiveSemaphore.html
///
#[cfg_attr(feature = "tokio", doc = "```")]
#[cfg_attr(not(feature = "tokio"), doc = "```text")]
/// use std::time::Duration;
/// use tokio::time::timeout;
/// use tollgate::{Clock, Quota, RateLimiter};
///
/// const TWO_HOURS: Duration = Duration::from_secs(7200);
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// // In a test: `#[tokio::test(start_paused = true)]`.
/// let limiter = RateLimiter::new(Quota::per_hour(1)).clock(Clock::system());
/// limiter.try_acquire()?;
/// // Elapsed, without two hours having passed.
/// assert!(timeout(TWO_HOURS, limiter.acquire()).await.is_err());
///
/// let limiter = RateLimiter::new(Quota::per_hour(1)).clock(Clock::tokio());
/// limiter.try_acquire()?;
/// assert!(timeout(TWO_HOURS, limiter.acquire()).await.is_ok());
/// # Ok(())
/// # }
/// ```
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
    System,
    /// Of the current runtime.
    Runtime,
    /// Of one runtime, or of the outside of all, wherever it is used.
    Home(Option<Arc<Home>>),
    Manual(ManualClock),
}

/// The identity of a clock while it exists.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockId(usize);

/// The counter of the system clock.
pub(crate) type Counter = &'static system::SystemCounter;

impl Clock {
    /// Returns the clock of the machine, with the timer thread of the process.
    ///
    /// # Accuracy
    ///
    /// With the feature `tsc`, a default, time is read from the processor's counter if that counter
    /// is suitable. Once per second, the next reader compares it with the operating system's clock.
    /// If they differ by more than 50 millionths, the counter is measured again and its scale is
    /// corrected. This takes two seconds or more, during which the operating system's clock is
    /// read. So a wrong scale is used for one second at most, as long as some caller reads the
    /// clock, and the time gained in that second is kept as a lead.
    /// A process measures the counter at most 62 times, and each suspension of the machine that stops one of
    /// the two clocks takes two of these measurements. After that the operating system's clock, which takes
    /// about three times as long to read, replaces the counter for good.
    ///
    /// After a suspension, time goes forward to the operating system's time. Time does not go back when the
    /// counter is set back, with one exception: if the counter goes back by less than the time since the last
    /// comparison, only the next comparison detects it. Until then, for a second at most, time may be back by
    /// less than a second.
    ///
    /// The first call in a process measures the counter, which takes a few milliseconds, and longer on a busy
    /// machine. Call `Clock::system().now()` at startup to do this in advance.
    ///
    /// # The timer thread
    ///
    /// The thread calls wakers one after the other: a waker that blocks delays all limiters. A forked process
    /// that does not execute another program has no such thread, so code there must not wait.
    ///
    /// # Examples
    ///
    /// ```
    /// let clock = tollgate::Clock::system();
    /// let earlier = clock.now();
    /// assert!(clock.now() >= earlier);
    /// ```
    #[doc(alias = "DefaultClock")]
    #[doc(alias = "QuantaClock")]
    #[doc(alias = "MonotonicClock")]
    pub const fn system() -> Self {
        Self(Kind::System)
    }

    /// Returns tokio's clock and timer: inside a runtime, the time of the runtime, which a test can
    /// pause and advance; elsewhere, the time of the machine.
    ///
    /// # Limiters that are used in several runtimes
    ///
    /// The times of two runtimes need not agree. A limiter on this clock therefore has **a state for
    /// each runtime** in which it is used: its charges, its [pause](crate::RateLimiter::pause_for) and
    /// its queue. Each runtime gets the whole quota, and the runtimes are independent even when they run at
    /// once, as tests with a limiter in a `static` do. Code outside every runtime counts as one more runtime.
    /// (To give a limiter in a `static` a clock, put it in a [`LazyLock`](std::sync::LazyLock).)
    ///
    /// - [`set_quota`](crate::RateLimiter::set_quota) and [`close`](crate::RateLimiter::close) apply to all
    ///   runtimes; a refund applies to the runtime in which the charge was made. Everything else, such as
    ///   [`snapshot`](crate::RateLimiter::snapshot), applies to the current one.
    /// - A waiter is in the queue of the runtime in which it was first polled, and only the time of that
    ///   runtime admits it. It may be polled, and take its grant, anywhere.
    /// - If a runtime ends, its waiters that are polled elsewhere are woken and fail with
    ///   [`RuntimeEnded`](crate::ErrorKind::RuntimeEnded). A grant that was already made is collected as usual.
    /// - The state of a runtime is dropped after its end, so the memory does not grow with the runtimes
    ///   that a process starts. The first limiter in a runtime, or the first wait on this clock, starts a task
    ///   there, which ends with the runtime.
    /// - Each key of a [`Keyed`](crate::Keyed) has a state for each runtime, too, and takes [more
    ///   memory](crate::Keyed#memory) than on other clocks. The runtimes share one set of keys: the keys of
    ///   all of them count towards [`max_keys`](crate::Keyed::max_keys), and a key can be replaced when it
    ///   owes nothing in any runtime that has not ended.
    ///
    /// The rate that an [`AdaptiveRate`] has learned is common to all runtimes. A
    /// [`FairQueue`](crate::fair::FairQueue#runtimes) in front of such a limiter is one queue for all
    /// runtimes, and each of its waiters is admitted by the time of its own runtime.
    ///
    /// A limit that several runtimes of one process share belongs on the [system
    /// clock](Self::system). A [`Gate`](crate::Gate) on this clock, and the
    /// [aging](crate::fair::FairQueue::aging) of a `FairQueue` on it, are the same for all runtimes, so they
    /// must not serve tests that run at the same time.
    ///
    /// # Precision
    ///
    /// Tokio's timer counts in milliseconds, so waits end at whole milliseconds, also in paused
    /// time. In exchange, the many short waits of streams at a limited bandwidth take
    /// about half of the processor time that they take on the timer thread. Requires the feature
    /// `tokio`, a default.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tokio::time::Instant;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let limiter = RateLimiter::new(Quota::per_hour(2)).clock(Clock::tokio());
    /// let start = Instant::now();
    /// for _ in 0..3 {
    ///     limiter.acquire().await?;
    /// }
    /// assert_eq!(start.elapsed(), Duration::from_secs(3600));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`AdaptiveRate`]: https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/struct.AdaptiveRate.html
    #[cfg(feature = "tokio")]
    pub const fn tokio() -> Self {
        Self(Kind::Runtime)
    }

    /// Creates a clock that moves only when it is [advanced](ManualClock::advance).
    ///
    /// # Examples
    ///
    /// See [`ManualClock`].
    #[doc(alias = "FakeRelativeClock")]
    pub fn manual() -> ManualClock {
        ManualClock::new()
    }

    /// Returns the clock of a limiter without an explicit one. A limiter has a state for each runtime:
    /// with `test-util` it follows tokio's time wherever it is used first, since the first user of a
    /// `static` may be outside of runtimes.
    pub(crate) const fn of_limiters() -> Self {
        if cfg!(feature = "test-util") {
            Self(Kind::Runtime)
        } else {
            Self(Kind::System)
        }
    }

    /// Returns the counter of the system clock, if this is that clock. Callers that read it often
    /// keep it.
    pub(crate) fn counter(&self) -> Option<Counter> {
        matches!(self.0, Kind::System).then(system::counter)
    }

    /// Returns whether this is tokio's time.
    pub(crate) fn is_of_runtime(&self) -> bool {
        matches!(self.0, Kind::Runtime | Kind::Home(_))
    }

    /// Returns tokio's time in one runtime, or outside of all, if this is tokio's time.
    pub(crate) fn bound(&self, home: Option<Arc<Home>>) -> Self {
        match self.0 {
            Kind::Runtime | Kind::Home(_) => Self(Kind::Home(home)),
            _ => self.clone(),
        }
    }

    /// Returns whether this is the clock of that runtime, which has not ended.
    pub(crate) fn is_of(&self, runtime: RuntimeId) -> bool {
        matches!(&self.0, Kind::Home(Some(home)) if home.id == runtime) && !self.has_ended()
    }

    /// Returns whether this is the clock of a runtime that has ended.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(&self.0, Kind::Home(Some(home)) if home.ended.get().is_some())
    }

    /// Returns a number that two clocks with the same ticks share. The times of all runtimes share one.
    pub(crate) fn id(&self) -> ClockId {
        ClockId(match &self.0 {
            Kind::System => 0,
            Kind::Runtime | Kind::Home(_) => 1,
            Kind::Manual(manual) => manual.address(),
        })
    }

    /// Returns this clock, or if it is the time of one runtime, that of each.
    pub(crate) fn unbound(&self) -> Self {
        match self.0 {
            Kind::Home(_) => Self(Kind::Runtime),
            _ => self.clone(),
        }
    }

    /// Returns the current tick. It is never earlier than a tick that the same thread got before
    /// (on tokio's time: in the same runtime). On the system clock, two threads may disagree by a
    /// microsecond or two; [`system`](Self::system) describes the one exception.
    #[inline]
    pub fn now(&self) -> Tick {
        match &self.0 {
            Kind::System => system::now(),
            Kind::Runtime => runtime::now(),
            Kind::Home(home) => runtime::now_in(home.as_ref()),
            Kind::Manual(manual) => manual.now(),
        }
    }

    /// Returns the time by which different machines can agree: since the Unix epoch on the system clock,
    /// and since the epoch of the clock on others, so that tests are exact. Unlike [`now`](Self::now), it goes back when
    /// the time of the machine is set back.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Clock;
    ///
    /// let manual = Clock::manual();
    /// let clock = Clock::from(&manual);
    /// let before = clock.wall();
    /// manual.advance(Duration::from_secs(1));
    /// assert_eq!(clock.wall() - before, Duration::from_secs(1));
    /// ```
    pub fn wall(&self) -> Duration {
        match self.0 {
            Kind::System => SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default(),
            _ => Duration::from_nanos(self.now().as_nanos()),
        }
    }

    /// Sets an entry that wakes `waker` when it is due. No other entry has this key. Call
    /// [`catch_up`](Self::catch_up) afterwards.
    ///
    /// # Panics
    ///
    /// Panics if the timer thread cannot be started, or the runtime has no timer.
    pub(super) fn start_timer(&self, key: Key, waker: Waker) -> TimerEntry {
        match &self.0 {
            Kind::System => TimerEntry::System(TIMER.start(key, waker)),
            Kind::Runtime => runtime::start_timer(runtime::entered_home(), key.due, waker),
            Kind::Home(home) => runtime::start_timer(home.clone(), key.due, waker),
            Kind::Manual(manual) => TimerEntry::Manual(manual.start(key, waker)),
        }
    }

    /// Compares the system clock with the operating system's, and corrects it.
    pub(crate) fn correct(&self) {
        if matches!(self.0, Kind::System) {
            system::counter().checked_now();
        }
    }

    /// Wakes entries that are already due on a manual clock, where no thread does this. Do not call
    /// it under a lock.
    pub(super) fn catch_up(&self) {
        if let Kind::Manual(manual) = &self.0 {
            manual.catch_up();
        }
    }
}

/// An entry of a timer. Dropping it drops its waker and cancels it, which does nothing if it has
/// expired.
#[expect(dead_code, reason = "to be dropped")]
pub(super) enum TimerEntry {
    System(timer::Entry),
    Home(runtime::Entry),
    Manual(manual::Entry),
}

/// The tick at which to check a queue again.
pub(crate) struct Deadline(Mutex<Option<(Tick, TimerEntry)>>);

impl Deadline {
    const_fn! {
        pub(crate) fn new() -> Self {
            Self(Mutex::new(None))
        }
    }

    /// Wakes `waker` at `due`, or earlier.
    pub(crate) fn arm(&self, clock: &Clock, due: Tick, waker: Waker) {
        let mut armed = lock(&self.0);
        if armed.as_ref().is_some_and(|(earlier, _)| *earlier <= due) {
            return;
        }
        let later = armed.replace((due, clock.start_timer(Key::new(due), waker)));
        drop(armed);
        drop(later);
        clock.catch_up();
    }

    /// Disarms the deadline, whether or not it has expired.
    pub(crate) fn disarm(&self) {
        // The lock was a temporary, so the entry is dropped after it.
        let armed = lock(&self.0).take();
        drop(armed);
    }
}

/// Returns the clock of a limiter without an explicit one: the [system's](Clock::system), or
/// tokio's with the feature `test-util` inside a tokio runtime.
impl Default for Clock {
    fn default() -> Self {
        match runtime::current() {
            Some(_) => Self::of_limiters(),
            None => Self(Kind::System),
        }
    }
}

impl From<ManualClock> for Clock {
    fn from(clock: ManualClock) -> Self {
        Self(Kind::Manual(clock))
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
            Kind::System => "Clock(system)",
            Kind::Runtime | Kind::Home(_) => "Clock(tokio)",
            Kind::Manual(_) => "Clock(manual)",
        })
    }
}
