//! Every kind of throttle, ours and others': borrowed for as long as the test lasts, and shared.

use std::iter::repeat_n;
use std::sync::Arc;
use std::time::Duration;

use tollgate::throttle::Polling;
use tollgate::{Algorithm, Clock, CondvarSemaphore, Keyed, Pool, Quota, RateLimiter, Semaphore};
use tollgate_adaptive::{AdaptiveRate, AdaptiveSemaphore, Shared};

use super::subject::{AnyEnter, AnyPermit, AnyThrottle, Entered, Erased, Guarantees, Subject};
use crate::fixed::Fixed;

/// Returns a subject of a type that can be closed.
fn subject<T: Erased + Clone + 'static>(
    name: impl ToString,
    guarantees: Guarantees,
    make: impl Fn(usize) -> T + Send + Sync + 'static,
    close: fn(&T),
) -> Subject {
    Subject::new(name, guarantees, move |limit| {
        let throttle = make(limit);
        let closes = throttle.clone();
        AnyThrottle::new(throttle).closed_by(move || close(&closes))
    })
}

/// Defines subjects and their tests. Without another instruction, a subject's `close` closes it.
macro_rules! subjects {
    ($($name:ident: $guarantees:expr, $make:expr $(, $close:expr)?;)*) => {$(
        pub(crate) mod $name {
            use super::*;

            pub(crate) fn subjects() -> Vec<Subject> {
                vec![subjects!(@ $name, $guarantees, $make $(, $close)?)]
            }

            conformance!(subjects());
        }
    )*};
    (@ $name:ident, $guarantees:expr, $make:expr) => {
        subjects!(@ $name, $guarantees, $make, |throttle| throttle.close())
    };
    (@ $name:ident, $guarantees:expr, $make:expr, $close:expr) => {
        subject(stringify!($name), $guarantees, $make, $close)
    };
}

/// The same type, borrowed and shared.
macro_rules! both {
    ($($borrowed:ident $shared:ident: $guarantees:expr, $make:expr $(, $close:expr)?;)*) => {
        subjects! {$(
            $borrowed: $guarantees, |limit| leak($make(limit)) $(, $close)?;
            $shared: $guarantees, |limit| Arc::new($make(limit)) $(, $close)?;
        )*}
    };
}

/// The inside of wrappers, with several permits per entry.
pub(crate) mod semaphore {
    use super::*;

    pub(crate) fn subjects() -> Vec<Subject> {
        let subject = Subject::new("semaphore", ALL, |limit| {
            let semaphore = Arc::new(Semaphore::new(limit));
            let closes = Arc::clone(&semaphore);
            AnyThrottle::weighted(semaphore).closed_by(move || closes.close())
        });
        vec![subject]
    }
}

pub(super) fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

const ALL: Guarantees = Guarantees::ALL;

/// Time stands still, so only returned permits make room, and only if the type guarantees that.
const OF_A_RATE: Guarantees = Guarantees {
    held: false,
    knows: true,
    ..ALL
};

both! {
    borrowed_semaphore shared_semaphore: ALL, Semaphore::new;
    borrowed_pool shared_pool: ALL, |limit| Pool::new(repeat_n((), limit));
    borrowed_rate_limiter shared_rate_limiter: OF_A_RATE, limiter;
}

subjects! {
    borrowed_adaptive_semaphore: ALL, |limit| leak(adaptive_semaphore(limit));
    shared_adaptive_semaphore: ALL, |limit| Shared::from(adaptive_semaphore(limit));
    borrowed_adaptive_rate: OF_A_RATE, |limit| leak(adaptive_rate(limit));
    shared_adaptive_rate: OF_A_RATE, |limit| Shared::from(adaptive_rate(limit));
    factory_pool: ALL, |limit| Arc::new(Pool::with_factory(limit, || "an item".to_owned()));
    limited_later: OF_A_RATE, limited_later;
    // One key of many, while others come and go.
    key_of_rates: OF_A_RATE, |limit| leak(rates(limit)).key(&7), |key| key.keyed().close();
    shared_key_of_rates: OF_A_RATE, |limit| Arc::new(rates(limit)).key_owned(7), |key| key.keyed().close();
    key_of_permits: ALL, |limit| leak(permits(limit)).key(&7), |key| key.keyed().close();
    shared_key_of_permits: ALL, |limit| Arc::new(permits(limit)).key_owned(7), |key| key.keyed().close();
}

pub(super) fn limiter(limit: usize) -> RateLimiter {
    let quota = Quota::per_hour(1).burst(limit as u64);
    RateLimiter::new(quota).clock(Clock::manual())
}

/// Returns a limiter that got its limit only recently, after calls without a limit.
fn limited_later(limit: usize) -> Arc<RateLimiter> {
    let limiter = RateLimiter::new(Quota::UNLIMITED).clock(Clock::manual());
    let charge = limiter.try_acquire_many(1 << 40);
    charge.expect("there is no limit");
    limiter.set_quota(Quota::per_hour(1).burst(limit as u64));
    Arc::new(limiter)
}

