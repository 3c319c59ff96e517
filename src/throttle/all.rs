//! Several throttles as one.

use super::enter_all::{EnterAll, EnterLast, Rest};
use super::{Inspect, LimitStatus, Polling, RollbackGuard, Throttle, TryThrottle, Weighted};
use crate::error::AcquireError;
use crate::wait::Waiting;

/// Combines several throttles into one: a caller enters all of them, one after the other, and when
/// one rejects the caller, the permits of those before it are rolled back.
///
/// The argument is a tuple of up to six throttles: references, `Arc`s or any other type that is a
/// [`Throttle`]; they may be of different kinds. The permit is a tuple as well, of their permits in
/// the same order. The result is itself a throttle, so more than six can be nested. When a part of a nested
/// composition has no room, the nested parts before it are entered, undone and entered again.
///
/// # Order
///
/// The parts are entered from left to right. **List scope by scope, the narrowest first, and in each
/// scope the semaphore before the rate**: the host's semaphore, the host's rate, the semaphore of all,
/// the rate of all. The order matters because a caller keeps the earlier parts while it waits for a later
/// one:
///
/// - *The permit of an earlier semaphore is held.* In `all((&total, hosts.key(host)))`, callers that wait
///   for one slow host occupy all slots, and no other host gets one. With the host first, a caller that waits
///   for its host holds no slot of the total.
/// - *The charge of an earlier rate is made*, and time pays it off during the wait. So the rate limits the
///   moments at which callers pass it, and not those at which their work begins: in `all((&rate, &slots))`,
///   calls that were charged 200 ms apart leave together when several slots become free. In
///   `all((&slots, &rate))` they leave 200 ms apart. If a rate of a narrow scope comes before a semaphore of a wide one,
///   put a semaphore with few permits for the narrow scope in front of both: it bounds the number of callers
///   that leave together.
///
/// For calls that do not wait, such as `try_acquire`, the order does not matter. A rate cannot leave a pause
/// between the end of one call and the start of the next; for that, use a semaphore and
/// [`release_after`](crate::semaphore::Permit::release_after), or [`Resting`](crate::semaphore::Resting) as a part.
///
/// Put an [`AdaptiveSemaphore`] last, also behind rate limiters: it
/// measures from the moment its permit is received, so in `all((&adaptive, &rate))` the wait for the
/// rate counts as latency, and lowers the limit.
///
/// Two callers that share two throttles must list them in the same order. If one lists A before B
/// and the other B before A, they can deadlock, as with two locks. A [`timeout`](Waiting::timeout)
/// ends such a deadlock, since it returns all permits. For the same reason no throttle may be
/// listed twice: request more of it with its [`cost`](crate::Semaphore::cost).
///
/// # Behind a gate
///
/// A [`Gate`](crate::Gate) releases its waiters together. A [`RateLimiter`](crate::RateLimiter)
/// behind it admits them like callers after any idle time: as many at once as its burst allows, and
/// the others at its rate.
///
/// To admit them one by one, [pause](crate::RateLimiter::pause_for) the limiter for as long as the
/// gate is blocked: at its end, a pause has spent the burst, except for one token. The pause also stops
/// callers that have passed the gate and wait for the limiter. A key of a [`Keyed`](crate::Keyed) of limiters has no
/// pause; a burst of 1 keeps its calls apart.
///
/// In `all`, a caller that has passed the gate is admitted although the gate is blocked meanwhile. With
/// [`gate.before(&rate)`](crate::Gate::before) it is not: it looks at the gate again.
///
/// [`AdaptiveSemaphore`]: https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/struct.AdaptiveSemaphore.html
///
#[cfg_attr(feature = "tokio", doc = "```")]
#[cfg_attr(not(feature = "tokio"), doc = "```text")]
/// use std::time::Duration;
/// use tokio::time::Instant;
/// use tollgate::{Clock, Gate, Quota, RateLimiter, all};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let gate = Gate::new().clock(Clock::tokio());
/// let rate = RateLimiter::new(Quota::per_second(10).burst(5)).clock(Clock::tokio());
/// let both = all((&gate, &rate));
/// let pause = Duration::from_secs(60);
/// rate.pause_for(pause);
/// gate.block_for(pause);
/// let start = Instant::now();
/// tokio::try_join!(both.acquire(), both.acquire(), both.acquire())?;
/// assert_eq!(start.elapsed(), Duration::from_millis(60_200));
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// All permits are returned, the last first, when a part rejects the caller, when the wait is
/// cancelled or times out, and when it is dropped: they are [rolled back](Throttle::rollback) where
/// the throttle can do that, and dropped otherwise. Dropping the combined permit drops the permit
/// of each part.
///
/// # Errors
///
/// The error of the part that rejected the caller; [`AcquireError::part`] returns its index, from
/// 0.
///
/// # Examples
///
/// ```
/// use tollgate::{ErrorKind, Semaphore, all};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tollgate::AcquireError> {
/// let (user, team, everyone) = (Semaphore::new(1), Semaphore::new(5), Semaphore::new(20));
///
/// let throttle = all((&user, &team, everyone.cost(3)));
/// let (slot, of_team, of_all) = throttle.acquire().await?;
/// assert_eq!((team.available_permits(), everyone.available_permits()), (4, 17));
/// drop((slot, of_team, of_all));
///
/// everyone.close();
/// let refused = throttle.acquire().await.unwrap_err();
/// assert_eq!((refused.kind(), refused.part()), (ErrorKind::Closed, Some(2)));
/// assert_eq!((user.available_permits(), team.available_permits()), (1, 5));
/// # Ok(())
/// # }
/// ```
pub fn all<P>(parts: P) -> All<P>
where
    All<P>: Throttle,
{
    All(parts)
}

