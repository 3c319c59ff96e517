//! What is made of throttles: each wrapper alone, behind a fair queue and in front of one.
//!
//! A [`Wrapper`] says how a throttle becomes another one, and [`Around`] makes a subject of it and the
//! subject that it wraps. `(A, B)` is `B` around `A`, so `(Optional, Fair)` is a fair queue in front of
//! an optional throttle, and `(Fair, Optional)` the other way round. With one class a fair queue is
//! first-in first-out.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use tollgate::fair::{ClassHandle, FairQueue, Share};
use tollgate::throttle::Weighted;
use tollgate::{
    AcquireError, All, BoxThrottle, Cost, RateLimiter, Semaphore, Throttle, TryThrottle, all,
    forward,
};
use tollgate_observe::{Holders, Observed};

use super::ours::SharedSemaphore;
use super::ours::rates::limiter;
#[cfg(any(feature = "tokio", feature = "channel", feature = "async-lock"))]
use super::subject::subject;
use super::subject::{Guarantees, Subject};
use crate::support::poll_once;

/// What a subject, and so a throttle in a wrapper, must be.
pub(crate) trait Wrapped:
    TryThrottle<Permit: Debug + Send + 'static, Enter: Send + 'static> + Send + Sync + 'static
{
}

impl<T> Wrapped for T where
    T: TryThrottle<Permit: Debug + Send + 'static, Enter: Send + 'static> + Send + Sync + 'static
{
}

/// What makes a throttle of another one.
pub(crate) trait Wrapper<T> {
    type Throttle: Wrapped;

    /// How much each entry takes of what is wrapped.
    const COST: usize = 1;
    /// How much of it is left over, and of no use.
    const SPARE: usize = 0;
    /// Who gets a permit is decided after the throttle has granted it.
    const IS_QUEUE: bool = false;

    /// `more` makes another throttle like the one that is wrapped, with so many times its limit.
    fn wrap(throttle: T, more: &dyn Fn(usize) -> T) -> Self::Throttle;
}

/// The second one around the first.
impl<T, A: Wrapper<T>, B: Wrapper<A::Throttle>> Wrapper<T> for (A, B) {
    type Throttle = B::Throttle;

    const COST: usize = A::COST * B::COST;
    const SPARE: usize = A::COST * B::SPARE + A::SPARE;
    const IS_QUEUE: bool = A::IS_QUEUE || B::IS_QUEUE;

    fn wrap(throttle: T, more: &dyn Fn(usize) -> T) -> Self::Throttle {
        let inner = |times| A::wrap(more(times), &|again| more(times * again));
        B::wrap(A::wrap(throttle, more), &inner)
    }
}

/// A wrapper around a subject, which is closed by closing that.
pub(crate) struct Around<W, S = SharedSemaphore>(PhantomData<(W, S)>);

impl<W: Wrapper<S::Throttle>, S: Subject> Subject for Around<W, S> {
    type Throttle = Closable<W::Throttle, S::Throttle>;

    const GUARANTEES: Guarantees = Guarantees {
        closes_at_once: S::GUARANTEES.closes_at_once && !W::IS_QUEUE,
        knows: S::GUARANTEES.knows && !W::IS_QUEUE,
        ..S::GUARANTEES
    };

    fn with_limit(limit: usize) -> Self::Throttle {
        let limit = W::COST * limit + W::SPARE;
        let part = S::with_limit(limit);
        let throttle = W::wrap(part.clone(), &|times| S::with_limit(times * limit));
        Closable { throttle, part }
    }

    fn close(throttle: &Self::Throttle) {
        S::close(&throttle.part);
    }

    fn each(check: impl Fn()) {
        S::each(check);
    }
}

/// A throttle, and a part of it to close.
///
/// What is composed cannot be closed itself; its parts can. It is the first one, since that is the
/// one that one waits for when all have the same limit.
#[derive(Clone)]
pub(crate) struct Closable<T, P> {
    throttle: T,
    part: P,
}

impl<T: Throttle, P: Clone> Throttle for Closable<T, P> {
    type Permit = T::Permit;
    type Enter = T::Enter;

    forward!(Throttle, self => self.throttle);
}

impl<T: TryThrottle, P: Clone> TryThrottle for Closable<T, P> {
    fn try_enter(&self) -> Result<T::Permit, AcquireError> {
        self.throttle.try_enter()
    }
}

/// A wrapper of any throttle.
macro_rules! wrapper {
    ($wrapper:ident is $of:ty $(, queue: $is_queue:literal)?: |$throttle:ident| $make:expr) => {
        pub(crate) struct $wrapper;

        impl<T: Wrapped> Wrapper<T> for $wrapper {
            type Throttle = $of;

            $(const IS_QUEUE: bool = $is_queue;)?

            fn wrap($throttle: T, _: &dyn Fn(usize) -> T) -> Self::Throttle {
                $make
            }
        }
    };
}

pub(crate) type InClass<T> = ClassHandle<T, &'static str>;

