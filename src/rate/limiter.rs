//! [`RateLimiter`]: its options, the acquiring methods, changes at run time, and observation.
//!
//! [`shared`](super::shared) has the decisions without the lock, and [`locked`](super::locked) all
//! the others.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::acquire::{Acquire, Limiter};
use super::charge::Charge;
use super::locked::Locked;
use super::options::{Config, MissedTickBehavior, Oversize, nanos_of};
use super::reservation::Reservation;
use super::runtimes::States;
use super::shared::{Decided, Shared};
use crate::algorithm::{
    Algorithm, Ledger, LimiterState, Origin, QuotaChange, RestoreError, Restored,
};
use crate::error::AcquireError;
use crate::first_use::FirstUse;
use crate::quota::Quota;
use crate::status::{Decision, LimitStatus, Snapshot};
use crate::time::{Clock, Tick};
use crate::wait::Waiting;

/// A fair asynchronous rate limiter.
///
/// A call is *charged* its cost, usually 1, and time pays the charges off at the rate of the
/// [`Quota`]. The backlog (the charges that are not paid off yet) is at most the burst. The burst
/// is 1 unless the quota sets another. [`try_acquire`](Self::try_acquire) charges now or fails;
/// [`acquire`](Self::acquire) waits in the queue.
///
/// # The promise
///
/// In any interval of length `t`, the limiter charges at most the burst plus the rate times
/// `t + 1 ns` (a nanosecond is the resolution of the clock). This holds exactly, for every quota,
/// measured by the ticks of the [charges](super::Charge::at). There are three exceptions:
///
/// - Calls that exceed the quota on request: [`Oversize::Overdraft`] and [`charge`](Self::charge).
/// - A quota that [changes](Self::set_quota) under [`QuotaChange::Proportional`], the default here: a
///   burst that becomes small and large again. Its spent share is then at most the spent share of
///   the small one. Under [`QuotaChange::KeepSpent`] the promise holds across all changes, for the
///   largest rate and the largest burst among the quotas.
/// - A limit that is [lifted](Quota::UNLIMITED) and set again: its whole burst is then available.
///
/// A waiting task resumes somewhat later than its tick; see [`MissedTickBehavior`]. The algorithm
/// is the generic cell rate algorithm of ITU-T I.371, with a single word of state.
///
/// With another [algorithm](Self::algorithm), the limiter keeps [the promise of that
/// algorithm](Algorithm), and the burst in these docs is the maximum charge at once: the whole
/// count for windows and logs, the count of one part for sub-intervals. For a limiter, time ends
/// nine years (2^58 ns) after the epoch of its clock: nothing is paid off after that. With a quota
/// of two per nanosecond or more, time ends when some 10^18 tokens could have been charged: two
/// years after the epoch at 16 per nanosecond, and nine at 3.75.
///
/// # Fairness
///
/// Strictly first-in first-out, for any costs: while there are waiters, new calls are refused or
/// join at the end. So many small calls do not starve a large one, and a small call does not pass a
/// large one. A future joins the queue at its first poll, not when it is created.
///
/// When there is nothing to wait for, acquiring never yields to the executor; a loop that does
/// nothing else should yield, for example with `tokio::task::consume_budget`.
///
/// # Cancel safety
///
/// A waiter is charged nothing until its turn comes. Dropping an unfinished future takes it out of
/// the queue in constant time, and every waiter behind it immediately becomes due earlier by its
/// cost. If the future had been charged but not polled since, the charge is refunded.
///
/// A timer advances the queue; the waiters do not. A future that was polled and then set aside
/// keeps its place, is charged when its turn comes, and delays no other waiter more than it would
/// otherwise. The same holds for a future that is leaked, for example with
/// [`mem::forget`](std::mem::forget).
///
/// # Long queues
///
/// One call serves at most 1,024 waiters. A call that looks twice, such as the poll of a
/// [reservation](Self::reserve) with a timeout, serves up to twice as many. If
/// [`close`](Self::close) or a [`set_quota`](Self::set_quota) releases a million waiters, the timer
/// serves the rest, in batches of that size. So no call takes long because of the queue. Until all
/// due waiters were served, a new call is refused or joins at the end, like behind any queue. On a
/// [manual](Clock::manual) clock all are served before the call returns, unless another call is
/// advancing the clock, on another thread or around a waker: then that call serves the rest before
/// it returns.
///
/// # Clocks
///
/// By default a limiter uses the [system clock](Clock::system), independent of any runtime. See
/// [`clock`](Self::clock), and [testing](crate::guide::test_code_that_waits).
///
/// # Wakers
///
/// The same as for the [semaphore](crate::Semaphore#wakers).
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
/// Deadlines and tokens work like everywhere in this crate. A wait that would exceed the deadline
/// is refused immediately:
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
/// Threads share a limiter just as tasks do: `.acquire().wait()` blocks a thread until its call is
/// admitted, and [`try_acquire`](Self::try_acquire) admits it now or returns the time after which
/// to retry. Give all clients of a service a reference to the one limiter of that service, or an
/// `Arc`, or use a `static`. With a burst of 1, at most ten calls are admitted in any second (from
/// a tick to the one just before a second later), whichever client sends them. That is what a
/// service with a limit of ten a second requires:
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
#[doc(alias = "DirectRateLimiter")]
#[doc(alias = "DefaultDirectRateLimiter")]
pub struct RateLimiter {
    /// The initial quota.
    pub(super) quota: Quota,
    pub(crate) config: Config,
    pub(super) states: OnceLock<States>,
    pub(super) first_use: FirstUse,
}

