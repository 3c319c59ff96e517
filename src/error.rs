//! The one error of the crate: why a throttle did not let a caller in.
//!
//! An error is two words of plain data, so that making one allocates nothing and costs no more than
//! an admission; and just two scalars, so that a `Result` which holds nothing else is returned in
//! registers, and not written down to be copied. So the source of an error of a store is a number as
//! well, by which it is found among all that there ever were.

use std::error::Error;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

/// Why a throttle did not let a caller in.
///
/// What to do about it is in [`kind`](Self::kind); the numbers that go with some kinds have
/// accessors of their own.
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
/// assert_eq!(error.to_string(), "asked for more than the capacity of 2");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct AcquireError {
    cause: Cause,
    /// Nanoseconds for `Limited`, perhaps [with its source](LIMITED_BY), `QueueFull`, `TooManyKeys`
    /// and `TimedOut`, the capacity for `ExceedsCapacity`, which of the [`SOURCES`] for `Store`; or
    /// [`UNKNOWN`].
    number: u64,
}

const UNKNOWN: u64 = u64::MAX;

/// What went wrong, as plain data.
///
/// New kinds may be added, so a `match` needs a wildcard arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The throttle was closed: nobody is admitted any more.
    Closed,
    /// The caller's `CancellationToken` was cancelled.
    Cancelled,
    /// The caller's deadline passed first.
    TimedOut,
    /// As many callers as the throttle allows are already waiting.
    QueueFull,
    /// There is no room for another key in a limit [by key](crate::Keyed).
    TooManyKeys,
    /// Fewer permits are free than were asked for, or others wait for them; only from `try_` calls.
    NoPermits,
    /// The rate does not allow it now, or a gate is shut; only from `try_` calls of rate limiters,
    /// and from checks of gates.
    Limited,
    /// More was asked for than the limit, as it is now. Waiting does not help; a higher limit does.
    ExceedsCapacity,
    /// The store behind a throttle that is shared by several machines failed; the
    /// [source](std::error::Error::source) of the error says how. Nothing in this crate has a
    /// store.
    Store,
}

/// Why a store failed.
type Source = dyn Error + Send + Sync + UnwindSafe + RefUnwindSafe;

/// All that were ever given.
static SOURCES: RwLock<Vec<&'static Source>> = RwLock::new(Vec::new());

/// The number of a source.
fn number_of(source: &'static Source) -> u64 {
    // Values without a size may be in the same place.
    let is_it = |other: &&'static Source| {
        std::ptr::addr_eq(*other, source)
            && (std::ptr::eq(*other, source) || other.to_string() == source.to_string())
    };
    let sources = SOURCES.read().unwrap_or_else(PoisonError::into_inner);
    let found = sources.iter().position(is_it);
    drop(sources);
    let number = found.unwrap_or_else(|| {
        let mut sources = SOURCES.write().unwrap_or_else(PoisonError::into_inner);
        sources.iter().position(is_it).unwrap_or_else(|| {
            sources.push(source);
            sources.len() - 1
        })
    });
    number as u64
}

/// What went wrong, and in which part, if it was in one, as one scalar. A `char`, which leaves most of
/// its values to what is around it, as a kind does: so an `Option` or a `Poll` takes no more room.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Cause(char);

impl Cause {
    /// In no part.
    #[inline]
    const fn of(kind: ErrorKind) -> Self {
        let cause = Self(kind as u8 as char);
        debug_assert!(cause.kind() as u8 == kind as u8, "a kind without a number");
        cause
    }

    /// In this one.
    const fn with_part(self, part: u8) -> Self {
        let number = (part as u32 + 1) * NUMBERS + self.0 as u32 % NUMBERS;
        match char::from_u32(number) {
            Some(cause) => Self(cause),
            // All of them are far below those that are none.
            None => self,
        }
    }

    const fn part(self) -> Option<u8> {
        match self.0 as u32 / NUMBERS {
            0 => None,
            part => Some((part - 1) as u8),
        }
    }

    const fn is_limited_by(self) -> bool {
        self.0 as u32 % NUMBERS == LIMITED_BY as u32
    }

    #[inline]
    const fn kind(self) -> ErrorKind {
        KINDS[(self.0 as u32 % NUMBERS) as usize]
    }
}

/// For how many kinds there is room.
const NUMBERS: u32 = 16;