/// Several throttles as one; created by [`all`].
#[derive(Clone, Debug)]
#[must_use = "a throttle does nothing until it is entered"]
pub struct All<P>(P);

impl<P> All<P>
where
    Self: Throttle,
{
    /// Waits until it has entered all parts.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future returns all permits; see [`all`](all#cancel-safety).
    ///
    /// # Errors
    ///
    /// The error of the part that rejected the caller, with its [`part`](AcquireError::part).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Semaphore, all};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let (slots, memory) = (Semaphore::new(8), Semaphore::new(1024));
    /// let (slot, megabytes) = all((&slots, memory.cost(64))).acquire().await?;
    /// assert_eq!(megabytes.count(), 64);
    /// # Ok(())
    /// # }
    /// ```
    #[inline(always)]
    pub fn acquire(&self) -> Waiting<<Self as Throttle>::Enter> {
        self.enter()
    }

    /// Enters all parts without waiting, or none.
    ///
    /// # Errors
    ///
    /// The error of the first part that rejects the caller, with its [`part`](AcquireError::part).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{ErrorKind, Semaphore, all};
    ///
    /// let (one, other) = (Semaphore::new(1), Semaphore::new(1));
    /// let _held = other.try_acquire()?;
    /// let refused = all((&one, &other)).try_acquire().unwrap_err();
    /// assert_eq!((refused.kind(), refused.part()), (ErrorKind::NoPermits, Some(1)));
    /// assert_eq!(one.available_permits(), 1);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    #[inline(always)]
    pub fn try_acquire(&self) -> Result<<Self as Throttle>::Permit, AcquireError>
    where
        Self: TryThrottle,
    {
        self.try_enter()
    }
}

