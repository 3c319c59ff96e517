//! Our own types, borrowed for as long as the test lasts, and shared.

use std::sync::Arc;

use tollgate::{AcquireError, CondvarSemaphore, Semaphore};

use super::subject::{Guarantees, Limit, Subject};

/// A subject of a type that has a `close`.
macro_rules! subject {
    ($subject:ident, $throttle:ty, $guarantees:expr, |$limit:ident| $make:expr) => {
        pub(crate) struct $subject;

        impl Subject for $subject {
            type Throttle = $throttle;

            const GUARANTEES: Guarantees = $guarantees;

            fn with_limit($limit: usize) -> Self::Throttle {
                $make
            }

            fn close(throttle: &Self::Throttle) {
                throttle.close();
            }
        }
    };
}

subject!(
    BorrowedSemaphore,
    &'static Semaphore,
    Guarantees::ALL,
    |limit| Box::leak(Box::new(Semaphore::new(limit)))
);

subject!(SharedSemaphore, Arc<Semaphore>, Guarantees::ALL, |limit| {
    Arc::new(Semaphore::new(limit))
});

/// Time stands still, so that only what is given back makes room; and that only if it is said to
/// be.
pub(crate) mod rates {
    use tollgate::{Algorithm, Clock, Quota, RateLimiter};

    use super::*;

    const GUARANTEES: Guarantees = Guarantees {
        held: false,
        knows: true,
        ..Guarantees::ALL
    };

    pub(crate) fn limiter(limit: usize) -> RateLimiter {
        let quota = Quota::per_hour(1).burst(limit as u64);
        RateLimiter::new(quota).clock(Clock::manual())
    }

    subject!(
        BorrowedRateLimiter,
        &'static RateLimiter,
        GUARANTEES,
        |limit| Box::leak(Box::new(limiter(limit)))
    );

    subject!(SharedRateLimiter, Arc<RateLimiter>, GUARANTEES, |limit| {
        Arc::new(limiter(limit))
    });

    /// By another rule: so many an hour, of a count that gives as many at once.
    fn by(algorithm: Algorithm, count: usize) -> Arc<RateLimiter> {
        let limiter = RateLimiter::new(Quota::per_hour(count as u64)).algorithm(algorithm);
        Arc::new(limiter.clock(Clock::manual()))
    }

    subject!(TokenBucket, Arc<RateLimiter>, GUARANTEES, |limit| {
        by(Algorithm::TokenBucket, limit)
    });

    subject!(FixedWindow, Arc<RateLimiter>, GUARANTEES, |limit| {
        by(Algorithm::FixedWindow, limit)
    });

    subject!(SlidingWindow, Arc<RateLimiter>, GUARANTEES, |limit| {
        by(Algorithm::SlidingWindow, limit)
    });

    subject!(SlidingLog, Arc<RateLimiter>, GUARANTEES, |limit| {
        by(Algorithm::SlidingLog, limit)
    });

    subject!(SubInterval, Arc<RateLimiter>, GUARANTEES, |limit| {
        by(Algorithm::SubInterval { parts: 1 }, 2 * limit)
    });
}

/// One key of many, while others come and go.
pub(crate) mod keyed {
    use tollgate::keyed::{Key, OwnedKey};
    use tollgate::{Clock, Keyed, Quota, RateLimiter, Semaphore};

    use super::*;

    fn rates(limit: usize) -> Keyed<u64, RateLimiter> {
        let quota = Quota::per_hour(1).burst(limit as u64);
        Keyed::<u64, _>::rate_limiters(quota)
            .max_keys(10)
            .clock(Clock::manual())
    }

    fn permits(limit: usize) -> Keyed<u64, Semaphore> {
        Keyed::<u64, _>::semaphores(limit).max_keys(10)
    }

    const OF_A_RATE: Guarantees = Guarantees {
        held: false,
        knows: true,
        ..Guarantees::ALL
    };

