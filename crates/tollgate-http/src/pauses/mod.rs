//! [`Pauses`]: what the servers of a client have asked it to wait for.
//!
//! 1. One lock guards the table of the origins that are paused or open step by step. A call to another origin looks up
//!    one entry under it, and a call takes no lock while the table is empty.
//! 2. Wakers are called and dropped, and alarms are set and dropped, after the lock is released.
//! 3. An alarm belongs to an origin at which somebody waits. It may be late or early: whoever polls settles the origin.

mod alarm;
mod budget;
mod call;
mod class;
mod opening;
mod origin;
mod paused;

use std::collections::HashMap;
use std::fmt::{self, Display, Write};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode};
use tollgate::Clock;
use tollgate::time::Tick;

use self::alarm::Alarm;
use self::budget::Budget;
pub use self::call::{Call, NextStep};
pub use self::class::ResponseClass;
pub use self::origin::PausedBy;
use self::origin::{Length, Origin, Passage, Refusal};
pub use self::paused::Paused;

/// The number of counters of requests in flight.
const COUNTERS: usize = 512;

#[derive(Clone)]
struct Settings {
    clock: Clock,
    max_wait: Duration,
    max_pause: Duration,
    max_origins: usize,
    refuses: bool,
    retries: u32,
    jitter_percent: f64,
    first_guess: Duration,
    last_guess: Duration,
    answer_timeout: Duration,
    classify: Option<Arc<Classify>>,
    wall_clock: fn() -> SystemTime,
}

type Classify = dyn Fn(StatusCode, &HeaderMap, ResponseClass) -> ResponseClass + Send + Sync;

impl Settings {
    /// Returns what a response means.
    fn class(&self, status: StatusCode, headers: &HeaderMap) -> ResponseClass {
        let class = ResponseClass::of(status, headers, self.wall_clock);
        match &self.classify {
            Some(classify) => classify(status, headers, class),
            None => class,
        }
    }
}

struct Shared {
    settings: Settings,
    table: Mutex<Table>,
    /// The number of origins in the table. It is written under the lock, and publishes no other data.
    known: AtomicUsize,
    /// The number of calls that have begun.
    calls: AtomicU64,
    random: RandomState,
    /// For the origins whose names have the same hash: the requests in flight, and the tick just after the last pause
    /// began.
    counters: Box<[(AtomicU32, AtomicU64)]>,
}

struct Table {
    origins: HashMap<Box<str>, Origin>,
    /// No pause in the table ends earlier.
    earliest_end: Tick,
    /// The refusals of origins for which there was no room.
    unrecorded: u64,
    budget: Budget,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            origins: HashMap::new(),
            earliest_end: Tick::from_nanos(u64::MAX),
            unrecorded: 0,
            budget: Budget::default(),
        }
    }
}

/// What has to be done after the lock is released.
#[derive(Default)]
struct Effects {
    woken: Vec<Waker>,
    alarm: Option<Tick>,
    dropped: Option<Alarm>,
}

/// What happens while every place for an origin is taken by a pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WhenFull {
    /// A refusal by another origin is returned. It pauses nobody, and is [counted](PausesSnapshot::unrecorded).
    #[default]
    ReturnRefusal,
    /// Calls to other origins are refused, so that no request is sent to an origin for whose pause there is no room. The
    /// error is [`PausedBy::Full`], with the time until the first of the pauses ends.
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
    /// The number of refusals that paused nobody, because every place for an origin was taken by a pause.
    pub unrecorded: u64,
}

