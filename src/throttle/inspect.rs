//! What can be said about the limits behind a throttle, for adapters that report them.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use crate::concurrency::Semaphore;
#[cfg(feature = "channel")]
use crate::concurrency::channel_semaphore::ChannelSemaphore;
use crate::concurrency::pool::Pool;
use crate::decision::Decision;
use crate::gate::Gate;
use crate::keyed::{Key, Kind};
use crate::quota::Quota;
use crate::rate::{Charge, LeakyBucket, RateLimiter};
use crate::snapshot::Snapshot;

use super::{BoxThrottle, Cost, Throttle, Weighted};

/// What a limit allows now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitStatus {
    /// A rate limiter.
    Rate {
        /// The quota.
        quota: Quota,
        /// The decision that admitted the caller; without a permit, the decision that a call of
        /// cost 1 would get. If nothing remains, `retry_after` says when the next call of cost 1
        /// would be admitted.
        decision: Decision,
    },
    /// A concurrency throttle.
    Concurrency {
        /// The number of permits.
        limit: u64,
        /// The number of free permits.
        available: u64,
    },
    /// Nothing can be said, as about a gate, or a throttle that is missing.
    Unknown,
}

impl LimitStatus {
    pub(crate) fn concurrency(snapshot: Snapshot) -> Self {
        Self::Concurrency {
            limit: snapshot.limit,
            available: snapshot.available,
        }
    }

    /// Returns whether a call of cost 1 would not be admitted now.
    #[cfg(feature = "tower")]
    pub(crate) fn is_exhausted(&self) -> bool {
        match self {
            Self::Rate { decision, .. } => !decision.retry_after.is_zero(),
            Self::Concurrency { available, .. } => *available == 0,
            Self::Unknown => false,
        }
    }
}

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
    /// Calls `each` with the status of each limit. The parts of a composition come in their order;
    /// a nested composition is flattened. With the permit of an entry, the status of a rate is the
    /// decision that admitted it.
    fn inspect(&self, permit: Option<&Self::Permit>, each: &mut dyn FnMut(LimitStatus));

    /// Does the same, with the [part](crate::AcquireError::part) of the outermost composition.
    #[doc(hidden)]
    fn inspect_parts(
        &self,
        permit: Option<&Self::Permit>,
        each: &mut dyn FnMut(usize, LimitStatus),
    ) {
        self.inspect(permit, &mut |status| each(0, status));
    }
}

fn rate(limiter: &RateLimiter, charge: Option<&Charge>) -> LimitStatus {
    LimitStatus::Rate {
        quota: limiter.quota(),
        decision: limiter.decided(charge),
    }
}

impl Semaphore {
    /// Returns what it allows, without its lock.
    pub(crate) fn status(&self) -> LimitStatus {
        let (limit, available) = (self.permits(), self.available_permits());
        let in_use = limit.saturating_sub(available);
        LimitStatus::concurrency(Snapshot::of_permits(limit, in_use, 0))
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
    ['a] &'a RateLimiter: this, charge => rate(this, charge);
    [] Arc<RateLimiter>: this, charge => rate(this, charge);
    ['a] &'a LeakyBucket: this, charge => rate(this.as_limiter(), charge);
    [] Arc<LeakyBucket>: this, charge => rate(this.as_limiter(), charge);
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

/// `None` is a part of which nothing can be said.
impl<T: Inspect> Inspect for Option<T> {
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
            None => each(0, LimitStatus::Unknown),
        }
    }
}
