//! [`Charge`]: what a limit took, and [`Source`]: who decided.

use std::error::Error;
use std::fmt;
use std::time::{Duration, SystemTime};

use tollgate::{AcquireError, Decision, Tick};

use super::reply::{micros, system_time};
use super::rule::Rule;

/// Who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The server, in a call for this caller.
    Store,
    /// The server, in a call for several callers.
    Coalesced,
    /// This process, out of what it had [taken ahead](super::RateLimiter::ahead), perhaps just now,
    /// for those who were in line.
    Ahead,
    /// This process, as the server could not: by the [fallback](super::Fallback).
    Fallback,
    /// This process, by what the server said to somebody else: a denial that still holds.
    Known,
    /// Nobody, as nothing was asked for.
    Nobody,
}

impl Source {
    /// Who refused, of an error of the kind [`RateLimited`](tollgate::ErrorKind::RateLimited) that a
    /// [`RateLimiter`](super::RateLimiter) gave to who tried. Who would not wait for so long, and gets
    /// `TimedOut`, is not told.
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
        refused.source()?.downcast_ref().copied()
    }

    /// The server, in a call for so many.
    pub(super) fn for_so_many(callers: usize) -> Self {
        if callers > 1 {
            Self::Coalesced
        } else {
            Self::Store
        }
    }

    /// A refusal by this one.
    pub(super) fn limited(self, wait: Duration) -> AcquireError {
        static SOURCES: [Source; 6] = [
            Source::Store,
            Source::Coalesced,
            Source::Ahead,
            Source::Fallback,
            Source::Known,
            Source::Nobody,
        ];
        AcquireError::limited_by(wait, &SOURCES[self as usize])
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Store => "decided by the server",
            Self::Coalesced => "decided by the server, for several callers",
            Self::Ahead => "decided out of what was taken ahead",
            Self::Fallback => "decided by the fallback",
            Self::Known => "known from an earlier call",
            Self::Nobody => "nothing was asked for",
        })
    }
}

/// So that it is the [source](Error::source) of a refusal.
impl Error for Source {}

/// What a limit took for a call.
///
/// Plain data: to drop it keeps the charge, time pays it off. If the call was not made after all,
/// hand it to [`refund`](super::RateLimiter::refund); if it turned out to cost more or less, to
/// [`settle`](super::RateLimiter::settle), of a limiter of the same key: another one gives nothing
/// back.
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

/// What it is known by.
#[derive(Debug)]
pub(super) enum Ticket {
    /// On the server.
    Store {
        rule: Rule,
        position: u64,
        made: u64,
    },
    /// By the limiter that stands in for the server.
    Local(tollgate::rate::Charge),
    /// By what this process took ahead: the number after that of the last token.
    Ahead(u64),
    /// Nowhere.
    Open,
}

impl Charge {
    pub(super) fn open(cost: u64, source: Source) -> Self {
        Self {
            cost,
            at: micros(SystemTime::now()),
            source,
            ticket: Ticket::Open,
            limit: 0,
            remaining: 0,
            reset: Duration::ZERO,
        }
    }

    /// How much was charged.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// When it was charged, by the server's clock, in whole microseconds; by the clock of this
    /// machine if the server did not decide.
    pub fn at(&self) -> SystemTime {
        system_time(self.at)
    }

    /// Who decided.
    pub fn source(&self) -> Source {
        self.source
    }

    /// How the limit stood just after, for the headers of an answer; by the server's clock.
    ///
    /// Of a charge out of what was taken [ahead](super::RateLimiter::ahead), what remains is what this
    /// process holds, and until when all is paid off is not known, so zero:
    /// [`peek`](super::RateLimiter::peek) asks the server. All zero of what a
    /// [fallback](super::Fallback) decided. [`source`](Self::source) tells these apart.
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
