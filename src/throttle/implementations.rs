//! The types of this crate as throttles: by reference and by `Arc`, and a gate by value, because
//! its handle is cheap to clone; and references to throttles.

use std::sync::Arc;

use super::{Throttle, TryThrottle};
use crate::adaptive::{
    self, AcquireRate, AdaptivePermit, AdaptiveRate, AdaptiveSemaphore, RatePermit,
};
#[cfg(feature = "channel")]
use crate::concurrency::channel_semaphore::{self, ChannelSemaphore};
use crate::concurrency::pool::{self, Pool};
use crate::concurrency::{Acquire, AcquireOwned, OwnedPermit, Permit, Semaphore};
use crate::error::AcquireError;
use crate::gate::{self, Gate};
use crate::rate::{self, Charge, LeakyBucket, RateLimiter};
use crate::time::Tick;
use crate::wait::Waiting;

/// Each row has the type of a handle, its permit and its wait, and the methods that are called on a
/// clone of it; above all is whether they wake outside of their locks.
macro_rules! throttles {
    (wakes_unlocked: $wakes_unlocked:literal; $(
        [$($generics:tt)*] $handle:ty => $permit:ty, $enter:ty:
        $acquire:ident, $try_acquire:ident $(, rollback: $rollback:ident)?
        $(, tick: $tick:ident, as_of: $as_of:ident)?
        $(, spend_burst: $spend_burst:path)? $(, released_by: $released_by:ident)?;
    )*) => {$(
        impl<$($generics)*> Throttle for $handle {
            type Permit = $permit;
            type Enter = $enter;

            #[inline]
            fn enter(&self) -> Waiting<$enter> {
                Clone::clone(self).$acquire()
            }

            #[inline]
            fn enter_now(&self) -> Option<$permit> {
                Clone::clone(self).$try_acquire().ok()
            }

            $(
                fn rollback(&self, permit: $permit) {
                    self.$rollback(permit);
                }
            )?

            $(
                #[inline]
                fn tick(&self, permit: Option<&$permit>) -> Option<Tick> {
                    Some(self.$tick(permit))
                }

                #[inline]
                fn enter_as_of(&self, tick: Tick) -> Waiting<$enter> {
                    Clone::clone(self).$as_of(tick)
                }
            )?

            $(
                fn spend_burst(&self, opening: u64) {
                    $spend_burst(self, opening);
                }
            )?

            $(
                #[inline(always)]
                fn released_by(enter: &$enter) -> u64 {
                    enter.$released_by()
                }
            )?

            fn wakes_unlocked(&self) -> bool {
                $wakes_unlocked
            }
        }

        impl<$($generics)*> TryThrottle for $handle {
            #[inline]
            fn try_enter(&self) -> Result<$permit, AcquireError> {
                Clone::clone(self).$try_acquire()
            }
        }
    )*};
}

