//! [`Algorithm`]: the decision rule of a limiter.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::promise::NO_PARTS;
use super::quota_change::QuotaChange;
use crate::quota::Quota;

/// The decision rule of a [`RateLimiter`](crate::RateLimiter). See [which
/// algorithm](crate::guide::choose_an_algorithm) to choose.
///
/// `N` and `T` are the count and the period of the [`Quota`]. A promise holds by the ticks of the
/// [charges](crate::rate::Charge::at), whatever the load, as long as nothing is
/// [forced](crate::RateLimiter#the-promise) and the quota does not change;
/// [`QuotaChange`] has the promises across a change. Windows begin at the
/// multiples of their length since the epoch of the limiter's clock, or since a window that had
/// begun when their length changed.
///
/// | | at most, in any `t` | state | after it is used up |
/// |---|---|---|---|
/// | [`Gcra`](Self::Gcra) | burst + `N·(t + 1 ns)/T` | a word | one comes back at a time, evenly |
/// | [`TokenBucket`](Self::TokenBucket) | burst + `N` for each `T` that ends in it | a word | `N` come back at once |
/// | [`FixedWindow`](Self::FixedWindow) | `N` in a window, so `2N` in a time `T` across two | a word | all come back at once |
/// | [`SlidingWindow`](Self::SlidingWindow) | `N` by estimate, in fact less than `2N` in a time `T` | three words | they come back little by little |
/// | [`SlidingLog`](Self::SlidingLog) | exactly `N` in any `T` | 8 bytes for each of `N` | each comes back after `T` |
/// | [`SubInterval`](Self::SubInterval) | exactly `N` in any `T`, and `⌊N/(k+1)⌋` in each window of `⌈T/k⌉` | a word | a part comes back after `T/k` |
///
/// # As text
///
/// `gcra`, `token-bucket`, `fixed-window`, `sliding-window`, `sliding-log`, and `sub-interval/8`
/// for one with 8 parts. With the feature `serde` it is serialized as that text.
///
/// # Examples
///
/// ```
/// use tollgate::{Algorithm, Clock, Quota, RateLimiter};
///
/// let mails = RateLimiter::new(Quota::per_day(10_000))
///     .algorithm(Algorithm::SlidingLog)
///     .clock(Clock::manual());
/// assert_eq!(mails.snapshot().available, 10_000);
///
/// assert_eq!("sub-interval/8".parse(), Ok(Algorithm::SubInterval { parts: 8 }));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// The generic cell rate algorithm: charges are paid off evenly, and the backlog is at most the
    /// burst. It is the default, because it needs the least state and spaces calls most evenly.
    ///
    /// A count of `N - b` with a burst of `b` admits at most `N` in any time `T`: of 10,000 a day,
    /// giving up a tenth of the rate allows a burst of a thousand.
    ///
    /// Source: ITU-T recommendation I.371, annex A.
    #[default]
    Gcra,
    /// A bucket that is filled in batches, not evenly: `N` tokens are added at each multiple of
    /// `T`, and the bucket holds at most the burst. Most libraries call another rule a token
    /// bucket: tokens are added one by one. That rule is [`Gcra`](Self::Gcra).
    ///
    /// A quota with a burst of 1, the default, means a bucket that holds one batch of `N`. If a
    /// bucket holds less than a batch, the rest of each batch is lost.
    ///
    /// Source: J. Turner, *New directions in communications*, IEEE Communications Magazine 24(10),
    /// 1986; refilled by intervals, like in Bucket4j.
    TokenBucket,
    /// At most `N` in each window of `T`. Its known weakness: `N` at the end of a window and `N` at
    /// the beginning of the next are `2N` in almost no time.
    ///
    /// The quota has no burst, or one of `N`.
    FixedWindow,
    /// At most `N` by an estimate: the calls of the previous window count in proportion to the part
    /// of that window within the last `T`, as if they had come evenly.
    ///
    /// If they did not come evenly, the true number in a time `T` may be more than `N`, though
    /// never `2N`, or more calls might have been possible. With an `N` of 1, at most every other
    /// window admits a call. The estimate is computed exactly. The quota has no burst, or one of
    /// `N`.
    ///
    /// Source: *How we built rate limiting capable of scaling to millions of domains*, Cloudflare,
    /// 2017.
    SlidingWindow,
    /// Exactly at most `N` in any time `T`, measured by the times of the last `N` charges.
    ///
    /// Calls that cost 1 are decided without a lock, and none is lost in a race. Calls that cost
    /// more take the lock, for a time that grows with the cost.
    /// [`refund`](crate::RateLimiter::refund) and [`set_quota`](crate::RateLimiter::set_quota) take
    /// a time that grows with `N`, and so do [`decision`](crate::RateLimiter::decision),
    /// [`snapshot`](crate::RateLimiter::snapshot) and [`peek`](crate::RateLimiter::peek) while
    /// forced charges are pending. A charge that goes through the log 2^31 times or more cannot be
    /// refunded. The quota has no burst, or one of `N`, and `N` is at most 2^28. If the quota grows
    /// beyond the size of the log, the log allocates at least twice its size, and keeps the old
    /// memory as long as the limiter exists.
    ///
    /// Source: the throttles of K. Henidak, *Writing a non-locking throttling component*, and S.
    /// Solyanik, *Throttling requests*, 2008, as a ring. Each position is taken first and then
    /// written, and a thread that finds a position not written yet writes it.
    SlidingLog,
    /// Exactly at most `N` in any time `T`, in a single word: `⌊N/(k+1)⌋` in each window of
    /// `⌈T/k⌉`. Any time `T` touches at most `k + 1` of them.
    ///
    /// So the available rate is at most `k/(k+1)` of the quota's, and exactly that if `k + 1`
    /// divides `N`. The maximum charge at once is one such part: a call that asks for more is
    /// refused with [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity). More parts give smaller
    /// bursts: of 10 a second, 4 parts admit 8, 5 parts 5, and 9 parts 9. The quota has no burst,
    /// or one of `N`.
    ///
    /// Source: a comment on S. Solyanik, *Throttling requests*, 2008.
    SubInterval {
        /// `k`, the number of parts of the period: at least 1, and less than `N`.
        parts: u32,
    },
}

