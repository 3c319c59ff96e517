//! Auto traits, throttle traits and sizes of the types: tables, checked at compile time.
//!
//! A change here breaks users' code without a change of any signature.

use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tollgate::fair::{self, ClassHandle, FairPermit, FairQueue};
use tollgate::keyed::{Key, WhenFull};
use tollgate::rate::{Charge, LocalLimiter, MissedTickBehavior, Oversize, Reservation};
use tollgate::semaphore::{Permit, ReleaseAfter, Resting, WaitIdle};
use tollgate::throttle::{All, BoxThrottle, Cost, Gated};
use tollgate::time::{ManualClock, Tick};
use tollgate::wait::{Timeout, Waiting};
use tollgate::{
    AcquireError, Clock, CondvarSemaphore, Decision, ErrorKind, Gate, Keyed, LeakyBucket, Pool,
    Quota, RateLimiter, Semaphore, Snapshot, Throttle, TryThrottle, condvar_semaphore, pool,
};
use tollgate_adaptive::{
    AdaptivePermit, AdaptiveRate, AdaptiveSemaphore, RatePermit, RateSnapshot,
    Shared as SharedLimit,
};
use tollgate_observe::{EnterObserved, Holder, Holders, Observed, ObservedPermit, Place};

/// Defines, for each auto trait, a type with an associated constant that is `true` if `T` has the
/// trait: the inherent constant hides that of the blanket implementation where its bound holds.
macro_rules! probes {
    ($($probe:ident: $bound:path $(, $more:path)?;)*) => {$(
        struct $probe<T>(PhantomData<T>);

        impl<T: $bound $(+ $more)?> $probe<T> {
            const ANSWER: bool = true;
        }

        impl<T> Otherwise for $probe<T> {}
    )*};
}

trait Otherwise {
    #[allow(dead_code, reason = "hidden wherever the answer is yes")]
    const ANSWER: bool = false;
}

probes! {
    IsSend: Send;
    IsSync: Sync;
    IsUnpin: Unpin;
    IsUnwindSafe: std::panic::UnwindSafe;
    IsRefUnwindSafe: std::panic::RefUnwindSafe;
    IsClone: Clone;
    IsThrottle: Throttle, TryThrottle;
}

const YES: bool = true;
const NO: bool = false;

/// Tells whether a type is `Send`, `Sync`, `Unpin`, `UnwindSafe`, `RefUnwindSafe` and `Clone`.
macro_rules! answers {
    ($type:ty) => {
        [
            IsSend::<$type>::ANSWER,
            IsSync::<$type>::ANSWER,
            IsUnpin::<$type>::ANSWER,
            IsUnwindSafe::<$type>::ANSWER,
            IsRefUnwindSafe::<$type>::ANSWER,
            IsClone::<$type>::ANSWER,
        ]
    };
}

/// The answers, and the types that they apply to.
macro_rules! table {
    ($($($answer:ident)+: $($type:ty),+;)*) => {
        const _: () = {
            $(table!(@row [$($answer),+] $($type),+);)*
        };
    };
    (@row $answers:tt $($type:ty),+) => {
        $(assert!(matches!(answers!($type), $answers), stringify!($type));)+
    };
}

type Shared = Arc<Semaphore>;
type Rate = Arc<RateLimiter>;
type Six = (Shared, Shared, Shared, Shared, Shared, Shared);
type Rates = Keyed<u64, RateLimiter>;
type Permits = Keyed<String, Semaphore>;
type Gates = Keyed<u64, Gate>;
/// The future of a throttle's wait.
type Enter<T> = <T as tollgate::Throttle>::Enter;
type BoxPermit = <BoxThrottle as tollgate::Throttle>::Permit;
type RateKey = Key<'static, RateLimiter, u64>;
type RateWait = Enter<RateKey>;
type PermitWait = Enter<PermitKey>;
type PermitKey = Key<'static, Semaphore, String>;
type GateKey = Key<'static, Gate, u64>;
type NotSend = Rc<()>;
type NotSync = Cell<u8>;
type PoolOf<T> = &'static Pool<T>;
type SharedPool<T> = Arc<Pool<T>>;