/// Construction and options.
///
/// Options are set before the first use; a later option panics. Any call of another method is a
/// use.
impl RateLimiter {
    /// Creates a limiter with this quota and no backlog.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(50).burst(5));
    /// assert_eq!(limiter.snapshot().available, 5);
    /// ```
    #[doc(alias = "direct")]
    #[doc(alias = "builder")]
    pub const fn new(quota: Quota) -> Self {
        Self {
            quota,
            config: Config {
                clock: Clock::of_limiters(),
                algorithm: Algorithm::Gcra,
                oversize: Oversize::Refuse,
                makes_up: None,
                max_waiters: usize::MAX,
                jitter: 0,
                max_hold: u64::MAX,
                origin: Origin::NONE,
            },
            states: OnceLock::new(),
            first_use: FirstUse::ahead(),
        }
    }

    /// Returns the limiter unchanged, for an option.
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    #[track_caller]
    pub(crate) const fn unused(mut self) -> Self {
        self.first_use = self.first_use.assert_ahead();
        self
    }

    /// Sets the algorithm. The default is [`Gcra`](Algorithm::Gcra). Limits [by
    /// key](crate::Keyed::new) can have an algorithm that [keeps a word](Algorithm::keeps_a_word).
    ///
    /// # Panics
    ///
    /// Panics after the first use, and if the quota does not fit the algorithm, see
    /// [`check`](Algorithm::check).
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
        algorithm.promise(self.quota);
        self.config.algorithm = algorithm;
        self.unused()
    }

    /// Bounds the queue: when it is full, one more waiter fails with
    /// [`QueueFull`](crate::ErrorKind::QueueFull). The default is no bound.
    ///
    /// # Panics
    ///
    /// Panics after the first use.
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
    #[track_caller]
    pub const fn max_waiters(mut self, max_waiters: usize) -> Self {
        self.config.max_waiters = max_waiters;
        self.unused()
    }

    /// Sets the behavior when the timer is late. By default it is [`MissedTickBehavior::Burst`]
    /// with the quota of 10 ms, at least 1, and the timer may be late [on
    /// purpose](MissedTickBehavior).
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::rate::MissedTickBehavior;
    /// use tollgate::{Quota, RateLimiter};
    ///
    /// let strict = RateLimiter::new(Quota::per_second(50)).missed_tick(MissedTickBehavior::Delay);
    /// # assert!(strict.try_acquire().is_ok());
    /// ```
    #[must_use]
    #[track_caller]
    pub const fn missed_tick(mut self, missed_tick: MissedTickBehavior) -> Self {
        self.config.makes_up = Some(match missed_tick {
            MissedTickBehavior::Delay => 0,
            MissedTickBehavior::Burst { max } => max,
        });
        self.unused()
    }

    /// Sets the behavior for a call that asks for more than the burst. By default it is
    /// [refused](Oversize::Refuse).
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::rate::Oversize;
    /// use tollgate::{Clock, Quota, RateLimiter};
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
    #[track_caller]
    pub const fn oversize(mut self, oversize: Oversize) -> Self {
        self.config.oversize = oversize;
        self.unused()
    }

    /// Adds a random delay of at most `max` to the `retry_after` of rejections, so that calls
    /// rejected together do not retry together. The default is no delay.
    ///
    /// # Panics
    ///
    /// Panics after the first use.
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
    #[doc(alias = "Jitter")]
    #[doc(alias = "up_to")]
    #[must_use]
    #[track_caller]
    pub const fn jitter(mut self, max: Duration) -> Self {
        self.config.jitter = nanos_of(max);
        self.unused()
    }

    /// Ends a [hold](Self::hold) after this time, as if it had been dropped then: for its whole
    /// cost, as of its beginning. By default a hold ends only when it is settled or dropped, so one
    /// that is [forgotten](std::mem::forget) reduces the limit for ever. A settlement that comes
    /// later charges only what was used beyond the held cost. In a log and a window this has no
    /// effect, because a hold there [ages like a charge](Self::hold).
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let clock = Clock::manual();
    /// let tokens = RateLimiter::new(Quota::per_second(10).burst(10))
    ///     .max_hold(Duration::from_secs(600))
    ///     .clock(&clock);
    /// std::mem::forget(tokens.hold(tokens.try_acquire_many(8)?));
    /// clock.advance(Duration::from_secs(599));
    /// assert_eq!(tokens.snapshot().available, 2);
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(tokens.snapshot().available, 10);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub const fn max_hold(mut self, longest: Duration) -> Self {
        self.config.max_hold = nanos_of(longest);
        self.unused()
    }

    /// Sets the clock: a [`Clock`] or a [`ManualClock`](crate::time::ManualClock), or a reference to one.
    /// The default is the [system clock](Clock::system), or tokio's clock with the feature `test-util`.
    ///
    /// # Panics
    ///
    /// Panics after the first use.
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
    #[doc(alias = "direct_with_clock")]
    #[must_use]
    #[track_caller]
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.config.clock = clock.into();
        self.unused()
    }
}