/// The number of `Limited` with a source.
const LIMITED_BY: u8 = ErrorKind::Store as u8 + 1;

/// Of the number of such a one, those that are nanoseconds; the others are which of the [`SOURCES`].
const WAIT_BITS: u32 = 56;
const LONGEST_WAIT: u64 = (1 << WAIT_BITS) - 1;

/// By their numbers; the last ones are of nobody.
const KINDS: [ErrorKind; NUMBERS as usize] = {
    use ErrorKind::*;
    [
        Closed,
        Cancelled,
        TimedOut,
        QueueFull,
        TooManyKeys,
        NoPermits,
        Limited,
        ExceedsCapacity,
        Store,
        Limited,
        Store,
        Store,
        Store,
        Store,
        Store,
        Store,
    ]
};

/// Making one, for a [`Throttle`](crate::Throttle) of one's own.
impl AcquireError {
    /// An error of this kind, without the number that goes with some.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::{Ready, ready};
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
    ///     fn enter(&self) -> Self::Enter {
    ///         ready(Err(AcquireError::new(ErrorKind::Closed)))
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
        Self {
            cause: Cause::of(kind),
            number: UNKNOWN,
        }
    }

    /// [`Limited`](ErrorKind::Limited), until `retry_after` has passed; at most 584 years.
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
        Self {
            cause: Cause::of(ErrorKind::Limited),
            number: nanos(retry_after),
        }
    }

    /// [`Limited`](ErrorKind::Limited), until `retry_after` has passed, at most two years, with who
    /// refused as the [source](Error::source): a value in a `static`, since an error allocates
    /// nothing. There should be few, with those of [`store`](Self::store) at most 255: of one beyond
    /// these nothing is said.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::error::Error;
    /// use std::fmt;
    /// use std::time::Duration;
    /// use tollgate::{AcquireError, ErrorKind};
    ///
    /// #[derive(Debug)]
    /// struct Cache;
    ///
    /// impl fmt::Display for Cache {
    ///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    ///         f.write_str("known from before")
    ///     }
    /// }
    ///
    /// impl Error for Cache {}
    ///
    /// static CACHE: Cache = Cache;
    ///
    /// let error = AcquireError::limited_by(Duration::from_millis(20), &CACHE);
    /// assert_eq!(error.kind(), ErrorKind::Limited);
    /// assert_eq!(error.retry_after(), Some(Duration::from_millis(20)));
    /// assert!(error.source().is_some_and(|source| source.is::<Cache>()));
    /// ```
    pub fn limited_by(
        retry_after: Duration,
        source: &'static (dyn Error + Send + Sync + UnwindSafe + RefUnwindSafe),
    ) -> Self {
        match number_of(source) {
            number @ ..=0xfe => Self {
                cause: Cause(LIMITED_BY as char),
                number: number << WAIT_BITS | nanos(retry_after).min(LONGEST_WAIT),
            },
            _ => Self::limited(retry_after.min(Duration::from_nanos(LONGEST_WAIT))),
        }
    }

    /// [`Limited`](ErrorKind::Limited), until so many nanoseconds have passed.
    #[inline]
    pub(crate) const fn limited_nanos(nanos: u64) -> Self {
        Self {
            cause: Cause::of(ErrorKind::Limited),
            number: if nanos == UNKNOWN { UNKNOWN - 1 } else { nanos },
        }
    }

    /// [`QueueFull`](ErrorKind::QueueFull), until a place is free in `retry_after`.
    pub(crate) fn queue_full(retry_after: Duration) -> Self {
        Self {
            cause: Cause::of(ErrorKind::QueueFull),
            number: nanos(retry_after),
        }
    }

    /// [`TooManyKeys`](ErrorKind::TooManyKeys), until there may be room in `retry_after`.
    pub(crate) fn too_many_keys(retry_after: Duration) -> Self {
        Self {
            cause: Cause::of(ErrorKind::TooManyKeys),
            number: nanos(retry_after),
        }
    }

    /// [`Store`](ErrorKind::Store), with how it failed as the [source](Error::source): a value in a
    /// `static`, since an error allocates nothing. There should be few: all that are given are
    /// remembered.
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
    /// static UNREACHABLE: Unreachable = Unreachable;
    ///
    /// let error = AcquireError::store(&UNREACHABLE);
    /// assert_eq!(error.kind(), ErrorKind::Store);
    /// assert_eq!(error.to_string(), "the store failed: nobody answers");
    /// assert!(error.source().is_some_and(|source| source.is::<Unreachable>()));
    /// ```
    pub fn store(source: &'static (dyn Error + Send + Sync + UnwindSafe + RefUnwindSafe)) -> Self {
        Self {
            cause: Cause::of(ErrorKind::Store),
            number: number_of(source),
        }
    }

    /// [`TimedOut`](ErrorKind::TimedOut) without waiting, as it would have taken so long.
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
        Self {
            cause: Cause::of(ErrorKind::TimedOut),
            number: nanos(wait),
        }
    }

    /// [`ExceedsCapacity`](ErrorKind::ExceedsCapacity), of a throttle that can give so much.
    ///
    /// # Examples
    ///
    /// ```
    /// assert_eq!(tollgate::AcquireError::exceeds_capacity(8).capacity(), Some(8));
    /// ```
    #[inline]
    pub const fn exceeds_capacity(capacity: u64) -> Self {
        Self {
            cause: Cause::of(ErrorKind::ExceedsCapacity),
            number: capacity,
        }
    }
}

