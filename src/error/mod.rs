//! The one error of the crate: why a throttle did not admit a caller.
//!
//! An error is plain data without a destructor: creating one costs less than an admission, and an admitted
//! caller pays nothing for the error path. (An error that owned its source would cost `all` of two semaphores
//! 17 more instructions.) Its accessors compute their results when they are called.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::time::Tick;

/// Why a throttle did not admit a caller.
///
/// Match on its [`kind`](Self::kind) to decide what to do; the numbers that some kinds have are
/// returned by accessors of their own.
///
/// # Examples
///
/// ```
/// use tollgate::{ErrorKind, Semaphore};
///
/// let semaphore = Semaphore::new(2);
/// let error = semaphore.try_acquire_many(3).unwrap_err();
///
/// assert_eq!(error.kind(), ErrorKind::ExceedsCapacity);
/// assert_eq!(error.capacity(), Some(2));
/// assert_eq!(error.to_string(), "the call exceeds the capacity of 2");
/// ```
#[doc(alias = "TryAcquireError")]
#[doc(alias = "Overloaded")]
#[derive(Clone)]
pub struct AcquireError(Repr);

/// Both variants take two words, with room for the `Ok` of a result: a larger value is not returned
/// in registers.
#[derive(Clone, Copy)]
enum Repr {
    Plain {
        kind: ErrorKind,
        mark: u8,
        part: Part,
        cause: Cause,
        /// The capacity for `ExceedsCapacity`, nanoseconds for all other kinds; or [`UNKNOWN`].
        number: u64,
    },
    /// An error of the kind `Store`.
    Store { part: Part, source: &'static Source },
}

/// The details that the text of an error gives beyond its kind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// No details.
    Kind,
    /// A gate is blocked.
    Gate,
    /// A limiter is paused.
    Paused,
    /// The token was cancelled before the call waited.
    BeforeWaiting,
}

/// The part of a composition that refused, counted from 1; or 0.
type Part = u16;

/// How a store failed. The source is a reference in a `static`, because a pointer to that takes one
/// word.
type Source = &'static (dyn Error + Send + Sync);

/// Stands for an unknown number.
const UNKNOWN: u64 = u64::MAX;

/// Stands for a time that never passes.
const NEVER: u64 = u64::MAX - 1;