table! {
    // Send Sync Unpin UnwindSafe RefUnwindSafe Clone
    // Permits and waits of one semaphore or limiter; the same with and without tokio's tokens.
    YES YES YES YES YES NO:
        Semaphore, Permit<&'static Semaphore>, Permit<Shared>, Enter<&'static Semaphore>,
        ReleaseAfter<Permit<&'static Semaphore>>, ReleaseAfter<Permit<Shared>>,
        Enter<Shared>, WaitIdle<&'static Semaphore>,
        CondvarSemaphore, condvar_semaphore::Acquire<&'static CondvarSemaphore>,
        condvar_semaphore::Acquire<Arc<CondvarSemaphore>>,
        Permit<&'static CondvarSemaphore>,
        Permit<Arc<CondvarSemaphore>>,
        AdaptiveSemaphore, AdaptivePermit<&'static AdaptiveSemaphore>, AdaptivePermit<Arc<AdaptiveSemaphore>>,
        Enter<&'static AdaptiveSemaphore>, Enter<SharedLimit<AdaptiveSemaphore>>,
        AdaptiveRate, RatePermit<&'static AdaptiveRate>, RatePermit<Arc<AdaptiveRate>>,
        Enter<&'static AdaptiveRate>, Enter<SharedLimit<AdaptiveRate>>,
        RateLimiter, LeakyBucket, Enter<&'static RateLimiter>, Enter<Rate>,
        Reservation, LocalLimiter, Charge, Enter<Gate>;
    // Plain data and handles.
    YES YES YES YES YES YES:
        &'static Semaphore, AcquireError, ErrorKind, Quota, Decision, Snapshot, Clock,
        ManualClock, Tick, Gate, WhenFull, RateSnapshot, SharedLimit<AdaptiveSemaphore>, SharedLimit<AdaptiveRate>;

    // A composition has the traits that all its parts have.
    YES YES YES YES YES YES:
        Resting<Shared>, Cost<&'static Semaphore>, Cost<Shared>, Cost<&'static RateLimiter>, Cost<Rate>,
        All<(Shared, Shared)>, All<(Shared, Cost<Rate>)>, All<(Gate, Shared)>, All<Six>,
        Gated<Gate, Shared>, Gated<Gate, All<(Rate, Shared)>>;
    YES YES YES YES YES NO:
        Enter<Gated<Gate, Shared>>, Enter<Gated<Gate, Rate>>,
        Enter<All<(Shared, Shared)>>, Enter<All<(Shared, Rate)>>, Enter<All<(Shared, Option<Shared>)>>,
        Enter<All<Six>>, Enter<Option<Shared>>, Enter<Resting<Shared>>;

    // An observed throttle has its own traits, as far as its observer has them.
    YES YES YES YES YES YES:
        Observed<Shared, ()>, Observed<Shared, Holders>, Holders, Holder, Place;
    YES YES YES YES YES NO:
        EnterObserved<Enter<Shared>, ()>, EnterObserved<Enter<Shared>, Holders>,
        ObservedPermit<Permit<Shared>, ()>, ObservedPermit<Permit<Shared>, Holders>;

    // The function that maps keys to classes need not be `UnwindSafe`.
    YES YES YES NO NO YES: FairQueue<Shared, u32>, ClassHandle<Shared, u32>;
    YES YES YES NO NO NO: Enter<ClassHandle<Shared, u32>>, FairPermit<Shared, u32>;
    YES YES YES YES YES YES: fair::Class, fair::Share, fair::ClassSnapshot<u32>;

    // An unknown type must be `Send`, and no more.
    YES YES YES NO NO YES: BoxThrottle, All<(Shared, BoxThrottle)>;
    YES NO YES NO NO NO:
        BoxPermit, Enter<BoxThrottle>, Enter<All<(Shared, BoxThrottle)>>, Enter<Option<BoxThrottle>>;
    YES NO NO NO NO NO: Timeout<Enter<BoxThrottle>>;

    // The quotas of keys may come from a function, which need not be `UnwindSafe`.
    YES YES YES NO NO NO:
        Rates, Permits, Gates, RateWait, PermitWait, Enter<GateKey>, Enter<Gated<GateKey, Shared>>;
    YES YES YES NO NO YES: RateKey, PermitKey, GateKey, Cost<PermitKey>, Gated<GateKey, Shared>;

    // A permit of a pool is `Send` and `Sync` if its item is.
    YES YES YES NO NO NO: Pool<()>, Pool<NotSync>, pool::Permit<PoolOf<()>, ()>, pool::Permit<SharedPool<()>, ()>;
    YES NO YES NO NO NO:
        pool::Permit<PoolOf<NotSync>, NotSync>, pool::Permit<SharedPool<NotSync>, NotSync>,
        Enter<PoolOf<()>>, Enter<PoolOf<NotSync>>,
        Enter<SharedPool<()>>, Enter<SharedPool<NotSync>>;
    NO NO YES NO NO NO:
        Pool<NotSend>, pool::Permit<PoolOf<NotSend>, NotSend>, pool::Permit<SharedPool<NotSend>, NotSend>,
        Enter<PoolOf<NotSend>>, Enter<SharedPool<NotSend>>;
}

