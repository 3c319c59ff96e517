//! Our own types as throttles: by reference, and by `Arc`.

use std::sync::Arc;

use super::{Throttle, TryThrottle};
#[cfg(feature = "channel")]
use crate::concurrency::channel_semaphore::{self, ChannelSemaphore};
use crate::concurrency::pool::{self, Pool};
use crate::concurrency::{Acquire, AcquireOwned, OwnedPermit, Permit, Semaphore};
use crate::error::AcquireError;
use crate::rate::{self, Charge, LeakyBucket, RateLimiter};
use crate::wait::Waiting;

macro_rules! throttle {
    (
        [$($generics:tt)*] $type:ty $(where [$($bounds:tt)*])?,
        $permit:ty, $acquire:ty, $owned_permit:ty, $acquire_owned:ty, $try_owned:ident
        $(, undo: $undo:ident)?
    ) => {
        impl<'a, $($generics)*> Throttle for &'a $type {
            type Permit = $permit;
            type Enter = $acquire;

            #[inline]
            fn enter(&self) -> Waiting<$acquire> {
                self.acquire()
            }

            $(
                fn rollback(&self, permit: $permit) {
                    self.$undo(permit);
                }
            )?
        }

        impl<'a, $($generics)*> TryThrottle for &'a $type {
            #[inline]
            fn try_enter(&self) -> Result<$permit, AcquireError> {
                self.try_acquire()
            }
        }

        impl<$($generics)*> Throttle for Arc<$type> $(where $($bounds)*)? {
            type Permit = $owned_permit;
            type Enter = $acquire_owned;

            #[inline]
            fn enter(&self) -> Waiting<$acquire_owned> {
                Arc::clone(self).acquire_owned()
            }

            $(
                fn rollback(&self, permit: $permit) {
                    self.$undo(permit);
                }
            )?
        }

        impl<$($generics)*> TryThrottle for Arc<$type> $(where $($bounds)*)? {
            #[inline]
            fn try_enter(&self) -> Result<$owned_permit, AcquireError> {
                Arc::clone(self).$try_owned()
            }
        }
    };
}

throttle!([] Semaphore, Permit<&'a Semaphore>, Acquire<&'a Semaphore>, OwnedPermit, AcquireOwned, try_acquire_owned);

#[cfg(feature = "channel")]
throttle!(
    [] ChannelSemaphore,
    Permit<&'a ChannelSemaphore>,
    channel_semaphore::Acquire<&'a ChannelSemaphore>,
    Permit<Arc<ChannelSemaphore>>,
    channel_semaphore::Acquire<Arc<ChannelSemaphore>>,
    try_acquire_owned
);

throttle!(
    [T] Pool<T>,
    pool::Permit<&'a Pool<T>, T>,
    pool::Acquire<&'a Pool<T>, T>,
    pool::Permit<Arc<Pool<T>>, T>,
    pool::Acquire<Arc<Pool<T>>, T>,
    try_acquire_owned
);

throttle!(
    [] RateLimiter,
    Charge,
    rate::Acquire<&'a RateLimiter>,
    Charge,
    rate::AcquireOwned,
    try_acquire,
    undo: refund
);

throttle!(
    [] LeakyBucket,
    Charge,
    rate::Acquire<&'a RateLimiter>,
    Charge,
    rate::AcquireOwned,
    try_acquire,
    undo: refund
);