/// Construction, for your own [`Throttle`](crate::Throttle), or the factory of a
/// [`Pool`](crate::Pool).
impl AcquireError {
    /// Creates an error of this kind, without the number that some kinds carry.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::{Ready, ready};
    /// use tollgate::wait::Waiting;
    /// use tollgate::{AcquireError, ErrorKind, Throttle};
    ///
    /// /// Lets nobody in.
    /// #[derive(Clone)]
    /// struct Maintenance;
    ///
    /// impl Throttle for Maintenance {
    ///     type Permit = ();
    ///     type Enter = Ready<Result<(), AcquireError>>;
    ///
    ///     fn enter(&self) -> Waiting<Self::Enter> {
    ///         Waiting::new(ready(Err(AcquireError::new(ErrorKind::Closed))))
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let refused = Maintenance.enter().await.unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::Closed);
    /// # }
    /// ```
    #[inline]
    pub const fn new(kind: ErrorKind) -> Self {
        Self::with(kind, UNKNOWN)
    }

    #[inline(always)]
    const fn with(kind: ErrorKind, number: u64) -> Self {
        Self(Repr::Plain {
            kind,
            mark: 0,
            part: 0,
            cause: Cause::Kind,
            number,
        })
    }

    /// Returns the same error with a cause.
    pub(crate) const fn because(mut self, why: Cause) -> Self {
        if let Repr::Plain { cause, .. } = &mut self.0 {
            *cause = why;
        }
        self
    }

    const fn cause(&self) -> Cause {
        match self.0 {
            Repr::Plain { cause, .. } => cause,
            Repr::Store { .. } => Cause::Kind,
        }
    }

    /// Creates an error of a kind that carries a time to wait.
    pub(crate) fn after(kind: ErrorKind, wait: Duration) -> Self {
        Self::with(kind, nanos(wait))
    }

    /// Creates a [`Cancelled`](ErrorKind::Cancelled) error of a call whose token had been cancelled
    /// before it waited.
    #[cold]
    #[inline(never)]
    pub(crate) const fn cancelled_before() -> Self {
        Self::new(ErrorKind::Cancelled).because(Cause::BeforeWaiting)
    }

    /// Creates a [`RateLimited`](ErrorKind::RateLimited) error, until `retry_after` has passed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::AcquireError;
    ///
    /// let error = AcquireError::limited(Duration::from_millis(20));
    /// assert_eq!(error.to_string(), "over the rate, try again in 20ms");
    /// ```
    #[inline]
    pub fn limited(retry_after: Duration) -> Self {
        Self::after(ErrorKind::RateLimited, retry_after)
    }

    /// Marks a refusal with a number of the throttle's own, such as the tier that refused.
    /// [`mark`](Self::mark) returns it. A mark has a meaning only for the throttle that set it: in a
    /// composition, look at [`part`](Self::part) first. An error with a [source](Self::store) cannot be
    /// marked.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::AcquireError;
    ///
    /// const KNOWN_FROM_BEFORE: u8 = 2;
    ///
    /// let error = AcquireError::limited(Duration::from_millis(20)).marked(KNOWN_FROM_BEFORE);
    /// assert_eq!(error.mark(), KNOWN_FROM_BEFORE);
    /// assert_eq!(error.retry_after(), Some(Duration::from_millis(20)));
    /// ```
    #[must_use]
    pub const fn marked(mut self, number: u8) -> Self {
        if let Repr::Plain { mark, .. } = &mut self.0 {
            *mark = number;
        }
        self
    }

    /// Creates a [`RateLimited`](ErrorKind::RateLimited) error, until `due`.
    #[inline(always)]
    pub(crate) const fn limited_until(due: Tick, now: Tick) -> Self {
        let nanos = if due.is_never() {
            NEVER
        } else {
            due.as_nanos().saturating_sub(now.as_nanos())
        };
        Self::with(ErrorKind::RateLimited, nanos)
    }

    /// Creates a [`Store`](ErrorKind::Store) error, with the failure as its
    /// [source](Error::source). The source is a reference in a `static`, because errors never
    /// allocate.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::error::Error;
    /// use std::fmt;
    /// use tollgate::{AcquireError, ErrorKind};
    ///
    /// #[derive(Debug)]
    /// struct Unreachable;
    ///
    /// impl fmt::Display for Unreachable {
    ///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    ///         f.write_str("nobody answers")
    ///     }
    /// }
    ///
    /// impl Error for Unreachable {}
    ///
    /// static UNREACHABLE: &(dyn Error + Send + Sync) = &Unreachable;
    ///
    /// let error = AcquireError::store(&UNREACHABLE);
    /// assert_eq!(error.kind(), ErrorKind::Store);
    /// assert_eq!(error.to_string(), "the store failed: nobody answers");
    /// assert!(error.source().is_some_and(|source| source.is::<Unreachable>()));
    /// ```
    pub const fn store(source: &'static &'static (dyn Error + Send + Sync)) -> Self {
        Self(Repr::Store { part: 0, source })
    }

    /// Creates a [`TimedOut`](ErrorKind::TimedOut) error of a call that did not wait, because the
    /// wait would have taken this long.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::AcquireError;
    ///
    /// let error = AcquireError::would_take(Duration::from_secs(3));
    /// assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
    /// ```
    pub fn would_take(wait: Duration) -> Self {
        Self::after(ErrorKind::TimedOut, wait)
    }

    /// Creates an [`ExceedsCapacity`](ErrorKind::ExceedsCapacity) error of a throttle with this
    /// capacity.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tollgate::AcquireError::exceeds_capacity(8).capacity(), Some(8));
    /// ```
    #[inline]
    pub const fn exceeds_capacity(capacity: u64) -> Self {
        Self::with(ErrorKind::ExceedsCapacity, capacity)
    }

    /// Returns the same error of a part of a composition. If that part is itself a composition, the
    /// number of its own part is lost.
    pub(crate) fn of_part(mut self, index: u8) -> Self {
        *self.part_mut() = Part::from(index) + 1;
        self
    }

    /// Returns the same error of the part after its present one.
    pub(crate) fn of_next_part(mut self) -> Self {
        let part = self.part_mut();
        if *part > 0 {
            *part = part.saturating_add(1);
        }
        self
    }

    fn part_mut(&mut self) -> &mut Part {
        match &mut self.0 {
            Repr::Plain { part, .. } | Repr::Store { part, .. } => part,
        }
    }

    /// Returns the kind of the error.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{AcquireError, ErrorKind};
    ///
    /// /// The status of an answer over HTTP.
    /// fn status(error: &AcquireError) -> u16 {
    ///     match error.kind() {
    ///         ErrorKind::QueueFull | ErrorKind::TimedOut => 503,
    ///         ErrorKind::ExceedsCapacity => 413,
    ///         _ => 500,
    ///     }
    /// }
    ///
    /// let full = tollgate::Semaphore::new(0).max_waiters(0);
    /// assert_eq!(status(&full.acquire().wait().unwrap_err()), 503);
    /// ```
    pub const fn kind(&self) -> ErrorKind {
        match self.0 {
            Repr::Plain { kind, .. } => kind,
            Repr::Store { .. } => ErrorKind::Store,
        }
    }

    /// Returns the number that it was [marked](Self::marked) with, or 0. No throttle of this crate
    /// marks its errors.
    pub const fn mark(&self) -> u8 {
        match self.0 {
            Repr::Plain { mark, .. } => mark,
            Repr::Store { .. } => 0,
        }
    }

    const fn number(&self) -> u64 {
        match self.0 {
            Repr::Plain { number, .. } => number,
            Repr::Store { .. } => UNKNOWN,
        }
    }

    /// Returns how long to wait before a retry: `None` if that is unknown, and [`Duration::MAX`] if waiting
    /// does not help, so that a retry loop can stop. The time is known:
    ///
    /// - for [`RateLimited`](ErrorKind::RateLimited), until the call would be admitted if no other
    ///   call came, unless a [hold](crate::RateLimiter::hold) has to be settled first;
    /// - for [`QueueFull`](ErrorKind::QueueFull) of a rate limiter, until its queue has a place, with the same
    ///   exception;
    /// - for [`TooManyKeys`](ErrorKind::TooManyKeys) of rates, until [there may be
    ///   room](crate::keyed::WhenFull);
    /// - for [`TimedOut`](ErrorKind::TimedOut) of a rate limiter or a gate that refused
    ///   immediately, because the wait would have exceeded the timeout: how long the wait would
    ///   have been;
    /// - for [`Closed`](ErrorKind::Closed) and [`ExceedsCapacity`](ErrorKind::ExceedsCapacity): never;
    /// - for [`RuntimeEnded`](ErrorKind::RuntimeEnded): zero.
    ///
    /// [`Duration::MAX`] means never, or more than 584 years. It is a statement about time alone: a closed
    /// throttle stays closed, but somebody may raise a limit or open a gate. The other refusals of concurrency
    /// throttles of this crate return `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::thread::sleep;
    /// use std::time::Duration;
    /// use tollgate::{AcquireError, Quota, RateLimiter};
    ///
    /// /// Tries until the call is admitted, or as long as a later try may be.
    /// fn retry(limiter: &RateLimiter, cost: u64) -> Result<(), AcquireError> {
    ///     loop {
    ///         let Err(error) = limiter.try_acquire_many(cost) else {
    ///             return Ok(());
    ///         };
    ///         match error.retry_after() {
    ///             Some(Duration::MAX) => return Err(error),
    ///             Some(after) => sleep(after),
    ///             None => sleep(Duration::from_secs(1)),
    ///         }
    ///     }
    /// }
    ///
    /// let limiter = RateLimiter::new(Quota::per_second(1000).burst(5));
    /// assert!(retry(&limiter, 5).is_ok());
    /// assert!(retry(&limiter, 6).is_err());
    /// ```
    #[doc(alias = "NotUntil")]
    #[doc(alias = "wait_time_from")]
    #[doc(alias = "earliest_possible")]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.kind() {
            ErrorKind::Closed | ErrorKind::ExceedsCapacity => Some(Duration::MAX),
            ErrorKind::RuntimeEnded => Some(Duration::ZERO),
            _ => self.wait(),
        }
    }

    /// Returns the time that the error carries.
    fn wait(&self) -> Option<Duration> {
        match self.number() {
            UNKNOWN => None,
            _ if self.kind() == ErrorKind::ExceedsCapacity => None,
            NEVER => Some(Duration::MAX),
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    /// Returns the most that the throttle can give at once, for
    /// [`ExceedsCapacity`](ErrorKind::ExceedsCapacity).
    pub fn capacity(&self) -> Option<u64> {
        let knows = self.kind() == ErrorKind::ExceedsCapacity && self.number() != UNKNOWN;
        knows.then_some(self.number())
    }

    /// Returns which part of [`all`](crate::all) refused, counted from 0; for nested compositions,
    /// the part of the outermost one. Returns `None` for a throttle that is not a composition, for a token,
    /// which ends the wait for all parts, and for a timeout that passed. A part that refuses at once because
    /// its wait would not fit into the timeout is returned.
    pub fn part(&self) -> Option<usize> {
        let (Repr::Plain { part, .. } | Repr::Store { part, .. }) = self.0;
        part.checked_sub(1).map(usize::from)
    }
}

/// Returns a duration in nanoseconds, or [`NEVER`].
#[inline]
fn nanos(duration: Duration) -> u64 {
    let seconds = duration.as_secs().checked_mul(1_000_000_000);
    let nanos = seconds.and_then(|nanos| nanos.checked_add(duration.subsec_nanos().into()));
    nanos.map_or(NEVER, |nanos| nanos.min(NEVER))
}

/// A source cannot be changed, so a panic leaves it as it is.
impl UnwindSafe for AcquireError {}
impl RefUnwindSafe for AcquireError {}

impl Error for AcquireError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self.0 {
            Repr::Store { source, .. } => Some(*source),
            Repr::Plain { .. } => None,
        }
    }
}

