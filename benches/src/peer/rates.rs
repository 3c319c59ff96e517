//! The rate limiters, each as near to the same quota as it can be set.
//!
//! Two cannot be set to a burst of one above 1,000 a second: leaky-bucket, whose interval is whole
//! milliseconds, and tower's limit, whose window ends on a tick of tokio's timer, which is a
//! millisecond as well. There both get as many at a time as belong into a millisecond, which favors
//! them. governor's interval is whole nanoseconds.

use std::future::Future;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{QuantaInstant, QuantaUpkeepClock};
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use tokio::sync::Mutex;
use tollgate::TryThrottle;
use tollgate::fair::{ClassHandle, FairQueue};
use tower::limit::RateLimit;
use tower::{Service, ServiceExt};

use super::Answer;
use crate::service::Immediate;

/// So many in a period, spread over it, and at most so many at once.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// How many in each period.
    pub count: u32,
    /// How long that is.
    pub period: Duration,
    /// How many at once after a pause, and at the beginning.
    pub burst: u32,
}

impl Rate {
    /// So many a second.
    #[must_use]
    pub const fn per_second(count: u32, burst: u32) -> Rate {
        Rate {
            count,
            period: Duration::from_secs(1),
            burst,
        }
    }

    /// From one to the next.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.period / self.count
    }

    /// The same for a limiter that knows no interval below a millisecond: how many of how long.
    fn in_milliseconds(self) -> (u32, Duration) {
        const LEAST: Duration = Duration::from_millis(1);
        if self.interval() >= LEAST {
            return (1, self.interval());
        }
        let share = LEAST.as_secs_f64() / self.period.as_secs_f64();
        ((f64::from(self.count) * share) as u32, LEAST)
    }

    fn burst(self) -> NonZeroU32 {
        NonZeroU32::new(self.burst).expect("a burst of one at least")
    }
}

/// A rate limiter.
pub trait Limiter: Send + Sync + 'static {
    /// What the tables call it.
    const NAME: &'static str;

    /// One that has all of its burst.
    fn with_rate(rate: Rate) -> Self;
}

/// One that can be asked. Each is inlined here as far as its crate has it: left to the compiler, a long
/// one would be measured with a call around it, and a short one without.
pub trait TryLimiter: Limiter {
    /// Goes if it may.
    fn try_take(&self) -> impl Answer + '_;
}

/// One that can be awaited.
pub trait WaitLimiter: Limiter {
    /// Goes when it may.
    fn take(&self) -> impl Future<Output: Send> + Send;
}

/// Ours, as it is by default.
pub type OurLimiter = tollgate::RateLimiter;

impl Limiter for OurLimiter {
    const NAME: &'static str = "tollgate";

    fn with_rate(rate: Rate) -> Self {
        let quota = tollgate::Quota::new(u64::from(rate.count), rate.period);
        Self::new(quota.burst(u64::from(rate.burst)))
    }
}

impl TryLimiter for OurLimiter {
    #[inline(always)]
    fn try_take(&self) -> impl Answer + '_ {
        self.try_acquire()
    }
}

impl WaitLimiter for OurLimiter {
    #[inline(always)]
    fn take(&self) -> impl Future<Output: Send> + Send {
        self.acquire()
    }
}

/// Ours as adapters have it: by a handle, tried through the trait.
pub struct AsTried<H>(H);

/// A reference.
pub type ByReference = AsTried<&'static OurLimiter>;

/// A shared handle, as services and tasks have it.
pub type ByArc = AsTried<Arc<OurLimiter>>;

impl Limiter for ByReference {
    const NAME: &'static str = "&RateLimiter, as a throttle";

    fn with_rate(rate: Rate) -> Self {
        Self(Box::leak(Box::new(OurLimiter::with_rate(rate))))
    }
}

impl Limiter for ByArc {
    const NAME: &'static str = "Arc<RateLimiter>, as a throttle";

    fn with_rate(rate: Rate) -> Self {
        Self(Arc::new(OurLimiter::with_rate(rate)))
    }
}

impl<H: TryThrottle<Permit: Send> + Send + Sync + 'static> TryLimiter for AsTried<H>
where
    Self: Limiter,
{
    #[inline(always)]
    fn try_take(&self) -> impl Answer + '_ {
        self.0.try_enter()
    }
}

/// A class of a fair queue in front of ours.
pub type OurFairQueue = ClassHandle<Arc<tollgate::RateLimiter>, u32>;

impl Limiter for OurFairQueue {
    const NAME: &'static str = "FairQueue in front";

    fn with_rate(rate: Rate) -> Self {
        FairQueue::new(Arc::new(OurLimiter::with_rate(rate))).class(7)
    }
}

impl WaitLimiter for OurFairQueue {
    fn take(&self) -> impl Future<Output: Send> + Send {
        self.acquire()
    }
}

/// governor, on the clock that it has by default.
pub type Governor = governor::DefaultDirectRateLimiter;