impl<P> All<P> {
    /// Makes a composition that is [`Weighted`]: **every part takes the weight** of the call. A part that
    /// counts calls is
    /// [`per_call`](super::per_call). So a fair queue, a reader or a sink in front of the
    /// composition can pass weights on.
    ///
    /// A call may ask for as much as every part allows: in `all((&slots, &bytes)).weighted()` a call of
    /// 65,536 bytes asks for 65,536 slots too, and is refused with
    /// [`ExceedsCapacity`](crate::ErrorKind::ExceedsCapacity).
    ///
    /// # Examples
    ///
    /// At most 8 messages at once, and 64 KiB of them:
    ///
    /// ```
    /// use tollgate::throttle::{Weighted, per_call};
    /// use tollgate::{ErrorKind, Semaphore, TryThrottle, all};
    ///
    /// let (slots, bytes) = (Semaphore::new(8), Semaphore::new(65_536));
    /// let limits = all((per_call(&slots), &bytes)).weighted();
    /// let (slot, of_bytes) = limits.cost(4_096).try_enter()?;
    /// assert_eq!((slot.count(), of_bytes.count()), (1, 4_096));
    /// assert_eq!(limits.max_units(), 65_536);
    ///
    /// let each = all((&slots, &bytes)).weighted();
    /// let refused = each.cost(4_096).try_enter().unwrap_err();
    /// assert_eq!((refused.kind(), refused.part()), (ErrorKind::ExceedsCapacity, Some(0)));
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn weighted(self) -> WeightedAll<P>
    where
        WeightedAll<P>: Weighted,
    {
        WeightedAll(self)
    }
}

/// A composition each of whose parts takes the weight of the call; created by [`All::weighted`].
///
/// Order, cancel safety and errors are those of [`all`](crate::all). The largest amount of a call and the size of
/// a chunk are the smallest of the parts.
#[derive(Clone, Debug)]
#[must_use = "a throttle does nothing until it is entered"]
pub struct WeightedAll<P>(All<P>);

impl<P> Inspect for WeightedAll<P>
where
    All<P>: Inspect,
    Self: Throttle<Permit = <All<P> as Throttle>::Permit>,
{
    const LIMITS: usize = <All<P> as Inspect>::LIMITS;

    fn inspect(&self, permit: Option<&Self::Permit>, each: &mut dyn FnMut(usize, LimitStatus)) {
        self.0.inspect(permit, each);
    }
}

