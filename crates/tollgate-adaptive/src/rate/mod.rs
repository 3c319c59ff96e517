//! [`AdaptiveRate`]: a rate limiter whose quota a rule finds from refusals.
//!
//! Waiters, charges and pauses are those of [`RateLimiter`]. [`Control`] has the rule, and decides
//! when the limiter gets another quota.

mod acquire;
mod control;
mod curve;
mod rule;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tollgate::time::Tick;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Clock, Quota, RateLimiter};

pub(super) use self::acquire::AcquireRate;
pub use self::acquire::RatePermit;
use self::control::Control;
use self::rule::RateRule;
use crate::debug::debug_as;
use crate::sync::const_fn;

/// The lowest and the highest rate that can be set, per second, which are the default limits, too.
const BOUNDS: (f64, f64) = (0.001, 1e6);

/// The default initial rate, per second.
const DEFAULT_INITIAL_RATE: f64 = 10.0;

/// The default of the longest pause. Some APIs have a quota that begins again every hour.
const DEFAULT_MAX_PAUSE: Duration = Duration::from_secs(3_600);

/// A rate limiter that learns from a server's refusals which rate the server accepts.
///
/// Use it in a client, one for each server or API whose limit is unknown, is shared with others, or
/// changes. A caller acquires a permit before each request, waiting in a queue if necessary. The
/// limiter finds the rate from the outcome that the caller reports:
///
/// | the permit is | the request |
/// |---|---|
/// | dropped | succeeded, or failed for a reason other than its rate |
/// | [`throttled`](RatePermit::throttled) | was refused because there were too many, with a status such as 429 or 503 |
/// | [`ignore`](RatePermit::ignore)d | is not counted: the request did not reach the server |
/// | dropped while panicking | is not counted |
///
/// `ThrottleLayer::classify` of the crate [`tollgate-tower`] reports this for each response to an
/// HTTP client: its `feedback` reads refusals, such as 429 and 503, with their `Retry-After`, and 504. The
/// layer pauses later requests, and passes the response to the refused one on; it does not repeat
/// the request. `PausesLayer`, outside of this layer, does that.
///
/// # The rule
///
/// The rate begins at 10 per second and doubles every 1.25 seconds until the first refusal. From
/// then on it follows CUBIC (RFC 9438): a refusal cuts the rate to 0.85 of the rate that the server
/// accepted; the rate is back there after 4.2 seconds, stays close to it for some seconds, and then
/// grows faster and faster. After 8.4 seconds without a refusal it doubles every 1.25 seconds
/// again, so it is four times as high eleven seconds after the cut if the server accepts that. These times
/// are longer where a refusal costs more. After one that paused the limiter, the rate is back there after
/// twelve such pauses (half an hour at most), so that pauses cost about a twentieth of the time; and after 50
/// calls at the earliest, so that one in about 80 is refused, and one in 50 at six a minute. The
/// refusals of one overload cut the rate once: only a request that began some time after the last
/// cut can cut it again. The rate grows only while at least half of it is used. `W_max` of the RFC
/// and its constants are chosen for servers, because a server has no queue that a cut must empty.
///
/// The limiter remembers the highest rate that it found recently, and forgets 1 % of it with each
/// cut. A server that accepts less than a quarter of the remembered rate may be as fast as before
/// at any time. So the rate starts to double after half the time without a refusal, and doubles
/// every 0.2 seconds until it reaches the remembered rate:
///
/// - After an outage in which everything was refused, it finds the rate of 500 per second again in
///   4 seconds, and in 8 if the server sent `Retry-After: 5`. Once nothing goes through, it does not fall below
///   three per second.
/// - After a minute at a tenth of 300 per second it finds the rate again in 6 seconds. That minute
///   has one refusal in four seconds, not in seven; with a server that stays slow this lasts for
///   six minutes.
///
/// The `retry_after` of a refusal [pauses](RateLimiter::pause_for) the limiter: no request begins
/// before its end, and then the waiters follow one by one at the rate. A pause lasts an hour at
/// most, unless [`max_pause`](Self::max_pause) sets another bound.
///
/// # What it cannot know
///
/// - Only a refusal shows where the limit is. A server that does not change refuses a client about once
///   in seven seconds, and about once in 80 calls below twelve per second: 0.1 % of the requests at 500 per
///   second, 1 % at 20 per second, 1.4 % at one per second, and 2 % at six per minute (3 % in the worst tenth of the
///   runs), once the rate is found, which takes up to forty minutes at six per minute.
/// - A server that becomes so slow for good that it accepts less than one in five seconds refuses 14 % in the first two
///   hours, because the rate before is forgotten slowly.
/// - A server without any burst, such as [`Quota::per_second(n)`](Quota::per_second) of this crate,
///   refuses evenly spaced requests if the network moves two of them closer together, or if they
///   come from several clients. These refusals do not show the server's rate, and no rule can tell
///   them from others. So the client gets only 10 to 30 % of the rate; such a server needs a burst,
///   and 20 ms of its rate are enough for 97 %. These figures are from a simulation of 250 to 1,000
///   per second at 100 ms, where each way takes up to 10 % more or less; they begin 15 seconds
///   after each change of the server.
/// - Each refusal with a `Retry-After` costs these seconds, and makes the limiter look for more less often. Of
///   100 per second with one, five or thirty seconds the client gets 91 to 92 %; with no `Retry-After`, or an exact
///   one, more than 99 %. If the server becomes four times as fast, the client uses that 24 s later in the
///   median, where it asks for one second, and 8 s later where it asks for nothing.
/// - Clients of one server approach equal shares slowly, and only roughly.
///
/// # Fairness
///
/// Strictly first-in first-out, like a [`RateLimiter`](RateLimiter#fairness). The quota has a burst of
/// 1, unless [another](Self::burst) is set: requests are evenly spaced, which every server accepts.
///
/// # Cancel safety
///
/// The same as for a [`RateLimiter`](RateLimiter#cancel-safety): a dropped future leaves the queue,
/// and its charge, if any, is refunded. A caller that is cancelled while it holds a permit drops
/// it, and that counts as a success.
///
/// # Costs
///
/// Compared with a `RateLimiter`, admitting a caller costs two more relaxed loads, and dropping a
/// permit one relaxed addition. The rate changes at most 50 times per second; the next caller then
/// takes two locks and reads the clock once more, and so does a refusal.
///
/// # Examples
///
/// A server that accepts 200 per second, at first:
///
/// ```
/// use std::time::Duration;
/// use tollgate_adaptive::AdaptiveRate;
/// use tollgate::{Clock, Quota, RateLimiter};
///
/// let clock = Clock::manual();
/// let server = RateLimiter::new(Quota::per_second(200).burst(20)).clock(&clock);
/// let rate = AdaptiveRate::new().clock(&clock);
///
/// for _ in 0..60_000 {
///     clock.advance(Duration::from_millis(1));
///     let Ok(permit) = rate.try_acquire() else { continue };
///     if let Err(refusal) = server.try_acquire() {
///         permit.throttled(refusal.retry_after());
///     }
/// }
/// let snapshot = rate.snapshot();
/// assert!((160.0..240.0).contains(&snapshot.rate));
/// assert!(snapshot.refusals * 200 < snapshot.succeeded, "less than 0.5 %");
/// # Ok::<_, tollgate::AcquireError>(())
/// ```
///
/// [`tollgate-tower`]: https://docs.rs/tollgate-tower/latest/tollgate_tower/
pub struct AdaptiveRate {
    pub(super) limiter: RateLimiter,
    burst: u64,
    max_pause: Duration,
    /// Options of the limiter, for another quota before the first use.
    max_waiters: usize,
    clock: Option<Clock>,
    control: Control,
}

