//! [`Inspect`]: what can be said about the limits behind a throttle, for adapters that report them.

use super::Throttle;
use crate::limit_status::LimitStatus;

/// A throttle that says what its limits allow now, part by part.
///
/// # Examples
///
/// ```
/// use tollgate::throttle::{Inspect, LimitStatus, Throttle};
/// use tollgate::{Quota, RateLimiter, Semaphore, all};
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
    /// How many statuses there are. A wrapper forwards it.
    const LIMITS: usize = 1;

    /// Calls `each` with the status of each limit, and with the [part](crate::AcquireError::part) of
    /// the outermost composition that it is of, which is 0 where there is none. The parts come in their
    /// order; a nested composition is flattened. A part that is missing has statuses that are
    /// [`Unknown`](LimitStatus::Unknown). The permit is that of an entry, if there is one, which saves
    /// looking a key up.
    fn inspect(&self, permit: Option<&Self::Permit>, each: &mut dyn FnMut(usize, LimitStatus));
}
