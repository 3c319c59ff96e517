//! [`Algorithm`]: the rule by which a limiter decides.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::params::{InverseParams, Params};
use crate::quota::Quota;

/// The rule by which a [`RateLimiter`](crate::RateLimiter) decides. See [which
/// algorithm](crate::guide::choose_an_algorithm) to choose.
///
/// `N` and `T` are the count and the period of the [`Quota`]. A promise holds by the ticks of the
/// [charges](crate::Charge::at), whatever the load, as long as nothing is
/// [forced](crate::RateLimiter#the-promise) and the quota does not change;
/// [`QuotaChange`](crate::QuotaChange) has the promises across a change. Windows begin at the
/// multiples of their length since the epoch of the limiter's clock, or since a window that had
/// begun when their length changed.
///
/// | | at most, in any `t` | state | when it is used up |
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
/// assert_eq!(mails.available(), 10_000);
///
/// assert_eq!("sub-interval/8".parse(), Ok(Algorithm::SubInterval { parts: 8 }));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// The generic cell rate algorithm: charges are paid off evenly, and the backlog is at most the
    /// burst. It is the default, because it needs the least state and spaces calls most evenly.
    ///
    /// A count of `N - b` with a burst of `b` admits at most `N` in any time `T`: of 10,000 a day, a
    /// tenth of the rate buys a burst of a thousand.
    ///
    /// Source: ITU-T recommendation I.371, annex A.
    #[default]
    Gcra,
    /// A bucket that is filled in batches, not evenly: `N` tokens are added at each multiple of
    /// `T`, and the bucket holds at most the burst. A bucket with tokens that are added one by one,
    /// which is what most libraries call a token bucket, is [`Gcra`](Self::Gcra).
    ///
    /// A quota with a burst of 1, the default, means a bucket that holds one batch of `N`. If a
    /// bucket holds less than a batch, the rest of each batch is lost.
    ///
    /// Source: J. Turner, *New directions in communications*, IEEE Communications Magazine 24(10),
    /// 1986; refilled by intervals as in Bucket4j.
    TokenBucket,
    /// At most `N` in each window of `T`. Its known weakness: `N` at the end of a window and `N` at
    /// the beginning of the next are `2N` in almost no time.
    ///
    /// The quota has no burst, or one of `N`.
    FixedWindow,
    /// At most `N` by an estimate: what was admitted in the previous window counts in proportion to
    /// the part of that window within the last `T`, as if it had come evenly.
    ///
    /// If it did not come evenly, the true number in a time `T` may be more than `N`, though never
    /// `2N`, or more calls might have been possible. With an `N` of 1, a call is admitted in every
    /// other window at most. The estimate is computed exactly. The quota has no burst, or one of
    /// `N`.
    ///
    /// Source: *How we built rate limiting capable of scaling to millions of domains*, Cloudflare,
    /// 2017.
    SlidingWindow,
    /// Exactly at most `N` in any time `T`, by the times of the last `N` charges.
    ///
    /// Calls that cost 1 are decided without a lock, and none is lost in a race. Calls that cost
    /// more take the lock, for a time that grows with the cost.
    /// [`refund`](crate::RateLimiter::refund) and [`set_quota`](crate::RateLimiter::set_quota) take
    /// a time that grows with `N`, and so do [`decision`](crate::RateLimiter::decision),
    /// [`available`](crate::RateLimiter::available) and [`peek`](crate::RateLimiter::peek) while
    /// forced charges are pending. A charge that goes through the log 2^31 times or more cannot be
    /// refunded. The quota has no burst, or one of `N`, and `N` is at most 2^28. If the quota grows
    /// beyond the room of the log, the log allocates room for at least twice as much, and keeps the
    /// old room as long as the limiter lives.
    ///
    /// Source: the throttles of K. Henidak, *Writing a non-locking throttling component*, and S.
    /// Solyanik, *Throttling requests*, 2008, as a ring. Each position is taken first and then
    /// written, and a thread that comes to a position that is not written yet writes it.
    SlidingLog,
    /// Exactly at most `N` in any time `T`, in a single word: `⌊N/(k+1)⌋` in each window of
    /// `⌈T/k⌉`. Any time `T` touches at most `k + 1` of them.
    ///
    /// So the available rate is at most `k/(k+1)` of the quota's, and exactly that if `k + 1`
    /// divides `N`. The most that can be charged at once is one such part: a call that asks for
    /// more is refused with [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity). More parts give
    /// smaller bursts: of 10 a second, 4 parts admit 8, 5 parts 5, and 9 parts 9. The quota has no
    /// burst, or one of `N`.
    ///
    /// Source: a comment on S. Solyanik, *Throttling requests*, 2008.
    SubInterval {
        /// `k`, the number of parts of the period: at least 1, and less than `N`.
        parts: u32,
    },
}

/// The longest period, in nanoseconds.
const LONGEST_PERIOD: u64 = 1 << 58;

/// The largest count of a sliding window.
const LARGEST_WINDOW: u64 = 1 << 47;

/// The largest count of a log.
const LONGEST_LOG: u64 = 1 << 28;