/// Going on from an earlier state. These come last: they read the limiter's clock, so they count as its first use.
impl RateLimiter {
    /// Begins with the [state](Self::state) of another limiter, which was read `elapsed` ago, for example by
    /// the program before it was started again. The limiter then decides like one that was never stopped.
    ///
    /// `elapsed` is time on the wall: read the wall clock just after [`state`](Self::state), store that time
    /// with the state, and read it again just before `restore`. If the time went back in between, pass zero:
    /// then the limiter owes more, never less. Everything is exact to the nanosecond, except that a quota whose
    /// token is not a whole number of nanoseconds may be due a nanosecond later, or sooner, on a clock with
    /// another epoch.
    ///
    /// If this limiter has another quota, the spent part carries over like in [`set_quota`](Self::set_quota).
    /// Windows end when they would have ended, and a [pause](Self::pause_for) goes on. Waiters are not
    /// restored, and earlier charges cannot be refunded. On [tokio's
    /// time](crate::Clock#limiters-that-are-used-in-several-runtimes) the state of each runtime begins with it,
    /// at the first use in that runtime: the time between this call and that use does not count as passed.
    ///
    /// A [log](Algorithm::SlidingLog) takes its lock for every call as long as charges count that are older
    /// than its clock, at most for a period after the clock has begun.
    ///
    /// # Errors
    ///
    /// - [`Algorithm`](RestoreError::Algorithm), if it is the state of another algorithm.
    ///
    /// # Panics
    ///
    /// Panics after the first use. An option after it panics, too.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let quota = Quota::per_minute(30).burst(30);
    /// let before = RateLimiter::new(quota).clock(Clock::manual());
    /// before.try_acquire_many(30)?;
    /// let state = before.state();
    ///
    /// // Three seconds later, in another process.
    /// let elapsed = Duration::from_secs(3);
    /// let after = RateLimiter::new(quota).clock(Clock::manual()).restore(&state, elapsed)?;
    /// after.try_acquire()?;
    /// let refused = after.try_acquire().unwrap_err();
    /// assert_eq!(refused.retry_after(), Some(Duration::from_secs(1)));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn restore(self, state: &LimiterState, elapsed: Duration) -> Result<Self, RestoreError> {
        let this = self.unused();
        let restored = state.restored(this.config.algorithm, elapsed)?;
        this.first_use.begin();
        let states = OnceLock::from(this.new_states(Some(restored)));
        Ok(Self { states, ..this })
    }

    /// Begins in a window that ends in `left` and of which `used` was used: in the middle of a day, for
    /// example. For [`FixedWindow`](Algorithm::FixedWindow), [`TokenBucket`](Algorithm::TokenBucket), whose
    /// next batch comes then, and [`SubInterval`](Algorithm::SubInterval), whose window is a part of the
    /// period.
    ///
    /// `left` may be longer than the window, as on a day of 25 hours. The next windows have the length of the
    /// quota. See [a quota that resets at midnight](crate::guide::reset_at_midnight). On tokio's time, `left`
    /// counts from the first use in each runtime, as in [`restore`](Self::restore).
    ///
    /// # Panics
    ///
    /// Panics after the first use; if the algorithm is another one; and if `left` is zero or more than 2^58
    /// nanoseconds, about nine years. An option after it panics, too.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Algorithm, Clock, Quota, RateLimiter};
    ///
    /// let hour = Duration::from_secs(3600);
    /// let mails = RateLimiter::new(Quota::per_day(1000))
    ///     .algorithm(Algorithm::FixedWindow)
    ///     .clock(Clock::manual())
    ///     .window_ends_in(5 * hour, 998);
    /// mails.try_acquire_many(2)?;
    /// let refused = mails.try_acquire().unwrap_err();
    /// assert_eq!(refused.retry_after(), Some(5 * hour));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn window_ends_in(self, left: Duration, used: u64) -> Self {
        let this = self.unused();
        let state = LimiterState::in_window(this.config.algorithm, this.quota, left, used);
        match this.restore(&state, Duration::ZERO) {
            Ok(this) => this,
            Err(error) => unreachable!("the state has the algorithm of the limiter: {error}"),
        }
    }
}