impl AcquireError {
    /// The same, of a part of a composition. If that part is itself a composition, its own number
    /// is lost.
    pub(crate) fn of_part(mut self, part: u8) -> Self {
        self.cause = self.cause.with_part(part);
        self
    }

    /// The same, of the part that comes after the one that it was of.
    pub(crate) fn of_next_part(mut self) -> Self {
        if let Some(part) = self.cause.part() {
            self.cause = self.cause.with_part(part.saturating_add(1));
        }
        self
    }

    /// What went wrong.
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
        self.cause.kind()
    }

    /// How long to wait before trying again, when the throttle knows:
    ///
    /// - for [`Limited`](ErrorKind::Limited), until it would be admitted if nobody else came;
    /// - for [`QueueFull`](ErrorKind::QueueFull) of a rate limiter, until its line has a place;
    /// - for [`TooManyKeys`](ErrorKind::TooManyKeys) of rates, until [there may be
    ///   room](crate::WhenFull);
    /// - for [`TimedOut`](ErrorKind::TimedOut) of a rate limiter or a gate that refused at once, as
    ///   the wait would not have fitted: how long that would have been.
    ///
    /// A concurrency throttle of this crate never knows.
    pub fn retry_after(&self) -> Option<Duration> {
        let knows = matches!(
            self.kind(),
            ErrorKind::Limited
                | ErrorKind::QueueFull
                | ErrorKind::TooManyKeys
                | ErrorKind::TimedOut
        );
        let nanos = match self.cause.is_limited_by() {
            true => self.number & LONGEST_WAIT,
            false => self.number,
        };
        (knows && self.number != UNKNOWN).then(|| Duration::from_nanos(nanos))
    }

    /// The most that the throttle can give at once: for
    /// [`ExceedsCapacity`](ErrorKind::ExceedsCapacity).
    pub fn capacity(&self) -> Option<u64> {
        let knows = self.kind() == ErrorKind::ExceedsCapacity && self.number != UNKNOWN;
        knows.then_some(self.number)
    }

    /// Which part of [`all`](crate::all) refused, counted from 0; of nested ones, which part of the
    /// outermost. `None` for a throttle that is not a composition, and for a token or a timeout,
    /// which ends the wait for all of them.
    pub fn part(&self) -> Option<usize> {
        self.cause.part().map(usize::from)
    }
}

