//! What is made of throttles.
//!
//! One of several parts has all parts at the same limit, so that it lets in as many as each of
//! them.

use std::sync::Arc;

use tollgate::{
    AcquireError, All, BoxThrottle, Cost, RateLimiter, Semaphore, Throttle, TryThrottle, all,
    forward,
};
use tollgate_observe::{Holders, Observed};

use super::ours::rates::limiter;
use super::subject::{Guarantees, Subject};
use crate::support::poll_once;

type Shared = Arc<Semaphore>;

fn shared(limit: usize) -> Shared {
    Arc::new(Semaphore::new(limit))
}

/// A throttle, and a semaphore to close.
///
/// What is composed cannot be closed itself; its parts can. It is the first one, since that is the
/// one that one waits for when all have the same limit.
#[derive(Clone)]
pub(crate) struct Closable<T> {
    throttle: T,
    part: Shared,
}

impl<T> Closable<T> {
    pub(crate) fn new(throttle: T, part: Shared) -> Self {
        Self { throttle, part }
    }

    pub(crate) fn close(&self) {
        self.part.close();
    }
}

impl<T: Throttle> Throttle for Closable<T> {
    type Permit = T::Permit;
    type Enter = T::Enter;

    forward!(Throttle, self => self.throttle);
}

impl<T: TryThrottle> TryThrottle for Closable<T> {
    fn try_enter(&self) -> Result<T::Permit, AcquireError> {
        self.throttle.try_enter()
    }
}

/// A subject with a part that is shared with who closes it.
macro_rules! subject {
    ($(#[$attribute:meta])* $subject:ident, $throttle:ty, |$limit:ident| $part:expr, |$shared:ident| $make:expr) => {
        $(#[$attribute])*
        pub(crate) struct $subject;

        impl Subject for $subject {
            type Throttle = Closable<$throttle>;

            const GUARANTEES: Guarantees = Guarantees::ALL;

            fn with_limit($limit: usize) -> Self::Throttle {
                let part = $part;
                let $shared = Arc::clone(&part);
                Closable { throttle: $make, part }
            }

            fn close(throttle: &Self::Throttle) {
                throttle.part.close();
            }
        }
    };
}

subject!(CostOfOne, Cost<Shared>, |limit| shared(limit), |part| part
    .cost_owned(1));

subject!(CostOfTwo, Cost<Shared>, |limit| shared(2 * limit), |part| {
    part.cost_owned(2)
});

subject!(
    /// The one permit that is left over is of no use.
    CostOfTwoAndOneOver,
    Cost<Shared>,
    |limit| shared(2 * limit + 1),
    |part| part.cost_owned(2)
);

subject!(
    Optional,
    Option<Shared>,
    |limit| shared(limit),
    |part| Some(part)
);

subject!(
    AllOfTwo,
    All<(Shared, Shared)>,
    |limit| shared(limit),
    |part| {
        let other = shared(part.permits());
        all((part, other))
    }
);

subject!(
    AllOfThree,
    All<(Shared, Cost<Shared>, Option<Shared>)>,
    |limit| shared(limit),
    |part| {
        let twice = shared(2 * part.permits());
        all((part, twice.cost_owned(2), None))
    }
);

subject!(
    Nested,
    All<(All<(Shared, Shared)>, All<(Shared, Shared)>)>,
    |limit| shared(limit),
    |part| {
        let limit = part.permits();
        let other = || shared(limit);
        let others = (other(), other(), other());
        all((all((part, others.0)), all((others.1, others.2))))
    }
);

subject!(
    ObservedByNobody,
    Observed<Shared, ()>,
    |limit| shared(limit),
    |part| Observed::new(part, ())
);

subject!(
    ObservedBoxed,
    Observed<TriesByPolling, ()>,
    |limit| shared(limit),
    |part| Observed::new(TriesByPolling(BoxThrottle::new(part)), ())
);

subject!(
    ObservedByHolders,
    Observed<Shared, (Holders, ())>,
    |limit| shared(limit),
    |part| Observed::new(part, (Holders::new("slots"), ()))
);

subject!(Boxed, TriesByPolling, |limit| shared(limit), |part| {
    TriesByPolling(BoxThrottle::new(part))
});

subject!(BoxedAll, TriesByPolling, |limit| shared(limit), |part| {
    let other = shared(part.permits());
    let both = all((part, other));
    TriesByPolling(BoxThrottle::new(BoxThrottle::new(both)))
});

/// Each entry holds a permit and costs three.
pub(crate) struct SemaphoreAndRateLimiter;

impl Subject for SemaphoreAndRateLimiter {
    type Throttle = Closable<All<(Shared, Cost<Arc<RateLimiter>>)>>;

    const GUARANTEES: Guarantees = Guarantees {
        held: false,
        ..Guarantees::ALL
    };

    fn with_limit(limit: usize) -> Self::Throttle {
        let (part, rate) = (shared(limit), Arc::new(limiter(3 * limit)));
        Closable {
            throttle: all((Arc::clone(&part), rate.cost_owned(3))),
            part,
        }
    }

    fn close(throttle: &Self::Throttle) {
        throttle.part.close();
    }
}

/// A boxed throttle has no way to try, so a wait is polled once and dropped if it is not over.
#[derive(Clone)]
pub(crate) struct TriesByPolling(BoxThrottle);

impl TriesByPolling {
    pub(crate) fn new(throttle: BoxThrottle) -> Self {
        Self(throttle)
    }
}

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
