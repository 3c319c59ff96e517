//! [`Algorithm`]: by which rule a limiter decides.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::params::{InverseParams, Params};
use crate::quota::Quota;

/// By which rule a [`RateLimiter`](crate::RateLimiter) decides. [Which
/// algorithm](crate::which_algorithm) to take is a page of its own.
///
/// `N` and `T` are the count and the period of the [`Quota`]; a promise holds by the ticks of the
/// [charges](crate::Charge::at), whatever the load, as long as nothing is
/// [forced](crate::RateLimiter#the-promise) and the quota stays; [`QuotaChange`](crate::QuotaChange) says what
/// is so when that changes. Windows begin at the multiples of their length since the epoch of the
/// limiter's clock, or since one that had begun when their length changed.
///
/// | | at most, in any `t` | state | when it is used up |
/// |---|---|---|---|
/// | [`Gcra`](Self::Gcra) | burst + `N·(t + 1 ns)/T` | a word | one comes back at a time, evenly |
/// | [`TokenBucket`](Self::TokenBucket) | burst + `N` for each `T` that ends in it | a word | `N` come back at once |
/// | [`FixedWindow`](Self::FixedWindow) | `N` in a window, so `2N` in a time `T` across two | a word | all come back at once |
/// | [`SlidingWindow`](Self::SlidingWindow) | `N` by estimate, truly less than `2N` in a time `T` | three words | they come back little by little |
/// | [`SlidingLog`](Self::SlidingLog) | exactly `N` in any `T` | 8 bytes for each of `N` | each comes back after `T` |
/// | [`SubInterval`](Self::SubInterval) | exactly `N` in any `T`, of which `⌊N/(k+1)⌋` in each window of `⌈T/k⌉` | a word | a part comes back after `T/k` |
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
    /// The generic cell rate algorithm: charges are paid off evenly, and no more than the burst may
    /// be owed. The default, since it needs least and lets through most evenly.
    ///
    /// Source: ITU-T recommendation I.371, annex A.
    #[default]
    Gcra,
    /// A bucket that is filled by batches, not evenly: `N` tokens are put in at each multiple of
    /// `T`, and it holds as many as the burst. Where tokens are put in one by one, which is what
    /// most libraries call a token bucket, that is [`Gcra`](Self::Gcra).
    ///
    /// A quota whose burst is 1, as it is by default, stands for a bucket that holds one batch of
    /// `N`. Of a bucket that holds less than a batch the rest of the batch is lost.
    ///
    /// Source: J. Turner, *New directions in communications*, IEEE Communications Magazine 24(10),
    /// 1986; refilled by intervals as in Bucket4j.
    TokenBucket,
    /// At most `N` in each window of `T`. The known weakness: `N` at the end of a window and `N` at
    /// the beginning of the next are `2N` in hardly any time.
    ///
    /// The quota has no burst, or one of `N`.
    FixedWindow,
    /// At most `N` by an estimate: what was admitted in the window before counts as much as of that
    /// window lies within the last `T`, as if it had come evenly.
    ///
    /// If it did not come evenly, it may truly be more than `N` in a time `T`, though never `2N`,
    /// or less might have been possible; with an `N` of 1 a call is admitted in every other window
    /// at most. The estimate is computed exactly. The quota has no burst,
    /// or one of `N`.
    ///
    /// Source: *How we built rate limiting capable of scaling to millions of domains*, Cloudflare,
    /// 2017.
    SlidingWindow,
    /// Exactly at most `N` in any time `T`, by the times of the last `N` charges.
    ///
    /// Calls that cost 1 are decided without a lock, and none is lost in a race; what costs more
    /// takes the lock, in a time that grows with the cost. [`refund`](crate::RateLimiter::refund)
    /// and [`set_quota`](crate::RateLimiter::set_quota) take a time that grows with `N`, and so do
    /// [`decision`](crate::RateLimiter::decision), [`available`](crate::RateLimiter::available) and
    /// [`peek`](crate::RateLimiter::peek) while charges that were forced are to come, and `peek_many`
    /// with what it asks for. Of a charge by which the log is gone through 2^31 times or more nothing
    /// can be given back. The quota
    /// has no burst, or one of `N`, and `N` is at most 2^28. If the quota grows beyond what there
    /// is room for, there is new room for twice as much at least; the old is kept as long as the
    /// limiter.
    ///
    /// Source: the throttles of K. Henidak, *Writing a non-locking throttling component*, and S.
    /// Solyanik, *Throttling requests*, 2008, as a ring of which each place is taken and then
    /// written, and whoever comes to a place that is not written yet writes it.
    SlidingLog,
    /// Exactly at most `N` in any time `T`, in a single word: `⌊N/(k+1)⌋` in each window of
    /// `⌈T/k⌉`. Any time `T` touches at most `k + 1` of them.
    ///
    /// So the rate that can be had is at most `k/(k+1)` of the quota's, and just that if `k + 1`
    /// divides `N`. No more than such a part can be had at once: a call that asks for more is refused
    /// with [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity). The quota has no burst, or one
    /// of `N`.
    ///
    /// Source: a comment on S. Solyanik, *Throttling requests*, 2008.
    SubInterval {
        /// `k`, into how many parts the period is cut: at least 1, and less than `N`.
        parts: u32,
    },
}