/// In nanoseconds, which are not [`UNKNOWN`].
#[inline]
fn nanos(duration: Duration) -> u64 {
    let seconds = duration.as_secs().checked_mul(1_000_000_000);
    let nanos = seconds.and_then(|nanos| nanos.checked_add(duration.subsec_nanos().into()));
    nanos.map_or(UNKNOWN - 1, |nanos| nanos.min(UNKNOWN - 1))
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            ErrorKind::Closed => f.write_str("the throttle is closed"),
            ErrorKind::Cancelled => f.write_str("cancelled while waiting"),
            ErrorKind::TimedOut => match self.retry_after() {
                Some(wait) => write!(f, "would have to wait {wait:?}, longer than the timeout"),
                None => f.write_str("timed out while waiting"),
            },
            ErrorKind::QueueFull => match self.retry_after() {
                Some(after) => {
                    write!(
                        f,
                        "too many callers are waiting already, try again in {after:?}"
                    )
                }
                None => f.write_str("too many callers are waiting already"),
            },
            ErrorKind::TooManyKeys => match self.retry_after() {
                Some(after) => write!(f, "too many keys are in use, try again in {after:?}"),
                None => f.write_str("too many keys are in use"),
            },
            ErrorKind::NoPermits => f.write_str("no permits are available"),
            ErrorKind::Limited => match self.retry_after() {
                Some(after) => write!(f, "over the rate, try again in {after:?}"),
                None => f.write_str("over the rate"),
            },
            ErrorKind::ExceedsCapacity => match self.capacity() {
                Some(capacity) => write!(f, "asked for more than the capacity of {capacity}"),
                None => f.write_str("asked for more than the capacity"),
            },
            ErrorKind::Store => match self.source() {
                Some(source) => write!(f, "the store failed: {source}"),
                None => f.write_str("the store failed"),
            },
        }?;
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
        if let Some(after) = self.retry_after() {
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

impl Error for AcquireError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let number = match self.kind() {
            ErrorKind::Store => self.number,
            _ if self.cause.is_limited_by() => self.number >> WAIT_BITS,
            _ => return None,
        };
        let sources = SOURCES.read().unwrap_or_else(PoisonError::into_inner);
        let number = usize::try_from(number).ok()?;
        let source: &'static Source = sources.get(number).copied()?;
        Some(source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::task::Poll;

    #[test]
    fn every_kind_is_kept_with_and_without_every_part() {
        let kinds: HashSet<ErrorKind> = KINDS.into_iter().collect();
        assert_eq!(kinds.len(), ErrorKind::Store as usize + 1);
        for kind in kinds {
            let error = AcquireError::new(kind);
            assert_eq!((error.kind(), error.part()), (kind, None));
            for part in 0..=u8::MAX {
                let error = error.clone().of_part(part);
                assert_eq!((error.kind(), error.part()), (kind, Some(part.into())));
                let next = usize::from(part.saturating_add(1));
                assert_eq!(error.of_next_part().part(), Some(next));
            }
            assert_eq!(error.of_next_part().part(), None);
        }
    }

    #[test]
    fn what_is_around_it_takes_no_more_room() {
        assert_eq!(size_of::<Poll<Option<Result<(), AcquireError>>>>(), 16);
    }

    #[test]
    fn a_source_is_remembered_once() {
        static ONE: AcquireError = AcquireError::new(ErrorKind::Closed);
        static OTHER: AcquireError = AcquireError::new(ErrorKind::Cancelled);
        let [one, other, again] = [&ONE, &OTHER, &ONE].map(|source| AcquireError::store(source));
        assert_eq!(one, again);
        assert_ne!(one, other);
        let text = |error: &AcquireError| error.source().map(ToString::to_string);
        assert_eq!(text(&one), Some(ONE.to_string()));
        assert_eq!(text(&other.of_part(3)), Some(OTHER.to_string()));
        assert!(AcquireError::new(ErrorKind::Store).source().is_none());
        assert!(ONE.source().is_none());
    }

    #[test]
    fn a_refusal_has_its_wait_its_source_and_its_part() {
        static ONE: AcquireError = AcquireError::new(ErrorKind::Closed);
        static OTHER: AcquireError = AcquireError::new(ErrorKind::Cancelled);
        for (source, wait) in [(&ONE, 0), (&OTHER, 1), (&ONE, LONGEST_WAIT)] {
            let wait = Duration::from_nanos(wait);
            let error = AcquireError::limited_by(wait, source).of_part(255);
            assert_eq!(error.kind(), ErrorKind::Limited);
            assert_eq!(error.retry_after(), Some(wait));
            assert_eq!(error.part(), Some(255));
            let found = error.source().map(ToString::to_string);
            assert_eq!(found, Some(source.to_string()));
        }
        let error = AcquireError::limited_by(Duration::MAX, &ONE);
        assert_eq!(
            error.retry_after(),
            Some(Duration::from_nanos(LONGEST_WAIT))
        );
        assert!(error.source().is_some());
        assert!(AcquireError::limited(Duration::ZERO).source().is_none());
    }
}