/// Returns the quota for a rate within the bounds.
const fn quota(rate: f64, burst: u64) -> Quota {
    // Each token takes whole nanoseconds, so that the limiter needs no fractions.
    let interval = Duration::from_nanos((1e9 / rate + 0.5) as u64);
    Quota::new(1, interval).burst(burst)
}

/// Construction. Options are set before the first use; a later one panics. Any call of a method
/// other than [`rate`](Self::rate) is a use.
impl AdaptiveRate {
    const_fn! {
        /// Creates a limiter that finds a rate from 0.001 to 1,000,000 per second.
        ///
        /// # Examples
        ///
        /// ```
        /// use tollgate_adaptive::AdaptiveRate;
        ///
        /// static API: AdaptiveRate = AdaptiveRate::new();
        ///
        /// # #[tokio::main(flavor = "current_thread")]
        /// # async fn main() -> Result<(), tollgate::AcquireError> {
        /// let permit = API.acquire().await?;
        /// // Make the request, and then say how it ended:
        /// drop(permit);
        /// assert_eq!(API.snapshot().succeeded, 1);
        /// # Ok(())
        /// # }
        /// ```
        pub fn new() -> Self {
            Self {
                limiter: RateLimiter::new(quota(DEFAULT_INITIAL_RATE, 1)),
                burst: 1,
                max_pause: DEFAULT_MAX_PAUSE,
                max_waiters: usize::MAX,
                clock: None,
                control: Control::new(RateRule::new(BOUNDS, DEFAULT_INITIAL_RATE)),
            }
        }
    }

