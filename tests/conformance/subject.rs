//! What a type brings along to be checked.

use std::fmt::Debug;

use tollgate::{AcquireError, ErrorKind, TryThrottle};

use crate::support::Waiter;

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
}

/// What a kind of throttle guarantees beyond the trait. A check of what is not guaranteed passes.
pub(crate) struct Guarantees {
    /// Waiters are let in in the order in which they joined.
    pub(crate) order: bool,
    /// What was given to a waiter that has not run yet cannot be taken by a newcomer.
    pub(crate) no_overtaking: bool,
    /// A permit is held, and makes room when it is dropped; otherwise only `undo` does.
    pub(crate) held: bool,
    /// It can be closed, and then tells everybody.
    pub(crate) closes: bool,
}

impl Guarantees {
    pub(crate) const ALL: Self = Self {
        order: true,
        no_overtaking: true,
        held: true,
        closes: true,
    };
}

/// The permit of a subject.
pub(crate) type PermitOf<S> = <<S as Subject>::Throttle as tollgate::Throttle>::Permit;

/// The wait of a subject.
pub(crate) type EnterOf<S> = <<S as Subject>::Throttle as tollgate::Throttle>::Enter;

/// Somebody in line.
#[track_caller]
pub(crate) fn parked<S: Subject>(throttle: &S::Throttle) -> Waiter<EnterOf<S>> {
    Waiter::parked(tollgate::Throttle::enter(throttle))
}

/// Everything that there is to be had.
#[track_caller]
pub(crate) fn fill<S: Subject>(throttle: &S::Throttle, limit: usize) -> Vec<PermitOf<S>> {
    let permits = (0..limit).map(|_| throttle.try_enter().expect("there is room"));
    permits.collect()
}

/// It was refused because there is no room at the moment.
#[track_caller]
pub(crate) fn assert_no_room<P: Debug>(tried: Result<P, AcquireError>) {
    let kind = tried.expect_err("it was let in").kind();
    assert!(
        matches!(kind, ErrorKind::NoPermits | ErrorKind::Limited),
        "{kind:?}"
    );
}

/// Nobody is in, nobody waits, and the whole limit can be had, and no more.
#[track_caller]
pub(crate) fn assert_at_rest<S: Subject>(throttle: &S::Throttle, limit: usize) {
    let permits = fill::<S>(throttle, limit);
    assert_no_room(throttle.try_enter());
    for permit in permits {
        tollgate::Throttle::undo(throttle, permit);
    }
}
