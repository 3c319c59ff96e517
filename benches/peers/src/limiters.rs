//! The rate limiters, each set as near to the same quota as possible.
//!
//! Two cannot have a burst of one above 1,000 a second: leaky-bucket, whose interval is whole
//! milliseconds, and tower's limit, whose window ends on a tick of tokio's timer, also a
//! millisecond. There both release a millisecond's worth at a time, which favors them. governor's
//! interval is whole nanoseconds.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant as StdInstant};

use quanta::{Clock, Instant};
use tokio::sync::Mutex;
use tollgate::fair::{ClassHandle, FairQueue};
use tollgate::{Algorithm, Quota, RateLimiter, TryThrottle};
use tower::limit::RateLimit;
use tower::{Service, ServiceExt};

use crate::floor::DecisionFloor;

/// Returns the time from one admission to the next.
pub fn interval(quota: Quota) -> Duration {
    quota.period() / quota.count() as u32
}

/// Returns the same quota for a limiter without intervals below a millisecond: the count and the period.
fn in_milliseconds(quota: Quota) -> (u64, Duration) {
    const LEAST: Duration = Duration::from_millis(1);
    if interval(quota) >= LEAST {
        return (1, interval(quota));
    }
    let share = LEAST.as_secs_f64() / quota.period().as_secs_f64();
    ((quota.count() as f64 * share) as u64, LEAST)
}

/// The result of a try: the crate's own `Result` or `Option`, unconverted.
pub trait Answer: Send {
    /// Returns whether a permit was obtained.
    fn is_permit(&self) -> bool;
}

impl<P: Send> Answer for Option<P> {
    #[inline]
    fn is_permit(&self) -> bool {
        self.is_some()
    }
}

impl<P: Send, E: Send> Answer for Result<P, E> {
    #[inline]
    fn is_permit(&self) -> bool {
        self.is_ok()
    }
}

impl Answer for bool {
    #[inline]
    fn is_permit(&self) -> bool {
        *self
    }
}

/// A rate limiter.
pub trait Limiter: Send + Sync + 'static {
    /// Its name in the tables.
    const NAME: &'static str;

    /// Creates one with its full burst.
    fn with_quota(quota: Quota) -> Self;
}

/// A rate limiter that can be tried. Each is inlined here as far as its crate allows: left to the
/// compiler, a long one would be measured with a call around it, and a short one without.
pub trait TryLimiter: Limiter {
    /// Tries to take a token.
    fn try_take(&self) -> impl Answer + '_;
}

/// A rate limiter that can be awaited.
pub trait WaitLimiter: Limiter {
    /// Waits for a token.
    fn take(&self) -> impl Future<Output: Send> + Send;
}

/// Ours, with default settings.
pub type OurLimiter = RateLimiter;

/// Ours as adapters use it: through a handle, tried through the trait.
pub struct AsTried<H>(H);

/// A reference.
pub type ByReference = AsTried<&'static OurLimiter>;

/// A shared handle, as services and tasks hold it.
pub type ByArc = AsTried<Arc<OurLimiter>>;

/// A class of a fair queue in front of ours.
pub type OurFairQueue = ClassHandle<Arc<RateLimiter>, u32>;

/// Ours, as a sliding log.
pub struct OurLog(RateLimiter);

/// governor, on its default clock.
pub type Governor = governor::DefaultDirectRateLimiter;

/// leaky-bucket, with its default fairness.
pub type LeakyBucket = leaky_bucket::RateLimiter;

/// tower's limit, which belongs to one owner. Sharing it takes a lock: tokio's lock is fair, and
/// can be held while the caller waits for the service to become ready.
pub struct SharedRateLimit(Mutex<RateLimit<Immediate>>);

/// The service inside tower's limits. It answers at once; a permit is held from `call` until the response future is
/// dropped.
#[derive(Clone, Copy, Debug)]
pub struct Immediate;

impl Service<()> for Immediate {
    type Response = ();
    type Error = Infallible;
    type Future = Ready<Result<(), Infallible>>;

    #[inline]
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, (): ()) -> Self::Future {
        ready(Ok(()))
    }
}

/// A ring of times under a mutex. Its clock is read under the lock, so that times rise in it.
///
/// We know no crate with an exact sliding log, so ours is compared with a handwritten one: the ring
/// of the article on throttling requests in Java.
pub struct MutexRing {
    clock: Clock,
    period: Duration,
    ring: Lock<Ring>,
}

struct Ring {
    times: Box<[Option<Instant>]>,
    /// The oldest.
    next: usize,
}

impl MutexRing {
    #[inline(always)]
    fn try_start(&self) -> Result<(), Duration> {
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, next) = (self.clock.now(), ring.next);
        if let Some(time) = ring.times[next] {
            let age = now.duration_since(time);
            if age < self.period {
                return Err(self.period - age);
            }
        }
        ring.times[next] = Some(now);
        ring.next = if next + 1 == ring.times.len() {
            0
        } else {
            next + 1
        };
        Ok(())
    }
}