/// Acquiring.
///
/// The methods differ in the cost of the call (`_many`), and in whether they wait (`try_` does
/// not). Add everything else to the future: `cancel_on`, [`timeout`](Waiting::timeout),
/// [`wait`](Waiting::wait). The `_owned` futures do not borrow the limiter; a [`Charge`] never
/// does.
///
/// Requesting 0 completes immediately unless the limiter is closed.
impl RateLimiter {
    /// Waits for the turn of the call, and charges 1.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// - [`Closed`](crate::ErrorKind::Closed), if the limiter is or becomes closed;
    /// - [`QueueFull`](crate::ErrorKind::QueueFull), see [`max_waiters`](Self::max_waiters);
    /// - [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity), if the call asks for more than the
    ///   burst, unless [`oversize`](Self::oversize) allows it. A new call gets it immediately, and
    ///   a waiter when the burst [becomes smaller](Self::set_quota);
    /// - [`RuntimeEnded`](crate::ErrorKind::RuntimeEnded), if the runtime in which the call was first
    ///   polled ends before it is charged, on [tokio's
    ///   time](crate::Clock#limiters-that-are-used-in-several-runtimes).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Quota, RateLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let limiter = RateLimiter::new(Quota::per_second(1000));
    /// let (first, second) = tokio::try_join!(limiter.acquire(), limiter.acquire())?;
    /// let apart = second.at().saturating_since(first.at());
    /// assert!(apart.as_nanos() >= 999_999);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    #[doc(alias = "until_ready")]
    #[doc(alias = "until_ready_with_jitter")]
    #[doc(alias = "acquire_one")]
    pub fn acquire(&self) -> Waiting<Acquire<&Self>> {
        self.acquire_many(1)
    }