/// All algorithms, in the order of the table.
const ALL: [Algorithm; 6] = [
    Algorithm::Gcra,
    Algorithm::TokenBucket,
    Algorithm::FixedWindow,
    Algorithm::SlidingWindow,
    Algorithm::SlidingLog,
    Algorithm::SubInterval { parts: 4 },
];

impl Algorithm {
    /// Returns every algorithm once, in the order of [the table](Self), with 4 parts for
    /// [`SubInterval`](Self::SubInterval). A later version may return more.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Algorithm, Quota};
    ///
    /// let (quota, second) = (Quota::per_second(10).burst(10), Duration::from_secs(1));
    /// let safe = Algorithm::all().iter().filter(|it| it.most_in(quota, second) <= 10);
    /// let safe: Vec<String> = safe.map(ToString::to_string).collect();
    /// assert_eq!(safe, ["sliding-log", "sub-interval/4"]);
    /// ```
    pub const fn all() -> &'static [Self] {
        &ALL
    }

    /// Checks whether a limiter with this quota can use this algorithm.
    ///
    /// # Errors
    ///
    /// Returns the reason why it cannot, with the values in its text:
    ///
    /// - For all algorithms except [`Gcra`](Self::Gcra), the period is at most 2^58 nanoseconds,
    ///   about nine years, because a batch takes a whole period to come back; and the count is at
    ///   most one per nanosecond.
    /// - Only [`Gcra`](Self::Gcra) can be [unlimited](Quota::UNLIMITED).
    /// - Windows and logs have their own burst, the whole count: the burst of the quota must be 1
    ///   or the count.
    /// - A sliding window counts at most 2^47, and a log at most 2^28.
    /// - A period cannot be divided into 0 parts, or into as many parts as the count or more.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Algorithm, Quota};
    ///
    /// let quota = Quota::per_second(5);
    /// assert!(Algorithm::SubInterval { parts: 4 }.check(quota).is_ok());
    /// let error = Algorithm::SubInterval { parts: 5 }.check(quota).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "a period in parts needs a count that is larger than the number of parts, but the quota is 5/s",
    /// );
    /// ```
    pub const fn check(self, quota: Quota) -> Result<(), AlgorithmError> {
        match self.misfit(quota) {
            None => Ok(()),
            Some(reason) => Err(AlgorithmError {
                reason,
                quota: Some(quota),
            }),
        }
    }

    /// Returns whether its whole state is a word; a limit [by key](crate::Keyed::new) requires
    /// that. It is true for all algorithms except the sliding window and the log.
    pub const fn keeps_a_word(self) -> bool {
        match self {
            Self::Gcra | Self::TokenBucket | Self::FixedWindow | Self::SubInterval { .. } => true,
            Self::SlidingWindow | Self::SlidingLog => false,
        }
    }

    /// Returns the quota in the form that this algorithm uses: the count comes back at once after
    /// each period, and at most the burst is available at once. For [`Gcra`](Self::Gcra) the quota
    /// is unchanged, because its tokens come back one by one.
    ///
    /// # Panics
    ///
    /// Panics if the quota does not fit the algorithm, see [`check`](Self::check).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Algorithm, Quota};
    ///
    /// let batch = Algorithm::SubInterval { parts: 4 }.batch(Quota::per_second(10));
    /// assert_eq!(batch.to_string(), "2/250ms burst 2");
    /// ```
    #[track_caller]
    pub const fn batch(self, quota: Quota) -> Quota {
        self.promise(quota).batch
    }

    /// Returns the bound of [the table](Self) as a number: the maximum that a limiter with this
    /// quota admits in any time of length `t`, including its first nanosecond and excluding its
    /// end. The bound of a [`SlidingWindow`](Self::SlidingWindow) is tight for one period, and not
    /// for longer times.
    ///
    /// # Panics
    ///
    /// Panics if the quota does not fit the algorithm, see [`check`](Self::check).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Algorithm, Quota};
    ///
    /// let (quota, day) = (Quota::per_hour(100), Duration::from_secs(86_400));
    /// assert_eq!(Algorithm::Gcra.most_in(quota, day), 2_401);
    /// assert_eq!(Algorithm::FixedWindow.most_in(quota, day), 2_500);
    /// ```
    #[track_caller]
    pub const fn most_in(self, quota: Quota, t: Duration) -> u64 {
        let nanos = t.as_nanos();
        let most = u64::MAX as u128;
        let nanos = if nanos < most { nanos } else { most };
        self.promise(quota).most_in(nanos as u64)
    }

    /// Returns whether it counts by windows, and each window begins at 0.
    pub(crate) const fn has_windows(self) -> bool {
        matches!(self, Self::FixedWindow)
    }

    /// Returns the behavior of `set_quota`: if tokens come back evenly, it keeps the proportion,
    /// and if calls are counted, the number.
    pub(crate) const fn on_change(self) -> QuotaChange {
        match self {
            Self::Gcra => QuotaChange::Proportional,
            _ => QuotaChange::KeepSpent,
        }
    }

    /// Returns its name in text. A slash and the number of parts follow it if it has parts.
    const fn name(self) -> &'static str {
        match self {
            Self::Gcra => "gcra",
            Self::TokenBucket => "token-bucket",
            Self::FixedWindow => "fixed-window",
            Self::SlidingWindow => "sliding-window",
            Self::SlidingLog => "sliding-log",
            Self::SubInterval { .. } => "sub-interval",
        }
    }
}

