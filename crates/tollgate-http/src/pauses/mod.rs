//! [`Pauses`]: what the servers of a client have asked it to wait for.
//!
//! `call` is a request of the client, `class` reads what a response means, and `table` has the origins that are paused,
//! or that open step by step.

mod alarm;
mod backoff;
mod budget;
mod call;
mod class;
mod opening;
mod origin;
mod paused;
mod table;
mod wake;

use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use tollgate::Clock;

use self::backoff::Backoff;
pub use self::call::{Call, NextStep};
pub use self::class::ResponseClass;
pub use self::origin::PausedBy;
use self::origin::Refusal;
pub use self::paused::Paused;
use self::table::{Settings, Shared};

/// What happens while every place for an origin is taken by a pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WhenFull {
    /// A refusal by another origin is returned. It pauses nobody, and is [counted](PausesSnapshot::unrecorded).
    #[default]
    ReturnRefusal,
    /// Calls to other origins are refused, so that no request is sent to an origin for whose pause there is no room. The
    /// error is [`PausedBy::Full`], with the time until the first of the pauses ends, if one does.
    Refuse,
}

/// The state of [`Pauses`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PausesSnapshot {
    /// The number of origins that are paused.
    pub paused: usize,
    /// The number of origins whose pause is over, and which open step by step, since the first call has come.
    pub opening: usize,
    /// The number of calls that wait.
    pub waiting: usize,
    /// The number of refusals, and of pauses by the client, that paused nobody, because every place for an origin was taken by a pause.
    pub unrecorded: u64,
}

/// Makes a client wait as long as servers ask it to.
///
/// One value has the pauses of all origins of a client. An origin is any text, usually that of scheme, host and port, which
/// [`UriOrigin`](crate::UriOrigin) writes. If a part of an API has a limit of its own, the text of its requests is
/// another one, such as `https://example.com:443/search`; it is then paused apart from the rest. Clones share the
/// pauses. A client that sends requests by itself takes a [call](Self::call)
/// for each, which waits while the origin is paused, and reads the answer.
///
/// - **A pause lasts as long as the server asks**, up to [`max_pause`](Self::max_pause), a day by default, and up to [a
///   tenth](Self::jitter_percent) longer, at random, so that clients do not return all at once. A caller that
///   would wait for longer than [`max_wait`](Self::max_wait) in all is refused at once, with [`Paused`].
/// - **A refusal without a time** pauses the origin for a second, then two, and up to a minute, until a request that
///   was sent after the pause succeeds. Refusals of requests that were sent before the pause began count once.
/// - **After a pause the origin opens step by step**, by slow start as in TCP: one request may be in flight; each
///   success of a request sent since lets one go in its place, and one more besides, up to half of the requests that
///   were in flight when the refusal came; from there each tenth success lets one more go. The origin is open once
///   there has been a success and nobody waits. A success is any answer that is not a refusal. After
///   [`answer_timeout`](Self::answer_timeout), ten seconds by default, a request without an answer no longer counts as in
///   flight.
/// - **Order**: who waits goes in the order in which the calls began, also to repeat a request.
/// - **Repeats**: a call repeats its request up to [twice](Self::retries). The first repeat after a pause is free,
///   because the origin opens step by step. Every other one is taken from the budget of its origin: 100 repeats
///   at first, which is also the most; each call that is sent there gives back a tenth of one, and each second a whole one.
///   While the budget is used up, refusals that need it are returned to their callers. There are 512 budgets; origins whose
///   names have the same hash share one.
/// - **Memory**: up to [`max_origins`](Self::max_origins) origins, 100,000 by default, which then take 54 bytes each
///   beside the name, and more for those at which calls wait. A pause is never forgotten while it lasts. A call takes
///   no lock and allocates nothing while no origin is paused, if a request to each has succeeded since its pause.
///
/// All settings have to be made before the first use: each of them makes new pauses, which share nothing with earlier
/// clones.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use tollgate::Clock;
/// use tollgate_http::Pauses;
///
/// let clock = Clock::manual();
/// let pauses = Pauses::new().clock(&clock);
/// assert!(pauses.check("https://example.com:443").is_ok());
///
/// pauses.pause("https://example.com:443", Duration::from_secs(2400));
/// let paused = pauses.check("https://example.com:443").unwrap_err();
/// assert_eq!(paused.remaining(), Some(Duration::from_secs(2400)));
/// assert!(pauses.check("https://example.org:443").is_ok());
/// ```
///
/// With other settings:
///
/// ```
/// use std::time::Duration;
///
/// use tollgate_http::{Pauses, WhenFull};
///
/// const HOUR: Duration = Duration::from_secs(3600);
///
/// // For a crawler that has all night.
/// let pauses = Pauses::new()
///     .max_wait(HOUR)
///     .max_pause(12 * HOUR)
///     .backoff(Duration::from_secs(5), HOUR)
///     .answer_timeout(Duration::from_secs(30))
///     .retries(5)
///     .jitter_percent(20)
///     .max_origins(1_000_000)
///     .when_full(WhenFull::Refuse);
/// ```
#[derive(Clone)]
pub struct Pauses(Arc<Shared>);