/// A rate as governor has it.
///
/// # Panics
///
/// When it is too high for it.
#[must_use]
pub fn governor_quota(rate: Rate) -> governor::Quota {
    // Its constructors divide by the count and round down; from the interval it takes the same.
    governor::Quota::with_period(rate.interval().max(Duration::from_nanos(1)))
        .expect("the interval is not nought")
        .allow_burst(rate.burst())
}

impl Limiter for Governor {
    const NAME: &'static str = "governor";

    fn with_rate(rate: Rate) -> Self {
        Self::direct(governor_quota(rate))
    }
}

impl TryLimiter for Governor {
    #[inline(always)]
    fn try_take(&self) -> impl Answer + '_ {
        self.check()
    }
}

impl WaitLimiter for Governor {
    #[inline(always)]
    fn take(&self) -> impl Future<Output: Send> + Send {
        self.until_ready()
    }
}

/// governor on a clock that a thread of its own sets forward every millisecond. It cannot be
/// awaited, and there can be one at a time.
pub type UpkeptGovernor = governor::RateLimiter<
    NotKeyed,
    InMemoryState,
    QuantaUpkeepClock,
    NoOpMiddleware<QuantaInstant>,
>;

impl Limiter for UpkeptGovernor {
    const NAME: &'static str = "governor, upkeep clock";

    fn with_rate(rate: Rate) -> Self {
        let clock = QuantaUpkeepClock::from_interval(Duration::from_millis(1))
            .expect("nobody else keeps the clock up");
        Self::direct_with_clock(governor_quota(rate), clock)
    }
}

impl TryLimiter for UpkeptGovernor {
    #[inline(always)]
    fn try_take(&self) -> impl Answer + '_ {
        self.check()
    }
}

/// leaky-bucket, fair as it is by default.
pub type LeakyBucket = leaky_bucket::RateLimiter;

impl Limiter for LeakyBucket {
    const NAME: &'static str = "leaky-bucket";

    fn with_rate(rate: Rate) -> Self {
        let (count, interval) = rate.in_milliseconds();
        Self::builder()
            .interval(interval)
            .refill(count as usize)
            .max(rate.burst.max(count) as usize)
            .initial(rate.burst as usize)
            .build()
    }
}

impl TryLimiter for LeakyBucket {
    #[inline(always)]
    fn try_take(&self) -> impl Answer + '_ {
        self.try_acquire(1)
    }
}

impl WaitLimiter for LeakyBucket {
    #[inline(always)]
    fn take(&self) -> impl Future<Output: Send> + Send {
        self.acquire_one()
    }
}

impl Limiter for ratelimit::Ratelimiter {
    const NAME: &'static str = "ratelimit";

    fn with_rate(rate: Rate) -> Self {
        Self::builder(u64::from(rate.count))
            .period(rate.period)
            .max_tokens(u64::from(rate.burst))
            .initial_available(u64::from(rate.burst))
            .build()
            .expect("a sound quota")
    }
}

impl TryLimiter for ratelimit::Ratelimiter {
    #[inline(always)]
    fn try_take(&self) -> impl Answer + '_ {
        self.try_wait()
    }
}

/// It cannot be awaited: this is the loop that its users write.
impl WaitLimiter for ratelimit::Ratelimiter {
    fn take(&self) -> impl Future<Output: Send> + Send {
        async {
            while let Err(ratelimit::TryWaitError::Insufficient(after)) = self.try_wait() {
                tokio::time::sleep(after).await;
            }
        }
    }
}

impl Limiter for throttle_net::Throttle {
    const NAME: &'static str = "throttle-net";

    fn with_rate(rate: Rate) -> Self {
        Self::builder()
            .rate(rate.count, rate.period)
            .burst(rate.burst)
            .build()
    }
}

impl TryLimiter for throttle_net::Throttle {
    #[inline(always)]
    fn try_take(&self) -> impl Answer + '_ {
        self.try_acquire()
    }
}

impl WaitLimiter for throttle_net::Throttle {
    #[inline(always)]
    fn take(&self) -> impl Future<Output: Send> + Send {
        self.acquire()
    }
}

/// tower's limit, which belongs to one owner. To share it takes a lock: that of tokio is fair, and
/// can be held while one waits for the service to become ready.
pub struct SharedRateLimit(Mutex<RateLimit<Immediate>>);

/// tower's limit by itself. It is built inside of a runtime, whose timer it holds.
#[must_use]
pub fn tower_rate(rate: Rate) -> RateLimit<Immediate> {
    let (count, window) = if rate.burst > 1 {
        (rate.burst, rate.interval() * rate.burst)
    } else {
        rate.in_milliseconds()
    };
    RateLimit::new(
        Immediate,
        tower::limit::rate::Rate::new(u64::from(count), window),
    )
}

impl Limiter for SharedRateLimit {
    const NAME: &'static str = "tower RateLimit, mutex";

    fn with_rate(rate: Rate) -> Self {
        Self(Mutex::new(tower_rate(rate)))
    }
}

impl WaitLimiter for SharedRateLimit {
    fn take(&self) -> impl Future<Output: Send> + Send {
        async {
            let mut service = self.0.lock().await;
            let ready = service.ready().await.expect("it never fails");
            ready.call(()).await.expect("it never fails");
        }
    }
}
