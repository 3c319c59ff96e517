//! [`ApiLimit`]: one limit of an API, its settings and its limiter.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tollgate::rate::{Charge, Hold};
use tollgate::time::Tick;
use tollgate::{Algorithm, Clock, Quota, RateLimiter};

use crate::server_limits::{ServerLimits, Unit, Window};

/// How much sooner than another one a request may arrive after it was sent.
const WAYS_DIFFER: Duration = Duration::from_millis(25);

/// How many units a server has charged for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Charged {
    /// The units that the request was estimated to cost.
    Estimate,
    /// This number of units, for example 0 if it does not count failed requests.
    Exactly(u64),
    /// The units that the request has used, which are known later. Only a [held](ApiLimit::hold) limit can count them;
    /// another one keeps the estimate.
    Used,
}

pub(super) type CostOf<R> = dyn Fn(&R) -> u64 + Send + Sync;
type ChargedOf = dyn Fn(u64, StatusCode, &HeaderMap) -> Charged + Send + Sync;
type WindowOf = dyn for<'a> Fn(&'a ServerLimits) -> Option<&'a Window> + Send + Sync;

/// One limit of an API: a number of units in a period. See [`ApiLimits`](super::ApiLimits).
///
/// Its limiter keeps somewhat less than the server's limit, for what others use while a response is under way: 2 %, and at
/// least 2 units of the room of a bucket and of a limit from 40 on; of a smaller one, a twentieth. If it is
/// [spaced](Self::spaced), it keeps half of that. Not all requests take
/// equally long to arrive, so its period is a thousandth longer, and a fixed window begins as much later: in windows and
/// logs, at least 25 ms, and in a bucket with room for one, 25 ms for each unit.
/// If the server reports its count, the limiter [follows](RateLimiter::follow) it, so the use by others counts as well.
///
/// # Examples
///
/// A provider counts tokens of input and output apart. It charges the input when a request arrives, and the output
/// afterwards:
///
/// ```
/// use std::time::Duration;
///
/// use tollgate_http::server_limits::Unit;
/// use tollgate_http::{ApiLimit, ApiLimits};
///
/// struct Prompt {
///     tokens: u64,
///     max_tokens: u64,
/// }
///
/// const MINUTE: Duration = Duration::from_secs(60);
///
/// let limits = ApiLimits::new([
///     ApiLimit::new(Unit::Requests, 1_000, MINUTE),
///     ApiLimit::new(Unit::InputTokens, 400_000, MINUTE).cost(|prompt: &Prompt| prompt.tokens),
///     ApiLimit::new(Unit::OutputTokens, 80_000, MINUTE).hold(|prompt: &Prompt| prompt.max_tokens),
/// ]);
/// # drop(limits);
/// ```
#[must_use = "a limit does nothing until it is entered"]
pub struct ApiLimit<R: ?Sized> {
    unit: Unit,
    limit: u64,
    period: Duration,
    /// The room of a bucket, if it is not the whole limit.
    burst: Option<u64>,
    algorithm: Algorithm,
    clock: Clock,
    spaced: bool,
    cost: Option<Box<CostOf<R>>>,
    holds: bool,
    charged: Option<Box<ChargedOf>>,
    window: Box<WindowOf>,
}

impl<R: ?Sized> ApiLimit<R> {
    /// Creates a limit of a number of units in a period. A request costs one unit. The server is taken to count by a
    /// bucket that refills evenly and has room for the whole limit.
    ///
    /// # Panics
    ///
    /// Panics if the limit or the period is zero.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    #[track_caller]
    pub fn new(unit: Unit, limit: u64, period: Duration) -> Self {
        assert!(
            limit > 0 && !period.is_zero(),
            "a limit cannot be {limit} in {period:?}"
        );
        Self {
            unit,
            limit,
            period,
            burst: None,
            algorithm: Algorithm::default(),
            clock: Clock::default(),
            spaced: false,
            cost: None,
            holds: false,
            charged: None,
            window: Box::new(move |limits| limits.tightest(unit)),
        }
    }

    /// Sets how the server counts, in place of a bucket. [`RateLimiter::follow`] has a table.
    ///
    /// A limiter learns from the first response when a fixed window ends. If the server does not report that, a
    /// [fixed window](Algorithm::FixedWindow) of the limiter reaches into two of the server's. Set a
    /// [sliding log](Algorithm::SlidingLog) then, which keeps the limit in any period. It has a place for each unit, and a
    /// correction takes a time that is linear in them, so count a million tokens in hundreds.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate::Algorithm;
    /// use tollgate_http::ApiLimit;
    /// use tollgate_http::server_limits::Unit;
    ///
    /// let limit = ApiLimit::<str>::new(Unit::Requests, 5_000, Duration::from_secs(3600))
    ///     .algorithm(Algorithm::FixedWindow);
    /// ```
    pub fn algorithm(self, algorithm: Algorithm) -> Self {
        Self { algorithm, ..self }
    }