impl Algorithm {
    /// Checks whether a limiter with this quota can use this algorithm.
    ///
    /// # Errors
    ///
    /// Returns the reason why not, with the values in its text:
    ///
    /// - For all algorithms except [`Gcra`](Self::Gcra), the period is at most 2^58 nanoseconds,
    ///   about nine years, because what comes back at once takes a period to come back; and the
    ///   count is at most one per nanosecond.
    /// - Only [`Gcra`](Self::Gcra) can be [unlimited](Quota::UNLIMITED).
    /// - Windows and logs have a burst of their own, the whole count: the burst of the quota must
    ///   be 1 or the count.
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
        let (count, burst) = (quota.count(), quota.max_burst());
        let expected = match self {
            Self::Gcra => return Ok(()),
            _ if quota.is_unlimited() => "batches, windows and logs cannot be unlimited",
            _ if quota.period_nanos() > LONGEST_PERIOD => {
                "batches, windows and logs have a period of at most 2^58 ns"
            }
            _ if count > quota.period_nanos() => {
                "batches, windows and logs have at most one per nanosecond"
            }
            Self::TokenBucket => return Ok(()),
            _ if burst != 1 && burst != count => "a window or a log allows its whole count at once",
            Self::SlidingWindow if count > LARGEST_WINDOW => {
                "a sliding window has a count of at most 2^47"
            }
            Self::SlidingLog if count > LONGEST_LOG => "a log holds at most 2^28",
            Self::SubInterval { parts: 0 } => NO_PARTS,
            Self::SubInterval { parts } if parts as u64 >= count => {
                "a period in parts needs a count that is larger than the number of parts"
            }
            _ => return Ok(()),
        };
        Err(AlgorithmError {
            expected,
            quota: Some(quota),
        })
    }

    #[track_caller]
    pub(crate) const fn check_or_panic(self, quota: Quota) {
        if let Err(error) = self.check(quota) {
            panic!("{}", error.expected);
        }
    }

    /// Returns whether its whole state is a word, as required for a limit [by
    /// key](crate::Keyed::algorithm). That is so for all except the sliding window and the log.
    pub const fn keeps_a_word(self) -> bool {
        !matches!(self, Self::SlidingWindow | Self::SlidingLog)
    }

    /// Returns what this algorithm makes of a quota: the count comes back at once after each
    /// period, and at most the burst is available at once. [`Gcra`](Self::Gcra), where tokens come
    /// back one by one, returns the quota unchanged.
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
        self.check_or_panic(quota);
        let (count, burst) = (quota.count(), quota.max_burst());
        match self {
            Self::Gcra => quota,
            // Tokens without room in the bucket are lost.
            Self::TokenBucket if burst > 1 && burst < count => {
                Quota::new(burst, quota.period()).burst(burst)
            }
            Self::TokenBucket if burst > 1 => quota,
            Self::SubInterval { parts } => {
                let part = quota.period_nanos().div_ceil(parts as u64);
                let count = count / (parts as u64 + 1);
                Quota::new(count, Duration::from_nanos(part)).burst(count)
            }
            _ => quota.burst(count),
        }
    }

    /// Returns the parameters of a rule whose whole state is a word.
    pub(crate) const fn params(self, quota: Quota) -> (Params, InverseParams) {
        let batch = self.batch(quota);
        let (count, period) = (batch.count(), batch.period_nanos());
        match self {
            Self::Gcra => (Params::new(quota), InverseParams::new(quota)),
            _ => (
                Params::stepped(count, period, batch.max_burst()),
                InverseParams::stepped(count, period),
            ),
        }
    }

    /// Returns its name in text, without the number of parts.
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
        let simple = [
            Self::Gcra,
            Self::TokenBucket,
            Self::FixedWindow,
            Self::SlidingWindow,
            Self::SlidingLog,
        ];
        if let Some(found) = simple.into_iter().find(|it| it.name() == text) {
            return Ok(found);
        }
        let parts = text.strip_prefix("sub-interval/");
        let digits = parts.filter(|parts| parts.bytes().all(|byte| byte.is_ascii_digit()));
        let expected = match digits.and_then(|digits| digits.parse().ok()) {
            Some(0) => NO_PARTS,
            Some(parts) => return Ok(Self::SubInterval { parts }),
            None if text == "leaky-bucket" => {
                "a leaky bucket is a type of its own, LeakyBucket, not an algorithm"
            }
            None => {
                "unknown algorithm, expected gcra, token-bucket, fixed-window, sliding-window, \
                 sliding-log or sub-interval/ and a number"
            }
        };
        Err(AlgorithmError {
            expected,
            quota: None,
        })
    }
}

/// Why a limiter with some quota cannot use some [`Algorithm`], or why a text is no algorithm.
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
    expected: &'static str,
    /// The quota that did not fit, unless the error is about a text.
    quota: Option<Quota>,
}

const NO_PARTS: &str = "a period cannot be cut into 0 parts";

impl fmt::Display for AlgorithmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)?;
        match self.quota {
            Some(quota) => write!(f, ", but the quota is {quota}"),
            None => Ok(()),
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
        // The reader of this message sees a whole configuration, and needs to know which text is
        // meant.
        let parsed = text.parse();
        parsed.map_err(|error| {
            serde::de::Error::custom(format_args!("{text:?} is no algorithm: {error}"))
        })
    }
}
