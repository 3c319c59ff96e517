//! Throttles that let a caller take several units at once: for adapters that charge by size.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use super::{Throttle, TryThrottle};
use crate::concurrency::Semaphore;
use crate::error::AcquireError;
use crate::keyed::{Key, Kind};
use crate::rate::RateLimiter;
use crate::time::Tick;
use crate::wait::Waiting;

/// A throttle that admits a caller for several units at once, and takes unused units back.
///
/// It is implemented for references and `Arc`s of [`RateLimiter`] and [`Semaphore`], for a
/// [`Key`] of either, for a [class](crate::fair::InClass) of a fair queue in front of one, for `Option`,
/// whose `None` admits any number, for these [observed](crate::observe::Observed), and for references and
/// `Arc`s of all of these. A [`Cost`](super::Cost) is one of these with a fixed number.
///
/// # Examples
///
/// An adapter takes what it may need, and gives back what it did not use:
///
/// ```
/// use tollgate::throttle::Weighted;
/// use tollgate::{AcquireError, Clock, Quota, RateLimiter};
///
/// async fn read<T: Weighted>(bytes: T, asked: u64) -> Result<u64, AcquireError> {
///     let asked = asked.min(bytes.max_units());
///     let charge = bytes.enter_many(asked).await?;
///     let read = asked / 2; // The source had less.
///     bytes.settle(charge, read);
///     Ok(read)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), AcquireError> {
/// let bytes = RateLimiter::new(Quota::per_second(1000).burst(400)).clock(Clock::manual());
/// assert_eq!(read(&bytes, 4096).await?, 200);
/// assert_eq!(bytes.available(), 200);
/// # Ok(())
/// # }
/// ```
pub trait Weighted: Throttle {
    /// Waits for `n` units, all at once. With 1 this is [`enter`](Throttle::enter).
    ///
    /// # Panics
    ///
    /// Panics if the type of the throttle cannot count `n`, which is above `u32::MAX` for
    /// semaphores. [`max_units`](Self::max_units) is never above that.
    fn enter_many(&self, n: u64) -> Waiting<Self::Enter>;

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

    /// Takes `n` units if that needs no wait, like [`enter_now`](Throttle::enter_now); otherwise
    /// nothing has happened. By default it takes nothing.
    ///
    /// # Panics
    ///
    /// Panics where [`enter_many`](Self::enter_many) does.
    #[inline]
    fn enter_many_now(&self, _n: u64) -> Option<Self::Permit> {
        None
    }

    /// Waits for `n` units like [`enter_as_of`](Throttle::enter_as_of), by default as of now.
    ///
    /// # Panics
    ///
    /// Panics where [`enter_many`](Self::enter_many) does.
    #[inline]
    fn enter_many_as_of(&self, n: u64, _tick: Tick) -> Waiting<Self::Enter> {
        self.enter_many(n)
    }
}

/// A [`Weighted`] throttle that can decide without waiting.
pub trait TryWeighted: Weighted + TryThrottle {
    /// Takes `n` units without waiting, or nothing. With 1 this is
    /// [`try_enter`](TryThrottle::try_enter).
    ///
    /// # Errors
    ///
    /// The errors of the throttle's `try_acquire_many`.
    ///
    /// # Panics
    ///
    /// Panics where [`enter_many`](Weighted::enter_many) does.
    fn try_enter_many(&self, n: u64) -> Result<Self::Permit, AcquireError>;
}

/// Returns a number of units in the type of its throttle.
#[track_caller]
#[inline]
fn of<N: TryFrom<u64>>(n: u64) -> N {
    match N::try_from(n) {
        Ok(n) => n,
        Err(_) => panic!("the throttle cannot count {n} units at once"),
    }
}

macro_rules! weighted {
    ($(
        [$($lifetime:lifetime)?] $handle:ty:
        $acquire_many:ident, $try_acquire_many:ident, $settle:expr, $max_units:expr, $chunk_units:expr
        $(, as_of: $as_of:ident)?;
    )*) => {$(
        impl<$($lifetime)?> Weighted for $handle {
            #[inline]
            fn enter_many(&self, n: u64) -> Waiting<Self::Enter> {
                Clone::clone(self).$acquire_many(of(n))
            }

            #[inline]
            fn settle(&self, permit: Self::Permit, used: u64) {
                $settle(self, permit, used);
            }

            #[inline]
            fn max_units(&self) -> u64 {
                $max_units(self)
            }

            #[inline]
            fn chunk_units(&self) -> u64 {
                $chunk_units(self)
            }

            #[inline]
            fn enter_many_now(&self, n: u64) -> Option<Self::Permit> {
                self.try_enter_many(n).ok()
            }

            $(
                #[inline]
                fn enter_many_as_of(&self, n: u64, tick: Tick) -> Waiting<Self::Enter> {
                    Clone::clone(self).$as_of(n, tick)
                }
            )?
        }

        impl<$($lifetime)?> TryWeighted for $handle {
            #[inline]
            fn try_enter_many(&self, n: u64) -> Result<Self::Permit, AcquireError> {
                Clone::clone(self).$try_acquire_many(of(n))
            }
        }
    )*};
}

