//! [`RateLimiter`]: its configuration, and what can be changed.
//!
//! How it is acquired is in [`verbs`](super::verbs), what can be observed in
//! [`observe`](super::observe), decisions without the lock in [`shared`](super::shared), and
//! everything else in [`queue`](super::queue).

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::config::Config;
use super::options::{MissedTickBehavior, Oversize};
use super::shared::Shared;
use crate::algorithm::{Algorithm, QuotaChange};
use crate::quota::Quota;
use crate::time::Clock;

/// So many per time: a fair asynchronous rate limiter.
///
/// A call is *charged* its cost, usually 1, and time pays the charges off at the rate of the
/// [`Quota`]. What may be owed is the burst, 1 unless the quota says otherwise.
/// [`try_acquire`](Self::try_acquire) charges now or not at all; [`acquire`](Self::acquire) waits
/// in line.
///
/// # The promise
///
/// In any interval of `t`, no more is charged than the burst, and the rate times `t` (and one
/// nanosecond, the resolution of the clock), by the ticks of the [charges](super::Charge::at),
/// exactly, for every quota; but for what asks for more by its name: [`Oversize::Overdraft`],
/// [`charge`](Self::charge); and for a burst that [becomes
/// small](Self::set_quota) and large again: no more of the large one is spent by then than of the
/// small one, by [`QuotaChange::Proportional`], the default here, in proportion. The time at which a waiting task really goes on is
/// somewhat later, see [`MissedTickBehavior`]. The algorithm is the generic cell rate algorithm of ITU-T
/// I.371, with a single word of state.
///
/// By another [algorithm](Self::algorithm) it is [what that promises](Algorithm), and what is called
/// the burst here is what can be had at once: the whole count for windows and logs, the count of a
/// part for sub-intervals. For a limiter time ends nine years (2^58 ns) after the epoch of its
/// clock: nothing is paid off any more then.
///
/// # Fairness
///
/// Strictly first-in first-out, whatever is asked for: while somebody waits, newcomers are refused
/// or join at the end. So many small calls do not starve a large one, and a small one does not pass
/// a large one. A future joins the line at its first poll, not when it is made.
///
/// When there is nothing to wait for, acquiring never yields to the executor; a loop that does
/// nothing else should yield, for example with `tokio::task::consume_budget`.
///
/// # Cancel safety
///
/// A waiter has been charged nothing until its turn has come. Dropping a future that has not
/// finished takes it out of the line in constant time, and everybody behind it is due earlier by
/// what it asked for, at once. If it had been charged and not noticed yet, that is refunded.
///
/// The line is moved by a timer, not by those who wait in it: a future that was polled and then put
/// aside keeps its place, is charged when its turn has come, and delays nobody any more than it
/// would otherwise. That holds also for one that is leaked, for example with
/// [`mem::forget`](std::mem::forget).
///
/// # Clocks
///
/// By default, and independent of any runtime, it uses the [system's clock](Clock::system). See
/// [`clock`](Self::clock), and [testing](crate#testing).
///
/// # Wakers
///
/// As for the [semaphore](crate::Semaphore#wakers).
///
/// # Examples
///
/// ```
/// use tollgate::{Quota, RateLimiter};
///
/// static API: RateLimiter = RateLimiter::new(Quota::per_second(1000).burst(10));
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// for _ in 0..20 {
///     API.acquire().await?;
///     // Ten at once, and then one each millisecond.
/// }
/// # Ok(())
/// # }
/// ```
///
/// With a deadline and a token, as everywhere in this crate. A wait that will not fit is refused at
/// once:
///
#[cfg_attr(feature = "tokio", doc = "```")]
#[cfg_attr(not(feature = "tokio"), doc = "```text")]
/// use std::time::Duration;
/// use tokio_util::sync::CancellationToken;
/// use tollgate::{ErrorKind, Quota, RateLimiter};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let limiter = RateLimiter::new(Quota::per_hour(1));
/// let token = CancellationToken::new();
/// limiter.acquire().cancel_on(&token).timeout(Duration::from_secs(5)).await?;
///
/// let refused = limiter.acquire().timeout(Duration::from_secs(5)).await;
/// assert_eq!(refused.unwrap_err().kind(), ErrorKind::TimedOut);
/// # Ok(())
/// # }
/// ```
///
/// Threads share one as tasks do: `.acquire().wait()` blocks a thread until its call may go, and
/// [`try_acquire`](Self::try_acquire) lets it go now, or says after what time to try again. All
/// clients of a service are given a reference to the one limiter of that service, or an `Arc`, or
/// use a `static`. With a burst of 1 no more than ten go in any second (from a tick to the one just
/// before a second later), as a service wants it that allows ten a second, whoever sends them:
///
/// ```
/// use std::thread;
/// use std::time::Duration;
/// use tollgate::{Quota, RateLimiter};
///
/// /// A client of the service: there may be many.
/// struct Client<'a>(&'a RateLimiter);
///
/// impl Client<'_> {
///     fn request(&self) -> Result<&'static str, tollgate::AcquireError> {
///         self.0.acquire().wait()?;
///         Ok("hello")
///     }
///
///     fn try_request(&self) -> Result<&'static str, Option<Duration>> {
///         self.0.try_acquire().map_err(|refused| refused.retry_after())?;
///         Ok("hello")
///     }
/// }
///
/// let service = RateLimiter::new(Quota::per_second(10));
/// let (one, other) = (Client(&service), Client(&service));
/// thread::scope(|scope| {
///     scope.spawn(|| assert_eq!(one.request(), Ok("hello")));
///     scope.spawn(|| assert_eq!(other.request(), Ok("hello")));
/// });
/// if let Err(after) = one.try_request() {
///     assert!(after <= Some(Duration::from_millis(100)));
/// }
/// ```
pub struct RateLimiter {
    quota: Quota,
    config: Config,
    shared: OnceLock<Arc<Shared>>,
}

