//! What a type brings along to be checked.

use std::fmt::Debug;
use std::task::Poll;
use tollgate::Waiting;

use tollgate::{AcquireError, ErrorKind, Throttle, TryThrottle};

use crate::support::Waiter;

/// Something that lets in so many at once, by whatever means one waits for it.
pub(crate) trait Limit {
    type Handle: Clone + Send + Sync + 'static;
    type Permit: Debug + Send + 'static;

    const GUARANTEES: Guarantees;

    /// Lets in so many, and then nobody until one has gone.
    fn with_limit(limit: usize) -> Self::Handle;

    /// Not called unless closing is guaranteed.
    fn close(handle: &Self::Handle);

    fn try_enter(handle: &Self::Handle) -> Result<Self::Permit, AcquireError>;

    /// Blocks the thread.
    fn wait(handle: &Self::Handle) -> Result<Self::Permit, AcquireError>;

    /// Begins to wait, and gives up as soon as it would have to.
    fn wait_briefly(handle: &Self::Handle) -> Option<Self::Permit>;

    fn rollback(handle: &Self::Handle, permit: Self::Permit);

    /// Runs a check, once for each variety that there is of it.
    fn each(check: impl Fn()) {
        check();
    }
}

/// A kind of throttle, and how to make one.
pub(crate) trait Subject {
    type Throttle: TryThrottle<Permit: Debug + Send + 'static, Enter: Send + 'static>
        + Send
        + Sync
        + 'static;

    const GUARANTEES: Guarantees;

    /// Lets in so many, and then nobody until one has gone.
    fn with_limit(limit: usize) -> Self::Throttle;

    /// Not called unless closing is guaranteed.
    fn close(throttle: &Self::Throttle);

    /// Runs a check, once for each variety that there is of it.
    fn each(check: impl Fn()) {
        check();
    }
}

/// A subject, by default of a type that has a `close`.
macro_rules! subject {
    ($subject:ident, $throttle:ty, $guarantees:expr, |$limit:ident| $make:expr) => {
        subject!(
            $subject,
            $throttle,
            $guarantees,
            |$limit| $make,
            |throttle| throttle.close()
        );
    };
    ($subject:ident, $throttle:ty, $guarantees:expr, |$limit:ident| $make:expr,
     |$closes:pat_param| $close:expr) => {
        pub(crate) struct $subject;

        impl Subject for $subject {
            type Throttle = $throttle;

            const GUARANTEES: Guarantees = $guarantees;

            fn with_limit($limit: usize) -> Self::Throttle {
                $make
            }

            fn close($closes: &Self::Throttle) {
                $close;
            }
        }
    };
}

/// The same throttle, borrowed for as long as the test lasts, and shared.
macro_rules! both {
    ($borrowed:ident, $shared:ident, $kind:ty, $guarantees:expr, |$limit:ident| $make:expr
     $(, |$closes:pat_param| $close:expr)?) => {
        subject!(
            $borrowed, &'static $kind, $guarantees, |$limit| Box::leak(Box::new($make))
            $(, |$closes| $close)?
        );
        subject!(
            $shared, std::sync::Arc<$kind>, $guarantees, |$limit| std::sync::Arc::new($make)
            $(, |$closes| $close)?
        );
    };
}

pub(crate) use {both, subject};

/// What has futures can do without.
impl<S: Subject> Limit for S {
    type Handle = S::Throttle;
    type Permit = PermitOf<S>;

    const GUARANTEES: Guarantees = S::GUARANTEES;

    fn with_limit(limit: usize) -> Self::Handle {
        S::with_limit(limit)
    }

    fn close(throttle: &Self::Handle) {
        S::close(throttle);
    }

    fn try_enter(throttle: &Self::Handle) -> Result<Self::Permit, AcquireError> {
        throttle.try_enter()
    }

    fn wait(throttle: &Self::Handle) -> Result<Self::Permit, AcquireError> {
        throttle.enter().wait()
    }

