//! The traits that adapters need beyond [`Throttle`]: [`Weighted`] to charge by size, [`Inspect`] to report
//! limits, and [`Adaptive`] to report the outcomes of calls.

use super::Throttle;
use crate::feedback::Feedback;
use crate::status::LimitStatus;

/// A throttle that admits a caller for several units at once, and takes unused units back.
///
/// It is implemented for references and `Arc`s of [`RateLimiter`](crate::RateLimiter) and
/// [`Semaphore`](crate::Semaphore), for a [`Gate`](crate::Gate), which admits any number while it is open, for a
/// [`Key`](crate::keyed::Key) of the three, for a [class](crate::fair::ClassHandle) of a fair queue in front of
/// one, for `Option`, whose `None` admits any number, for [`WeightedAll`](super::WeightedAll) and
/// [`PerCall`](super::PerCall), and for references and `Arc`s of all of these.
///
/// # Examples
///
/// An adapter takes the units that it may need, and returns those that it did not use:
///
/// ```
/// use tollgate::throttle::Weighted;
/// use tollgate::{AcquireError, Clock, Quota, RateLimiter, Throttle};
///
/// async fn read<T: Weighted>(bytes: T, asked: u64) -> Result<u64, AcquireError> {
///     let asked = asked.min(bytes.max_units());
///     let charge = bytes.cost(asked).enter().await?;
///     let read = asked / 2; // The source had less.
///     bytes.settle(charge, read);
///     Ok(read)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), AcquireError> {
/// let bytes = RateLimiter::new(Quota::per_second(1000).burst(400)).clock(Clock::manual());
/// assert_eq!(read(&bytes, 4096).await?, 200);
/// assert_eq!(bytes.snapshot().available, 200);
/// # Ok(())
/// # }
/// ```
pub trait Weighted: Throttle {
    /// The type of this throttle with a cost.
    type Many: Throttle<Permit = Self::Permit, Enter = Self::Enter>;

    /// Returns this throttle with a cost: each entry takes `n` units, all at once. With 1 it is the throttle
    /// itself. If the throttle can be tried without a wait, so can its `Many`; the bound is
    /// `Weighted<Many: TryThrottle>`.
    ///
    /// A throttle whose own type cannot count `n` panics; its [`max_units`](Self::max_units) is never above what it can
    /// count. Those of this crate count any `n`.
    fn cost(&self, n: u64) -> Self::Many;

    /// Returns the unused part of the units that were taken. It never blocks: a throttle that needs input or
    /// output for this does it in the background. A rate limiter is charged the rest if `used` is more than
    /// was taken. The permits of a semaphore all return, because their use is over.
    fn settle(&self, permit: Self::Permit, used: u64);

    /// Returns the most that one call may ask for now: the burst of a rate limiter, the limit of a
    /// semaphore, `u64::MAX` where a call may [overdraw](crate::rate::Oversize::Overdraft). It is at least 1, so
    /// that no caller is admitted without a charge. A call for 1 at a semaphore with 0 permits waits.
    fn max_units(&self) -> u64;

    /// Returns the chunk size for adapters that move bytes. Small chunks let adapters take turns and follow a
    /// new quota quickly. For a rate, a chunk is the number of units that arrive in 10 milliseconds, at least
    /// 1,024, and at most half of the burst, rounded up, also where a call may overdraw. Where units do not
    /// arrive over time, it is half of [`max_units`](Self::max_units), rounded up. A rate limiter reads one
    /// number, without a lock; a key locks its shard.
    #[inline]
    fn chunk_units(&self) -> u64 {
        self.max_units().div_ceil(2)
    }
}

/// A throttle that reports the status of its limits, part by part.
///
/// # Examples
///
/// ```
/// use tollgate::throttle::{Inspect, LimitStatus};
/// use tollgate::{Quota, RateLimiter, Semaphore, Throttle, all};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let (slots, rate) = (Semaphore::new(8), RateLimiter::new(Quota::per_minute(60).burst(10)));
/// let both = all((&slots, &rate));
/// let permit = both.enter().await?;
///
/// let mut left = Vec::new();
/// both.inspect(Some(&permit), &mut |_part, status| match status {
///     LimitStatus::Rate { decision, .. } => left.push(decision.remaining),
///     LimitStatus::Concurrency { available, .. } => left.push(available),
///     _ => {}
/// });
/// assert_eq!(left, [7, 9]);
/// # Ok(())
/// # }
/// ```
pub trait Inspect: Throttle {
    /// The number of statuses. A wrapper forwards it.
    const LIMITS: usize = 1;

    /// Calls `each` with the status of each limit, and with the index of its
    /// [part](crate::AcquireError::part) in the outermost composition, or 0 if there is no composition. The
    /// parts come in their order; a nested composition is flattened. The statuses of a missing part are
    /// [`Unknown`](LimitStatus::Unknown). `permit` is that of an entry, if there is one: a limit across
    /// machines reports the reply of its server to that entry.
    fn inspect(&self, permit: Option<&Self::Permit>, each: &mut dyn FnMut(usize, LimitStatus));
}

/// A throttle whose limit adapts to the outcomes of calls.
///
/// It is implemented for references and `Shared`s of the [`AdaptiveSemaphore`] and the [`AdaptiveRate`] of the
/// crate `tollgate-adaptive`, for `Option`s of these, for these behind a [gate](super::Gated) or [per
/// call](super::PerCall), `Observed` or in a `Shadow` of the crate [`tollgate-observe`], and for
/// [classes](crate::fair::ClassHandle) of a queue in front of them.
///
/// A composition of [`all`](crate::all) is not adaptive, because one call would mean different things for its
/// parts. Nest two layers instead, with the adaptive one inside.
///
/// # Examples
///
/// ```
/// use tollgate::AcquireError;
/// use tollgate::throttle::{Adaptive, Feedback};
/// use tollgate_adaptive::AdaptiveSemaphore;
///
/// async fn call<T: Adaptive>(backend: T) -> Result<u16, AcquireError> {
///     let mut permit = backend.enter().await?;
///     let status = 503; // The request.
///     backend.learn(&mut permit, match status {
///         429 | 503 => Feedback::OVERLOADED,
///         400..500 => Feedback::Ignored,
///         _ => Feedback::Success,
///     });
///     Ok(status)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), AcquireError> {
/// let backend = AdaptiveSemaphore::default();
/// call(&backend).await?;
/// assert_eq!(backend.snapshot().window.overloaded(), 1);
/// # Ok(())
/// # }
/// ```
///
/// [`tollgate-observe`]: https://docs.rs/tollgate-observe/latest/tollgate_observe/
/// [`AdaptiveSemaphore`]: https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/struct.AdaptiveSemaphore.html
/// [`AdaptiveRate`]: https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/struct.AdaptiveRate.html
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not learn from how calls end",
    note = "adaptive throttles are a `Shared` or a reference of an `AdaptiveSemaphore` or an `AdaptiveRate` of `tollgate-adaptive`, and a class of a `FairQueue` in front of one",
    note = "a composition of `all` is not adaptive: nest two layers instead, the adaptive one inside"
)]
pub trait Adaptive: Throttle {
    /// Reports the outcome of the call of a permit, while the permit is still held. Only the first report
    /// counts. Dropping a permit without a report counts as [`Feedback::Success`].
    fn learn(&self, permit: &mut Self::Permit, feedback: Feedback);
}
