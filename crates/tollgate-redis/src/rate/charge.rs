//! [`Charge`]: the charge of a rate limit for a call, and [`Source`]: the origin of its decision.

use std::fmt;
use std::time::{Duration, SystemTime};

use tollgate::time::Tick;
use tollgate::{AcquireError, Decision, rate};

use super::reply::Reply;
use super::rule::Rule;
use crate::queue::WaitQueue;
use crate::refunds::Refund;

/// The waiters of a rate limit in this process.
pub(super) type Queue = WaitQueue<(), Charge>;

/// The origin of a decision about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The server, in a request for this call alone.
    Store,
    /// The server, in a request for several calls.
    Coalesced,
    /// This process, with tokens that it had [prefetched](super::RateLimiter::prefetch), perhaps by the
    /// last call for the callers in the queue.
    TokenCache,
    /// This process, with the [fallback](crate::Fallback), because the server could not decide.
    Fallback,
    /// This process, with an earlier denial of the server that is still valid.
    DeniedCache,
    /// No limit, because the call costs nothing.
    Nobody,
}

impl Source {
    /// Returns the source of a denial of [`try_acquire`](super::RateLimiter::try_acquire), from its error.
    /// For the error of a composition, look at its [part](AcquireError::part) first: other throttles
    /// may mark theirs as well.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::AcquireError;
    /// use tollgate_redis::Source;
    ///
    /// // An error of a limit in the process has no source.
    /// let refused = AcquireError::limited(Duration::from_secs(1));
    /// assert_eq!(Source::of(&refused), None);
    /// ```
    pub fn of(refused: &AcquireError) -> Option<Self> {
        let index = usize::from(refused.mark()).checked_sub(FIRST_MARK.into())?;
        SOURCES.get(index).map(|(source, _)| *source)
    }

    /// Returns a denial by this source.
    pub(super) fn limited(self, wait: Duration) -> AcquireError {
        AcquireError::limited(wait).marked(FIRST_MARK + self as u8)
    }
}

/// The mark of the first source. It is not one of the small numbers that other throttles may use.
const FIRST_MARK: u8 = 0xe0;

/// All sources in their order, and their texts.
const SOURCES: [(Source, &str); 6] = [
    (Source::Store, "decided by the server"),
    (
        Source::Coalesced,
        "decided by the server, for several calls",
    ),
    (Source::TokenCache, "decided with prefetched tokens"),
    (Source::Fallback, "decided by the fallback"),
    (Source::DeniedCache, "decided from an earlier denial"),
    (Source::Nobody, "the call costs nothing"),
];

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SOURCES[*self as usize].1)
    }
}

/// The charge of a rate limit for a call.
///
/// A charge is plain data: dropping it keeps the charge, and time pays it off. If the call is not
/// made after all, pass it to [`refund`](super::RateLimiter::refund); if the call costs more or
/// less than expected, to [`settle`](super::RateLimiter::settle). Use a limiter of the same key: a
/// limiter of another key refunds nothing.
#[derive(Debug)]
pub struct Charge {
    pub(super) cost: u64,
    pub(super) source: Source,
    pub(super) ticket: Ticket,
    /// It was reserved, and its caller waited for it.
    pub(super) is_turn: bool,
    /// The state of the limit at the time of the charge, by the server's clock.
    pub(super) decision: Decision,
}

/// The identification of a charge for the part that made it.
#[derive(Debug)]
pub(super) enum Ticket {
    /// The server made it.
    Store(Grant),
    /// The shares of the fallback made it; or nobody did, if it is empty.
    Local(Vec<rate::Charge>),
    /// Prefetched tokens paid for it, which expire at that time or later.
    Cached(Tick),
}

/// A part of a charge of the server that is to be refunded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) grant: Grant,
    pub(super) n: u64,
}

impl From<Part> for Charge {
    fn from(Part { grant, n }: Part) -> Self {
        Self {
            ticket: Ticket::Store(grant),
            ..Self::open(n, Source::TokenCache)
        }
    }
}

impl Refund for Part {
    /// A key that is created later has a greater number.
    type Order = (u64, u64);

    fn order(&self) -> (u64, u64) {
        (self.grant.made, self.grant.position)
    }

    fn arguments(&self, _index: usize) -> [u64; 4] {
        let Grant {
            position, made, at, ..
        } = self.grant;
        [self.n, position, made, at]
    }

    fn units(&self) -> u64 {
        self.n
    }

    fn work(&self) -> u64 {
        self.grant.rule.work(self.n)
    }
}

/// The identification of a charge of the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) rule: Rule,
    pub(super) position: u64,
    pub(super) made: u64,
    /// Microseconds of the server's clock.
    pub(super) at: u64,
}

impl Grant {
    /// Returns the grant of a call, or of that part of a call that was followed by a charge of `after`.
    pub(super) fn new(rule: &Rule, reply: &Reply, after: u64) -> Self {
        Self {
            rule: *rule,
            position: rule.position(reply.position, after),
            made: reply.made,
            at: reply.now,
        }
    }
}

impl Charge {
    /// Returns a charge of the server that was followed by a charge of `after` in the same call.
    pub(super) fn granted(
        rule: &Rule,
        reply: &Reply,
        cost: u64,
        after: u64,
        source: Source,
    ) -> Self {
        let mut decision = reply.decision(rule.burst);
        decision.remaining = decision.remaining.saturating_add(after);
        decision.retry_after = Some(Duration::ZERO);
        Self {
            cost,
            source,
            ticket: Ticket::Store(Grant::new(rule, reply, after)),
            is_turn: false,
            decision,
        }
    }

    /// Returns a charge of the fallback.
    pub(super) fn local(cost: u64, charges: Vec<rate::Charge>) -> Self {
        Self {
            ticket: Ticket::Local(charges),
            ..Self::open(cost, Source::Fallback)
        }
    }

    /// Returns a charge that the server does not count.
    pub(super) fn open(cost: u64, source: Source) -> Self {
        let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let at = Tick::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
        Self {
            cost,
            source,
            ticket: Ticket::Local(Vec::new()),
            is_turn: false,
            decision: Decision::from_parts(0, 0, Some(Duration::ZERO), Duration::ZERO, at),
        }
    }

    /// Returns the position, the key's identity and the microsecond of a charge that the server made.
    pub(crate) fn ticket(&self) -> Option<[u64; 3]> {
        match &self.ticket {
            Ticket::Store(grant) => Some([grant.position, grant.made, grant.at]),
            _ => None,
        }
    }

    /// Returns whether it was a [turn](super::RateLimiter#order).
    pub(crate) fn is_turn(&self) -> bool {
        self.is_turn
    }

    /// Returns the cost that was charged.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Returns the time of the charge: by the server's clock, in whole microseconds; by the clock
    /// of this machine if the server did not decide. For a call that waited, or a reservation, it is the time at which the
    /// call was due.
    pub fn at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(self.decision.at.as_nanos())
    }

    /// Returns the source of the decision.
    pub fn source(&self) -> Source {
        self.source
    }

    /// Returns the state of the limit just after the charge, by the server's clock, for the headers
    /// of a response.
    ///
    /// For a charge of [prefetched](super::RateLimiter::prefetch) tokens, `remaining` is the number
    /// of tokens that this process holds, and `reset_after` is zero because it is not known;
    /// [`peek`](super::RateLimiter::peek) asks the server. For a charge by the
    /// [fallback](crate::Fallback), everything is zero. [`source`](Self::source) distinguishes
    /// these cases.
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
        self.decision
    }
}
