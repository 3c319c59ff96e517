//! What may be sent, shared, moved and unwound, and how large it is: a table, checked when it is
//! compiled.
//!
//! A change here breaks somebody's code without any signature having changed.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use tollgate::keyed::{self, Key, KeyHashing, OwnedKey};
use tollgate::throttle::{EnterAll, EnterOption};
use tollgate::{
    Acquire, AcquireError, AcquireOwned, All, BoxEnter, BoxPermit, BoxThrottle, Charge, Clock,
    CondvarSemaphore, Cost, Decision, ErrorKind, Gate, Keyed, LeakyBucket, LocalLimiter,
    ManualClock, MissedTickBehavior, Oversize, OwnedPermit, Permit, Quota, RateLimiter,
    Reservation, Semaphore, Tick, Timeout, WaitIdle, Waiting, WhenFull, condvar_semaphore, gate,
    rate,
};

/// For each auto trait a type with an associated constant that is `true` if `T` has the trait: the
/// inherent constant hides that of the blanket implementation where its bound is met.
macro_rules! probes {
    ($($probe:ident: $($bound:tt)::+;)*) => {$(
        struct $probe<T>(PhantomData<T>);

        impl<T: $($bound)::+> $probe<T> {
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
}

const YES: bool = true;
const NO: bool = false;

macro_rules! table {
    ($($type:ty: $send:ident $sync:ident $unpin:ident $unwind:ident $ref_unwind:ident $clone:ident;)*) => {
        const _: () = {
            $(
                assert!(IsSend::<$type>::ANSWER == $send, concat!(stringify!($type), ": Send"));
                assert!(IsSync::<$type>::ANSWER == $sync, concat!(stringify!($type), ": Sync"));
                assert!(IsUnpin::<$type>::ANSWER == $unpin, concat!(stringify!($type), ": Unpin"));
                assert!(
                    IsUnwindSafe::<$type>::ANSWER == $unwind,
                    concat!(stringify!($type), ": UnwindSafe")
                );
                assert!(
                    IsRefUnwindSafe::<$type>::ANSWER == $ref_unwind,
                    concat!(stringify!($type), ": RefUnwindSafe")
                );
                assert!(IsClone::<$type>::ANSWER == $clone, concat!(stringify!($type), ": Clone"));
            )*
        };
    };
}

table! {
    //                             Send Sync Unpin UnwindSafe RefUnwindSafe Clone
    Semaphore:                     YES  YES  YES   YES        YES           NO;
    &'static Semaphore:            YES  YES  YES   YES        YES           YES;
    Permit<&'static Semaphore>:               YES  YES  YES   YES        YES           NO;
    OwnedPermit:                   YES  YES  YES   YES        YES           NO;
    Acquire<&'static Semaphore>:              YES  YES  YES   YES        YES           NO;
    AcquireOwned:                  YES  YES  YES   YES        YES           NO;
    WaitIdle<&'static Semaphore>:             YES  YES  YES   YES        YES           NO;
    AcquireError:                  YES  YES  YES   YES        YES           YES;
    ErrorKind:                     YES  YES  YES   YES        YES           YES;
}

// The same with and without the tokens of tokio, and so features are additive.
table! {
    //                                       Send Sync Unpin UnwindSafe RefUnwindSafe Clone
    CondvarSemaphore:                        YES  YES  YES   YES        YES           NO;
    condvar_semaphore::Acquire<&'static CondvarSemaphore>:     YES  YES  YES   YES        YES           NO;
    condvar_semaphore::AcquireOwned:         YES  YES  YES   YES        YES           NO;
    condvar_semaphore::Permit<&'static CondvarSemaphore>:      YES  YES  YES   YES        YES           NO;
    condvar_semaphore::OwnedPermit:          YES  YES  YES   YES        YES           NO;
}

// A charge is plain data, and what waits for one is as what waits for a permit.
table! {
    //                                       Send Sync Unpin UnwindSafe RefUnwindSafe Clone
    RateLimiter:                             YES  YES  YES   YES        YES           NO;
    LeakyBucket:                             YES  YES  YES   YES        YES           NO;
    rate::Acquire<&'static RateLimiter>:     YES  YES  YES   YES        YES           NO;
    rate::AcquireOwned:                      YES  YES  YES   YES        YES           NO;
    Reservation:                             YES  YES  YES   YES        YES           NO;
    LocalLimiter:                            YES  YES  YES   YES        YES           NO;
    rate::AcquireLocal<'static>:             YES  YES  YES   NO         YES           NO;
    Charge:                                  YES  YES  YES   YES        YES           NO;
    Quota:                                   YES  YES  YES   YES        YES           YES;
    Decision:                                YES  YES  YES   YES        YES           YES;
    rate::Snapshot:                          YES  YES  YES   YES        YES           YES;
    Clock:                                   YES  YES  YES   YES        YES           YES;
    ManualClock:                             YES  YES  YES   YES        YES           YES;
    Tick:                                    YES  YES  YES   YES        YES           YES;
    Cost<&'static RateLimiter>:              YES  YES  YES   YES        YES           YES;
    Cost<Arc<RateLimiter>>:                  YES  YES  YES   YES        YES           YES;
    All<(Shared, Cost<Arc<RateLimiter>>)>:   YES  YES  YES   YES        YES           YES;
    EnterAll<(Shared, Arc<RateLimiter>)>:    YES  YES  YES   YES        YES           NO;
}

// A gate is a handle.
table! {
    //                                       Send Sync Unpin UnwindSafe RefUnwindSafe Clone
    Gate:                                    YES  YES  YES   YES        YES           YES;
    gate::Acquire<&'static Gate>:            YES  YES  YES   YES        YES           NO;
    gate::AcquireOwned:                      YES  YES  YES   YES        YES           NO;
    All<(Gate, Shared)>:                     YES  YES  YES   YES        YES           YES;
}

type Rates = Keyed<u64, RateLimiter>;
type Permits = Keyed<String, Semaphore>;
type RateKey = Key<'static, u64, RateLimiter>;
type PermitKey = OwnedKey<String, Semaphore>;

// A handle is a reference, and what waits is as what waits for one limiter. What is asked of keys
// may come from a function, which need not be `UnwindSafe`.
table! {
    //                                       Send Sync Unpin UnwindSafe RefUnwindSafe Clone
    Rates:                                   YES  YES  YES   NO         NO            NO;
    Permits:                                 YES  YES  YES   NO         NO            NO;
    RateKey:                                 YES  YES  YES   NO         NO            YES;
    PermitKey:                               YES  YES  YES   NO         NO            YES;
    keyed::Acquire<RateKey>:                 YES  YES  YES   NO         NO            NO;
    keyed::Acquire<PermitKey>:               YES  YES  YES   NO         NO            NO;
    Cost<PermitKey>:                         YES  YES  YES   NO         NO            YES;
    KeyHashing:                              YES  YES  YES   YES        YES           YES;
    WhenFull:                                YES  YES  YES   YES        YES           YES;
}

type Shared = Arc<Semaphore>;
type Six = (Shared, Shared, Shared, Shared, Shared, Shared);

// What is composed is what its parts are.
table! {
    //                                       Send Sync Unpin UnwindSafe RefUnwindSafe Clone
    Cost<&'static Semaphore>:                YES  YES  YES   YES        YES           YES;
    Cost<Shared>:                            YES  YES  YES   YES        YES           YES;
    All<(Shared, Shared)>:                   YES  YES  YES   YES        YES           YES;
    All<(Shared, BoxThrottle)>:              YES  YES  YES   NO         NO            YES;
    All<Six>:                                YES  YES  YES   YES        YES           YES;
    EnterAll<(Shared, Shared)>:              YES  YES  YES   YES        YES           NO;
    EnterAll<(Shared, Option<Shared>)>:      YES  YES  YES   YES        YES           NO;
    EnterAll<(Shared, BoxThrottle)>:         YES  NO   YES   NO         NO            NO;
    EnterAll<Six>:                           YES  YES  YES   YES        YES           NO;
    EnterOption<AcquireOwned>:               YES  YES  YES   YES        YES           NO;
    EnterOption<BoxEnter>:                   YES  NO   YES   NO         NO            NO;
}

// A type that is not known is asked to be `Send`, and no more.
table! {
    //                                       Send Sync Unpin UnwindSafe RefUnwindSafe Clone
    BoxThrottle:                             YES  YES  YES   NO         NO            YES;
    BoxPermit:                               YES  NO   YES   NO         NO            NO;
    BoxEnter:                                YES  NO   YES   NO         NO            NO;
    Timeout<BoxEnter>:                       YES  NO   NO    NO         NO            NO;
}

mod with_pools {
    use tollgate::{Pool, pool};

    use super::*;

    // A permit of one may be sent, and may be shared if its item may be.
    type NotSend = std::rc::Rc<()>;
    type NotSync = std::cell::Cell<u8>;

    table! {
        //                                                    Send Sync Unpin UnwindSafe RefUnwindSafe Clone
        Pool<()>:                                             YES  YES  YES  NO   NO   NO;
        Pool<NotSync>:                                        YES  YES  YES  NO   NO   NO;
        Pool<NotSend>:                                        NO   NO   YES  NO   NO   NO;
        pool::Permit<&'static Pool<()>, ()>:                  YES  YES  YES  NO   NO   NO;
        pool::Permit<&'static Pool<NotSync>, NotSync>:        YES  NO   YES  NO   NO   NO;
        pool::Permit<&'static Pool<NotSend>, NotSend>:        NO   NO   YES  NO   NO   NO;
        pool::OwnedPermit<()>:                                YES  YES  YES  NO   NO   NO;
        pool::OwnedPermit<NotSync>:                           YES  NO   YES  NO   NO   NO;
        pool::OwnedPermit<NotSend>:                           NO   NO   YES  NO   NO   NO;
        pool::Acquire<&'static Pool<()>, ()>:                 YES  NO   YES  NO   NO   NO;
        pool::Acquire<&'static Pool<NotSync>, NotSync>:       YES  NO   YES  NO   NO   NO;
        pool::Acquire<&'static Pool<NotSend>, NotSend>:       NO   NO   YES  NO   NO   NO;
        pool::AcquireOwned<()>:                               YES  NO   YES  NO   NO   NO;
        pool::AcquireOwned<NotSync>:                          YES  NO   YES  NO   NO   NO;
        pool::AcquireOwned<NotSend>:                          NO   NO   YES  NO   NO   NO;
    }

    const _: () = {
        is_static::<pool::OwnedPermit<()>>();
        is_static::<pool::AcquireOwned<()>>();
    };
}

#[cfg(feature = "channel")]
mod with_channels {
    use tollgate::{ChannelSemaphore, channel_semaphore};

    use super::*;

    table! {
        //                                       Send Sync Unpin UnwindSafe RefUnwindSafe Clone
        ChannelSemaphore:                                     YES  YES  NO   YES  YES  NO;
        channel_semaphore::Permit<&'static ChannelSemaphore>: YES  YES  YES  YES  YES  NO;
        channel_semaphore::OwnedPermit:                       YES  YES  YES  YES  YES  NO;
        channel_semaphore::Acquire<&'static ChannelSemaphore>:YES  NO   YES  NO   NO   NO;
        channel_semaphore::AcquireOwned:                      YES  NO   YES  NO   NO   NO;
    }

    const _: () = {
        is_static::<channel_semaphore::OwnedPermit>();
        is_static::<channel_semaphore::AcquireOwned>();
    };
}

#[cfg(feature = "async-lock")]
mod with_async_lock {
    use tollgate::throttle::{EnterAsyncLock, EnterAsyncLockOwned};

    use super::*;

    table! {
        //                                       Send Sync Unpin UnwindSafe RefUnwindSafe Clone
        EnterAsyncLock<'static>:                 YES  YES  NO    YES        YES           NO;
        EnterAsyncLockOwned:                     YES  YES  NO    YES        YES           NO;
    }
}

#[cfg(feature = "stream")]
mod with_streams {
    use std::future::Ready;

    use futures::stream::Empty;
    use tollgate::stream::{BufferLimited, ForEachLimited, Ticks};

    use super::*;

    type Work = fn(()) -> Ready<()>;

    table! {
        //                                                   Send Sync Unpin UnwindSafe RefUnwindSafe Clone
        BufferLimited<Empty<Ready<()>>, Shared>:             YES  YES  YES   NO         NO            NO;
        BufferLimited<Empty<Ready<()>>, BoxThrottle>:        YES  NO   YES   NO         NO            NO;
        ForEachLimited<Empty<()>, Shared, Work, Ready<()>>:  YES  YES  YES   NO         NO            NO;
        Ticks<'static>:                                      YES  YES  YES   YES        YES           NO;
    }
}

/// Features are additive, so none may take a trait away: the answers are the same with and without
/// tokio, whose timer is pinned and not unwind safe. Not checked when it is compiled, so that the
/// other tables are checked in either case.
#[test]
fn a_timeout_has_the_same_traits_whatever_the_features() {
    macro_rules! answers {
        ($type:ty) => {
            [
                ("Send", IsSend::<$type>::ANSWER),
                ("Sync", IsSync::<$type>::ANSWER),
                ("Unpin", IsUnpin::<$type>::ANSWER),
                ("UnwindSafe", IsUnwindSafe::<$type>::ANSWER),
                ("RefUnwindSafe", IsRefUnwindSafe::<$type>::ANSWER),
                ("Clone", IsClone::<$type>::ANSWER),
            ]
        };
    }
    let expected = [
        ("Send", YES),
        ("Sync", YES),
        ("Unpin", NO),
        ("UnwindSafe", NO),
        ("RefUnwindSafe", NO),
        ("Clone", NO),
    ];
    assert_eq!(answers!(Timeout<Acquire<&'static Semaphore>>), expected);
    assert_eq!(answers!(Timeout<AcquireOwned>), expected);
    assert_eq!(answers!(Timeout<WaitIdle<&'static Semaphore>>), expected);
}

#[cfg(feature = "tokio")]
mod with_tokio {
    use tokio_util::sync::CancellationToken;
    use tollgate::CancelOn;
    use tollgate::throttle::{EnterTokio, EnterTokioOwned};

    use super::*;

    table! {
        //                                                 Send Sync Unpin UnwindSafe RefUnwindSafe Clone
        EnterTokio<'static>:                               YES  NO   YES   NO         NO            NO;
        EnterTokioOwned:                                   YES  NO   YES   NO         NO            NO;
    }

    table! {
        //                                                 Send Sync Unpin UnwindSafe RefUnwindSafe Clone
        CancelOn<Acquire<&'static Semaphore>, &'static CancellationToken>:
                                                           YES  YES  NO    NO         NO            NO;
        CancelOn<AcquireOwned, CancellationToken>:         YES  YES  NO    NO         NO            NO;
        Timeout<CancelOn<AcquireOwned, CancellationToken>>:
                                                           YES  YES  NO    NO         NO            NO;
        CancelOn<Timeout<AcquireOwned>, CancellationToken>:
                                                           YES  YES  NO    NO         NO            NO;
    }

    const _: () = {
        is_static::<CancelOn<AcquireOwned, CancellationToken>>();
        is_static::<Timeout<CancelOn<AcquireOwned, CancellationToken>>>();
    };
}

const fn is_static<T: 'static>() {}

const _: () = {
    is_static::<Semaphore>();
    is_static::<OwnedPermit>();
    is_static::<AcquireOwned>();
    is_static::<Timeout<AcquireOwned>>();
    is_static::<AcquireError>();
    is_static::<condvar_semaphore::AcquireOwned>();
    is_static::<condvar_semaphore::OwnedPermit>();
    is_static::<rate::AcquireOwned>();
    is_static::<Reservation>();
    is_static::<LocalLimiter>();
    is_static::<Charge>();
    is_static::<EnterAll<(Shared, Shared)>>();
    is_static::<BoxEnter>();
    is_static::<BoxPermit>();
    is_error::<AcquireError>();
};

const fn is_error<T: std::error::Error + Send + Sync + 'static>() {}

// A plain future is small, because the waiter is not in it.
const _: () = {
    assert!(size_of::<Acquire<&'static Semaphore>>() <= 64);
    assert!(size_of::<AcquireOwned>() <= 64);
    assert!(size_of::<WaitIdle<&'static Semaphore>>() <= 64);
    assert!(size_of::<rate::Acquire<&'static RateLimiter>>() <= 64);
    assert!(size_of::<rate::AcquireOwned>() <= 64);
    assert!(size_of::<rate::AcquireLocal<'static>>() <= 64);
    assert!(size_of::<gate::Acquire<&'static Gate>>() <= 64);
    assert!(size_of::<gate::AcquireOwned>() <= 64);
    assert!(size_of::<Gate>() == size_of::<usize>());
    assert!(size_of::<keyed::Acquire<RateKey>>() <= 64);
    assert!(size_of::<keyed::Acquire<PermitKey>>() <= 64);
};

// A permit is a way to the semaphore and a count; a denial is four words of plain data, of which two are its source.
const _: () = {
    assert!(size_of::<Permit<&'static Semaphore>>() <= 2 * size_of::<usize>());
    assert!(size_of::<OwnedPermit>() <= 2 * size_of::<usize>());
    assert!(
        size_of::<Option<Permit<&'static Semaphore>>>() == size_of::<Permit<&'static Semaphore>>()
    );
    assert!(size_of::<AcquireError>() <= 16);
};

// They can be made by the compiler: no allocation, no clock is read, no `LazyLock`.
static LIMITER: RateLimiter = RateLimiter::new(Quota::per_second(100).burst(2))
    .max_waiters(10)
    .missed_tick(MissedTickBehavior::Delay)
    .oversize(Oversize::Overdraft)
    .jitter(Duration::ZERO);
static BUCKET: LeakyBucket = LeakyBucket::new(Quota::per_second(100), 10);

#[test]
fn a_limiter_in_a_static_is_used_as_any_other() {
    let futures: (
        Waiting<rate::Acquire<&'static RateLimiter>>,
        Waiting<rate::Acquire<&'static RateLimiter>>,
    ) = (LIMITER.acquire(), BUCKET.acquire());
    assert!(futures.0.wait().is_ok() && futures.1.wait().is_ok());
    let short = RateLimiter::new(Quota::per_second(1));
    fn both<'a>(_: &Waiting<rate::Acquire<&'a RateLimiter>>, _: &'a RateLimiter) {}
    let long: Waiting<rate::Acquire<&'static RateLimiter>> = LIMITER.acquire();
    both(&long, &short);
}

/// The shortest lifetime is the semaphore's: what borrows it is covariant, as a reference is.
#[test]
fn what_borrows_can_be_shortened() {
    fn both<'a>(
        _: &Permit<&'a Semaphore>,
        _: &Waiting<Acquire<&'a Semaphore>>,
        _: &Waiting<WaitIdle<&'a Semaphore>>,
        _: &'a Semaphore,
    ) {
    }

    static LONG: Semaphore = Semaphore::new(1);
    let (permit, acquire): (
        Permit<&'static Semaphore>,
        Waiting<Acquire<&'static Semaphore>>,
    ) = (LONG.try_acquire().unwrap(), LONG.acquire());
    let idle: Waiting<WaitIdle<&'static Semaphore>> = LONG.wait_idle();
    let short = Semaphore::new(1);
    both(&permit, &acquire, &idle, &short);
    both(&short.try_acquire().unwrap(), &acquire, &idle, &LONG);
}

/// The same for what else borrows.
#[test]
fn what_borrows_a_condvar_semaphore_can_be_shortened() {
    fn both<'a>(
        _: &condvar_semaphore::Permit<&'a CondvarSemaphore>,
        _: &condvar_semaphore::Acquire<&'a CondvarSemaphore>,
        _: &'a CondvarSemaphore,
    ) {
    }

    let long: &'static CondvarSemaphore = Box::leak(Box::new(CondvarSemaphore::new(1)));
    let permit: condvar_semaphore::Permit<&'static CondvarSemaphore> = long.try_acquire().unwrap();
    let acquire: condvar_semaphore::Acquire<&'static CondvarSemaphore> = long.acquire();
    let short = CondvarSemaphore::new(1);
    both(&permit, &acquire, &short);
}

#[cfg(feature = "channel")]
#[test]
fn what_borrows_a_channel_can_be_shortened() {
    use tollgate::{ChannelSemaphore, Pool, channel_semaphore, pool};

    fn both<'a, T>(
        _: &pool::Permit<&'a Pool<T>, T>,
        _: &Waiting<pool::Acquire<&'a Pool<T>, T>>,
        _: &'a Pool<T>,
    ) {
    }
    fn same<'a>(
        _: &channel_semaphore::Permit<&'a ChannelSemaphore>,
        _: &Waiting<channel_semaphore::Acquire<&'a ChannelSemaphore>>,
        _: &'a ChannelSemaphore,
    ) {
    }

    let long: &'static Pool<()> = Box::leak(Box::new(Pool::new([()])));
    let permit: pool::Permit<&'static Pool<()>, ()> = long.try_acquire().unwrap();
    let acquire: Waiting<pool::Acquire<&'static Pool<()>, ()>> = long.acquire();
    let short = Pool::new([()]);
    both(&permit, &acquire, &short);

    let long: &'static ChannelSemaphore = Box::leak(Box::new(ChannelSemaphore::new(1)));
    let permit: channel_semaphore::Permit<&'static ChannelSemaphore> = long.try_acquire().unwrap();
    let acquire: Waiting<channel_semaphore::Acquire<&'static ChannelSemaphore>> = long.acquire();
    let short = ChannelSemaphore::new(1);
    same(&permit, &acquire, &short);
}