    /// Waits for the turn of the call, and charges `n`, all at once. The burst must be at least
    /// `n`, unless the limiter allows an [overdraft](RateLimiter::oversize).
    ///
    /// # Cancel safety, errors
    ///
    /// The same as for [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Quota, RateLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let bytes = RateLimiter::new(Quota::bytes_per_second(20_000_000));
    /// let charge = bytes.acquire_many(64 * 1024).await?;
    /// assert_eq!(charge.cost(), 65_536);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    #[doc(alias = "until_n_ready")]
    #[doc(alias = "until_n_ready_with_jitter")]
    pub fn acquire_many(&self, n: u64) -> Waiting<Acquire<&Self>> {
        Waiting::new(Acquire::new(self, n))
    }

    /// Waits like [`acquire`](Self::acquire), with a future that can move into a task. For a cost
    /// other than 1, see [`cost_owned`](Self::cost_owned).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::{Quota, RateLimiter};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = Arc::new(RateLimiter::new(Quota::per_second(1000)));
    /// tokio::spawn(Arc::clone(&limiter).acquire_owned()).await??;
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire_owned(self: Arc<Self>) -> Waiting<Acquire<Arc<Self>>> {
        Waiting::new(Acquire::new(self, 1))
    }

    /// Charges 1 now, or fails.
    ///
    /// # Errors
    ///
    /// - [`RateLimited`](crate::ErrorKind::RateLimited), with the time after which the call would
    ///   be admitted if no other call came. The time is exact: one nanosecond earlier is too early.
    ///   It includes the waiters, because they go first; it is a nanosecond while more of them are
    ///   due than [one call serves](Self#long-queues). Behind a queue with
    ///   [`MissedTickBehavior::Delay`](crate::rate::MissedTickBehavior::Delay), or with an
    ///   [algorithm](RateLimiter::algorithm) other than the default, it is the earliest time; a
    ///   [reservation](Self::reserve) has the exact one;
    /// - [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity), if the call asks for more than the
    ///   burst;
    /// - [`Closed`](crate::ErrorKind::Closed).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let clock = Clock::manual();
    /// let limiter = RateLimiter::new(Quota::per_second(10).burst(2)).clock(&clock);
    /// limiter.try_acquire()?;
    /// limiter.try_acquire()?;
    ///
    /// let refused = limiter.try_acquire().unwrap_err();
    /// assert_eq!(refused.retry_after(), Some(Duration::from_millis(100)));
    /// clock.advance(Duration::from_millis(100));
    /// limiter.try_acquire()?;
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline(always)]
    #[doc(alias = "check")]
    pub fn try_acquire(&self) -> Result<Charge, AcquireError> {
        self.try_acquire_many(1)
    }

    /// Charges `n` now, or fails.
    ///
    /// # Errors
    ///
    /// The same as for [`try_acquire`](Self::try_acquire).
    #[inline(always)]
    #[doc(alias = "check_n")]
    pub fn try_acquire_many(&self, n: u64) -> Result<Charge, AcquireError> {
        match self.outside().decide_now(n) {
            Decided::Charged(charge) => Ok(charge),
            Decided::Limited { due, now } => Err(AcquireError::limited_until(due, now)),
            Decided::Undecided | Decided::Contended => self.decide(n),
        }
    }

    /// Joins the queue now, so that the caller can wait later, or only learn the delay.
    ///
    /// See [`Reservation`]. A reservation is a place in the queue;
    /// [`try_acquire`](Self::try_acquire) returns the time of a retry, without a place in the
    /// queue.
    ///
    /// # Errors
    ///
    /// The same as for [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10)).clock(Clock::manual());
    /// let first = limiter.reserve()?;
    /// let second = limiter.reserve()?;
    /// assert_eq!(first.delay(), Duration::ZERO);
    /// assert_eq!(second.delay(), Duration::from_millis(100));
    ///
    /// // Given up, so the one behind it is due now.
    /// drop(first);
    /// assert_eq!(second.delay(), Duration::ZERO);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn reserve(&self) -> Result<Waiting<Reservation>, AcquireError> {
        self.reserve_many(1)
    }

    /// Joins the queue now, for a call of cost `n`. See [`reserve`](Self::reserve).
    ///
    /// # Errors
    ///
    /// The same as for [`acquire`](Self::acquire).
    pub fn reserve_many(&self, n: u64) -> Result<Waiting<Reservation>, AcquireError> {
        self.here(|state| Reservation::new(state, n))
            .map(Waiting::new)
    }
}

