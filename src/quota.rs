//! [`Quota`]: a rate and a burst, from which a rate limiter is made.
//!
//! A quota is checked once, when it is made, so that no later computation from it overflows or is
//! rounded to zero:
//!
//! 1. `count`, `period` and `burst` are each at least 1;
//! 2. there are at most [`DENSEST`] tokens per nanosecond: `count <= DENSEST * period`; from two on,
//!    the burst is at most [`LARGEST_BURST`];
//! 3. a whole burst comes back within [`LONGEST`]: `burst * period / count <= LONGEST`.
//!
//! The one exception is [`Quota::UNLIMITED`], whose numbers no other quota can have. A rule that
//! supports it charges nothing; all others refuse it.

use std::fmt;
use std::time::Duration;

mod text;

use self::text::Found;
pub use self::text::QuotaError;

/// The longest time in nanoseconds for a whole burst to come back: 2^58, about nine years. In a
/// limiter's `u64` arithmetic, it leaves room for the time of its clock.
const LONGEST: u64 = 1 << 58;

/// The most tokens per nanosecond. As bytes that is 128 Gbit/s, more than a link of 100 Gbit/s carries.
const DENSEST: u64 = 16;

/// The largest burst of a quota of two per nanosecond or more, which leaves room in a word for years of
/// such a rate.
pub(crate) const LARGEST_BURST: u64 = 1 << 56;

/// The smallest chunk of an adapter, in bytes, if the burst has room for it: with smaller ones the cost of a
/// call would exceed that of moving its bytes.
const MIN_CHUNK: u64 = 1024;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000 * MICROSECOND;
const SECOND: u64 = 1_000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The text of a quota without a limit.
const UNLIMITED: &str = "unlimited";

/// The units of a period in text, the largest first: the name that is written, and all names that can be
/// parsed.
const UNITS: [(&str, &[&str], u64); 7] = [
    ("d", &["d", "day", "days"], DAY),
    ("h", &["h", "hour", "hours"], HOUR),
    ("min", &["m", "min", "minute", "minutes"], MINUTE),
    ("s", &["s", "sec", "second", "seconds"], SECOND),
    ("ms", &["ms"], MILLISECOND),
    // The micro sign, and the Greek letter that looks like it.
    ("us", &["us", "\u{b5}s", "\u{3bc}s"], MICROSECOND),
    ("ns", &["ns"], 1),
];

/// A rate of `count` per period, evenly paced. The default burst is 1, and [`burst`](Self::burst)
/// allows more at once.
///
/// `Quota::per_second(100)` admits one call every 10 ms, and after any pause still only one at
/// once. With `.burst(20)`, up to 20 calls are admitted at once after a pause of 200 ms or more.
///
/// Two quotas are equal if their parameters are: 60 per minute is not equal to 1 per second, though
/// the rate is the same.
///
/// # Limits
///
/// A quota that is too extreme for exact counting cannot be made:
///
/// - a count, a period or a burst of 0;
/// - a period of more than `u64::MAX` nanoseconds, about 584 years;
/// - more than 16 per nanosecond;
/// - a burst of more than 2^56, if there are two per nanosecond or more;
/// - a burst that takes longer than 2^58 nanoseconds to come back, about nine years. That time is
///   `burst * period / count`; so one token may not take longer either.
///
/// For such a quota the constructors panic, which is a compile error in a `const` or a `static`,
/// and [`try_new`](Self::try_new) and parsing return a [`QuotaError`].
///
/// From two per nanosecond on, a limiter takes its lock for every decision.
///
/// # As text
///
/// The text form is the count, a slash, and the exact period in the largest unit that divides it;
/// then the burst, if it is not 1: `100/s`, `5/min`, `7/1500ms`, `1000/10s burst 50`. A quota without
/// a limit is `unlimited`.
///
/// This form can be parsed. Units are `d`, `h`, `min`, `s`, `ms`, `us` and `ns`; parsing also
/// accepts `m`, `µs`, `sec`, and `second`, `minute`, `hour` and `day` with or without an `s`.
/// Spaces between the parts are optional, and so is a comma before `burst`. Units and `burst` are
/// in lower case; numbers are whole, without a sign. With the feature `serde` a quota is serialized
/// as this text.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tollgate::Quota;
///
/// // A refused quota in a `static` would not compile.
/// static UPLOADS: Quota = Quota::per_second(50).burst(10);
///
/// assert_eq!(UPLOADS.to_string(), "50/s burst 10");
/// assert_eq!("50/s burst 10".parse(), Ok(UPLOADS));
/// assert_eq!(Quota::new(3, Duration::from_millis(1500)).to_string(), "3/1500ms");
/// ```
///
/// ```compile_fail
/// static NOTHING: tollgate::Quota = tollgate::Quota::per_second(0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    count: u64,
    /// In nanoseconds.
    period: u64,
    burst: u64,
}