/// Writes the algorithm [as text](Algorithm#as-text); a width and an alignment apply.
impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SubInterval { parts } => f.pad(&format!("{}/{parts}", self.name())),
            _ => f.pad(self.name()),
        }
    }
}

/// Parses an algorithm [as text](Algorithm#as-text).
impl FromStr for Algorithm {
    type Err = AlgorithmError;

    fn from_str(text: &str) -> Result<Self, AlgorithmError> {
        let found = match text.split_once('/') {
            // A number without a sign.
            Some(("sub-interval", parts)) if parts.bytes().all(|byte| byte.is_ascii_digit()) => {
                parts.parse().map(|parts| Self::SubInterval { parts }).ok()
            }
            _ => ALL.into_iter().find(|it| it.to_string() == text),
        };
        let reason = match found {
            Some(Self::SubInterval { parts: 0 }) => NO_PARTS,
            Some(found) => return Ok(found),
            None if text == "leaky-bucket" => {
                "a leaky bucket is a type of its own, LeakyBucket, not an algorithm"
            }
            None => {
                "unknown algorithm, expected gcra, token-bucket, fixed-window, sliding-window, \
                 sliding-log or sub-interval/ and a number"
            }
        };
        let quota = None;
        Err(AlgorithmError { reason, quota })
    }
}

/// The reason why a limiter with some quota cannot use some [`Algorithm`], or why a text is no
/// algorithm.
///
/// # Examples
///
/// ```
/// use tollgate::Algorithm;
///
/// let error = "bucket".parse::<Algorithm>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "unknown algorithm, expected gcra, token-bucket, fixed-window, sliding-window, sliding-log or \
///      sub-interval/ and a number",
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlgorithmError {
    reason: &'static str,
    /// The quota that does not fit, if a quota is the reason.
    quota: Option<Quota>,
}

impl fmt::Display for AlgorithmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.quota {
            Some(quota) => write!(f, "{}, but the quota is {quota}", self.reason),
            None => f.write_str(self.reason),
        }
    }
}

impl std::error::Error for AlgorithmError {}

#[cfg(feature = "serde")]
impl serde::Serialize for Algorithm {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Algorithm {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        // The reader of this message sees a whole configuration, and needs to know the text that
        // caused the error.
        let parsed = text.parse();
        parsed.map_err(|error| {
            serde::de::Error::custom(format_args!("{text:?} is no algorithm: {error}"))
        })
    }
}