/// Returns a quota for governor.
///
/// # Panics
///
/// Panics if the quota is too high for governor.
pub fn governor_quota(quota: Quota) -> governor::Quota {
    let burst = NonZeroU32::new(quota.max_burst() as u32).expect("a burst of one at least");
    // Its constructors divide by the count and round down; setting the interval gives the same.
    governor::Quota::with_period(interval(quota).max(Duration::from_nanos(1)))
        .expect("the interval is not nought")
        .allow_burst(burst)
}

/// Creates tower's limit by itself. It is built inside a runtime, and holds that runtime's timer.
pub fn tower_rate(quota: Quota) -> RateLimit<Immediate> {
    let (count, window) = match quota.max_burst() {
        1 => in_milliseconds(quota),
        burst => (burst, interval(quota) * burst as u32),
    };
    RateLimit::new(Immediate, tower::limit::rate::Rate::new(count, window))
}

/// Limiters and their operations: `new`, `try` and `take`.
macro_rules! limiters {
    ($($name:literal, $type:ty {
        new($quota:ident) $new:expr;
        $(try($tried:ident) $try:expr;)?
        $(take($taken:ident) $take:expr;)?
    })*) => {$(
        impl Limiter for $type {
            const NAME: &'static str = $name;

            fn with_quota($quota: Quota) -> Self {
                $new
            }
        }

        $(impl TryLimiter for $type {
            #[inline(always)]
            fn try_take(&self) -> impl Answer + '_ {
                let $tried = self;
                $try
            }
        })?

        $(impl WaitLimiter for $type {
            #[inline(always)]
            fn take(&self) -> impl Future<Output: Send> + Send {
                let $taken = self;
                $take
            }
        })?
    )*};
}

limiters! {
    // The raw counter of the processor, without scaling: nothing is cheaper.
    "floor: counter, CAS", DecisionFloor<Clock> {
        new(quota) Self::new(Clock::new(), interval(quota));
        try(it) it.decide(|clock| clock.raw());
    }
    "floor: std Instant, CAS", DecisionFloor<StdInstant> {
        new(quota) Self::new(StdInstant::now(), interval(quota));
        try(it) it.decide(|clock| clock.elapsed().as_nanos() as u64);
    }
    "tollgate", RateLimiter {
        new(quota) Self::new(quota);
        try(it) it.try_acquire();
        take(it) it.acquire();
    }
    "&RateLimiter, as a throttle", ByReference {
        new(quota) Self(Box::leak(Box::new(OurLimiter::with_quota(quota))));
        try(it) it.0.try_enter();
    }
    "Arc<RateLimiter>, as a throttle", ByArc {
        new(quota) Self(Arc::new(OurLimiter::with_quota(quota)));
        try(it) it.0.try_enter();
    }
    "FairQueue in front", OurFairQueue {
        new(quota) FairQueue::new(Arc::new(OurLimiter::with_quota(quota))).class(7);
        take(it) it.acquire();
    }
    "tollgate, sliding log", OurLog {
        new(quota) {
            let quota = Quota::new(quota.count(), quota.period());
            Self(RateLimiter::new(quota).algorithm(Algorithm::SlidingLog))
        };
        try(it) it.0.try_acquire();
    }
    "mutex ring", MutexRing {
        new(quota) {
            let times = vec![None; quota.count() as usize].into();
            let ring = Lock::new(Ring { times, next: 0 });
            Self { clock: Clock::new(), period: quota.period(), ring }
        };
        try(it) it.try_start();
    }
    "governor", Governor {
        new(quota) Self::direct(governor_quota(quota));
        try(it) it.check();
        take(it) it.until_ready();
    }
    "leaky-bucket", LeakyBucket {
        new(quota) {
            let (count, interval) = in_milliseconds(quota);
            Self::builder()
                .interval(interval)
                .refill(count as usize)
                .max(quota.max_burst().max(count) as usize)
                .initial(quota.max_burst() as usize)
                .build()
        };
        try(it) it.try_acquire(1);
        take(it) it.acquire_one();
    }
    // It cannot be awaited: this is the loop that its users write.
    "ratelimit", ratelimit::Ratelimiter {
        new(quota) {
            let built = Self::builder(quota.count())
                .period(quota.period())
                .max_tokens(quota.max_burst())
                .initial_available(quota.max_burst())
                .build();
            built.expect("a sound quota")
        };
        try(it) it.try_wait();
        take(it) async move {
            while let Err(ratelimit::TryWaitError::Insufficient(after)) = it.try_wait() {
                tokio::time::sleep(after).await;
            }
        };
    }
    "throttle-net", throttle_net::Throttle {
        new(quota) {
            let (count, burst) = (quota.count() as u32, quota.max_burst() as u32);
            Self::builder().rate(count, quota.period()).burst(burst).build()
        };
        try(it) it.try_acquire();
        take(it) it.acquire();
    }
    "tower RateLimit, mutex", SharedRateLimit {
        new(quota) Self(Mutex::new(tower_rate(quota)));
        take(it) async move {
            let mut service = it.0.lock().await;
            let ready = service.ready().await.expect("it never fails");
            ready.call(()).await.expect("it never fails");
        };
    }
}