    /// Sets the room of the server's bucket, in place of the whole limit.
    ///
    /// # Panics
    ///
    /// Panics if it is 0. A window or a log has no such room, so [`ApiLimits::new`](super::ApiLimits::new) panics if the
    /// [algorithm](Self::algorithm) is one of them.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate_http::ApiLimit;
    /// use tollgate_http::server_limits::Unit;
    ///
    /// // Two requests a second, and 40 at once.
    /// let limit = ApiLimit::<str>::new(Unit::Requests, 2, Duration::from_secs(1)).burst(40);
    /// ```
    #[track_caller]
    pub fn burst(self, burst: u64) -> Self {
        assert!(burst > 0, "a bucket cannot have room for {burst}");
        let burst = Some(burst);
        Self { burst, ..self }
    }

    /// Sets the clock of the limiter, in place of [`Clock::default`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate::Clock;
    /// use tollgate_http::ApiLimit;
    /// use tollgate_http::server_limits::Unit;
    ///
    /// let clock = Clock::manual();
    /// let limit = ApiLimit::<str>::new(Unit::Requests, 60, Duration::from_secs(60)).clock(&clock);
    /// ```
    pub fn clock(self, clock: impl Into<Clock>) -> Self {
        let clock = clock.into();
        Self { clock, ..self }
    }

    /// Spaces the requests, for an API that others use up as well, so that something remains for them. A burst of
    /// others would show only in refusals otherwise, and others who step back when they are refused would get nothing.
    ///
    /// In the time in which a bucket refills, at most twice what remains is sent, so a request that costs all that
    /// remains delays the next one by half of that time. For a log, that time is a fortieth of its period, and the
    /// requests are not faster than 9/8 of what others leave, evenly. In a fixed window, half of what remains is sent,
    /// evenly until the window ends: two such clients share it equally, and one that is alone uses all of it.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate_http::ApiLimit;
    /// use tollgate_http::server_limits::Unit;
    ///
    /// let shared = ApiLimit::<str>::new(Unit::Requests, 60, Duration::from_secs(60)).spaced();
    /// ```
    pub fn spaced(self) -> Self {
        let spaced = true;
        Self { spaced, ..self }
    }