/// Other charges.
impl RateLimiter {
    /// Charges `n` immediately, with any backlog, for a cost that is known only afterwards. The
    /// charge itself is never refused, but all later calls, and all waiters, wait until it has been
    /// paid off.
    ///
    /// The backlog saturates, at the earliest, where the [time of a limiter](Self) ends: after nine
    /// years, or after two at 16 per nanosecond.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10)).clock(Clock::manual());
    /// limiter.charge(50);
    /// assert_eq!(limiter.peek().retry_after, Some(Duration::from_secs(5)));
    /// ```
    #[doc(alias = "initial")]
    pub fn charge(&self, n: u64) -> Charge {
        Charge(self.change(|ledger, now| ledger.charge(now, n)))
    }

    /// Refunds the charge of a call that was not made after all.
    ///
    /// Time pays charges off in the order in which they were made, and the part of this charge that
    /// is already paid off is not given back. So a refund right after the charge gives back all of
    /// it, and a later refund perhaps only a part. A refund harms neither the calls that have been
    /// admitted since nor the promise of the quota (except for the microsecond by which the clocks
    /// of two threads may disagree). Charges may be refunded in any order. Waiters are due earlier
    /// by the refund. A charge from before a [`set_quota`](Self::set_quota) or a
    /// [pause](Self::pause_for) is not given back, nor is a charge of another limiter.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_minute(1)).clock(Clock::manual());
    /// let charge = limiter.try_acquire()?;
    /// // The connection could not be opened, so nothing was asked of the server.
    /// limiter.refund(charge);
    /// limiter.try_acquire()?;
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn refund(&self, charge: Charge) {
        self.refund_part(&charge, charge.cost());
    }

    /// Corrects the cost of a charge to the actual one: gives back the excess, like
    /// [`refund`](Self::refund), or charges the difference, like [`charge`](Self::charge).
    ///
    /// Settle soon, because the part that time has paid off is not given back: for calls that take
    /// seconds, use a [`hold`](Self::hold). If a [`refund`](Self::refund) gives nothing back, for
    /// example after a [`set_quota`](Self::set_quota), a settlement gives nothing back either, but
    /// it still charges a missing difference.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let bytes = RateLimiter::new(Quota::per_second(1000).burst(1000)).clock(Clock::manual());
    /// let charge = bytes.try_acquire_many(600)?;
    /// bytes.settle(charge, 250);
    /// assert_eq!(bytes.snapshot().available, 750);
    ///
    /// let charge = bytes.try_acquire_many(100)?;
    /// bytes.settle(charge, 300);
    /// assert_eq!(bytes.snapshot().available, 450);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn settle(&self, charge: Charge, actual: u64) {
        match actual.checked_sub(charge.cost()) {
            Some(0) => {}
            Some(more) => drop(self.charge(more)),
            None => self.refund_part(&charge, charge.cost() - actual),
        }
    }
}