/// In nanoseconds.
const LONGEST_PERIOD: u64 = 1 << 58;

/// As many as are counted in a sliding window.
const LARGEST_WINDOW: u64 = 1 << 47;

/// The longest log.
const LONGEST_LOG: u64 = 1 << 28;

impl Algorithm {
    /// Whether a limiter with this quota can decide by this rule.
    ///
    /// # Errors
    ///
    /// Says why not, with the values in its text:
    ///
    /// - what comes back at once takes a period to come back, and so the period is at most 2^58
    ///   nanoseconds, some nine years, but for [`Gcra`](Self::Gcra);
    /// - windows and logs have a burst of their own, the whole count: the quota has one that is
    ///   neither 1 nor that;
    /// - a sliding window counts to 2^47 at most, and a log holds at most 2^28;
    /// - a period cannot be cut into no parts, or into as many parts as the count or more.
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
            _ if quota.period_nanos() > LONGEST_PERIOD => {
                "batches, windows and logs have a period of at most 2^58 ns"
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

    /// Whether all that it keeps is a word, as it must be for a limit [by
    /// key](crate::Keyed::algorithm): all but the sliding window and the logs.
    pub const fn keeps_a_word(self) -> bool {
        !matches!(self, Self::SlidingWindow | Self::SlidingLog)
    }

    /// Returns what this algorithm makes of a quota: the count comes back together after each period,
    /// and at most the burst is there at once. [`Gcra`](Self::Gcra), by which tokens come back one by
    /// one, leaves the quota as it is.
    ///
    /// # Panics
    ///
    /// If the quota does not fit the algorithm, as [`check`](Self::check) says.
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
            // What finds no room in the bucket is lost.
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

    /// The quota as a rule counts whose whole state is a word.
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

    /// Its name as text, without how many parts it has.
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

/// [As text](Algorithm#as-text); a width and an alignment apply.
impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SubInterval { parts } => f.pad(&format!("{}/{parts}", self.name())),
            _ => f.pad(self.name()),
        }
    }
}

/// [As text](Algorithm#as-text).
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

/// Why a limiter with some quota cannot decide by some [`Algorithm`]; or why a text is none.
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
    /// What was given instead, unless it was a text.
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
        // Who reads this sees a whole configuration, and not which text was meant.
        let parsed = text.parse();
        parsed.map_err(|error| {
            serde::de::Error::custom(format_args!("{text:?} is no algorithm: {error}"))
        })
    }
}