/// Makes a client wait as long as servers ask it to.
///
/// One value has the pauses of all origins of a client. An origin is any text, usually that of scheme, host and port, which
/// [`UriOrigin`](crate::UriOrigin) writes. If a part of an API has a limit of its own, the text of its requests is another one,
/// such as `https://example.com:443/search`; it is then paused apart from the rest. Clones share the pauses. A client that sends requests by itself takes a [call](Self::call) for each, which waits while the origin is
/// paused, and reads the answer.
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
/// - **Memory**: up to [`max_origins`](Self::max_origins) origins, 100,000 by default, which then take 54 bytes each
///   beside the name, and more for those at which calls wait. A pause is never forgotten while it lasts. A call takes
///   no lock and allocates nothing while no origin is paused.
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
        Self::of(Settings {
            clock: Clock::default(),
            max_wait: Duration::from_secs(90),
            max_pause: Duration::from_secs(24 * 60 * 60),
            max_origins: 100_000,
            refuses: false,
            retries: 2,
            jitter_percent: 10.0,
            first_guess: Duration::from_secs(1),
            last_guess: Duration::from_secs(60),
            answer_timeout: Duration::from_secs(10),
            classify: None,
            wall_clock: SystemTime::now,
        })
    }

    fn of(settings: Settings) -> Self {
        let counters = (0..COUNTERS).map(|_| Default::default()).collect();
        Self(Arc::new(Shared {
            settings,
            table: Mutex::default(),
            known: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            random: RandomState::new(),
            counters,
        }))
    }

    fn with(self, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = self.0.settings.clone();
        change(&mut settings);
        Self::of(settings)
    }

    /// Sets the clock of the pauses, in place of [`Clock::default`].
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    #[must_use]
    pub fn clock(self, clock: impl Into<Clock>) -> Self {
        self.with(|it| it.clock = clock.into())
    }

    /// Sets how long a call may wait, counted from its beginning and over all its attempts, in place of 90 s. That is
    /// enough for the usual `Retry-After` of a minute, with the [jitter](Self::jitter_percent) and the time of the
    /// refused request. There is no other limit for a call: to wait for less, drop the future of
    /// [`ready`](Call::ready).
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    #[must_use]
    pub fn max_wait(self, max_wait: Duration) -> Self {
        self.with(|it| it.max_wait = max_wait)
    }

    /// Sets the longest pause, in place of a day. If a server asks for a longer one, the origin is paused for this
    /// duration.
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
        self.with(|it| it.refuses = when_full == WhenFull::Refuse)
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
        self.with(|it| (it.first_guess, it.last_guess) = (first, last))
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
        let table = shared.lock();
        match table.origins.get(&*name) {
            Some(known) if known.is_paused(now) => {
                let pause = *known.pause_of();
                drop(table);
                Err(Paused::new(name, &pause, Some(pause.until), now))
            }
            _ => Ok(()),
        }
    }

    /// Pauses an origin for a duration, unless it is paused for longer. [`max_pause`](Self::max_pause) and the jitter do not
    /// apply.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn pause(&self, origin: impl Display, duration: Duration) {
        let (shared, name) = (&self.0, origin.to_string());
        let now = shared.now();
        let refusal = Refusal {
            length: Length::Asked(duration, Duration::ZERO),
            by: PausedBy::Caller,
            status: StatusCode::SERVICE_UNAVAILABLE,
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
        let now = self.0.now();
        self.0
            .change(&origin.to_string(), |known| known.resume(now));
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
        let now = self.0.now();
        let table = self.0.lock();
        let mut snapshot = PausesSnapshot {
            unrecorded: table.unrecorded,
            ..PausesSnapshot::default()
        };
        for known in table.origins.values() {
            snapshot.paused += usize::from(known.is_paused(now));
            snapshot.opening += usize::from(known.opens(now));
            snapshot.waiting += known.waiting();
        }
        snapshot
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
            .field("known", &self.0.known.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn now(&self) -> Tick {
        self.settings.clock.now()
    }

    /// Returns whether the table is empty.
    fn knows_none(&self) -> bool {
        self.known.load(Ordering::Relaxed) == 0
    }

    /// Locks the table. No foreign code runs under the lock, so no panic leaves it half changed.
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the index of the counters for an origin.
    fn counter(&self, origin: &impl Display) -> usize {
        /// Hashes what is written.
        struct Hashing<H>(H);

        impl<H: Hasher> Write for Hashing<H> {
            fn write_str(&mut self, part: &str) -> fmt::Result {
                self.0.write(part.as_bytes());
                Ok(())
            }
        }
        let mut hashing = Hashing(self.random.build_hasher());
        // A hasher takes everything.
        let _ = write!(hashing, "{origin}");
        hashing.0.finish() as usize % COUNTERS
    }

    /// Returns a random part of the maximum jitter, in percent.
    fn jitter(&self) -> f64 {
        let random = RandomState::new().hash_one(0);
        (random >> 11) as f64 / (1_u64 << 53) as f64 * self.settings.jitter_percent
    }

    /// Returns the length of a pause for which a server asked, or which it left open. A wait of nothing says nothing.
    fn length(&self, asked: Option<Duration>) -> (Length, PausedBy) {
        let percent = self.jitter();
        match asked.filter(|wait| !wait.is_zero()) {
            Some(wait) => {
                let wait = wait.min(self.settings.max_pause);
                let jitter = wait.mul_f64(percent / 100.0);
                (Length::Asked(wait, jitter), PausedBy::Server)
            }
            None => {
                let Settings {
                    first_guess: first,
                    last_guess: last,
                    ..
                } = self.settings;
                (
                    Length::Guessed {
                        first,
                        last,
                        percent,
                    },
                    PausedBy::Guess,
                )
            }
        }
    }

    /// Returns the delay before a request that was refused alone is repeated.
    fn delay(&self, repeats: u32) -> Duration {
        let doubled = self
            .settings
            .first_guess
            .saturating_mul(1 << repeats.min(31));
        let delay = doubled.min(self.settings.last_guess);
        delay.saturating_add(delay.mul_f64(self.jitter() / 100.0))
    }

    /// Changes an origin, if it is known, and does what follows from that.
    fn change<R>(self: &Arc<Self>, name: &str, change: impl FnOnce(&mut Origin) -> R) -> Option<R> {
        let mut table = self.lock();
        let changed = change(table.origins.get_mut(name)?);
        let effects = self.settle(&mut table, name);
        drop(table);
        self.apply(name, effects);
        Some(changed)
    }

    /// Settles an origin, and forgets it when it is open.
    fn settle(&self, table: &mut Table, name: &str) -> Effects {
        let Settings {
            max_wait,
            answer_timeout,
            ..
        } = self.settings;
        let mut effects = Effects::default();
        let Some(known) = table.origins.get_mut(name) else {
            return effects;
        };
        effects.woken = known.settle(max_wait, answer_timeout, self.now());
        table.earliest_end = table.earliest_end.min(known.pause_of().until);
        effects.dropped = known.rest();
        if known.is_open() {
            effects.dropped = known.take_alarm();
            table.origins.remove(name);
            self.known.store(table.origins.len(), Ordering::Relaxed);
            return effects;
        }
        let next = known.next(max_wait, answer_timeout);
        if let Origin::Busy(busy) = known {
            let is_set = |alarm: &Alarm| next.is_some_and(|next| alarm.due <= next);
            effects.dropped = busy.alarm.take_if(|alarm| !is_set(alarm));
            effects.alarm = next.filter(|_| busy.alarm.is_none());
        }
        effects
    }

    /// Does what had to wait for the release of the lock.
    fn apply(self: &Arc<Self>, name: &str, effects: Effects) {
        let Effects {
            woken,
            alarm,
            dropped,
        } = effects;
        drop(dropped);
        if let Some(due) = alarm {
            let set = Alarm::new(self, name, due);
            let mut table = self.lock();
            let replaced = match table.origins.get_mut(name) {
                Some(Origin::Busy(busy))
                    if !set.has_fired() && busy.alarm.as_ref().is_none_or(|it| due < it.due) =>
                {
                    busy.alarm.replace(set)
                }
                _ => Some(set),
            };
            drop(table);
            drop(replaced);
        }
        for waker in woken {
            // A waker that panics keeps no other from being woken.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }

    /// Pauses an origin, if the refusal is news. Returns whether there was room for it.
    fn pause(self: &Arc<Self>, name: &str, refusal: &Refusal, now: Tick) -> bool {
        let (in_flight, known_until) = &self.counters[self.counter(&name)];
        let mut table = self.lock();
        let mut new = None;
        let origin = match table.origins.get_mut(name) {
            Some(known) => known,
            None => {
                let known_until = Tick::from_nanos(known_until.load(Ordering::Relaxed));
                new.insert(Origin::unknown(known_until))
            }
        };
        let is_news = origin.pause(refusal, in_flight.load(Ordering::Relaxed), now);
        let known = origin.pause_of().known_until;
        if let Some(new) = new.filter(|_| is_news) {
            if !table.make_room(self.settings.max_origins, now) {
                table.unrecorded += 1;
                return false;
            }
            table.origins.insert(name.into(), new);
            self.known.store(table.origins.len(), Ordering::Relaxed);
        }
        known_until.fetch_max(known.as_nanos(), Ordering::Relaxed);
        let effects = self.settle(&mut table, name);
        drop(table);
        self.apply(name, effects);
        true
    }
}

impl Table {
    /// Makes room for one more origin: if there is none, forgets the origins whose pause is over. Returns whether there
    /// is room.
    fn make_room(&mut self, max_origins: usize, now: Tick) -> bool {
        if self.origins.len() >= max_origins && self.earliest_end <= now {
            self.origins.retain(|_, known| !known.is_over(now));
            let ends = self.origins.values().map(|known| known.pause_of().until);
            let earliest = ends.filter(|end| *end > now).min();
            self.earliest_end = earliest.unwrap_or(Tick::from_nanos(u64::MAX));
        }
        self.origins.len() < max_origins
    }

    /// Returns the pause for which a call to an unknown origin is refused, if there is no room for a pause of its own.
    fn without_room(&mut self, settings: &Settings, now: Tick) -> Passage {
        let refuses = settings.refuses && !self.make_room(settings.max_origins, now);
        match self.origins.values().next().filter(|_| refuses) {
            Some(known) => {
                let mut pause = *known.pause_of();
                (pause.status, pause.by) = (StatusCode::SERVICE_UNAVAILABLE, PausedBy::Full);
                Passage::Refused(pause, Some(self.earliest_end))
            }
            None => Passage::Passes,
        }
    }
}
