//! [`Inspect`]: what can be said about the limits behind a throttle, for adapters that report them.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use crate::adaptive::{AdaptiveRate, AdaptiveSemaphore};
use crate::concurrency::Semaphore;
#[cfg(feature = "channel")]
use crate::concurrency::channel_semaphore::ChannelSemaphore;
use crate::concurrency::pool::Pool;
use crate::gate::Gate;
use crate::keyed::{Key, Kind};
use crate::limit_status::LimitStatus;
use crate::rate::{LeakyBucket, RateLimiter};
use crate::snapshot::Snapshot;

use super::{BoxThrottle, Cost, Throttle, Weighted};

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
/// both.inspect(Some(&permit), &mut |status| match status {
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

    /// Calls `each` with the status of each limit. The parts of a composition come in their order;
    /// a nested composition is flattened. A part that is missing has statuses that are
    /// [`Unknown`](LimitStatus::Unknown). The permit is that of an entry, if there is one, which saves
    /// looking a key up.
    fn inspect(&self, permit: Option<&Self::Permit>, each: &mut dyn FnMut(LimitStatus));

    /// Does the same, and says for each status which [part](crate::AcquireError::part) of the
    /// outermost composition it is of. A wrapper forwards it; otherwise all is part 0.
    fn inspect_parts(
        &self,
        permit: Option<&Self::Permit>,
        each: &mut dyn FnMut(usize, LimitStatus),
    ) {
        self.inspect(permit, &mut |status| each(0, status));
    }
}

impl Semaphore {
    /// Returns what it allows, without its lock.
    pub(crate) fn status(&self) -> LimitStatus {
        LimitStatus::concurrency(Snapshot::of_permits(self.permits(), self.in_use(), 0))
    }
}

macro_rules! inspect {
    ($([$($generics:tt)*] $handle:ty: $this:ident, $permit:pat => $status:expr;)*) => {$(
        impl<$($generics)*> Inspect for $handle {
            fn inspect(
                &self,
                $permit: Option<&Self::Permit>,
                each: &mut dyn FnMut(LimitStatus),
            ) {
                let $this = self;
                each($status);
            }
        }
    )*};
}

inspect! {
    ['a] &'a Semaphore: this, _ => this.status();
    [] Arc<Semaphore>: this, _ => this.status();
    ['a, T] &'a Pool<T>: this, _ => LimitStatus::concurrency(this.snapshot());
    [T] Arc<Pool<T>>: this, _ => LimitStatus::concurrency(this.snapshot());
    ['a] &'a AdaptiveSemaphore: this, _ => this.status();
    [] Arc<AdaptiveSemaphore>: this, _ => this.status();
    ['a] &'a RateLimiter: this, _ => this.status();
    [] Arc<RateLimiter>: this, _ => this.status();
    ['a] &'a AdaptiveRate: this, _ => this.status();
    [] Arc<AdaptiveRate>: this, _ => this.status();
    ['a] &'a LeakyBucket: this, _ => this.as_limiter().status();
    [] Arc<LeakyBucket>: this, _ => this.as_limiter().status();
    [] Gate: _this, _ => LimitStatus::Unknown;
    [] BoxThrottle: _this, _ => LimitStatus::Unknown;
    ['a, T: Kind, Q: Hash + Eq + ToOwned + ?Sized, S: BuildHasher] Key<'a, T, Q, S>:
        this, permit => T::status(this, permit);
}

#[cfg(feature = "channel")]
inspect! {
    ['a] &'a ChannelSemaphore: this, _ => LimitStatus::concurrency(this.snapshot());
    [] Arc<ChannelSemaphore>: this, _ => LimitStatus::concurrency(this.snapshot());
}

/// A throttle around another one, whose parts are its own.
macro_rules! around {
    ($([$($generics:tt)*] $handle:ty: $this:ident => $inner:expr;)*) => {$(
        impl<$($generics)*> Inspect for $handle {
            const LIMITS: usize = T::LIMITS;

            fn inspect(
                &self,
                permit: Option<&Self::Permit>,
                each: &mut dyn FnMut(LimitStatus),
            ) {
                let $this = self;
                Inspect::inspect($inner, permit, each);
            }

            fn inspect_parts(
                &self,
                permit: Option<&Self::Permit>,
                each: &mut dyn FnMut(usize, LimitStatus),
            ) {
                let $this = self;
                Inspect::inspect_parts($inner, permit, each);
            }
        }
    )*};
}

around! {
    ['a, T: Inspect] &'a T: this => *this;
    [T: Inspect] Arc<T>: this => &**this;
    [T: Weighted + Inspect] Cost<T>: this => this.inner();
}

/// Nothing can be said about `None`.
impl<T: Inspect> Inspect for Option<T> {
    const LIMITS: usize = T::LIMITS;

    fn inspect(&self, permit: Option<&Self::Permit>, each: &mut dyn FnMut(LimitStatus)) {
        self.inspect_parts(permit, &mut |_, status| each(status));
    }

    fn inspect_parts(
        &self,
        permit: Option<&Self::Permit>,
        each: &mut dyn FnMut(usize, LimitStatus),
    ) {
        match self {
            Some(throttle) => throttle.inspect_parts(permit.and_then(Option::as_ref), each),
            None => (0..T::LIMITS).for_each(|_| each(0, LimitStatus::Unknown)),
        }
    }
}