wrapper!(Fair is InClass<T>, queue: true: |throttle| FairQueue::new(throttle).class("a class"));
wrapper!(FairByCost is InClass<T>, queue: true: |throttle| {
    FairQueue::new(throttle).share(Share::ByCost).class("a class")
});
wrapper!(Optional is Option<T>: |throttle| Some(throttle));
wrapper!(SharedAgain is Arc<T>: |throttle| Arc::new(throttle));
wrapper!(Borrowed is &'static T: |throttle| Box::leak(Box::new(throttle)));
wrapper!(Boxed is TriesByPolling: |throttle| TriesByPolling(BoxThrottle::new(throttle)));
wrapper!(ObservedByNobody is Observed<T, ()>: |throttle| Observed::new(throttle, ()));
wrapper!(ObservedByHolders is Observed<T, (Holders, ())>: |throttle| {
    Observed::new(throttle, (Holders::new("slots"), ()))
});

/// One of several parts has all parts at the same limit, so that it lets in as many as each of them.
pub(crate) struct AllOfTwo;

impl<T: Wrapped> Wrapper<T> for AllOfTwo {
    type Throttle = All<(T, T)>;

    fn wrap(throttle: T, more: &dyn Fn(usize) -> T) -> Self::Throttle {
        all((throttle, more(1)))
    }
}

/// The same with a part of another cost, and one that is missing.
pub(crate) struct AllOfThree;

impl<T: Wrapped> Wrapper<T> for AllOfThree
where
    CostOf<2>: Wrapper<T>,
{
    type Throttle = All<(T, <CostOf<2> as Wrapper<T>>::Throttle, Option<T>)>;

    fn wrap(throttle: T, more: &dyn Fn(usize) -> T) -> Self::Throttle {
        all((throttle, CostOf::<2>::wrap(more(2), more), None))
    }
}

/// Each entry takes so many, and so many are left over.
pub(crate) struct CostOf<const N: usize, const OVER: usize = 0>;

macro_rules! costs {
    ($($throttle:ty)*) => {$(
        impl<const N: usize, const OVER: usize> Wrapper<$throttle> for CostOf<N, OVER> {
            type Throttle = Cost<$throttle>;

            const COST: usize = N;
            const SPARE: usize = OVER;

            fn wrap(throttle: $throttle, _: &dyn Fn(usize) -> $throttle) -> Self::Throttle {
                Weighted::cost(&throttle, N as u64)
            }
        }
    )*};
}

costs! { Arc<Semaphore> InClass<Arc<Semaphore>> }

/// Each entry holds a permit and costs three.
pub(crate) struct SemaphoreAndRateLimiter;

impl Subject for SemaphoreAndRateLimiter {
    type Throttle = Closable<All<(Arc<Semaphore>, Cost<Arc<RateLimiter>>)>, Arc<Semaphore>>;

    const GUARANTEES: Guarantees = Guarantees {
        held: false,
        ..Guarantees::ALL
    };

    fn with_limit(limit: usize) -> Self::Throttle {
        let part = Arc::new(Semaphore::new(limit));
        let rate = Arc::new(limiter(3 * limit));
        let throttle = all((Arc::clone(&part), rate.cost_owned(3)));
        Closable { throttle, part }
    }

    fn close(throttle: &Self::Throttle) {
        throttle.part.close();
    }
}

/// The wakers of the throttle may be called under its lock, so the next waiter enters for all, when
/// it runs; it also finds out about a close for all.
#[cfg(any(feature = "tokio", feature = "channel", feature = "async-lock"))]
const POLLED_BY_WAITERS: Guarantees = Guarantees {
    closes: false,
    closes_at_once: false,
    wakes_outside_locks: false,
    ..Guarantees::ALL
};

/// A fair queue in front of a throttle of this kind, whose wakers it does not call.
#[cfg(any(feature = "tokio", feature = "channel", feature = "async-lock"))]
macro_rules! polled {
    ($subject:ident, $kind:ty, $contains_panics:literal) => {
        subject!(
            $subject,
            InClass<Arc<$kind>>,
            Guarantees {
                contains_panics: $contains_panics,
                ..POLLED_BY_WAITERS
            },
            |limit| FairQueue::new(Arc::new(<$kind>::new(limit))).class("a class"),
            |_| unreachable!("its close is found out by waiters")
        );
    };
}

#[cfg(feature = "channel")]
polled!(FairChannelSemaphore, tollgate::ChannelSemaphore, true);

#[cfg(feature = "tokio")]
polled!(FairTokio, tokio::sync::Semaphore, true);

#[cfg(feature = "async-lock")]
polled!(FairAsyncLock, async_lock::Semaphore, false);

/// A boxed throttle has no way to try, so a wait is polled once and dropped if it is not over.
#[derive(Clone)]
pub(crate) struct TriesByPolling(BoxThrottle);

impl Throttle for TriesByPolling {
    type Permit = <BoxThrottle as Throttle>::Permit;
    type Enter = <BoxThrottle as Throttle>::Enter;

    forward!(Throttle, self => self.0);
}

impl TryThrottle for TriesByPolling {
    fn try_enter(&self) -> Result<Self::Permit, AcquireError> {
        match poll_once(&mut self.0.enter()) {
            std::task::Poll::Ready(entered) => entered,
            // Nobody but the crate can make an error, so this is another one's.
            std::task::Poll::Pending => Err(Semaphore::new(0).try_acquire().unwrap_err()),
        }
    }
}