/// Changes at run time.
impl RateLimiter {
    /// Changes the quota immediately, and makes every waiter due according to the new one. The
    /// spent part stays spent: [in proportion](QuotaChange::Proportional) under the default
    /// algorithm, [in number](QuotaChange::KeepSpent) under all others. Customers who may change
    /// their plan need the number, see [which of the two](QuotaChange#which-of-the-two). A spent
    /// number beyond a lower burst stays owed, and time pays it off at the new rate.
    ///
    /// Earlier charges still count, and no decision under the old quota is made after this returns.
    /// Earlier charges can no longer be refunded. A quota that means the same as before, such as 60
    /// a minute for one a second, changes nothing.
    ///
    /// A waiter that now asks for more than the burst fails with
    /// [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity) in this call, wherever it is in the
    /// queue, unless [`Oversize::Overdraft`] was chosen; a later raise changes nothing for it. A
    /// lower burst that refuses waiters takes a walk through the queue under the lock. One that
    /// refuses nobody takes none.
    ///
    /// # Panics
    ///
    /// Panics if the quota does not fit the [algorithm](Self::algorithm), see
    /// [`check`](Algorithm::check).
    ///
    /// # Lifting the limit
    ///
    /// [`Quota::UNLIMITED`] releases all waiters, in their order and except during a
    /// [pause](Self::pause_for), and forgives the backlog. When a limit is set again, its whole
    /// burst is available, less the [holds](Self::hold) that are still open. Waiting calls that ask
    /// for more than that burst fail as above.
    ///
    /// # Pausing
    ///
    /// There is no quota of 0. [`pause_for`](Self::pause_for) pauses a limiter for a time, or with
    /// [`Duration::MAX`] until further notice, which [`resume`](Self::resume) ends.
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
        self.set_quota_with(quota, self.config.algorithm.on_change());
    }

    /// Changes the quota, and chooses how the spent part carries over: [which of the
    /// two](QuotaChange#which-of-the-two). See [`set_quota`](Self::set_quota).
    ///
    /// # Panics
    ///
    /// Panics if the algorithm does not support the quota.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::rate::QuotaChange;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10).burst(10)).clock(Clock::manual());
    /// limiter.try_acquire_many(4)?;
    /// limiter.set_quota_with(Quota::per_second(10).burst(20), QuotaChange::KeepSpent);
    /// assert_eq!(limiter.snapshot().available, 16);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[track_caller]
    pub fn set_quota_with(&self, quota: Quota, how: QuotaChange) {
        if let Err(error) = self.config.algorithm.check(quota) {
            panic!("{error}");
        }
        self.states().set_quota(quota, how);
    }

    /// Closes the limiter: every waiter, and every later call, fails with
    /// [`Closed`](crate::ErrorKind::Closed).
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
        self.states().close();
    }
}

/// Observation.
impl RateLimiter {
    /// Returns the decision that a call of cost 1 would get, without charging it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10).burst(3)).clock(Clock::manual());
    /// limiter.try_acquire_many(3)?;
    /// let decision = limiter.peek();
    /// assert_eq!((decision.limit, decision.remaining), (3, 0));
    /// assert_eq!(decision.retry_after, Some(Duration::from_millis(100)));
    /// assert_eq!(decision.reset_after, Duration::from_millis(300));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn peek(&self) -> Decision {
        self.peek_many(1)
    }

    /// Returns the decision that a call of cost `n` would get, without charging it.
    ///
    /// While there are waiters, nothing [remains](Decision::remaining). For a closed limiter,
    /// `remaining` has the same value as for an open one. [`retry_after`](Decision::retry_after) is
    /// `None` if the call would never be admitted, because it asks for more than the burst, the limiter is
    /// closed, or a [pause](Self::pause_for) never ends; and if a [hold](Self::hold) has to be settled first.
    /// It does not include [jitter](Self::jitter).
    pub fn peek_many(&self, n: u64) -> Decision {
        self.locked(|locked| locked.peek(n))
    }

    /// Returns the state of the limiter just after one of its own charges, for the headers of a
    /// response. For a charge from before a [`set_quota`](Self::set_quota), of another limiter, or
    /// [without a limit](Quota::UNLIMITED), it returns the current state. In a sliding window and a log, calls that were admitted since
    /// then also count.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10).burst(5)).clock(Clock::manual());
    /// let charge = limiter.try_acquire_many(3)?;
    ///
    /// let decision = limiter.decision(&charge);
    /// assert_eq!((decision.limit, decision.remaining), (5, 2));
    /// assert_eq!(decision.reset_after, Duration::from_millis(300));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[doc(alias = "with_middleware")]
    #[doc(alias = "StateInformationMiddleware")]
    #[doc(alias = "StateSnapshot")]
    #[doc(alias = "remaining_burst_capacity")]
    pub fn decision(&self, charge: &Charge) -> Decision {
        self.locked(|locked| locked.decision_after(charge))
    }

    /// Returns the current quota.
    pub fn quota(&self) -> Quota {
        self.here(|state| state.queue().ledger.quota())
    }

    /// Returns the number of waiters, without reading the clock.
    pub(crate) fn waiting(&self) -> usize {
        self.here(|state| state.queue().waiters.len())
    }

    /// Returns whether the limiter was [closed](Self::close).
    pub fn is_closed(&self) -> bool {
        self.here(|state| state.queue().closed)
    }

    /// Returns the state of the limiter as a value, at one moment: what is owed to it, exactly. It can be
    /// stored, and
    /// [`restore`](Self::restore) begins another limiter with it, for example after a restart of the program.
    ///
    /// Its times are those of this limiter's clock, so give it to `restore` only. A state that decides by
    /// itself begins with [`LimiterState::new`].
    ///
    /// Waiters are not in it; what is charged to them already is. A [hold](Self::hold) that is open counts as
    /// if it had been dropped now, for its whole cost. Charges from before cannot be refunded in the other
    /// limiter.
    ///
    /// On [tokio's time](crate::Clock#limiters-that-are-used-in-several-runtimes) it is the state of the current
    /// runtime. In a [log](Algorithm::SlidingLog) this takes a time that is linear in the count.
    ///
    /// # Examples
    ///
    /// See [`restore`](Self::restore).
    pub fn state(&self) -> LimiterState {
        self.change(|ledger, now| ledger.state(now))
    }

    /// Returns the state of the limiter at one moment.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(10).burst(3)).clock(Clock::manual());
    /// limiter.try_acquire()?;
    ///
    /// let snapshot = limiter.snapshot();
    /// assert_eq!((snapshot.limit, snapshot.in_use, snapshot.waiting), (3, 1, 0));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[doc(alias = "balance")]
    pub fn snapshot(&self) -> Snapshot {
        self.locked(|locked| locked.snapshot())
    }
}