/// Construction.
impl Pauses {
    /// Creates the pauses of a client, without any.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn new() -> Self {
        Self(Shared::new(Settings {
            clock: Clock::default(),
            max_wait: Duration::from_secs(90),
            max_pause: Duration::from_secs(24 * 60 * 60),
            max_origins: 100_000,
            when_full: WhenFull::ReturnRefusal,
            retries: 2,
            jitter_percent: 10.0,
            backoff: Backoff {
                first: Duration::from_secs(1),
                last: Duration::from_secs(60),
            },
            answer_timeout: Duration::from_secs(10),
            classify: None,
            on_full: None,
            wall_clock: SystemTime::now,
        }))
    }

    fn with(self, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = self.0.settings.clone();
        change(&mut settings);
        Self(Shared::new(settings))
    }

    /// Sets the clock of the pauses, in place of [`Clock::default`].
    ///
    /// On `Clock::tokio()`, the calls to an origin may all wait for the timer of the runtime in which one of them waits. So
    /// use it for pauses of one runtime, such as that of a test.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    #[must_use]
    pub fn clock(self, clock: impl Into<Clock>) -> Self {
        self.with(|it| it.clock = clock.into())
    }

    /// Sets how long a call may wait until it is [ready](Call::ready), over all its attempts, in place of 90 s. That is
    /// enough for the usual `Retry-After` of a minute with its [jitter](Self::jitter_percent). The time in other limits,
    /// and that of the requests themselves, does not count. To wait for less, drop the future of `ready`.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    #[must_use]
    pub fn max_wait(self, max_wait: Duration) -> Self {
        self.with(|it| it.max_wait = max_wait)
    }

    /// Sets the longest pause for which a server can ask, in place of a day. If it asks for a longer one, the origin is
    /// paused for this duration.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    #[must_use]
    pub fn max_pause(self, max_pause: Duration) -> Self {
        self.with(|it| it.max_pause = max_pause)
    }

    /// Sets the number of origins that can be paused at once, in place of 100,000.
    ///
    /// When all are paused, [`when_full`](Self::when_full) says what happens to others.
    ///
    /// # Panics
    ///
    /// Panics if `max` is 0.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    #[must_use]
    #[track_caller]
    pub fn max_origins(self, max: usize) -> Self {
        assert!(max > 0, "max_origins cannot be {max}");
        self.with(|it| it.max_origins = max)
    }

    /// Sets what happens while every place for an origin is taken by a pause, in place of
    /// [`WhenFull::ReturnRefusal`].
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    #[must_use]
    pub fn when_full(self, when_full: WhenFull) -> Self {
        self.with(|it| it.when_full = when_full)
    }

    /// Sets a closure that is called once, with the name of the first origin for whose pause there was no room, for
    /// example to write to a log that [`max_origins`](Self::max_origins) is too small.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_http::Pauses;
    ///
    /// let pauses = Pauses::new()
    ///     .on_full(|origin| eprintln!("no room for the pause of {origin} and others"));
    /// ```
    #[must_use]
    pub fn on_full(self, on_full: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.with(|it| it.on_full = Some(Arc::new(on_full)))
    }

    /// Sets how often a call may repeat its request, in place of 2.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    #[must_use]
    pub fn retries(self, retries: u32) -> Self {
        self.with(|it| it.retries = retries)
    }

    /// Sets the maximum jitter, in percent of a pause, in place of 10. With 0, pauses are exact.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    #[must_use]
    pub fn jitter_percent(self, percent: u8) -> Self {
        self.with(|it| it.jitter_percent = percent.into())
    }

    /// Sets the first and the last pause after refusals without a time, in place of a second and a minute. It doubles
    /// from one to the other.
    ///
    /// # Panics
    ///
    /// Panics if the first is zero, or longer than the last.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    #[must_use]
    #[track_caller]
    pub fn backoff(self, first: Duration, last: Duration) -> Self {
        assert!(
            !first.is_zero() && first <= last,
            "pauses cannot be guessed from {first:?} to {last:?}"
        );
        self.with(|it| it.backoff = Backoff { first, last })
    }

    /// Sets the time after which a request without an answer no longer counts as in flight while an origin opens, in
    /// place of ten seconds.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    #[must_use]
    pub fn answer_timeout(self, answer_timeout: Duration) -> Self {
        self.with(|it| it.answer_timeout = answer_timeout)
    }

    /// Sets a closure that decides what a response means. It gets the head of the response and [the usual
    /// meaning](ResponseClass#usual-meanings).
    ///
    /// # Examples
    ///
    /// Two servers behind one name, of which one refuses with a 429, which says nothing about the other:
    ///
    /// ```
    /// use tollgate_http::{ResponseClass, Pauses};
    ///
    /// let pauses = Pauses::new().classify(|status, _, meaning| match status.as_u16() {
    ///     429 => ResponseClass::RefusedAlone,
    ///     _ => meaning,
    /// });
    /// ```
    #[must_use]
    pub fn classify(
        self,
        classify: impl Fn(StatusCode, &HeaderMap, ResponseClass) -> ResponseClass
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.with(|it| it.classify = Some(Arc::new(classify)))
    }

    /// Sets the wall clock for points in time in fields of a response that has no `Date`, in place of
    /// [`SystemTime::now`].
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    #[must_use]
    pub fn wall_clock(self, now: fn() -> SystemTime) -> Self {
        self.with(|it| it.wall_clock = now)
    }
}

