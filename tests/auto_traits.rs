//! What may be sent, shared, moved and unwound, and how large it is: a table, checked when it is
//! compiled.
//!
//! A change here breaks somebody's code without any signature having changed.

use std::marker::PhantomData;

use tollgate::{
    Acquire, AcquireError, AcquireOwned, ErrorKind, OwnedPermit, Permit, Semaphore, Timeout,
    WaitIdle,
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
    Permit<'static>:               YES  YES  YES   YES        YES           NO;
    OwnedPermit:                   YES  YES  YES   YES        YES           NO;
    Acquire<'static>:              YES  YES  YES   YES        YES           NO;
    AcquireOwned:                  YES  YES  YES   YES        YES           NO;
    WaitIdle<'static>:             YES  YES  YES   YES        YES           NO;
    AcquireError:                  YES  YES  YES   YES        YES           YES;
    ErrorKind:                     YES  YES  YES   YES        YES           YES;
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
    assert_eq!(answers!(Timeout<Acquire<'static>>), expected);
    assert_eq!(answers!(Timeout<AcquireOwned>), expected);
    assert_eq!(answers!(Timeout<WaitIdle<'static>>), expected);
}

#[cfg(feature = "tokio")]
mod with_tokio {
    use tokio_util::sync::CancellationToken;
    use tollgate::CancelOn;

    use super::*;

    table! {
        //                                                 Send Sync Unpin UnwindSafe RefUnwindSafe Clone
        CancelOn<Acquire<'static>, &'static CancellationToken>:
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
    is_error::<AcquireError>();
};

const fn is_error<T: std::error::Error + Send + Sync + 'static>() {}

// A plain future is small, because the waiter is not in it.
const _: () = {
    assert!(size_of::<Acquire<'static>>() <= 64);
    assert!(size_of::<AcquireOwned>() <= 64);
    assert!(size_of::<WaitIdle<'static>>() <= 64);
};

// A permit is a way to the semaphore and a count; a denial is two words of plain data.
const _: () = {
    assert!(size_of::<Permit<'static>>() <= 2 * size_of::<usize>());
    assert!(size_of::<OwnedPermit>() <= 2 * size_of::<usize>());
    assert!(size_of::<Option<Permit<'static>>>() == size_of::<Permit<'static>>());
    assert!(size_of::<AcquireError>() <= 16);
};

/// The shortest lifetime is the semaphore's: what borrows it is covariant, as a reference is.
#[test]
fn what_borrows_can_be_shortened() {
    fn both<'a>(_: &Permit<'a>, _: &Acquire<'a>, _: &WaitIdle<'a>, _: &'a Semaphore) {}

    static LONG: Semaphore = Semaphore::new(1);
    let (permit, acquire): (Permit<'static>, Acquire<'static>) =
        (LONG.try_acquire().unwrap(), LONG.acquire());
    let idle: WaitIdle<'static> = LONG.wait_idle();
    let short = Semaphore::new(1);
    both(&permit, &acquire, &idle, &short);
    both(&short.try_acquire().unwrap(), &acquire, &idle, &LONG);
}