throttles! {
    wakes_unlocked: true;

    ['a] &'a Semaphore => Permit<&'a Semaphore>, Acquire<&'a Semaphore>:
        acquire, try_acquire;
    [] Arc<Semaphore> => OwnedPermit, AcquireOwned:
        acquire_owned, try_acquire_owned;

    ['a, T] &'a Pool<T> => pool::Permit<&'a Pool<T>, T>, pool::Acquire<&'a Pool<T>, T>:
        acquire, try_acquire;
    [T] Arc<Pool<T>> => pool::Permit<Arc<Pool<T>>, T>, pool::Acquire<Arc<Pool<T>>, T>:
        acquire_owned, try_acquire_owned;

    ['a] &'a AdaptiveSemaphore =>
        AdaptivePermit<&'a AdaptiveSemaphore>, adaptive::Acquire<&'a AdaptiveSemaphore>:
        acquire, try_acquire, rollback: ignore;
    [] Arc<AdaptiveSemaphore> =>
        AdaptivePermit<Arc<AdaptiveSemaphore>>, adaptive::Acquire<Arc<AdaptiveSemaphore>>:
        acquire_owned, try_acquire_owned, rollback: ignore;

    ['a] &'a RateLimiter => Charge, rate::Acquire<&'a RateLimiter>:
        acquire, try_acquire, rollback: refund, tick: tick_of, as_of: acquire_as_of,
        spend_burst: RateLimiter::spend_burst;
    [] Arc<RateLimiter> => Charge, rate::Acquire<Arc<RateLimiter>>:
        acquire_owned, try_acquire, rollback: refund, tick: tick_of, as_of: acquire_owned_as_of,
        spend_burst: RateLimiter::spend_burst;

    ['a] &'a AdaptiveRate => RatePermit<&'a AdaptiveRate>, AcquireRate<&'a AdaptiveRate>:
        acquire, try_acquire, rollback: refund, tick: tick_of, as_of: acquire_as_of,
        spend_burst: AdaptiveRate::spend_burst;
    [] Arc<AdaptiveRate> => RatePermit<Arc<AdaptiveRate>>, AcquireRate<Arc<AdaptiveRate>>:
        acquire_owned, try_acquire_owned, rollback: refund,
        tick: tick_of, as_of: acquire_owned_as_of,
        spend_burst: AdaptiveRate::spend_burst;

    ['a] &'a LeakyBucket => Charge, rate::Acquire<&'a RateLimiter>:
        acquire, try_acquire, rollback: refund, tick: tick_of, as_of: acquire_as_of;
    [] Arc<LeakyBucket> => Charge, rate::Acquire<Arc<RateLimiter>>:
        acquire_owned, try_acquire, rollback: refund, tick: tick_of, as_of: acquire_owned_as_of;

    [] Gate => (), gate::Acquire<Gate>: acquire_owned, check, released_by: released_by;
}

#[cfg(feature = "channel")]
throttles! {
    wakes_unlocked: false;

    ['a] &'a ChannelSemaphore =>
        Permit<&'a ChannelSemaphore>, channel_semaphore::Acquire<&'a ChannelSemaphore>:
        acquire, try_acquire;
    [] Arc<ChannelSemaphore> =>
        Permit<Arc<ChannelSemaphore>>, channel_semaphore::Acquire<Arc<ChannelSemaphore>>:
        acquire_owned, try_acquire_owned;
}

/// A reference to a throttle is a throttle, and so is an `Arc` of one. For types whose references
/// and `Arc`s are throttles, but not the type itself, such as [`Semaphore`], this adds a second
/// layer: `&Arc<Semaphore>`.
macro_rules! through {
    ([$($lifetime:lifetime,)? $throttle:ident] $reference:ty) => {
        impl<$($lifetime,)? $throttle: Throttle> Throttle for $reference {
            type Permit = $throttle::Permit;
            type Enter = $throttle::Enter;

            #[inline]
            #[track_caller]
            fn enter(&self) -> Waiting<$throttle::Enter> {
                (**self).enter()
            }

            #[inline]
            fn rollback(&self, permit: $throttle::Permit) {
                (**self).rollback(permit);
            }

            #[inline(always)]
            fn released_by(enter: &$throttle::Enter) -> u64 {
                $throttle::released_by(enter)
            }

            fn spend_burst(&self, opening: u64) {
                (**self).spend_burst(opening);
            }

            #[inline]
            fn enter_now(&self) -> Option<$throttle::Permit> {
                (**self).enter_now()
            }

            #[inline]
            fn tick(&self, permit: Option<&$throttle::Permit>) -> Option<Tick> {
                (**self).tick(permit)
            }

            #[inline]
            fn enter_as_of(&self, tick: Tick) -> Waiting<$throttle::Enter> {
                (**self).enter_as_of(tick)
            }

            fn wakes_unlocked(&self) -> bool {
                (**self).wakes_unlocked()
            }
        }

        impl<$($lifetime,)? $throttle: TryThrottle> TryThrottle for $reference {
            #[inline]
            #[track_caller]
            fn try_enter(&self) -> Result<$throttle::Permit, AcquireError> {
                (**self).try_enter()
            }
        }
    };
}

through!(['a, T] &'a T);
through!([T] Arc<T>);
