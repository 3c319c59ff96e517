//! Several throttles as one.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::chain::{Chain, Last};
use super::{Inspect, LimitStatus, Throttle, TryThrottle};
use crate::error::AcquireError;
use crate::wait::Waiting;

/// Combines several throttles into one: a caller enters all of them, one after the other, and when
/// one rejects the caller, the permits of those before it are rolled back.
///
/// The argument is a tuple of up to six throttles: references, `Arc`s or any other type that is a
/// [`Throttle`]; they may be of different kinds. The permit is a tuple as well, of their permits in
/// the same order. The result is itself a throttle, so more than six can be nested.
///
/// # Order
///
/// The parts are entered from left to right, and the permit of each part is held during the wait
/// for the next one. So put the narrow scope first: the user, then the team, then everyone, then
/// shared resources such as memory. A caller that waits for the narrow one then holds nothing of
/// the wide one.
///
/// If callers wait, a rate holds only at the moment when it is passed: callers that then wait for a
/// later part leave together when that part admits them. So put semaphores before rates. If the rate
/// is the narrow scope, put a semaphore of few permits of that scope before it, which bounds how many
/// callers leave together. Calls that do not wait, such as `try_acquire`, need neither.
///
/// Put an [`AdaptiveSemaphore`](crate::adaptive::AdaptiveSemaphore) last, also behind rate limiters: it
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
/// gate is blocked: a pause spends the burst, except for one token, as of its end. It also stops
/// callers that have passed the gate and wait for the limiter. A key of a
/// [`Keyed`](crate::Keyed) has no pause; a burst of 1 keeps its calls apart.
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
pub fn all<P: Parts>(parts: P) -> All<P> {
    All(parts.into_chain())
}

/// Several throttles as one; created by [`all`].
#[derive(Clone, Debug)]
#[must_use = "a throttle does nothing until it is entered"]
pub struct All<P: Parts>(P::Chain);

/// A tuple of one to six throttles.
///
/// Callers need not name this trait. It is sealed: only this crate implements it.
pub trait Parts: Tuple {}

impl<P: Tuple> Parts for P {}

/// The tuple, and the chain of its parts.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tuple of one to six throttles",
    note = "more than six can be nested: `all((all((a, b, c)), d))`; each is taken by reference or in an \
            `Arc`"
)]
pub trait Tuple: Clone {
    /// The permits of the parts, in their order.
    type Permit;

    /// The parts, one after the other.
    type Chain: Throttle;

    fn into_chain(self) -> Self::Chain;

    fn flatten(permit: <Self::Chain as Throttle>::Permit) -> Self::Permit;

    fn nest(permit: Self::Permit) -> <Self::Chain as Throttle>::Permit;
}

impl<P: Parts> All<P> {
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
    pub fn acquire(&self) -> Waiting<EnterAll<P>> {
        let enter = self.0.enter().into_inner();
        Waiting::new(EnterAll { enter })
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
    pub fn try_acquire(&self) -> Result<P::Permit, AcquireError>
    where
        P::Chain: TryThrottle,
    {
        self.0.try_enter().map(P::flatten)
    }
}

impl<P: Parts> Throttle for All<P> {
    type Permit = P::Permit;
    type Enter = EnterAll<P>;

    #[inline(always)]
    fn enter(&self) -> Waiting<EnterAll<P>> {
        self.acquire()
    }

    #[inline(always)]
    fn rollback(&self, permit: P::Permit) {
        self.0.rollback(P::nest(permit));
    }

    #[inline(always)]
    fn enter_now(&self) -> Option<P::Permit> {
        self.0.enter_now().map(P::flatten)
    }