    /// Sets the limits of the rate, in requests per second. The default is 0.001 to 1,000,000. With a range
    /// of one number the rate is fixed.
    ///
    /// # Panics
    ///
    /// Panics after the first use, and if the range is empty, or not within 0.001 to 1,000,000 per second.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_adaptive::AdaptiveRate;
    ///
    /// let rate = AdaptiveRate::new().limits(0.5..=5.0);
    /// assert_eq!(rate.rate(), 5.0);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn limits(self, range: RangeInclusive<f64>) -> Self {
        let limits = range.into_inner();
        // A comparison with NaN is false.
        assert!(
            BOUNDS.0 <= limits.0 && limits.0 <= limits.1 && limits.1 <= BOUNDS.1,
            "limits must be a range within 0.001..=1000000 per second, but they are {:?}..={:?}",
            limits.0,
            limits.1
        );
        let initial = self.control.rule().initial;
        self.with_rule(RateRule::new(limits, initial))
    }

    /// Sets the initial rate, in requests per second, 10 by default. A rate outside of the
    /// [limits](Self::limits) begins at the closer limit.
    ///
    /// # Panics
    ///
    /// Panics after the first use, and if the rate is not a finite number above 0.
    #[track_caller]
    #[must_use]
    pub fn initial_rate(self, rate: f64) -> Self {
        assert!(
            rate.is_finite() && rate > 0.0,
            "a rate must be a finite number above 0 per second, but it is {rate:?}"
        );
        let limits = self.control.rule().limits;
        self.with_rule(RateRule::new(limits, rate))
    }

    /// Sets the number of requests that may begin at once after a pause, 1 by default. The server
    /// must accept this number at once.
    ///
    /// # Panics
    ///
    /// Panics after the first use, and if the burst is 0, or above 250,000.
    #[track_caller]
    #[must_use]
    pub fn burst(mut self, burst: u64) -> Self {
        // Within nine years at the lowest rate, the bound of every quota.
        assert!(
            (1..=250_000).contains(&burst),
            "a burst must be from 1 to 250000, but it is {burst}"
        );
        self.burst = burst;
        let rule = self.control.rule();
        self.with_rule(rule)
    }

    /// Sets the longest pause for a `retry_after`, one hour by default. If the server asks for a
    /// longer one, requests begin again after this time; zero ignores every `retry_after`.
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Clock;
    /// use tollgate_adaptive::AdaptiveRate;
    ///
    /// let minute = Duration::from_secs(60);
    /// let rate = AdaptiveRate::new().max_pause(minute).clock(Clock::manual());
    /// // The server answers with `Retry-After: 99999999999`.
    /// let refusal = Some(Duration::from_secs(99_999_999_999));
    /// rate.try_acquire()?.throttled(refusal);
    ///
    /// let refused = rate.try_acquire().unwrap_err();
    /// assert_eq!(refused.retry_after(), Some(minute));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn max_pause(mut self, max: Duration) -> Self {
        self.max_pause = max;
        self.unused()
    }

    /// Bounds the queue, see [`RateLimiter::max_waiters`].
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    #[must_use]
    #[track_caller]
    pub fn max_waiters(mut self, max_waiters: usize) -> Self {
        self.max_waiters = max_waiters;
        self.unused()
    }

    /// Sets the clock, see [`RateLimiter::clock`].
    ///
    /// # Panics
    ///
    /// Panics after the first use.
    #[must_use]
    #[track_caller]
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        let clock = clock.into();
        self.limiter = self.limiter.clock(&clock);
        self.clock = Some(clock);
        self
    }

    /// Sets the bound of the queue, which panics after the first use, like every option of the limiter.
    #[track_caller]
    fn unused(mut self) -> Self {
        self.limiter = self.limiter.max_waiters(self.max_waiters);
        self
    }

    /// Returns the limiter with another rule, and the quota for its rate and the burst.
    #[track_caller]
    fn with_rule(self, rule: RateRule) -> Self {
        let mut rate = self.unused();
        let limiter = RateLimiter::new(quota(rule.rate, rate.burst)).max_waiters(rate.max_waiters);
        rate.limiter = match &rate.clock {
            Some(clock) => limiter.clock(clock),
            None => limiter,
        };
        rate.control = Control::new(rule);
        rate
    }
}