/// Making one.
///
/// What is chosen here is settled by the first use: an option that is set after a call has been
/// made changes nothing.
impl RateLimiter {
    /// A limiter with this quota, to which nothing is owed.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(50).burst(5));
    /// assert_eq!(limiter.available(), 5);
    /// ```
    pub const fn new(quota: Quota) -> Self {
        Self {
            quota,
            config: Config::new(),
            shared: OnceLock::new(),
        }
    }

    /// By which rule it decides. By default [`Gcra`](Algorithm::Gcra).
    ///
    /// # Panics
    ///
    /// If the quota does not fit the algorithm, as [`check`](Algorithm::check) tells.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Algorithm, Clock, Quota, RateLimiter};
    ///
    /// let clock = Clock::manual();
    /// let limiter = RateLimiter::new(Quota::per_second(3))
    ///     .algorithm(Algorithm::SlidingLog)
    ///     .clock(&clock);
    /// limiter.try_acquire_many(2)?;
    /// clock.advance(Duration::from_millis(600));
    /// limiter.try_acquire()?;
    /// // The first two are a second old in 400 ms.
    /// let refused = limiter.try_acquire().unwrap_err();
    /// assert_eq!(refused.retry_after(), Some(Duration::from_millis(400)));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub const fn algorithm(mut self, algorithm: Algorithm) -> Self {
        algorithm.check_or_panic(self.quota);
        self.config.algorithm = algorithm;
        self
    }

    /// Bounds the line: whoever would be one more is refused with
    /// [`QueueFull`](crate::ErrorKind::QueueFull). There is no bound by default.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{ErrorKind, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_hour(1)).max_waiters(0);
    /// limiter.acquire().wait()?;
    /// let refused = limiter.acquire().wait().unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::QueueFull);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[must_use]
    pub const fn max_waiters(mut self, max_waiters: usize) -> Self {
        self.config.max_waiters = max_waiters;
        self
    }

    /// What happens when the timer is late. By default [`MissedTickBehavior::Burst`], with what the quota
    /// gives in 10 ms, and at least 1, as the most that is made up for.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{MissedTickBehavior, Quota, RateLimiter};
    ///
    /// let strict = RateLimiter::new(Quota::per_second(50)).missed_tick(MissedTickBehavior::Delay);
    /// # assert!(strict.try_acquire().is_ok());
    /// ```
    #[must_use]
    pub const fn missed_tick(mut self, missed_tick: MissedTickBehavior) -> Self {
        self.config.missed_tick = Some(missed_tick);
        self
    }

    /// What happens to a call that asks for more than the burst. By default it is
    /// [refused](Oversize::Refuse).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Oversize, Quota, RateLimiter};
    ///
    /// let clock = Clock::manual();
    /// let bytes = RateLimiter::new(Quota::per_second(1000).burst(1000))
    ///     .oversize(Oversize::Overdraft)
    ///     .clock(&clock);
    /// bytes.try_acquire_many(5000)?;
    /// // Four thousand are beyond the burst, and one more.
    /// let refused = bytes.try_acquire().unwrap_err();
    /// assert_eq!(refused.retry_after(), Some(Duration::from_millis(4001)));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[must_use]
    pub const fn oversize(mut self, oversize: Oversize) -> Self {
        self.config.oversize = oversize;
        self
    }

    /// Adds a random delay of at most `max` to the `retry_after` of rejections, so that a crowd that
    /// was refused at once does not come back at once. None by default.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10))
    ///     .jitter(Duration::from_millis(50))
    ///     .clock(Clock::manual());
    /// limiter.try_acquire()?;
    /// let after = limiter.try_acquire().unwrap_err().retry_after();
    /// assert!(after >= Some(Duration::from_millis(100)));
    /// assert!(after <= Some(Duration::from_millis(150)));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[must_use]
    pub const fn jitter(mut self, max: Duration) -> Self {
        self.config.jitter = max;
        self
    }

    /// The clock that it lives by: a [`Clock`] or a [`ManualClock`](crate::ManualClock), or a
    /// reference to one. By default that of the [system](Clock::system), or, with the feature
    /// `test-util` and if it is first used inside a tokio runtime, tokio's.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let clock = Clock::manual();
    /// let limiter = RateLimiter::new(Quota::per_second(10)).clock(&clock);
    /// assert_eq!(limiter.try_acquire()?.at(), clock.now());
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[must_use]
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.config.clock = clock.into();
        self
    }

    #[inline(always)]
    pub(super) fn shared(&self) -> &Arc<Shared> {
        match self.shared.get() {
            Some(shared) => shared,
            None => self.begin(),
        }
    }

    /// The limiter whose state this is.
    pub(super) fn of_shared(shared: Arc<Shared>) -> Self {
        let quota = shared.queue().quota;
        Self {
            quota,
            config: shared.config.clone(),
            shared: OnceLock::from(shared),
        }
    }

    /// What was chosen, and the quota that it was made with.
    pub(super) fn chosen(&self) -> (Quota, &Config) {
        (self.quota, &self.config)
    }

    #[cold]
    fn begin(&self) -> &Arc<Shared> {
        self.shared
            .get_or_init(|| Shared::new(self.quota, self.config.clone()))
    }
}