/// Implements the traits for a composition of these parts; the last one needs no guard. The wait gets the
/// first part, and the rest as a composition of its own. Operations without a wait go part by part: when a
/// part refuses or panics, the guards of the parts before it roll these back, the last first.
macro_rules! parts {
    (
        [$($part:ident $permit:ident $index:tt),*] $last:ident $end:ident $last_index:tt;
        $wait:ty, rest $($rest:tt)*
    ) => {
        impl<$($part: Throttle,)* $last: Throttle> Throttle for All<($($part,)* $last,)> {
            type Permit = ($($part::Permit,)* $last::Permit,);
            type Enter = $wait;

            #[inline(always)]
            fn enter(&self) -> Waiting<$wait> {
                let rest = All(($(self.0.$rest.clone(),)*));
                Waiting::new(<$wait>::new(&self.0.0, rest))
            }

            #[inline(always)]
            fn enter_now(&self) -> Option<Self::Permit> {
                $(let $permit = RollbackGuard::new(&self.0.$index, self.0.$index.enter_now()?);)*
                let $end = self.0.$last_index.enter_now()?;
                Some(($($permit.disarm(),)* $end,))
            }

            #[inline(always)]
            fn rollback(&self, ($($permit,)* $end,): Self::Permit) {
                $(let _guard = RollbackGuard::new(&self.0.$index, $permit);)*
                self.0.$last_index.rollback($end);
            }

            fn polling(&self) -> Polling {
                self.0.$last_index.polling()$(.and(self.0.$index.polling()))*
            }
        }

        impl<$($part: TryThrottle,)* $last: TryThrottle> TryThrottle for All<($($part,)* $last,)> {
            #[inline(always)]
            fn try_enter(&self) -> Result<Self::Permit, AcquireError> {
                $(
                    let permit = self.0.$index.try_enter();
                    let permit = permit.map_err(|error| error.of_part($index))?;
                    let $permit = RollbackGuard::new(&self.0.$index, permit);
                )*
                let $end = self.0.$last_index.try_enter();
                let $end = $end.map_err(|error| error.of_part($last_index))?;
                Ok(($($permit.disarm(),)* $end,))
            }
        }

        impl<$($part: Inspect,)* $last: Inspect> Inspect for All<($($part,)* $last,)> {
            const LIMITS: usize = $($part::LIMITS +)* $last::LIMITS;

            fn inspect(
                &self,
                permit: Option<&Self::Permit>,
                each: &mut dyn FnMut(usize, LimitStatus),
            ) {
                $(
                    let part = permit.map(|permit| &permit.$index);
                    self.0.$index.inspect(part, &mut |_, status| each($index, status));
                )*
                let part = permit.map(|permit| &permit.$last_index);
                self.0.$last_index.inspect(part, &mut |_, status| each($last_index, status));
            }
        }

        impl<$($part: Weighted,)* $last: Weighted> Throttle for WeightedAll<($($part,)* $last,)> {
            type Permit = ($($part::Permit,)* $last::Permit,);
            type Enter = <All<($($part::Many,)* $last::Many,)> as Throttle>::Enter;

            #[inline]
            fn enter(&self) -> Waiting<Self::Enter> {
                self.cost(1).enter()
            }

            #[inline]
            fn enter_now(&self) -> Option<Self::Permit> {
                self.cost(1).enter_now()
            }

            #[inline]
            fn rollback(&self, permit: Self::Permit) {
                self.0.rollback(permit);
            }

            fn polling(&self) -> Polling {
                self.0.polling()
            }
        }

        impl<$($part,)* $last> TryThrottle for WeightedAll<($($part,)* $last,)>
        where
            $($part: Weighted<Many: TryThrottle>,)*
            $last: Weighted<Many: TryThrottle>,
        {
            #[inline]
            fn try_enter(&self) -> Result<Self::Permit, AcquireError> {
                self.cost(1).try_enter()
            }
        }

        impl<$($part: Weighted,)* $last: Weighted> Weighted for WeightedAll<($($part,)* $last,)> {
            type Many = All<($($part::Many,)* $last::Many,)>;

            #[inline]
            fn cost(&self, n: u64) -> Self::Many {
                let All(parts) = &self.0;
                All(($(parts.$index.cost(n),)* parts.$last_index.cost(n),))
            }

            #[inline]
            fn settle(&self, ($($permit,)* $end,): Self::Permit, used: u64) {
                let All(parts) = &self.0;
                $(let $permit = RollbackGuard::new(&parts.$index, $permit);)*
                parts.$last_index.settle($end, used);
                $($permit.settle(used);)*
            }

            fn max_units(&self) -> u64 {
                let All(parts) = &self.0;
                parts.$last_index.max_units()$(.min(parts.$index.max_units()))*
            }

            fn chunk_units(&self) -> u64 {
                let All(parts) = &self.0;
                parts.$last_index.chunk_units()$(.min(parts.$index.chunk_units()))*
            }
        }

        impl<First, $($part: Throttle,)* $last: Throttle> Rest<First> for All<($($part,)* $last,)> {
            type Permits = (First, $($part::Permit,)* $last::Permit);

            #[inline(always)]
            fn begin(self) -> Result<Self::Permit, $wait> {
                <$wait>::begin(self.0.0, All(($(self.0.$rest,)*)))
            }

            #[inline(always)]
            fn prepend(first: First, ($($permit,)* $end,): Self::Permit) -> Self::Permits {
                (first, $($permit,)* $end)
            }
        }
    };
}

parts!([] A a 0; EnterLast<A::Enter>, rest);
parts!([A a 0] B b 1; EnterAll<A, All<(B,)>>, rest 1);
parts!([A a 0, B b 1] C c 2; EnterAll<A, All<(B, C)>>, rest 1 2);
parts!([A a 0, B b 1, C c 2] D d 3; EnterAll<A, All<(B, C, D)>>, rest 1 2 3);
parts!([A a 0, B b 1, C c 2, D d 3] E e 4; EnterAll<A, All<(B, C, D, E)>>, rest 1 2 3 4);
parts!([A a 0, B b 1, C c 2, D d 3, E e 4] F f 5; EnterAll<A, All<(B, C, D, E, F)>>, rest 1 2 3 4 5);