/// Acquiring. There is no `acquire_many`, because a refusal belongs to one request.
impl AdaptiveRate {
    /// Waits until the caller may make a request.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing, see [the type](Self#cancel-safety).
    ///
    /// # Errors
    ///
    /// [`Closed`](tollgate::ErrorKind::Closed), [`QueueFull`](tollgate::ErrorKind::QueueFull) with
    /// [`max_waiters`](Self::max_waiters), and [`RuntimeEnded`](tollgate::ErrorKind::RuntimeEnded) like
    /// [`RateLimiter::acquire`](tollgate::RateLimiter::acquire).
    #[inline]
    pub fn acquire(&self) -> Waiting<AcquireRate<&Self>> {
        Waiting::new(AcquireRate::new(self))
    }

    /// Waits like [`acquire`](Self::acquire), with a future and a permit that can move into a task.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate_adaptive::AdaptiveRate;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let rate = Arc::new(AdaptiveRate::new());
    /// let permit = Arc::clone(&rate).acquire_owned().await?;
    /// tokio::spawn(async move {
    ///     // The server answers with the status 429.
    ///     permit.throttled(None);
    /// })
    /// .await?;
    /// assert_eq!(rate.rate(), 8.5);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn acquire_owned(self: Arc<Self>) -> Waiting<AcquireRate<Arc<Self>>> {
        Waiting::new(AcquireRate::new(self))
    }

    /// Returns a permit now, or fails.
    ///
    /// # Errors
    ///
    /// [`RateLimited`](tollgate::ErrorKind::RateLimited), with the time after which the call would be
    /// admitted if no other call came and the rate did not change, and
    /// [`Closed`](tollgate::ErrorKind::Closed).
    #[inline]
    pub fn try_acquire(&self) -> Result<RatePermit<&Self>, AcquireError> {
        RatePermit::try_new(self)
    }

    /// Returns a permit now that can move into a task, or fails.
    ///
    /// # Errors
    ///
    /// The same as for [`try_acquire`](Self::try_acquire).
    #[inline]
    pub fn try_acquire_owned(self: Arc<Self>) -> Result<RatePermit<Arc<Self>>, AcquireError> {
        RatePermit::try_new(self)
    }

    /// Closes the limiter: every waiter, and every later call, fails with
    /// [`Closed`](tollgate::ErrorKind::Closed).
    pub fn close(&self) {
        self.limiter.close();
    }
}