impl Quota {
    /// The quota that admits everything at once. It replaces the quota of a limiter in use to lift
    /// its limit: [`RateLimiter::set_quota`](crate::RateLimiter::set_quota) then releases all
    /// waiters, in their order, and forgives all debt. When a limit is set again, its whole burst is
    /// available.
    ///
    /// Its [count](Self::count) and its [burst](Self::max_burst) are `u64::MAX`, its period is a
    /// nanosecond; no other quota can have these numbers. It stays the same when it is
    /// [split](Self::split) or given a [burst](Self::burst). It is for the [default
    /// algorithm](crate::Algorithm::Gcra), also by key; windows, logs, batches, a
    /// [`LeakyBucket`](crate::LeakyBucket), a limiter on a server and the threshold of a detector
    /// refuse it.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let bytes = RateLimiter::new(Quota::UNLIMITED).clock(Clock::manual());
    /// bytes.try_acquire_many(u64::MAX)?;
    /// assert_eq!(bytes.snapshot().available, u64::MAX);
    ///
    /// bytes.set_quota(Quota::bytes_per_second(1_000_000));
    /// assert_eq!(bytes.snapshot().available, 80_000);
    /// assert_eq!("unlimited".parse(), Ok(Quota::UNLIMITED));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub const UNLIMITED: Self = Self {
        count: u64::MAX,
        period: 1,
        burst: u64::MAX,
    };

    /// Returns whether it is [`UNLIMITED`](Self::UNLIMITED).
    pub const fn is_unlimited(self) -> bool {
        // Any other quota has at most 16 per nanosecond.
        self.count == u64::MAX && self.period == 1
    }

    /// Creates a quota of `count` per second, evenly paced.
    ///
    /// # Panics
    ///
    /// Panics if `count` is 0 or above 16,000,000,000, which is 16 per nanosecond.
    #[track_caller]
    pub const fn per_second(count: u64) -> Self {
        or_panic(Self::checked(count, SECOND as u128, 1))
    }

    /// Creates a quota of `count` bytes per second, evenly paced, with a burst of 80 milliseconds of the
    /// rate, but at least 2,048 bytes.
    ///
    /// It is for bandwidth: with a burst of 1, readers and writers would move single bytes. They move 10
    /// milliseconds of the rate at once, and the rest of the burst bridges the time until their next call:
    /// tokens that arrive while the burst is full, because the process gets no processor for longer, are
    /// lost. In text it is a quota like any other, whose burst has to be written: `1000000/s burst 80000`.
    ///
    /// A machine that is short of processors needs a larger burst, such as a second's worth:
    /// `Quota::bytes_per_second(n).burst(n)`. Beside 30 busy threads on each of two cores, 64 streams
    /// kept 0.54 of 4 MB/s with 80 milliseconds, 0.89 with 250, and 0.99 with a second. As with every quota,
    /// the burst is the most that is admitted above the rate.
    ///
    /// # Panics
    ///
    /// Panics if `count` is 0 or above 16,000,000,000, which is 16 per nanosecond.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Quota;
    ///
    /// const UPLOADS: Quota = Quota::bytes_per_second(1_000_000);
    /// assert_eq!(UPLOADS, Quota::per_second(1_000_000).burst(80_000));
    /// assert_eq!(Quota::bytes_per_second(9600).max_burst(), 2048);
    /// ```
    #[track_caller]
    pub const fn bytes_per_second(count: u64) -> Self {
        or_panic(Self::try_bytes_per_second(count))
    }

    /// Creates the quota of [`bytes_per_second`](Self::bytes_per_second) for a number that may be invalid.
    ///
    /// # Errors
    ///
    /// Returns an error if `count` is 0 or above 16,000,000,000, which is 16 per nanosecond.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Quota;
    ///
    /// assert_eq!(Quota::try_bytes_per_second(5000)?, Quota::bytes_per_second(5000));
    /// assert!(Quota::try_bytes_per_second(0).is_err());
    /// # Ok::<_, tollgate::rate::QuotaError>(())
    /// ```
    pub const fn try_bytes_per_second(count: u64) -> Result<Self, QuotaError> {
        // 80 ms are 2 of 25 parts of a second.
        let most = count / 25 * 2 + count % 25 * 2 / 25;
        let burst = if most < 2048 { 2048 } else { most };
        Self::checked(count, SECOND as u128, burst)
    }

    /// Creates a quota of `count` per minute, evenly paced.
    ///
    /// # Panics
    ///
    /// Panics if `count` is 0 or above 960,000,000,000, which is 16 per nanosecond.
    #[track_caller]
    pub const fn per_minute(count: u64) -> Self {
        or_panic(Self::checked(count, MINUTE as u128, 1))
    }

    /// Creates a quota of `count` per hour, evenly paced.
    ///
    /// # Panics
    ///
    /// Panics if `count` is 0 or above 57,600,000,000,000, which is 16 per nanosecond.
    #[track_caller]
    pub const fn per_hour(count: u64) -> Self {
        or_panic(Self::checked(count, HOUR as u128, 1))
    }

    /// Creates a quota of `count` per 24 hours, evenly paced.
    ///
    /// # Panics
    ///
    /// Panics if `count` is 0 or above 1,382,400,000,000,000, which is 16 per nanosecond.
    #[track_caller]
    pub const fn per_day(count: u64) -> Self {
        or_panic(Self::checked(count, DAY as u128, 1))
    }

    /// Creates a quota of `count` per period, evenly paced.
    ///
    /// # Panics
    ///
    /// Panics if the quota is too extreme: see [limits](Self#limits).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Quota;
    ///
    /// const LOGINS: Quota = Quota::new(5, Duration::from_secs(90));
    /// assert_eq!(LOGINS.to_string(), "5/90s");
    /// ```
    #[track_caller]
    #[doc(alias = "with_period")]
    #[doc(alias = "refill")]
    #[doc(alias = "interval")]
    pub const fn new(count: u64, period: Duration) -> Self {
        or_panic(Self::checked(count, period.as_nanos(), 1))
    }

    /// Creates a quota of `count` per period with this burst, for numbers that may be invalid.
    ///
    /// # Errors
    ///
    /// Returns an error if the quota is too extreme: see [limits](Self#limits).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Quota;
    ///
    /// # fn main() -> Result<(), tollgate::rate::QuotaError> {
    /// let quota = Quota::try_new(100, Duration::from_secs(1), 20)?;
    /// assert_eq!(quota, Quota::per_second(100).burst(20));
    ///
    /// let refused = Quota::try_new(100, Duration::from_secs(1), 0).unwrap_err();
    /// assert_eq!(
    ///     refused.to_string(),
    ///     "a quota cannot have a burst of 0: 100 in 1s, burst 0",
    /// );
    /// # Ok(())
    /// # }
    /// ```
    pub const fn try_new(count: u64, period: Duration, burst: u64) -> Result<Self, QuotaError> {
        Self::checked(count, period.as_nanos(), burst)
    }

    /// Returns a quota of the same rate with up to `burst` at once after a pause.
    ///
    /// With the default [algorithm](crate::Algorithm), a limiter admits at most the burst plus the
    /// rate times `t + 1 ns` in any time `t`. After the whole burst was used, all of it is
    /// available again after `burst * period / count`.
    ///
    /// # Panics
    ///
    /// Panics if `burst` is 0, takes longer than 2^58 nanoseconds to come back, which is about nine
    /// years, or is above 2^56 with two per nanosecond or more.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Quota;
    ///
    /// let quota = Quota::per_minute(30).burst(5);
    /// assert_eq!(quota.max_burst(), 5);
    /// assert_eq!(quota.to_string(), "30/min burst 5");
    /// ```
    #[track_caller]
    #[must_use]
    #[doc(alias = "allow_burst")]
    #[doc(alias = "burst_size")]
    #[doc(alias = "max")]
    pub const fn burst(self, burst: u64) -> Self {
        if self.is_unlimited() && burst > 0 {
            return self;
        }
        or_panic(Self::checked(self.count, self.period as u128, burst))
    }

    /// Returns the quota with these numbers, if there is one.
    pub(crate) fn of_parts(count: u64, period: u64, burst: u64) -> Option<Self> {
        if [count, period, burst] == [u64::MAX, 1, u64::MAX] {
            return Some(Self::UNLIMITED);
        }
        Self::checked(count, period.into(), burst).ok()
    }

    const fn checked(count: u64, period: u128, burst: u64) -> Result<Self, QuotaError> {
        let rule = if count == 0 {
            "a quota cannot have a count of 0"
        } else if period == 0 {
            "a quota cannot have a period of 0ns"
        } else if period > u64::MAX as u128 {
            "a quota cannot have a period of more than 2^64 - 1 ns"
        } else if burst == 0 {
            "a quota cannot have a burst of 0"
        } else if count as u128 > DENSEST as u128 * period {
            "a quota cannot have more than 16 per nanosecond"
        } else if count as u128 >= 2 * period && burst > LARGEST_BURST {
            "a quota of two per nanosecond or more cannot have a burst of more than 2^56"
        } else if burst as u128 * period > LONGEST as u128 * count as u128 {
            "a quota cannot have a token or a burst that takes more than 2^58 ns (nine years) to come back"
        } else {
            let period = period as u64;
            return Ok(Self {
                count,
                period,
                burst,
            });
        };
        let period = match period / SECOND as u128 {
            seconds if seconds > u64::MAX as u128 => Duration::MAX,
            seconds => Duration::new(seconds as u64, (period % SECOND as u128) as u32),
        };
        let found = Found::Quota(count, period, burst);
        Err(QuotaError { rule, found })
    }

    /// Returns the number of units that are allowed in a [`period`](Self::period).
    pub const fn count(self) -> u64 {
        self.count
    }

    /// Returns the period, in which [`count`](Self::count) units are allowed.
    #[doc(alias = "replenish_interval")]
    pub const fn period(self) -> Duration {
        Duration::from_nanos(self.period_nanos())
    }

    /// Returns the period in nanoseconds, at least 1.
    pub(crate) const fn period_nanos(self) -> u64 {
        self.period
    }

    /// Returns the chunk size for adapters that move bytes from a limiter with this burst: 10 ms of the rate.
    /// It is at least [`MIN_CHUNK`], and at most half of the burst: a call for the whole burst is admitted
    /// only when nothing is owed, and tokens that arrive between then and the next call are lost. Without a
    /// limit, tokens do not arrive over time.
    pub(crate) fn chunk(self, burst: u64) -> u64 {
        if self.is_unlimited() {
            return u64::MAX;
        }
        let chunk = u128::from(self.count) * u128::from(10 * MILLISECOND) / u128::from(self.period);
        // A quota has few tokens per nanosecond, so it fits.
        (chunk as u64).max(MIN_CHUNK).min(burst.div_ceil(2)).max(1)
    }

    /// Returns the number of units that are admitted at once after a pause: 1, or the value of
    /// [`burst`](Self::burst). Windows and logs admit the [`count`](Self::count) at once.
    #[doc(alias = "burst_size")]
    pub const fn max_burst(self) -> u64 {
        self.burst
    }

    /// Returns the equal share of each of `nodes` machines that do not communicate: the same count
    /// over `nodes` times the period, and the burst divided by `nodes`, rounded down, but never
    /// below 1.
    ///
    /// The shares add up to the rate. So with the default [algorithm](crate::Algorithm), all of
    /// them together admit at most `max(burst, nodes)` plus the rate times `t + 1 ns` in any time
    /// `t`.
    /// With windows and logs, each share admits the whole count at once in its longer period, so
    /// together they admit `nodes` times the count at once; divide the count instead. The shares
    /// admit less than that if the load is uneven, because no machine gets the share that another leaves
    /// unused, and if the burst is not a multiple of `nodes`.
    ///
    /// A period that would be above `u64::MAX` nanoseconds, about 584 years, is shortened together
    /// with the count. The rate is then rounded down by at most one part in 2^63, and the burst may
    /// be one less.
    ///
    /// # Panics
    ///
    /// Panics if `nodes` is 0, or if the share is less than one in 2^58 nanoseconds, about nine
    /// years.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Quota;
    ///
    /// let share = Quota::per_second(100).burst(20).split(6);
    /// assert_eq!(share.to_string(), "100/6s burst 3");
    /// ```
    #[must_use]
    #[track_caller]
    pub const fn split(self, nodes: u32) -> Self {
        assert!(nodes > 0, "a quota cannot be split among 0 nodes");
        if self.is_unlimited() {
            return self;
        }
        assert!(
            self.period as u128 * nodes as u128 <= LONGEST as u128 * self.count as u128,
            "a quota cannot be split into shares of less than one in 2^58 ns"
        );
        let share = self.share(nodes);
        or_panic(Self::checked(
            share.count,
            share.period as u128,
            share.burst,
        ))
    }

    /// Returns the share of each of `nodes` machines. A token of it may take 2^58 ns at most.
    pub(crate) const fn share(self, nodes: u32) -> Self {
        let (mut count, mut period) = (self.count as u128, self.period as u128 * nodes as u128);
        if period > u64::MAX as u128 {
            // The most tokens whose time fits, and their time rounded up. That time is above 2^63,
            // because one token takes at most 2^58. So it is too long by less than one part in
            // 2^63.
            let fits = count * u64::MAX as u128 / period;
            period = (fits * period).div_ceil(count);
            count = fits;
        }
        // A period that was rounded up can push the burst of the share above the limit, by less
        // than one token. It does not push a single token above the limit, because its time in 2^58
        // is whole.
        let most = LONGEST as u128 * count / period;
        let share = (self.burst / nodes as u64) as u128;
        let burst = if share < most { share } else { most };
        Self {
            count: count as u64,
            period: period as u64,
            burst: if burst == 0 { 1 } else { burst as u64 },
        }
    }
}

/// A `const fn` cannot format the values of the error.
#[track_caller]
const fn or_panic(quota: Result<Quota, QuotaError>) -> Quota {
    match quota {
        Ok(quota) => quota,
        Err(error) => panic!("{}", error.rule),
    }
}

/// Writes the quota [as text](Quota#as-text); a width and an alignment apply.
impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unlimited() {
            return f.pad(UNLIMITED);
        }
        let divides = |(_, _, nanos): &&(_, _, u64)| self.period.is_multiple_of(*nanos);
        let (unit, _, nanos) = UNITS.iter().find(divides).expect("a nanosecond divides it");
        let times = match self.period / nanos {
            1 => String::new(),
            times => times.to_string(),
        };
        let burst = match self.burst {
            1 => String::new(),
            burst => format!(" burst {burst}"),
        };
        f.pad(&format!("{}/{times}{unit}{burst}", self.count))
    }
}