/// Pauses.
impl Pauses {
    /// Begins a call to an origin.
    ///
    /// # Examples
    ///
    /// See [`Call`].
    pub fn call<O: Display>(&self, origin: O) -> Call<O> {
        Call::new(Arc::clone(&self.0), origin)
    }

    /// Returns what a response means: [usually](ResponseClass#usual-meanings), or by the [closure](Self::classify) that
    /// decides.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{HeaderMap, StatusCode};
    /// use tollgate_http::{Pauses, ResponseClass};
    ///
    /// let (pauses, headers) = (Pauses::new(), HeaderMap::new());
    /// let class = pauses.class(StatusCode::TOO_MANY_REQUESTS, &headers);
    /// assert_eq!(class, ResponseClass::Refused(None));
    /// ```
    pub fn class(&self, status: StatusCode, headers: &HeaderMap) -> ResponseClass {
        self.0.settings.class(status, headers)
    }

    /// Checks that an origin is not paused. It may still open step by step.
    ///
    /// # Errors
    ///
    /// [`Paused`], with the remaining time.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn check(&self, origin: impl Display) -> Result<(), Paused> {
        let shared = &*self.0;
        if shared.knows_none() {
            return Ok(());
        }
        let (name, now) = (origin.to_string(), shared.now());
        match shared.pause_of(&name).filter(|pause| now < pause.until) {
            Some(pause) => Err(Paused::new(name, &pause, Some(pause.until), now)),
            None => Ok(()),
        }
    }

    /// Pauses an origin for a duration, unless it is paused for longer. [`max_pause`](Self::max_pause) and the jitter do not
    /// apply. If every place for an origin is taken by another pause, this one is only
    /// [counted](PausesSnapshot::unrecorded).
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn pause(&self, origin: impl Display, duration: Duration) {
        let (shared, name) = (&self.0, origin.to_string());
        let now = shared.now();
        let refusal = Refusal {
            asked: Some(duration),
            by: PausedBy::Caller,
            status: StatusCode::SERVICE_UNAVAILABLE,
            jitter: 0.0,
            place: None,
            sent: now,
        };
        shared.pause(&name, &refusal, now);
    }

    /// Ends the pause of an origin, as if it had been asked to end now: it then opens step by step.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate_http::Pauses;
    ///
    /// let pauses = Pauses::new();
    /// pauses.pause("https://example.com:443", Duration::MAX);
    /// pauses.resume("https://example.com:443");
    /// assert!(pauses.check("https://example.com:443").is_ok());
    /// ```
    pub fn resume(&self, origin: impl Display) {
        let (shared, now) = (&self.0, self.0.now());
        shared.change(&origin.to_string(), now, |known| known.resume(now));
    }

    /// Returns the state at one moment. It takes a time that grows with the number of paused origins.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate_http::Pauses;
    ///
    /// let pauses = Pauses::new();
    /// pauses.pause("https://example.com:443", Duration::from_secs(60));
    /// assert_eq!(pauses.snapshot().paused, 1);
    /// ```
    pub fn snapshot(&self) -> PausesSnapshot {
        self.0.snapshot()
    }
}

impl Default for Pauses {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Pauses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = &self.0.settings;
        f.debug_struct("Pauses")
            .field("max_wait", &settings.max_wait)
            .field("max_pause", &settings.max_pause)
            .field("max_origins", &settings.max_origins)
            .finish_non_exhaustive()
    }
}
