//! A class of a fair queue, in front of throttles of all kinds. With one class it is first-in
//! first-out.

use std::sync::Arc;

use tollgate::fair::{ClassHandle, FairQueue, Share};
use tollgate::{All, BoxThrottle, RateLimiter, Semaphore, Throttle, all};
use tollgate_observe::Observed;

use super::composed::{Closable, TriesByPolling};
use super::ours::rates::limiter;
use super::subject::{Guarantees, Subject, subject};

/// Who gets a permit is decided after the throttle has granted it.
const OF_A_QUEUE: Guarantees = Guarantees {
    closes_at_once: false,
    ..Guarantees::ALL
};

/// The wakers of the throttle may be called under its lock, so the next waiter enters for all, when
/// it runs; it also finds out about a close for all.
#[cfg(any(feature = "tokio", feature = "channel", feature = "async-lock"))]
const POLLED_BY_WAITERS: Guarantees = Guarantees {
    closes: false,
    wakes_outside_locks: false,
    ..OF_A_QUEUE
};

type Fair<T> = ClassHandle<T, &'static str>;

fn fair<T>(throttle: T) -> Fair<T>
where
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    FairQueue::new(throttle).class("a class")
}

fn shared(limit: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(limit))
}

subject!(
    FairSemaphore,
    Fair<Arc<Semaphore>>,
    OF_A_QUEUE,
    |limit| fair(shared(limit)),
    |class| class.throttle().close()
);

subject!(
    FairByCost,
    Fair<Arc<Semaphore>>,
    OF_A_QUEUE,
    |limit| FairQueue::new(shared(limit))
        .share(Share::ByCost)
        .class("a class"),
    |class| class.throttle().close()
);

subject!(
    FairBoxed,
    Closable<Fair<TriesByPolling>>,
    OF_A_QUEUE,
    |limit| {
        let part = shared(limit);
        let boxed: BoxThrottle = BoxThrottle::new(Arc::clone(&part));
        Closable::new(fair(TriesByPolling::new(boxed)), part)
    },
    |closable| closable.close()
);

subject!(
    FairObserved,
    Fair<Observed<Arc<Semaphore>, ()>>,
    OF_A_QUEUE,
    |limit| fair(Observed::new(shared(limit), ())),
    |class| class.throttle().throttle().close()
);

subject!(
    ObservedFair,
    Observed<Fair<Arc<Semaphore>>, ()>,
    OF_A_QUEUE,
    |limit| Observed::new(fair(shared(limit)), ()),
    |observed| observed.throttle().throttle().close()
);

subject!(
    FairOfFair,
    Fair<Fair<Arc<Semaphore>>>,
    OF_A_QUEUE,
    |limit| fair(fair(shared(limit))),
    |class| class.throttle().throttle().close()
);

subject!(
    FairOfAll,
    Closable<Fair<All<(Arc<Semaphore>, Arc<Semaphore>)>>>,
    OF_A_QUEUE,
    |limit| {
        let part = shared(limit);
        Closable::new(fair(all((Arc::clone(&part), shared(limit)))), part)
    },
    |closable| closable.close()
);

subject!(
    AllOfFair,
    Closable<All<(Fair<Arc<Semaphore>>, Fair<Arc<Semaphore>>)>>,
    OF_A_QUEUE,
    |limit| {
        let part = shared(limit);
        let both = all((fair(Arc::clone(&part)), fair(shared(limit))));
        Closable::new(both, part)
    },
    |closable| closable.close()
);

subject!(
    FairRateLimiter,
    Fair<Arc<RateLimiter>>,
    Guarantees {
        held: false,
        ..OF_A_QUEUE
    },
    |limit| fair(Arc::new(limiter(limit))),
    |class| class.throttle().close()
);

#[cfg(feature = "channel")]
subject!(
    FairChannelSemaphore,
    Fair<Arc<tollgate::ChannelSemaphore>>,
    POLLED_BY_WAITERS,
    |limit| fair(Arc::new(tollgate::ChannelSemaphore::new(limit))),
    |class| class.throttle().close()
);

#[cfg(feature = "tokio")]
subject!(
    FairTokio,
    Fair<Arc<tokio::sync::Semaphore>>,
    POLLED_BY_WAITERS,
    |limit| fair(Arc::new(tokio::sync::Semaphore::new(limit))),
    |class| class.throttle().close()
);

#[cfg(feature = "async-lock")]
subject!(
    FairAsyncLock,
    Fair<Arc<async_lock::Semaphore>>,
    Guarantees {
        contains_panics: false,
        ..POLLED_BY_WAITERS
    },
    |limit| fair(Arc::new(async_lock::Semaphore::new(limit))),
    |_| unreachable!("it cannot be closed")
);