    fn wakes_outside_locks(&self) -> bool {
        self.0.wakes_outside_locks()
    }
}

impl<P: Parts<Chain: TryThrottle>> TryThrottle for All<P> {
    #[inline(always)]
    fn try_enter(&self) -> Result<P::Permit, AcquireError> {
        self.try_acquire()
    }
}

pin_project! {
    /// The future of [`All::acquire`].
    ///
    /// # Panics
    ///
    /// Panics if it is polled again after completion.
    #[must_use = "a future does nothing unless it is awaited"]
    pub struct EnterAll<P: Parts> {
        #[pin]
        enter: <P::Chain as Throttle>::Enter,
    }
}

impl<P: Parts> Future for EnterAll<P> {
    type Output = Result<P::Permit, AcquireError>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().enter.poll(context).map_ok(P::flatten)
    }
}

impl<P: Parts> fmt::Debug for EnterAll<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnterAll").finish_non_exhaustive()
    }
}

impl<A: Throttle> Tuple for (A,) {
    type Permit = (A::Permit,);
    type Chain = Last<A>;

    #[inline(always)]
    fn into_chain(self) -> Last<A> {
        Last(self.0)
    }

    #[inline(always)]
    fn flatten(permit: A::Permit) -> (A::Permit,) {
        (permit,)
    }

    #[inline(always)]
    fn nest(permit: (A::Permit,)) -> A::Permit {
        permit.0
    }
}

/// Inspects the parts of a chain, one after the other.
macro_rules! inspect_links {
    ($chain:expr, $permit:ident, $each:ident; $index:tt $($rest:tt)*) => {
        let part = $permit.map(|permit| &permit.$index);
        $chain.0.inspect(part, &mut |_, status| $each($index, status));
        inspect_links!(@rest $chain, $permit, $each; $($rest)*);
    };
    (@rest $chain:expr, $permit:ident, $each:ident;) => {};
    (@rest $chain:expr, $permit:ident, $each:ident; $($rest:tt)+) => {
        inspect_links!($chain.1, $permit, $each; $($rest)+);
    };
}

macro_rules! inspect {
    ($($part:ident $index:tt),+) => {
        impl<$($part: Inspect),+> Inspect for All<($($part,)+)> {
            const LIMITS: usize = 0 $(+ $part::LIMITS)+;

            fn inspect(
                &self,
                permit: Option<&Self::Permit>,
                each: &mut dyn FnMut(usize, LimitStatus),
            ) {
                inspect_links!(self.0, permit, each; $($index)+);
            }
        }
    };
}

inspect!(A 0);
inspect!(A 0, B 1);
inspect!(A 0, B 1, C 2);
inspect!(A 0, B 1, C 2, D 3);
inspect!(A 0, B 1, C 2, D 3, E 4);
inspect!(A 0, B 1, C 2, D 3, E 4, F 5);

/// A tuple is its first part, and the tuple of the rest.
macro_rules! parts {
    ($first:ident $a:ident, $($part:ident $value:ident),+) => {
        impl<$first: Throttle, $($part: Throttle),+> Tuple for ($first, $($part,)+) {
            type Permit = ($first::Permit, $($part::Permit,)+);
            type Chain = Chain<$first, <($($part,)+) as Tuple>::Chain>;

            #[inline(always)]
            fn into_chain(self) -> Self::Chain {
                let ($a, $($value,)+) = self;
                Chain($a, ($($value,)+).into_chain())
            }

            #[inline(always)]
            fn flatten(($a, rest): <Self::Chain as Throttle>::Permit) -> Self::Permit {
                let ($($value,)+) = <($($part,)+)>::flatten(rest);
                ($a, $($value,)+)
            }

            #[inline(always)]
            fn nest(($a, $($value,)+): Self::Permit) -> <Self::Chain as Throttle>::Permit {
                ($a, <($($part,)+)>::nest(($($value,)+)))
            }
        }
    };
}

parts!(A a, B b);
parts!(A a, B b, C c);
parts!(A a, B b, C c, D d);
parts!(A a, B b, C c, D d, E e);
parts!(A a, B b, C c, D d, E e, F f);