impl Limiter for RateLimiter {
    #[inline(always)]
    fn states(&self) -> &States {
        self.states.get_or_init(|| self.begin())
    }
}

/// The states.
impl RateLimiter {
    #[cold]
    fn begin(&self) -> States {
        self.first_use.begin();
        self.new_states(None)
    }

    fn new_states(&self, restored: Option<Restored>) -> States {
        let quota = (self.quota, self.config.algorithm.on_change());
        let outside = |restored: Option<&_>, config| Shared::new(quota, restored, config);
        States::new(&self.config, restored, outside)
    }

    /// Returns the state that has made a charge, unless its runtime has ended or another limiter has
    /// made it. The runtime need not be the current one: a guard may be dropped anywhere. No two
    /// states have the same generation.
    pub(super) fn state_of_charge(&self, charge: &Charge) -> Option<Arc<Shared>> {
        let mut states = self.states().all().into_iter();
        states.find(|it| it.params.generation() == charge.0.generation)
    }

    /// Decides a call that does not wait and was not decided at once.
    #[inline(never)]
    fn decide(&self, cost: u64) -> Result<Charge, AcquireError> {
        match self.outside().decide_by_counter(cost) {
            Decided::Charged(charge) => Ok(charge),
            Decided::Limited { due, now } => Err(AcquireError::limited_until(due, now)),
            Decided::Undecided | Decided::Contended => self.decide_here(cost),
        }
    }

    /// Decides every other call that does not wait. It is not inlined, so that a decision by the counter saves fewer
    /// registers.
    #[inline(never)]
    fn decide_here(&self, cost: u64) -> Result<Charge, AcquireError> {
        self.here(|state| state.decide(cost))
    }

    /// Calls `run` with the lock of the state that decides here.
    pub(super) fn locked<R>(&self, run: impl FnOnce(&mut Locked<'_>) -> R) -> R {
        self.here(|state| run(Locked::new(state).lock_on_time()))
    }

    /// Changes the ledger of the state that decides here.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Ledger, Tick) -> R) -> R {
        self.here(|state| state.change(change))
    }

    /// Returns the quota, and the decision that a call of cost 1 would get, at one moment.
    pub(crate) fn status(&self) -> LimitStatus {
        self.locked(|locked| LimitStatus::Rate {
            quota: locked.ledger.quota(),
            decision: locked.peek(1),
        })
    }

    /// Returns the current tick of the limiter's clock.
    pub(crate) fn now(&self) -> Tick {
        self.config.clock.now()
    }

    /// Refunds a part of a charge.
    pub(crate) fn refund_part(&self, charge: &Charge, cost: u64) {
        if !self.config.clock.is_of_runtime() {
            self.outside().refund(charge, cost);
        } else if let Some(state) = self.state_of_charge(charge) {
            state.refund(charge, cost);
        }
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("RateLimiter");
        // Formatting must not count as a use, because a use fixes the options.
        if self.states.get().is_some() {
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