    fn wait_briefly(throttle: &Self::Handle) -> Option<Self::Permit> {
        let mut waiter = Waiter::new(throttle.enter());
        match waiter.poll() {
            Poll::Ready(entered) => entered.ok(),
            Poll::Pending => {
                // So that it is in the queue for a while.
                std::thread::yield_now();
                None
            }
        }
    }

    fn rollback(throttle: &Self::Handle, permit: Self::Permit) {
        throttle.rollback(permit);
    }

    fn each(check: impl Fn()) {
        S::each(check);
    }
}

/// What a kind of throttle guarantees beyond the trait, as the table in `tollgate::guarantees` has
/// it. A check of what is not guaranteed passes.
#[derive(Clone, Copy)]
pub(crate) struct Guarantees {
    /// Waiters are admitted in the order in which they joined, whichever is polled first.
    pub(crate) order: bool,
    /// What was given to a waiter that has not run yet cannot be taken by a newcomer.
    pub(crate) no_overtaking: bool,
    /// Two that come back at once wake two; otherwise the second one is woken when the first has
    /// run.
    pub(crate) wakes_each: bool,
    /// A permit is held, and makes room when it is dropped; otherwise only `rollback` does.
    pub(crate) held: bool,
    /// It knows how long a wait would be, and refuses at once one that ends after its deadline.
    pub(crate) knows: bool,
    /// It can be closed, and then wakes and refuses everybody.
    pub(crate) closes: bool,
    /// Nobody enters after the close has returned; otherwise a permit that was granted before may
    /// still go to a newcomer.
    pub(crate) closes_at_once: bool,
    /// A waker that panics is contained.
    pub(crate) contains_panics: bool,
    /// Wakers are called and dropped outside of its locks.
    pub(crate) wakes_outside_locks: bool,
    /// What a wait says that is polled after it was over.
    pub(crate) polled_again: &'static str,
}

impl Guarantees {
    pub(crate) const ALL: Self = Self {
        order: true,
        no_overtaking: true,
        wakes_each: true,
        held: true,
        knows: false,
        closes: true,
        closes_at_once: true,
        contains_panics: true,
        wakes_outside_locks: true,
        polled_again: "polled again after it was ready",
    };
}

/// The permit of a subject.
pub(crate) type PermitOf<S> = <<S as Subject>::Throttle as Throttle>::Permit;

/// The wait of a subject.
pub(crate) type EnterOf<S> = Waiting<<<S as Subject>::Throttle as Throttle>::Enter>;

/// Somebody in the queue.
#[track_caller]
pub(crate) fn parked<S: Subject>(throttle: &S::Throttle) -> Waiter<EnterOf<S>> {
    Waiter::parked(throttle.enter())
}

/// With a limit of one, which is taken.
#[track_caller]
pub(crate) fn held<S: Subject>() -> (S::Throttle, PermitOf<S>) {
    let throttle = S::with_limit(1);
    let permit = throttle.try_enter().expect("there is room");
    (throttle, permit)
}

/// Everything that there is to be had.
#[track_caller]
pub(crate) fn fill<L: Limit>(handle: &L::Handle, limit: usize) -> Vec<L::Permit> {
    let permits = (0..limit).map(|_| L::try_enter(handle).expect("there is room"));
    permits.collect()
}

/// It was refused because there is no room at the moment.
#[track_caller]
pub(crate) fn assert_no_room<P: Debug>(tried: Result<P, AcquireError>) {
    let kind = tried.expect_err("it was let in").kind();
    assert!(
        matches!(kind, ErrorKind::NoPermits | ErrorKind::RateLimited),
        "{kind:?}"
    );
}

/// Nobody is in, nobody waits, and the whole limit can be had, and no more.
#[track_caller]
pub(crate) fn assert_at_rest<L: Limit>(handle: &L::Handle, limit: usize) {
    let permits = fill::<L>(handle, limit);
    assert_no_room(L::try_enter(handle));
    for permit in permits {
        L::rollback(handle, permit);
    }
}