/// Changing it.
impl RateLimiter {
    /// Changes the quota at once, and lets everybody in line be due by the new one. What was spent
    /// stays spent: [in proportion](QuotaChange::Proportional) under the default algorithm, [as many
    /// as there were](QuotaChange::KeepSpent) under all others.
    ///
    /// Nothing that was charged before is forgotten, and no decision under the old quota is made
    /// after this returns. Charges that were made before cannot be refunded any more. A quota that
    /// says the same as before, perhaps in other words, as 60 a minute for one a second, changes
    /// nothing. A waiter that
    /// now asks for more than the burst is refused with
    /// [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity) when its turn comes, unless
    /// [`Oversize::Overdraft`] was chosen.
    ///
    /// # Panics
    ///
    /// If the quota does not fit the [algorithm](Self::algorithm), as
    /// [`check`](Algorithm::check) tells.
    ///
    /// # Pausing
    ///
    /// There is no quota of 0. To be able to pause, put a [`Semaphore`](crate::Semaphore) in front
    /// by [`all`](crate::all), of which [`set_permits(0)`](crate::Semaphore::set_permits) stops it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let clock = Clock::manual();
    /// let limiter = RateLimiter::new(Quota::per_hour(1)).clock(&clock);
    /// limiter.try_acquire()?;
    ///
    /// limiter.set_quota(Quota::per_second(1000));
    /// clock.advance(Duration::from_millis(1));
    /// limiter.try_acquire()?;
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[track_caller]
    pub fn set_quota(&self, quota: Quota) {
        let algorithm = self.shared().config.algorithm;
        self.set_quota_with(quota, QuotaChange::by(algorithm));
    }

    /// Changes the quota, and says what becomes of what was spent. See
    /// [`set_quota`](Self::set_quota).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Quota, QuotaChange, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10).burst(10)).clock(Clock::manual());
    /// limiter.try_acquire_many(4)?;
    /// limiter.set_quota_with(Quota::per_second(10).burst(20), QuotaChange::KeepSpent);
    /// assert_eq!(limiter.available(), 16);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[track_caller]
    pub fn set_quota_with(&self, quota: Quota, how: QuotaChange) {
        // Not what was chosen since, which has no effect.
        let shared = self.shared();
        if let Err(error) = shared.config.algorithm.check(quota) {
            panic!("{error}");
        }
        shared.lock_on_time().set_quota(quota, how);
    }

    /// Admits nobody any more. Everybody in line gets [`Closed`](crate::ErrorKind::Closed), and so
    /// does everybody who comes later.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{ErrorKind, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10));
    /// limiter.close();
    /// assert_eq!(limiter.try_acquire().unwrap_err().kind(), ErrorKind::Closed);
    /// ```
    pub fn close(&self) {
        self.shared().lock_state().close();
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("RateLimiter");
        // To look at one is not to use it, which would settle its options.
        if self.shared.get().is_some() {
            debug
                .field("quota", &format_args!("{}", self.quota()))
                .field("waiting", &self.waiting())
                .field("closed", &self.is_closed());
        } else {
            debug.field("quota", &format_args!("{}", self.quota));
        }
        debug.finish_non_exhaustive()
    }
}