#[cfg(feature = "channel")]
mod with_channels {
    use tollgate::ChannelSemaphore;
    use tollgate::semaphore::Permit;

    use super::*;

    table! {
        YES YES NO YES YES NO: ChannelSemaphore;
        YES YES YES YES YES NO: Permit<&'static ChannelSemaphore>, Permit<Arc<ChannelSemaphore>>;
        YES NO YES NO NO NO: Enter<&'static ChannelSemaphore>, Enter<Arc<ChannelSemaphore>>;
    }

    type Borrowed<'a> = (
        Permit<&'a ChannelSemaphore>,
        Waiting<Enter<&'a ChannelSemaphore>>,
    );

    const _: for<'a> fn(Borrowed<'static>, &'a ()) -> Borrowed<'a> = shortened;

    fn shortened<'a>(long: Borrowed<'static>, _: &'a ()) -> Borrowed<'a> {
        long
    }
}

#[cfg(feature = "async-lock")]
mod with_async_lock {
    use super::*;

    table! {
        YES YES NO YES YES NO: Enter<&'static async_lock::Semaphore>, Enter<Arc<async_lock::Semaphore>>;
    }
}

mod with_streams {
    use std::future::Ready;

    use futures::stream::Empty;
    use tollgate_io::stream::{BufferLimited, ForEachLimited, Ticks};

    use super::*;

    type Work = fn(()) -> Ready<()>;

    table! {
        YES YES YES NO NO NO:
            BufferLimited<Empty<Ready<()>>, Shared>, ForEachLimited<Empty<()>, Shared, Work, Ready<()>>;
        YES NO YES NO NO NO: BufferLimited<Empty<Ready<()>>, BoxThrottle>;
        YES YES YES YES YES NO: Ticks<&'static RateLimiter>;
    }
}

#[cfg(feature = "tokio")]
mod with_tokio {
    use super::*;
    use tokio_util::sync::CancellationToken;
    use tollgate::wait::CancelOn;

    type Cancellable = CancelOn<Enter<Shared>, CancellationToken>;

    table! {
        YES NO YES NO NO NO: Enter<&'static tokio::sync::Semaphore>, Enter<Arc<tokio::sync::Semaphore>>;
        YES YES NO NO NO NO:
            CancelOn<Enter<&'static Semaphore>, &'static CancellationToken>, Cancellable,
            Timeout<Cancellable>, CancelOn<Timeout<Enter<Shared>>, CancellationToken>;
    }

    const _: () = is_static::<(Cancellable, Timeout<Cancellable>)>();
}

mod with_metrics {
    use tollgate_observe::Metrics;

    use super::*;

    table! {
        YES YES YES NO NO YES: Metrics, Observed<Shared, Metrics>;
        YES YES YES NO NO NO:
            EnterObserved<Enter<Shared>, Metrics>, ObservedPermit<Permit<Shared>, Metrics>;
    }
}

mod with_tracing {
    use tollgate_observe::Traced;

    use super::*;

    table! {
        YES YES YES YES YES YES: Traced, Observed<Shared, Traced>;
    }
}

mod with_tower {
    use tollgate_tower::{ClientIp, ClientIpHeader, PausesLayer, PausesService, RequestParts};

    use super::*;

    table! {
        YES YES YES YES YES YES: ClientIp, ClientIpHeader;
        // A layer holds no body and no throttle, only closures that receive or return one.
        YES YES YES NO NO YES:
            PausesLayer<()>, PausesLayer<NotSend, NotSend>, PausesService<(), NotSend, NotSend>;
        // A request's extensions are not unwind safe.
        YES YES YES NO NO YES: RequestParts<'static>;
    }
}

macro_rules! throttles {
    ($answer:literal for $($type:ty),+ $(,)?) => {
        const _: () = {
            $(assert!(IsThrottle::<$type>::ANSWER == $answer, stringify!($type));)+
        };
    };
}

