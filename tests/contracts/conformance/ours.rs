//! Our own types, borrowed for as long as the test lasts, and shared.

use std::sync::Arc;

use tollgate::{AcquireError, CondvarSemaphore, Semaphore};

use super::subject::{Guarantees, Limit, Subject, both, subject};

both!(
    BorrowedSemaphore,
    SharedSemaphore,
    Semaphore,
    Guarantees::ALL,
    |limit| Semaphore::new(limit)
);

/// Time stands still, so that only what is given back makes room; and that only if it is said to
/// be.
const OF_A_RATE: Guarantees = Guarantees {
    held: false,
    knows: true,
    ..Guarantees::ALL
};

pub(crate) mod rates {
    use std::cell::Cell;

    use tollgate::adaptive::AdaptiveRate;
    use tollgate::{Algorithm, Clock, Quota, RateLimiter};

    use super::*;

    pub(crate) fn limiter(limit: usize) -> RateLimiter {
        let quota = Quota::per_hour(1).burst(limit as u64);
        RateLimiter::new(quota).clock(Clock::manual())
    }

    both!(
        BorrowedRateLimiter,
        SharedRateLimiter,
        RateLimiter,
        OF_A_RATE,
        |limit| limiter(limit)
    );

    // Limited only since a moment ago, after calls that no limit held back.
    subject!(LimitedLater, Arc<RateLimiter>, OF_A_RATE, |limit| {
        let limiter = RateLimiter::new(Quota::UNLIMITED).clock(Clock::manual());
        limiter
            .try_acquire_many(1 << 40)
            .expect("there is no limit");
        limiter.set_quota(Quota::per_hour(1).burst(limit as u64));
        Arc::new(limiter)
    });

    both!(
        BorrowedAdaptiveRate,
        SharedAdaptiveRate,
        AdaptiveRate,
        OF_A_RATE,
        |limit| adaptive(limit)
    );

    fn adaptive(limit: usize) -> AdaptiveRate {
        let rate = AdaptiveRate::new().limits(0.001..=0.001);
        rate.burst(limit as u64).clock(Clock::manual())
    }

    thread_local! {
        static ALGORITHM: Cell<Algorithm> = const { Cell::new(Algorithm::Gcra) };
    }

    /// A limiter by each algorithm, one after the other.
    pub(crate) struct EachAlgorithm;

    impl Subject for EachAlgorithm {
        type Throttle = Arc<RateLimiter>;

        const GUARANTEES: Guarantees = OF_A_RATE;

        /// So many an hour that so many go at once.
        fn with_limit(limit: usize) -> Arc<RateLimiter> {
            let (algorithm, limit) = (ALGORITHM.get(), limit as u64);
            let quota = |times| Quota::per_hour(times * limit).burst(times * limit);
            let gives_all = |quota: &Quota| {
                algorithm.check(*quota).is_ok() && algorithm.batch(*quota).max_burst() == limit
            };
            let quota = (1..100).map(quota).find(gives_all);
            let limiter = RateLimiter::new(quota.expect("a count that fits")).algorithm(algorithm);
            Arc::new(limiter.clock(Clock::manual()))
        }

        fn close(limiter: &Arc<RateLimiter>) {
            limiter.close();
        }

        fn each(check: impl Fn()) {
            for &algorithm in Algorithm::all() {
                // Shown when the check fails.
                println!("{algorithm}");
                ALGORITHM.set(algorithm);
                check();
            }
        }
    }
}

/// One key of many, while others come and go.
pub(crate) mod keyed {
    use tollgate::keyed::Key;
    use tollgate::{Clock, Keyed, Quota, RateLimiter, Semaphore};

    use super::*;

    fn rates(limit: usize) -> Keyed<u64, RateLimiter> {
        let quota = Quota::per_hour(1).burst(limit as u64);
        Keyed::<u64, _>::new(RateLimiter::new(quota).clock(Clock::manual())).max_keys(10)
    }

    fn permits(limit: usize) -> Keyed<u64, Semaphore> {
        Keyed::<u64, _>::semaphores(limit).max_keys(10)
    }

    macro_rules! keyed {
        ($borrowed:ident, $shared:ident, $kind:ty, $guarantees:expr, $make:ident) => {
            subject!(
                $borrowed,
                Key<'static, $kind, u64>,
                $guarantees,
                |limit| Box::leak(Box::new($make(limit))).key(&7),
                |throttle| throttle.keyed().close()
            );
            subject!(
                $shared,
                Key<'static, $kind, u64>,
                $guarantees,
                |limit| Arc::new($make(limit)).key_owned(7),
                |throttle| throttle.keyed().close()
            );
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

pub(crate) mod adaptive {
    use tollgate::adaptive::AdaptiveSemaphore;

    use super::*;
    use crate::support::Fixed;

    both!(
        BorrowedAdaptive,
        SharedAdaptive,
        AdaptiveSemaphore,
        Guarantees::ALL,
        |limit| semaphore(limit)
    );

    /// The checks of deadlines pause tokio's time.
    fn semaphore(limit: usize) -> AdaptiveSemaphore {
        let semaphore = AdaptiveSemaphore::new(Fixed(limit as f64)).limits(1..=2000);
        #[cfg(feature = "tokio")]
        let semaphore = semaphore.clock(tollgate::Clock::tokio());
        semaphore
    }
}

pub(crate) mod pools {
    use std::iter::repeat_n;

    use tollgate::Pool;

    use super::*;

    both!(
        BorrowedPool,
        SharedPool,
        Pool<()>,
        Guarantees::ALL,
        |limit| Pool::new(repeat_n((), limit))
    );

    subject!(FactoryPool, Arc<Pool<String>>, Guarantees::ALL, |limit| {
        Arc::new(Pool::with_factory(limit, || "an item".to_owned()))
    });
}

#[cfg(feature = "channel")]
pub(crate) mod channels {
    use tollgate::ChannelSemaphore;

    use super::*;

    /// The first to run takes what there is.
    const OF_A_CHANNEL: Guarantees = Guarantees {
        order: false,
        no_overtaking: false,
        wakes_outside_locks: false,
        ..Guarantees::ALL
    };

    both!(
        BorrowedChannelSemaphore,
        SharedChannelSemaphore,
        ChannelSemaphore,
        OF_A_CHANNEL,
        |limit| ChannelSemaphore::new(limit)
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
    type Permit = tollgate::Permit<std::sync::Arc<tollgate::CondvarSemaphore>>;

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