    /// Sets a closure that returns what the server charges for a request when it arrives, in place of one unit.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn cost(mut self, cost: impl Fn(&R) -> u64 + Send + Sync + 'static) -> Self {
        self.cost = Some(Box::new(cost));
        Self {
            holds: false,
            ..self
        }
    }

    /// Sets a closure that returns the most that a request may use. It is [held](RateLimiter::hold) until the usage is
    /// [known](super::Usage::settle).
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn hold(mut self, estimate: impl Fn(&R) -> u64 + Send + Sync + 'static) -> Self {
        self.cost = Some(Box::new(estimate));
        Self {
            holds: true,
            ..self
        }
    }

    /// Sets a closure that returns what the server has charged for a request, by its estimate and the head of the response.
    ///
    /// Without it, a [refusal](crate::ResponseClass) costs nothing, and any other response what a held request will have
    /// used, or else the estimate.
    ///
    /// # Examples
    ///
    /// A provider that counts failed requests, too:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate_http::server_limits::Unit;
    /// use tollgate_http::{ApiLimit, Charged};
    ///
    /// let limit = ApiLimit::<str>::new(Unit::Requests, 500, Duration::from_secs(60))
    ///     .charged(|_, _, _| Charged::Estimate);
    /// ```
    pub fn charged(
        mut self,
        charged: impl Fn(u64, StatusCode, &HeaderMap) -> Charged + Send + Sync + 'static,
    ) -> Self {
        self.charged = Some(Box::new(charged));
        self
    }

    /// Sets a closure that chooses the window to follow, in place of the [tightest](ServerLimits::tightest) one of
    /// the unit. If it returns `None`, the response is not followed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate_http::ApiLimit;
    /// use tollgate_http::server_limits::Unit;
    ///
    /// // The server also reports the limit of the day.
    /// let limit = ApiLimit::<str>::new(Unit::Requests, 30, Duration::from_secs(60))
    ///     .follow(|limits| limits.windows().find(|window| &*window.name == "minute"));
    /// ```
    pub fn follow(
        mut self,
        window: impl for<'a> Fn(&'a ServerLimits) -> Option<&'a Window> + Send + Sync + 'static,
    ) -> Self {
        self.window = Box::new(window);
        self
    }

    /// Returns the closure of the costs, and the rest, with its limiter.
    pub(super) fn build(self) -> (Option<Box<CostOf<R>>>, Kept) {
        let is_fixed = self.algorithm == Algorithm::FixedWindow;
        let (part, least) = if self.spaced { (100, 1) } else { (50, 2) };
        let less = self.limit - (self.limit / part).max(least.min(self.limit / 20));
        let most = self.burst.unwrap_or(self.limit);
        let room = most - (most / part).max(least).min(most - 1);
        let is_bucket = matches!(self.algorithm, Algorithm::Gcra | Algorithm::TokenBucket);
        // The reserve of a bucket absorbs the difference of two ways to the server. A bucket of one has none.
        let differs = match (is_bucket, room < most) {
            (true, true) => Duration::ZERO,
            (true, false) => WAYS_DIFFER.saturating_mul(u32::try_from(less).unwrap_or(u32::MAX)),
            (false, _) => WAYS_DIFFER,
        };
        let margin_of_period = (self.period / 1000).max(differs);
        // The end of a fixed window is known, and so is that of the next.
        let (slower, later) = if is_fixed {
            (Duration::ZERO, margin_of_period)
        } else {
            (margin_of_period, Duration::ZERO)
        };
        // A window or a log has room for its whole limit.
        let has_room = is_bucket || self.burst.is_some();
        let quota = Quota::new(less, self.period.saturating_add(slower));
        let limiter = RateLimiter::new(quota.burst(if has_room { room } else { less }))
            .algorithm(self.algorithm)
            .clock(self.clock.clone());
        let spacing = self.spaced.then(|| {
            let seconds = self.period.as_secs_f64() * most as f64 / self.limit as f64;
            let refill = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
            let clock = self.clock.clone();
            let (pace, period) = match self.algorithm {
                Algorithm::FixedWindow => (Pace::Window(WindowEnd::new(clock)), self.period),
                Algorithm::SlidingLog | Algorithm::SlidingWindow => (Pace::Log, self.period),
                _ => (Pace::Bucket, refill),
            };
            let quota = Quota::new(1, Duration::from_nanos(1));
            Spacing {
                limiter: Arc::new(RateLimiter::new(quota).clock(self.clock)),
                pace,
                period: u64::try_from(period.as_nanos()).unwrap_or(u64::MAX),
                others: AtomicU64::new(0),
            }
        });
        let kept = Kept {
            unit: self.unit,
            limit: most,
            limiter: Arc::new(limiter),
            spacing,
            holds: self.holds,
            charged: self.charged,
            window: self.window,
            given_back: AtomicU64::new(0),
            later,
        };
        (self.cost, kept)
    }
}

impl<R: ?Sized> fmt::Debug for ApiLimit<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiLimit")
            .field("unit", &self.unit)
            .field("limit", &self.limit)
            .field("period", &self.period)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

/// A limit with its limiter.
pub(super) struct Kept {
    pub(super) unit: Unit,
    /// What the server has room for at once.
    limit: u64,
    pub(super) limiter: Arc<RateLimiter>,
    pub(super) spacing: Option<Spacing>,
    pub(super) holds: bool,
    charged: Option<Box<ChargedOf>>,
    window: Box<WindowOf>,
    /// All units that were given back of what the server had counted.
    given_back: AtomicU64,
    /// How much later than reported a window ends, because a request may arrive sooner after it was sent than the one
    /// whose response has reported it.
    later: Duration,
}

/// A charge of a limit, until the response.
pub(super) struct Made {
    charge: Kind,
    /// The time until the next request, if the limit is spaced.
    spaced: Option<Charge>,
    /// What had been given back when it was made.
    given_back: u64,
}

enum Kind {
    Charge(Charge),
    Hold(Hold),
}

impl Made {
    pub(super) fn charge(&self) -> &Charge {
        match &self.charge {
            Kind::Charge(charge) => charge,
            Kind::Hold(hold) => hold.charge(),
        }
    }
}

impl Kept {
    /// Follows what the server reports, if it does, in its response to the request of this charge. What was given back
    /// since the charge was still counted there, and was not used by others.
    pub(super) fn follow(&self, made: &Made, server: &ServerLimits) {
        if let Some(window) = (self.window)(server) {
            let given_back = self.given_back.load(Ordering::Relaxed);
            let since = given_back.wrapping_sub(made.given_back);
            let used = window.used(self.limit).saturating_sub(since);
            let reset_after = window.reset_after.unwrap_or_default() + self.later;
            let others = self.limiter.follow(made.charge(), used, reset_after);
            if let Some(spacing) = &self.spacing {
                spacing.others.store(others, Ordering::Relaxed);
                if let (Pace::Window(end), Some(_)) = (&spacing.pace, window.reset_after) {
                    end.follow(made.charge().at().saturating_add(reset_after));
                }
            }
        }
    }