/// Observation.
impl AdaptiveRate {
    /// Returns the rate, in requests per second.
    pub fn rate(&self) -> f64 {
        self.control.rule().rate
    }

    /// Returns whether the limiter was [closed](Self::close).
    pub fn is_closed(&self) -> bool {
        self.limiter.is_closed()
    }

    /// Returns the tick of its clock at which a `retry_after` ends; `None` if the limiter is not
    /// paused.
    pub fn paused_until(&self) -> Option<Tick> {
        self.limiter.paused_until()
    }

    /// Returns the rate and the counts behind it.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Clock;
    /// use tollgate_adaptive::AdaptiveRate;
    ///
    /// let rate = AdaptiveRate::new().initial_rate(100.0).clock(Clock::manual());
    /// rate.try_acquire()?.throttled(None);
    ///
    /// let snapshot = rate.snapshot();
    /// assert_eq!((snapshot.rate, snapshot.refusals, snapshot.cuts), (85.0, 1, 1));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn snapshot(&self) -> RateSnapshot {
        let waiting = self.limiter.snapshot().waiting;
        let succeeded = self.control.succeeded();
        let rule = self.control.rule();
        RateSnapshot {
            rate: rule.rate,
            limits: rule.limits.0..=rule.limits.1,
            succeeded,
            refusals: rule.refusals,
            cuts: rule.cuts,
            waiting,
        }
    }
}

/// The state of an [`AdaptiveRate`]. [`waiting`](Self::waiting) and [`succeeded`](Self::succeeded) may
/// be a moment older than the rest.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RateSnapshot {
    /// The rate, in requests per second.
    pub rate: f64,
    /// The limits of the rate.
    pub limits: RangeInclusive<f64>,
    /// The number of requests that succeeded.
    pub succeeded: u64,
    /// The number of requests that were refused.
    pub refusals: u64,
    /// The number of refusals that cut the rate.
    pub cuts: u64,
    /// The number of waiters.
    pub waiting: usize,
}

/// The operations of callers and permits.
impl AdaptiveRate {
    /// Makes a step of growth that is due.
    #[inline(always)]
    fn step_if_due(&self) {
        if self.control.is_due() {
            self.grow();
        }
    }

    /// Makes a step of growth that is due if there are waiters.
    fn step_for_waiters(&self) {
        if self.control.is_due() && self.limiter.snapshot().waiting > 0 {
            self.grow();
        }
    }

    #[cold]
    fn grow(&self) {
        let now = self.now();
        self.control.grow(now, |rate| self.set_rate(rate));
    }

    #[cold]
    fn refused(&self, began: Tick, retry_after: Option<Duration>) {
        let now = self.now();
        let asked = retry_after.filter(|it| !it.is_zero());
        let pause = asked.map_or(Duration::ZERO, |retry_after| {
            // One request goes when a full server frees a token. With the next one it is full
            // again, so that the least growth is refused: a second token is left to it.
            let two = Duration::from_secs_f64(2.0 / self.rate());
            let pause = retry_after.max(two).min(self.max_pause);
            self.limiter.pause_for(pause);
            pause
        });
        self.control
            .refused(began, now, pause, |rate| self.set_rate(rate));
    }

    /// Returns the current tick of the limiter's clock.
    fn now(&self) -> Tick {
        self.limiter.peek().at
    }

    fn set_rate(&self, rate: f64) {
        // The rate is within the bounds, so it is a valid quota.
        self.limiter.set_quota(quota(rate, self.burst));
    }
}

impl Default for AdaptiveRate {
    fn default() -> Self {
        Self::new()
    }
}

debug_as! { [] AdaptiveRate, self => AdaptiveRate { rate: self.rate(), limiter: self.limiter, .. } }