/// Two errors are equal if they have the same data and the same source. Their texts may differ.
impl PartialEq for AcquireError {
    fn eq(&self, other: &Self) -> bool {
        let plain = |error: &Self| (error.kind(), error.mark(), error.part(), error.number());
        let source = |error: &Self| match error.0 {
            Repr::Store { source, .. } => Some(std::ptr::from_ref(source)),
            Repr::Plain { .. } => None,
        };
        plain(self) == plain(other) && source(self) == source(other)
    }
}

impl Eq for AcquireError {}

/// The kind of an [`AcquireError`], as plain data.
///
/// New kinds may be added, so a `match` needs a wildcard arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The throttle was closed, and admits no more calls.
    Closed,
    /// The caller's `CancellationToken` was cancelled.
    Cancelled,
    /// The caller's deadline passed, or could not be met.
    #[doc(alias = "Elapsed")]
    TimedOut,
    /// As many callers as the throttle allows are already waiting. In a
    /// [`FairQueue`](crate::fair::FairQueue), also: a newcomer has taken the place of this waiter in a
    /// class that serves [the newest first](crate::fair::Class::adaptive_lifo), or the queue has its
    /// [maximum of classes](crate::fair::FairQueue::max_classes).
    QueueFull,
    /// There is no room for another key in a limit [by key](crate::Keyed).
    TooManyKeys,
    /// Fewer permits are free than the call asks for, others wait for them, or the class of the caller
    /// holds its [maximum](crate::fair::Class::max_concurrency). Returned only by `try_` calls.
    NoPermits,
    /// The rate does not allow the call now, or a gate is blocked. Returned only by `try_` calls of
    /// rate limiters, [adaptive] ones included, and by checks of gates.
    ///
    /// [adaptive]: https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/struct.AdaptiveRate.html
    RateLimited,
    /// The call asks for more than the limit can ever give at once: than all permits of a semaphore, or
    /// than the [burst](crate::Quota::burst) of a rate limiter, whatever its rate is. Waiting does not help;
    /// only a higher limit or burst helps, or [`Oversize::Overdraft`](crate::rate::Oversize::Overdraft).
    #[doc(alias = "InsufficientCapacity")]
    ExceedsCapacity,
    /// A dependency of the throttle failed: the store of a throttle that several machines share, or the
    /// asynchronous factory of a [pool](crate::Pool). The [source](std::error::Error::source) of the error
    /// is the failure.
    Store,
    /// The runtime in which the caller was first polled has ended, so its time no longer passes. Returned
    /// only by waits of limiters on [tokio's time](crate::Clock#limiters-that-are-used-in-several-runtimes).
    /// The limiter is open: another call goes by the time of the runtime in which it is made.
    RuntimeEnded,
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (after, cause) = (self.wait(), self.cause());
        f.write_str(match self.kind() {
            ErrorKind::Closed => "the throttle is closed",
            ErrorKind::Cancelled if cause == Cause::BeforeWaiting => "cancelled before waiting",
            ErrorKind::Cancelled => "cancelled while waiting",
            ErrorKind::TimedOut if cause == Cause::Gate => {
                "the gate is blocked for longer than the timeout"
            }
            ErrorKind::TimedOut if after.is_some() => "the wait would be longer than the timeout",
            ErrorKind::TimedOut => "timed out while waiting",
            ErrorKind::QueueFull => "too many callers are waiting already",
            ErrorKind::TooManyKeys => "too many keys are in use",
            ErrorKind::NoPermits => "no permits are available",
            ErrorKind::RateLimited if cause == Cause::Gate => "the gate is blocked",
            ErrorKind::RateLimited if cause == Cause::Paused => "the limiter is paused",
            ErrorKind::RateLimited => "over the rate",
            ErrorKind::ExceedsCapacity => "the call exceeds the capacity",
            ErrorKind::Store => "the store failed",
            ErrorKind::RuntimeEnded => "the runtime of the wait has ended",
        })?;
        match (self.kind(), after) {
            (_, None) => {}
            // A gate that is blocked without end can still be opened, and the end of a pause does not depend
            // on the rate.
            (_, Some(Duration::MAX)) if matches!(cause, Cause::Gate | Cause::Paused) => {}
            (ErrorKind::TimedOut, Some(Duration::MAX)) => f.write_str(": it would never end")?,
            (ErrorKind::TimedOut, Some(after)) => write!(f, ": {after:?}")?,
            (_, Some(Duration::MAX)) => f.write_str(", and waiting does not help")?,
            (_, Some(after)) => write!(f, ", try again in {after:?}")?,
        }
        if let Some(capacity) = self.capacity() {
            write!(f, " of {capacity}")?;
        }
        if let Some(source) = self.source() {
            write!(f, ": {source}")?;
        }
        match self.part() {
            Some(part) => write!(f, " (part {part})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("AcquireError");
        debug.field("kind", &self.kind());
        if let Some(after) = self.wait() {
            debug.field("retry_after", &after);
        }
        if let Some(capacity) = self.capacity() {
            debug.field("capacity", &capacity);
        }
        if let Some(part) = self.part() {
            debug.field("part", &part);
        }
        if let Some(source) = self.source() {
            debug.field("source", &source);
        }
        debug.finish()
    }
}

// Failures of factories, each kept once: an error without a destructor cannot own its source.

/// The maximum number of failures that a process keeps.
const MOST: usize = 1024;

/// The failures that are kept, with their texts. They are never dropped.
static KEPT: Mutex<Vec<(String, &'static Source)>> = Mutex::new(Vec::new());

impl AcquireError {
    /// Creates a [`Store`](ErrorKind::Store) error whose source has the type and the text of `failure`. An
    /// error of this crate is returned as it is.
    #[cold]
    pub(crate) fn of_failure<E: Error + Send + Sync + 'static>(failure: E) -> Self {
        let failure: Box<dyn Error + Send + Sync> = Box::new(failure);
        let failure = match failure.downcast::<Self>() {
            Ok(own) => return *own,
            Err(failure) => failure,
        };
        let text = failure.to_string();
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let same = kept
            .iter()
            .find(|(of, source)| source.is::<E>() && *of == text);
        match same {
            Some((_, source)) => Self::store(source),
            None if kept.len() == MOST => Self::new(ErrorKind::Store),
            None => {
                let source = Box::leak(Box::new(&*Box::leak(failure)));
                kept.push((text, source));
                Self::store(source)
            }
        }
    }
}