    /// Keeps a charge until the response.
    pub(super) fn keep(&self, charge: Charge) -> Made {
        let space = |spacing: &Spacing| spacing.charge(&charge, &self.limiter);
        Made {
            spaced: self.spacing.as_ref().map(space),
            given_back: self.given_back.load(Ordering::Relaxed),
            charge: if self.holds {
                Kind::Hold(self.limiter.hold(charge))
            } else {
                Kind::Charge(charge)
            },
        }
    }

    /// Settles the charge of a request that the server has counted.
    pub(super) fn settle(&self, made: Made, units: u64) {
        let excess = made.charge().cost().saturating_sub(units);
        self.given_back.fetch_add(excess, Ordering::Relaxed);
        self.correct(made, units);
    }

    /// Takes back the charge of a request that was not sent.
    pub(super) fn roll_back(&self, mut made: Made) {
        let spaced = self.spacing.as_ref().zip(made.spaced.take());
        self.correct(made, 0);
        if let Some((spacing, charge)) = spaced {
            spacing.limiter.refund(charge);
        }
    }

    /// Settles the charge of a request, which the server has not counted if it is nothing.
    pub(super) fn correct(&self, made: Made, units: u64) {
        match made.charge {
            Kind::Charge(charge) => self.limiter.settle(charge, units),
            Kind::Hold(hold) => hold.settle(units),
        }
    }

    /// Returns what the server has charged for a request that cost this.
    pub(super) fn charged(
        &self,
        cost: u64,
        is_refused: bool,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Charged {
        match &self.charged {
            Some(charged) => charged(cost, status, headers),
            None if is_refused => Charged::Exactly(0),
            None => Charged::Used,
        }
    }
}

/// The spacing of a limit that others use up as well.
pub(super) struct Spacing {
    /// It counts nanoseconds, so a charge keeps its length when less or more remains later. In units of the limit, a
    /// request that cost nearly all that remained would delay the next one by hours.
    pub(super) limiter: Arc<RateLimiter>,
    pace: Pace,
    /// The period of the limit, or the time in which its bucket refills, in nanoseconds.
    period: u64,
    /// The use by others that counts beside the charges.
    others: AtomicU64,
}

/// How the time until the next request depends on what remains.
enum Pace {
    Bucket,
    Log,
    Window(WindowEnd),
}

impl Spacing {
    /// Charges the time until the next request, for one with this charge.
    fn charge(&self, charge: &Charge, limiter: &RateLimiter) -> Charge {
        let (cost, left) = (charge.cost(), limiter.snapshot());
        let others = self.others.load(Ordering::Relaxed);
        let for_us = left.limit.saturating_sub(others);
        let [period, cost, available, for_us] =
            [self.period, cost, left.available, for_us].map(u128::from);
        let time_of = |part: u128, units: u128| part.saturating_mul(cost) / units.max(1);
        let nanos = match &self.pace {
            Pace::Window(end) => {
                // While calls are held, the limiter does not know its reset.
                let reset_after = limiter.decision(charge).reset_after.as_nanos();
                let until_end = if reset_after <= 2 * period {
                    reset_after
                } else {
                    end.remaining(self.period).into()
                };
                // The microsecond is for the end as the limiter rounds it.
                time_of(2 * until_end, available).min(until_end + 1000)
            }
            Pace::Bucket => time_of(period, 2 * (available + cost)),
            Pace::Log => {
                // What was sent in a burst becomes free in a burst, and is sent in one again. A limit of the pace
                // dissolves it. It is above what becomes free, so that a client grows into what others give up.
                let pace = time_of(period.saturating_mul(8), 9 * for_us);
                time_of(period, 80 * (available + cost)).max(pace)
            }
        };
        let nanos = u64::try_from(nanos.min(period)).unwrap_or(u64::MAX);
        self.limiter.charge(nanos)
    }
}

/// The end of a fixed window. All windows have the same length.
struct WindowEnd {
    clock: Clock,
    /// The tick, in nanoseconds.
    end: AtomicU64,
}

impl WindowEnd {
    fn new(clock: Clock) -> Self {
        let end = AtomicU64::new(0);
        Self { clock, end }
    }

    /// Keeps the end that a response has shown. As in the limiter, later responses delay the end of the present window.
    fn follow(&self, end: Tick) {
        let now = self.clock.now().as_nanos();
        let later = |known: u64| Some(end.as_nanos().max(if known > now { known } else { 0 }));
        let order = Ordering::Relaxed;
        let _ = self.end.fetch_update(order, order, later);
    }

    /// Returns the time until the present window ends.
    fn remaining(&self, period: u64) -> u64 {
        let now = self.clock.now().as_nanos();
        let end = self.end.load(Ordering::Relaxed);
        match end.checked_sub(now) {
            Some(left @ 1..) => left.min(period),
            _ => period - (now - end) % period,
        }
    }
}
