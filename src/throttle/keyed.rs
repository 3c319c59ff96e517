//! One key of many as a throttle: by its handles, and by those with a cost.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use super::{Cost, Throttle, TryThrottle};
use crate::concurrency::{OwnedPermit, Semaphore};
use crate::error::AcquireError;
use crate::keyed::{Acquire, Key, OwnedKey};
use crate::rate::{Charge, RateLimiter};
use crate::wait::Waiting;

macro_rules! throttle {
    (
        [$($generics:tt)*] $handle:ty, [$($bounds:tt)*],
        $permit:ty, $cost:ty $(, undo: $undo:ident)?
    ) => {
        impl<$($generics)*> Throttle for $handle
        where
            $($bounds)*
        {
            type Permit = $permit;
            type Enter = Acquire<Self>;

            #[inline]
            fn enter(&self) -> Waiting<Acquire<Self>> {
                self.acquire()
            }

            $(
                fn rollback(&self, permit: $permit) {
                    self.$undo(permit);
                }
            )?
        }

        impl<$($generics)*> TryThrottle for $handle
        where
            $($bounds)*
        {
            #[inline]
            fn try_enter(&self) -> Result<$permit, AcquireError> {
                self.try_acquire()
            }
        }

        /// As a part of something else.
        impl<$($generics)*> $handle
        where
            $($bounds)*
        {
            /// This key as a [`Throttle`](crate::Throttle) of which each entry costs `n`.
            ///
            /// # Examples
            ///
            /// ```
            /// use tollgate::{Clock, Keyed, Quota, RateLimiter, Semaphore};
            ///
            /// let bytes = Keyed::<u64, _>::rate_limiters(Quota::per_second(1000).burst(1000))
            ///     .clock(Clock::manual());
            /// bytes.key(&7).cost(600).try_acquire()?;
            /// assert_eq!(bytes.key(&7).available(), 400);
            ///
            /// let slots = Keyed::<u64, _>::semaphores(8);
            /// let permit = slots.key(&7).cost(6).try_acquire()?;
            /// assert_eq!(permit.count(), 6);
            /// # Ok::<_, tollgate::AcquireError>(())
            /// ```
            #[inline]
            pub fn cost(&self, n: $cost) -> Cost<Self> {
                Cost::new(self.clone(), n.into())
            }
        }

        impl<$($generics)*> Throttle for Cost<$handle>
        where
            $($bounds)*
        {
            type Permit = $permit;
            type Enter = Acquire<$handle>;

            #[inline]
            fn enter(&self) -> Waiting<Acquire<$handle>> {
                self.throttle().acquire_many(cost(self))
            }

            $(
                fn rollback(&self, permit: $permit) {
                    self.throttle().$undo(permit);
                }
            )?
        }

        impl<$($generics)*> TryThrottle for Cost<$handle>
        where
            $($bounds)*
        {
            #[inline]
            fn try_enter(&self) -> Result<$permit, AcquireError> {
                self.throttle().try_acquire_many(cost(self))
            }
        }
    };
}

/// The cost, which was made of one of this type.
fn cost<T, N: TryFrom<u64> + Bounded>(handle: &Cost<T>) -> N {
    N::try_from(handle.cost()).unwrap_or(N::MOST)
}

trait Bounded {
    const MOST: Self;
}

impl Bounded for u32 {
    const MOST: Self = Self::MAX;
}

impl Bounded for u64 {
    const MOST: Self = Self::MAX;
}

throttle!(
    ['a, K, Q: ?Sized, S] Key<'a, K, RateLimiter, Q, S>,
    [
        K: Hash + Eq + Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K>,
        S: BuildHasher + Default + Clone,
    ],
    Charge,
    u64,
    undo: refund
);

throttle!(
    [K, S] OwnedKey<K, RateLimiter, S>,
    [K: Hash + Eq + Clone, S: BuildHasher + Default + Clone,],
    Charge,
    u64,
    undo: refund
);

throttle!(
    ['a, K, Q: ?Sized, S] Key<'a, K, Semaphore, Q, S>,
    [
        K: Hash + Eq + Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K>,
        S: BuildHasher + Default + Clone,
    ],
    OwnedPermit,
    u32
);

throttle!(
    [K, S] OwnedKey<K, Semaphore, S>,
    [K: Hash + Eq + Clone, S: BuildHasher + Default + Clone,],
    OwnedPermit,
    u32
);