fn adaptive_rate(limit: usize) -> AdaptiveRate {
    let rate = AdaptiveRate::new().limits(0.001..=0.001);
    rate.burst(limit as u64).clock(Clock::manual())
}

/// The checks of deadlines pause tokio's time.
fn adaptive_semaphore(limit: usize) -> AdaptiveSemaphore {
    let semaphore = AdaptiveSemaphore::new(Fixed(limit as f64)).limits(1..=2000);
    #[cfg(feature = "tokio")]
    let semaphore = semaphore.clock(Clock::tokio());
    semaphore
}

fn rates(limit: usize) -> Keyed<u64, RateLimiter> {
    Keyed::<u64, _>::new(limiter(limit)).max_keys(10)
}

fn permits(limit: usize) -> Keyed<u64, Semaphore> {
    Keyed::<u64, _>::semaphores(limit).max_keys(10)
}

/// A limiter by each algorithm.
mod each_algorithm {
    use super::*;

    fn subjects() -> Vec<Subject> {
        let subject = |&algorithm| subject(algorithm, OF_A_RATE, by(algorithm), |it| it.close());
        Algorithm::all().iter().map(subject).collect()
    }

    /// Returns a quota of this many an hour, with all of them at once.
    fn by(algorithm: Algorithm) -> impl Fn(usize) -> Arc<RateLimiter> {
        move |limit| {
            let limit = limit as u64;
            let quota = |times| Quota::per_hour(times * limit).burst(times * limit);
            let gives_all = |quota: &Quota| {
                algorithm.check(*quota).is_ok() && algorithm.batch(*quota).max_burst() == limit
            };
            let quota = (1..100).map(quota).find(gives_all);
            let limiter = RateLimiter::new(quota.expect("a count that fits")).algorithm(algorithm);
            Arc::new(limiter.clock(Clock::manual()))
        }
    }

    conformance!(subjects());
}

/// It has no futures, so it is no throttle.
mod condvar_semaphore {
    use super::*;

    fn subjects() -> Vec<Subject> {
        let make = |limit| Condvar(Arc::new(CondvarSemaphore::new(limit)));
        vec![subject("condvar", ALL, make, |semaphore| {
            semaphore.0.close();
        })]
    }

    #[derive(Clone)]
    struct Condvar(Arc<CondvarSemaphore>);

    impl Erased for Condvar {
        fn cloned(&self) -> Box<dyn Erased> {
            Box::new(self.clone())
        }

        fn try_enter_any(&self) -> Entered {
            let permit = Arc::clone(&self.0).try_acquire_owned();
            permit.map(AnyPermit::new)
        }

        fn wait(&self) -> Entered {
            let request = Arc::clone(&self.0).acquire_owned();
            request.wait().map(AnyPermit::new)
        }

        fn wait_briefly(&self) -> Option<AnyPermit> {
            // Too short to be let in, and long enough to have waited.
            let nanosecond = Duration::from_nanos(1);
            let request = Arc::clone(&self.0).acquire_owned();
            let permit = request.timeout(nanosecond).wait().ok();
            permit.map(AnyPermit::new)
        }

        fn rollback_any(&self, permit: AnyPermit) {
            drop(permit);
        }

        fn enter_any(&self) -> AnyEnter {
            unreachable!("it has no futures")
        }

        fn enter_now_any(&self) -> Option<AnyPermit> {
            None
        }

        fn polling_any(&self) -> Polling {
            Polling::BY_WAITERS
        }
    }

    limit!(subjects());
}

#[cfg(feature = "channel")]
use tollgate::ChannelSemaphore;

/// Without waits: the first to run takes a free permit.
#[cfg(feature = "channel")]
const OF_A_CHANNEL: Guarantees = Guarantees {
    order: false,
    no_overtaking: false,
    polled_by_wakers: false,
    ..ALL
};

#[cfg(feature = "channel")]
both! {
    borrowed_channel_semaphore shared_channel_semaphore: OF_A_CHANNEL, ChannelSemaphore::new;
}

#[cfg(feature = "channel")]
subjects! {
    reversed_channel_semaphore: OF_A_CHANNEL, |limit| Arc::new(ChannelSemaphore::reversed(limit));
}

#[cfg(feature = "tokio")]
const OF_TOKIO: Guarantees = Guarantees {
    contains_panics: false,
    ..ALL
};

#[cfg(feature = "tokio")]
both! {
    borrowed_tokio shared_tokio: OF_TOKIO, tokio::sync::Semaphore::new;
}

#[cfg(feature = "async-lock")]
const OF_ASYNC_LOCK: Guarantees = Guarantees {
    order: false,
    no_overtaking: false,
    wakes_each: false,
    closes: false,
    contains_panics: false,
    polled_by_wakers: false,
    ..ALL
};

#[cfg(feature = "async-lock")]
both! {
    borrowed_async_lock shared_async_lock: OF_ASYNC_LOCK, async_lock::Semaphore::new,
        |_| unreachable!("it cannot be closed");
}