weighted! {
    ['a] &'a Semaphore: acquire_many, try_acquire_many, give_back, most, half_of_most;
    [] Arc<Semaphore>: acquire_many_owned, try_acquire_many_owned, give_back, most, half_of_most;
    ['a] &'a RateLimiter:
        acquire_many, try_acquire_many,
        RateLimiter::settle, RateLimiter::max_units, RateLimiter::chunk_units,
        as_of: acquire_many_as_of;
    [] Arc<RateLimiter>:
        acquire_many_owned, try_acquire_many,
        RateLimiter::settle, RateLimiter::max_units, RateLimiter::chunk_units,
        as_of: acquire_many_owned_as_of;
}

fn give_back<P>(_: &Semaphore, permit: P, _: u64) {
    drop(permit);
}

fn most(semaphore: &Semaphore) -> u64 {
    let permits = u64::try_from(semaphore.permits()).unwrap_or(u64::MAX);
    permits.clamp(1, u32::MAX.into())
}

fn half_of_most(semaphore: &Semaphore) -> u64 {
    most(semaphore).div_ceil(2)
}

impl<T: Kind, Q: Hash + Eq + ToOwned + ?Sized, S: BuildHasher> Weighted for Key<'_, T, Q, S> {
    #[inline]
    fn enter_many(&self, n: u64) -> Waiting<Self::Enter> {
        self.acquire_many(of(n))
    }

    fn settle(&self, permit: T::Permit, used: u64) {
        T::settle(self, permit, used);
    }

    fn max_units(&self) -> u64 {
        T::chunk_and_max_units(self).1
    }

    fn chunk_units(&self) -> u64 {
        T::chunk_and_max_units(self).0
    }

    #[inline]
    fn enter_many_now(&self, n: u64) -> Option<T::Permit> {
        self.try_enter_many(n).ok()
    }

    fn enter_many_as_of(&self, n: u64, tick: Tick) -> Waiting<Self::Enter> {
        self.acquire_many_as_of(of(n), tick)
    }
}

impl<T: Kind, Q: Hash + Eq + ToOwned + ?Sized, S: BuildHasher> TryWeighted for Key<'_, T, Q, S> {
    #[inline]
    fn try_enter_many(&self, n: u64) -> Result<T::Permit, AcquireError> {
        self.try_acquire_many(of(n))
    }
}

/// A reference to a weighted throttle, or an `Arc` of one.
macro_rules! through {
    ([$($lifetime:lifetime,)? $throttle:ident] $reference:ty) => {
        impl<$($lifetime,)? $throttle: Weighted> Weighted for $reference {
            #[inline]
            #[track_caller]
            fn enter_many(&self, n: u64) -> Waiting<$throttle::Enter> {
                (**self).enter_many(n)
            }

            #[inline]
            fn settle(&self, permit: $throttle::Permit, used: u64) {
                (**self).settle(permit, used);
            }

            #[inline]
            fn max_units(&self) -> u64 {
                (**self).max_units()
            }

            #[inline]
            fn chunk_units(&self) -> u64 {
                (**self).chunk_units()
            }

            #[inline]
            fn enter_many_now(&self, n: u64) -> Option<$throttle::Permit> {
                (**self).enter_many_now(n)
            }

            #[inline]
            #[track_caller]
            fn enter_many_as_of(&self, n: u64, tick: Tick) -> Waiting<$throttle::Enter> {
                (**self).enter_many_as_of(n, tick)
            }
        }

        impl<$($lifetime,)? $throttle: TryWeighted> TryWeighted for $reference {
            #[inline]
            #[track_caller]
            fn try_enter_many(&self, n: u64) -> Result<$throttle::Permit, AcquireError> {
                (**self).try_enter_many(n)
            }
        }
    };
}

through!(['a, T] &'a T);
through!([T] Arc<T>);
