//! [`Charge`]: what a rate limit took for a call, and [`Source`]: who decided.

use std::fmt;
use std::time::{Duration, SystemTime};

use tollgate::{AcquireError, Decision, Tick};

use super::reply::Reply;
use super::rule::Rule;

/// Who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The server, in a request for this call.
    Store,
    /// The server, in a request for several calls.
    Coalesced,
    /// This process, by tokens that it had [prefetched](super::RateLimiter::prefetch), perhaps just
    /// now for the callers in the queue.
    TokenCache,
    /// This process, by the [fallback](super::Fallback), because the server could not decide.
    Fallback,
    /// This process, by an earlier denial of the server that still holds.
    DeniedCache,
    /// Nobody, because the call costs nothing.
    Nobody,
}

impl Source {
    /// Returns who refused, for the error of a call that [tried](super::RateLimiter::try_acquire) and
    /// was denied. For the error of a composition, look at its [part](AcquireError::part) first: other
    /// throttles may mark theirs as well.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::AcquireError;
    /// use tollgate_redis::Source;
    ///
    /// // As a limit gives it; this one is of a limit in the process.
    /// let refused = AcquireError::limited(Duration::from_secs(1));
    /// assert_eq!(Source::of(&refused), None);
    /// ```
    pub fn of(refused: &AcquireError) -> Option<Self> {
        let index = usize::from(refused.mark()).checked_sub(FIRST_MARK.into())?;
        SOURCES.get(index).map(|(source, _)| *source)
    }

    /// A denial by this source.
    pub(super) fn limited(self, wait: Duration) -> AcquireError {
        AcquireError::limited(wait).marked(FIRST_MARK + self as u8)
    }
}

/// The mark of the first source: not one of the small numbers that other throttles may use.
const FIRST_MARK: u8 = 0xe0;

/// All sources in their order, and their texts.
const SOURCES: [(Source, &str); 6] = [
    (Source::Store, "decided by the server"),
    (
        Source::Coalesced,
        "decided by the server, for several calls",
    ),
    (Source::TokenCache, "decided by prefetched tokens"),
    (Source::Fallback, "decided by the fallback"),
    (Source::DeniedCache, "known from an earlier denial"),
    (Source::Nobody, "the call costs nothing"),
];

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SOURCES[*self as usize].1)
    }
}

/// What a rate limit took for a call.
///
/// A charge is plain data: dropping it keeps the charge, and time pays it off. If the call is not
/// made after all, pass it to [`refund`](super::RateLimiter::refund); if the call costs more or less
/// than expected, to [`settle`](super::RateLimiter::settle). Use a limiter of the same key: another
/// one gives nothing back.
#[derive(Debug)]
pub struct Charge {
    pub(super) cost: u64,
    /// Microseconds of the server's clock.
    pub(super) at: u64,
    pub(super) source: Source,
    pub(super) ticket: Ticket,
    pub(super) limit: u64,
    pub(super) remaining: u64,
    pub(super) reset: Duration,
}

/// How the one who took a charge identifies it.
#[derive(Debug)]
pub(super) enum Ticket {
    /// On the server.
    Store {
        rule: Rule,
        position: u64,
        made: u64,
    },
    /// The fallback took it.
    Local(tollgate::rate::Charge),
    /// It was paid with prefetched tokens. This is the number after that of the last one.
    Cached(u64),
    /// Nobody counts it.
    Open,
}

impl Charge {
    /// A charge that the server made, after which it charged so much more in the same call.
    pub(super) fn granted(
        rule: &Rule,
        reply: &Reply,
        cost: u64,
        after: u64,
        source: Source,
    ) -> Self {
        Self {
            cost,
            at: reply.now,
            source,
            ticket: Ticket::Store {
                rule: *rule,
                position: rule.position(reply.position, after),
                made: reply.made,
            },
            limit: rule.burst,
            remaining: reply.free.saturating_add(after),
            reset: reply.reset,
        }
    }

    /// A charge that the server does not know.
    pub(super) fn open(cost: u64, source: Source) -> Self {
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self {
            cost,
            at: u64::try_from(since.as_micros()).unwrap_or(u64::MAX),
            source,
            ticket: Ticket::Open,
            limit: 0,
            remaining: 0,
            reset: Duration::ZERO,
        }
    }

    /// Returns how much was charged.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Returns when it was charged: by the server's clock, in whole microseconds; by the clock of this
    /// machine if the server did not decide.
    pub fn at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_micros(self.at)
    }

    /// Returns who decided.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Returns the state of the limit just after the charge, by the server's clock, for the headers of
    /// a response.
    ///
    /// For a charge of [prefetched](super::RateLimiter::prefetch) tokens, `remaining` is what this
    /// process holds, and `reset_after` is zero because it is not known;
    /// [`peek`](super::RateLimiter::peek) asks the server. For a charge by the
    /// [fallback](super::Fallback), everything is zero. [`source`](Self::source) tells these apart.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(limiter: tollgate_redis::RateLimiter) {
    /// match limiter.try_acquire().await {
    ///     Ok(charge) => {
    ///         let decision = charge.decision();
    ///         // In whole seconds, rounded up.
    ///         let seconds = decision.reset_after.as_nanos().div_ceil(1_000_000_000);
    ///         println!("RateLimit: \"calls\";r={};t={seconds}", decision.remaining);
    ///     }
    ///     Err(refused) => {
    ///         let after = refused.retry_after().unwrap_or_default();
    ///         println!("429, Retry-After: {}", after.as_nanos().div_ceil(1_000_000_000).max(1));
    ///     }
    /// }
    /// # }
    /// ```
    pub fn decision(&self) -> Decision {
        let at = Tick::from_nanos(self.at.saturating_mul(1000));
        Decision::from_parts(self.limit, self.remaining, Duration::ZERO, self.reset, at)
    }
}