throttles!(true for
    &'static Semaphore, Arc<Semaphore>, Gate, &'static Gate, Arc<Gate>, GateKey,
    Gated<Gate, Shared>, Gated<GateKey, &'static Semaphore>,
    &'static Pool<()>, Arc<Pool<String>>, &'static Pool<Rc<()>>, Arc<Pool<Rc<()>>>
);
throttles!(false for
    &'static CondvarSemaphore, Arc<CondvarSemaphore>, Semaphore, CondvarSemaphore
);
#[cfg(feature = "channel")]
throttles!(true for &'static tollgate::ChannelSemaphore, Arc<tollgate::ChannelSemaphore>);
#[cfg(feature = "tokio")]
throttles!(true for &'static tokio::sync::Semaphore, Arc<tokio::sync::Semaphore>);
#[cfg(feature = "async-lock")]
throttles!(true for &'static async_lock::Semaphore, Arc<async_lock::Semaphore>);

#[test]
fn a_semaphore_may_be_a_static() {
    static OURS: Semaphore = Semaphore::new(1);
    assert!((&OURS).try_enter().is_ok());
    #[cfg(feature = "tokio")]
    {
        static TOKIOS: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(1);
        assert!((&TOKIOS).try_enter().is_ok());
    }
    #[cfg(feature = "async-lock")]
    {
        static ASYNC_LOCKS: async_lock::Semaphore = async_lock::Semaphore::new(1);
        assert!((&ASYNC_LOCKS).try_enter().is_ok());
    }
}

/// Features are additive, so none may remove a trait: the answers are the same with and without
/// tokio, whose timer is pinned and not unwind safe. This is not checked at compile time, so that
/// the other tables are checked in either case.
#[test]
fn a_timeout_has_the_same_traits_whatever_the_features() {
    let expected = [YES, YES, NO, NO, NO, NO];
    assert_eq!(answers!(Timeout<Enter<&'static Semaphore>>), expected);
    assert_eq!(answers!(Timeout<Enter<Shared>>), expected);
    assert_eq!(answers!(Timeout<WaitIdle<&'static Semaphore>>), expected);
}

const fn is_static<T: 'static>() {}

const fn is_error<T: std::error::Error + Send + Sync + 'static>() {}

// The conformance suite requires it of shared throttles.
const _: () = {
    is_static::<(Timeout<Enter<Shared>>, Reservation, LocalLimiter, Charge)>();
    is_static::<(
        Permit<Arc<CondvarSemaphore>>,
        condvar_semaphore::Acquire<Arc<CondvarSemaphore>>,
    )>();
    is_error::<AcquireError>();
};

const WORD: usize = size_of::<usize>();

macro_rules! at_most {
    ($($most:expr => $($type:ty),+;)+) => {
        const _: () = {
            $($(assert!(size_of::<$type>() <= $most, stringify!($type));)+)+
        };
    };
}

at_most! {
    // A plain future is small, because the waiter is not inside it.
    64 =>
        Enter<&'static Semaphore>, Enter<Shared>, WaitIdle<&'static Semaphore>, Enter<&'static RateLimiter>,
        Enter<SharedLimit<AdaptiveSemaphore>>, Enter<SharedLimit<AdaptiveRate>>, Enter<Rate>, Enter<Gate>, RateWait, PermitWait,
        Enter<GateKey>;
    // A permit is a reference to the semaphore and a count, which is never 0.
    2 * WORD =>
        Permit<&'static Semaphore>, Permit<Shared>, Option<Permit<&'static Semaphore>>;
    // Without an observer, observation costs a flag.
    3 * WORD => ObservedPermit<Permit<Shared>, ()>;
    // An error is two words of plain data.
    16 => AcquireError;
    WORD => Gate;
}

// Constants: the compiler makes them, with no allocation, no clock reading and no `LazyLock`.
static LIMITER: RateLimiter = RateLimiter::new(Quota::per_second(100).burst(2))
    .max_waiters(10)
    .missed_tick(MissedTickBehavior::Delay)
    .oversize(Oversize::Overdraft)
    .jitter(Duration::ZERO);
static BUCKET: LeakyBucket = LeakyBucket::new(Quota::per_second(100), 10);

#[test]
fn a_limiter_in_a_static_is_used_as_any_other() {
    let futures: (
        Waiting<Enter<&'static RateLimiter>>,
        Waiting<Enter<&'static LeakyBucket>>,
    ) = (LIMITER.acquire(), BUCKET.acquire());
    assert!(futures.0.wait().is_ok() && futures.1.wait().is_ok());
}

/// Types that borrow a throttle.
type Borrowed<'a> = (
    (Permit<&'a Semaphore>, Waiting<Enter<&'a Semaphore>>),
    (pool::Permit<&'a Pool<()>, ()>, Waiting<Enter<&'a Pool<()>>>),
    (
        Permit<&'a CondvarSemaphore>,
        condvar_semaphore::Acquire<&'a CondvarSemaphore>,
    ),
    Waiting<WaitIdle<&'a Semaphore>>,
    Waiting<Enter<&'a RateLimiter>>,
);

// The shortest lifetime is that of the throttle: a borrowing type is covariant, like a reference.
const _: for<'a> fn(Borrowed<'static>, &'a ()) -> Borrowed<'a> = shortened;

fn shortened<'a>(long: Borrowed<'static>, _: &'a ()) -> Borrowed<'a> {
    long
}