    macro_rules! keyed {
        ($borrowed:ident, $shared:ident, $kind:ty, $guarantees:expr, $make:ident) => {
            pub(crate) struct $borrowed;

            impl Subject for $borrowed {
                type Throttle = Key<'static, u64, $kind>;

                const GUARANTEES: Guarantees = $guarantees;

                fn with_limit(limit: usize) -> Self::Throttle {
                    Box::leak(Box::new($make(limit))).key(&7)
                }

                fn close(throttle: &Self::Throttle) {
                    throttle.keyed().close();
                }
            }

            pub(crate) struct $shared;

            impl Subject for $shared {
                type Throttle = OwnedKey<u64, $kind>;

                const GUARANTEES: Guarantees = $guarantees;

                fn with_limit(limit: usize) -> Self::Throttle {
                    Arc::new($make(limit)).key_owned(7)
                }

                fn close(throttle: &Self::Throttle) {
                    throttle.keyed().close();
                }
            }
        };
    }

    keyed!(BorrowedRate, SharedRate, RateLimiter, OF_A_RATE, rates);
    keyed!(
        BorrowedPermits,
        SharedPermits,
        Semaphore,
        Guarantees::ALL,
        permits
    );
}

pub(crate) mod pools {
    use std::iter::repeat_n;

    use tollgate::Pool;

    use super::*;

    subject!(BorrowedPool, &'static Pool<()>, Guarantees::ALL, |limit| {
        Box::leak(Box::new(Pool::new(repeat_n((), limit))))
    });

    subject!(
        SharedPool,
        Arc<Pool<()>>,
        Guarantees::ALL,
        |limit| Arc::new(Pool::new(repeat_n((), limit)))
    );

    subject!(FactoryPool, Arc<Pool<String>>, Guarantees::ALL, |limit| {
        Arc::new(Pool::with_factory(limit, || "an item".to_owned()))
    });
}

#[cfg(feature = "channel")]
pub(crate) mod channels {
    use tollgate::ChannelSemaphore;

    use super::*;

    /// Whoever runs first takes what there is.
    const OF_A_CHANNEL: Guarantees = Guarantees {
        order: false,
        no_overtaking: false,
        ..Guarantees::ALL
    };

    subject!(
        BorrowedChannelSemaphore,
        &'static ChannelSemaphore,
        OF_A_CHANNEL,
        |limit| Box::leak(Box::new(ChannelSemaphore::new(limit)))
    );

    subject!(
        SharedChannelSemaphore,
        Arc<ChannelSemaphore>,
        OF_A_CHANNEL,
        |limit| Arc::new(ChannelSemaphore::new(limit))
    );

    subject!(
        ReversedChannelSemaphore,
        Arc<ChannelSemaphore>,
        OF_A_CHANNEL,
        |limit| Arc::new(ChannelSemaphore::reversed(limit))
    );
}

/// It has no futures, so it is no throttle.
pub(crate) struct Condvar;

impl Limit for Condvar {
    type Handle = Arc<CondvarSemaphore>;
    type Permit = tollgate::condvar_semaphore::OwnedPermit;

    const GUARANTEES: Guarantees = Guarantees {
        order: false,
        no_overtaking: false,
        ..Guarantees::ALL
    };

    fn with_limit(limit: usize) -> Self::Handle {
        Arc::new(CondvarSemaphore::new(limit))
    }

    fn close(handle: &Self::Handle) {
        handle.close();
    }

    fn try_enter(handle: &Self::Handle) -> Result<Self::Permit, AcquireError> {
        Arc::clone(handle).try_acquire_owned()
    }

    fn wait(handle: &Self::Handle) -> Result<Self::Permit, AcquireError> {
        Arc::clone(handle).acquire_owned().wait()
    }

    fn wait_briefly(handle: &Self::Handle) -> Option<Self::Permit> {
        // Too short to be let in, and long enough to have waited.
        let nanosecond = std::time::Duration::from_nanos(1);
        let request = Arc::clone(handle).acquire_owned();
        request.timeout(nanosecond).wait().ok()
    }

    fn rollback(_: &Self::Handle, permit: Self::Permit) {
        drop(permit);
    }
}
