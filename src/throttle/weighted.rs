//! [`Weighted`]: throttles that let a caller take several units at once, for adapters that charge by
//! size.

use super::Throttle;

/// A throttle that admits a caller for several units at once, and takes unused units back.
///
/// It is implemented for references and `Arc`s of [`RateLimiter`](crate::RateLimiter) and
/// [`Semaphore`](crate::Semaphore), for a [`Key`](crate::keyed::Key) of either, for a
/// [class](crate::fair::ClassHandle) of a fair queue in front of one, for `Option`, whose `None` admits any
/// number, and for references and `Arc`s of all of these.
///
/// # Examples
///
/// An adapter takes what it may need, and gives back what it did not use:
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
    /// This throttle with a cost.
    type Many: Throttle<Permit = Self::Permit, Enter = Self::Enter>;

    /// Returns this throttle with a cost: each entry takes `n` units, all at once. With 1 it is the
    /// throttle itself. What can be tried without a wait has a `Many` that can; the bound is
    /// `Weighted<Many: TryThrottle>`.
    ///
    /// # Panics
    ///
    /// Panics if the type of the throttle cannot count `n`, which is above `u32::MAX` for
    /// semaphores. [`max_units`](Self::max_units) is never above that.
    fn cost(&self, n: u64) -> Self::Many;

    /// Gives back what was not used of the units that were taken. It never blocks: a throttle for
    /// which this is input or output does it in the background. A rate limiter is charged the rest
    /// if `used` is more than was taken. The permits of a semaphore all return, because their use is
    /// over.
    fn settle(&self, permit: Self::Permit, used: u64);

    /// Returns the most that one call may ask for now: the burst of a rate limiter, the limit of a
    /// semaphore, `u64::MAX` where a call may [overdraw](crate::Oversize::Overdraft). It is at least
    /// 1, so that nobody is admitted for nothing. A call for 1 at a semaphore with 0 permits waits.
    fn max_units(&self) -> u64;

    /// Returns how many units adapters that move bytes take at once, so that those who share a throttle
    /// take turns and a new quota holds soon: what comes in 10 milliseconds, at least 1,024, and at most half
    /// of the burst, rounded up, also where a call may overdraw. Where units do not come by time, it is half
    /// of [`max_units`](Self::max_units), rounded up. A rate limiter reads one number, without a lock; a key
    /// locks its shard.
    #[inline]
    fn chunk_units(&self) -> u64 {
        self.max_units().div_ceil(2)
    }
}
