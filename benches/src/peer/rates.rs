//! Defines the rate limiters, each as close to the same quota as its settings allow.
//!
//! Two cannot be set to a burst of one above 1,000 a second: leaky-bucket, whose interval is whole
//! milliseconds, and tower's limit, whose window ends on a tick of tokio's timer, also a
//! millisecond. In that case both get a millisecond's worth at a time, which favors
//! them. governor's interval is whole nanoseconds.

use std::future::Future;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::Duration;

use governor::clock::{QuantaInstant, QuantaUpkeepClock};
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use quanta::{Clock, Instant};
use tokio::sync::Mutex;
use tollgate::fair::{ClassHandle, FairQueue};
use tollgate::{Algorithm, Quota, RateLimiter, TryThrottle};
use tower::limit::RateLimit;
use tower::{Service, ServiceExt};

use super::Answer;
use crate::service::Immediate;

/// A number per period, spread over it, and a burst.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// The number in each period.
    pub count: u32,
    /// The period.
    pub period: Duration,
    /// The number at once after a pause, and at the beginning.
    pub burst: u32,
}

impl Rate {
    /// Returns a rate per second.
    #[must_use]
    pub const fn per_second(count: u32, burst: u32) -> Rate {
        Rate {
            count,
            period: Duration::from_secs(1),
            burst,
        }
    }

    /// Returns the interval from one to the next.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.period / self.count
    }

    /// Returns the same for a limiter without intervals below a millisecond: a number and its duration.
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
    /// The name in the tables.
    const NAME: &'static str;

    /// Creates a limiter that has its whole burst.
    fn with_rate(rate: Rate) -> Self;
}

/// A limiter that can be tried. Each is inlined here as far as its crate is: if the compiler decided, a long
/// one would be measured with a call around it, and a short one without.
pub trait TryLimiter: Limiter {
    /// Takes one if it is allowed.
    fn try_take(&self) -> impl Answer + '_;
}

/// A limiter that can be awaited.
pub trait WaitLimiter: Limiter {
    /// Takes one when it is allowed.
    fn take(&self) -> impl Future<Output: Send> + Send;
}

/// Our limiter with its defaults.
pub type OurLimiter = RateLimiter;

/// Our limiter as adapters use it: through a handle, tried through the trait.
pub struct AsTried<H>(H);

/// Our limiter, used through a reference.
pub type ByReference = AsTried<&'static OurLimiter>;

/// A shared handle, as services and tasks use it.
pub type ByArc = AsTried<Arc<OurLimiter>>;

/// A class of a fair queue in front of our limiter.
pub type OurFairQueue = ClassHandle<Arc<RateLimiter>, u32>;

/// Our limiter with a sliding log.
pub struct OurLog(RateLimiter);

/// governor with its default clock.
pub type Governor = governor::DefaultDirectRateLimiter;

/// governor on a clock that a separate thread sets forward every millisecond. It cannot be
/// awaited, and only one can exist at a time.
pub type UpkeptGovernor = governor::RateLimiter<
    NotKeyed,
    InMemoryState,
    QuantaUpkeepClock,
    NoOpMiddleware<QuantaInstant>,
>;

/// leaky-bucket, which is fair by default.
pub type LeakyBucket = leaky_bucket::RateLimiter;

/// tower's limit, which belongs to one owner. Sharing it takes a lock: that of tokio is fair, and
/// can be held while waiting for the service to become ready.
pub struct SharedRateLimit(Mutex<RateLimit<Immediate>>);

/// A ring of times under a mutex. Its clock is read under the lock, so that the times in it rise.
///
/// We know of no crate with an exact sliding log, so ours is compared with a hand-written
/// one: the ring of the article on throttling requests in Java.
pub struct MutexRing {
    clock: Clock,
    period: Duration,
    ring: Lock<Ring>,
}

struct Ring {
    times: Box<[Option<Instant>]>,
    /// The index of the oldest time.
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

/// Converts a rate to our quota.
fn quota(rate: Rate) -> Quota {
    Quota::new(u64::from(rate.count), rate.period).burst(u64::from(rate.burst))
}

/// Converts a rate to governor's quota.
///
/// # Panics
///
/// If the rate is too high for governor.
#[must_use]
pub fn governor_quota(rate: Rate) -> governor::Quota {
    // Its constructors divide by the count and round down; the conversion from the interval does the same.
    governor::Quota::with_period(rate.interval().max(Duration::from_nanos(1)))
        .expect("the interval is not nought")
        .allow_burst(rate.burst())
}

/// Creates tower's limit by itself, inside a runtime whose timer it holds.
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

/// Lists limiters, and how each implements its operations: `new`, `try` and `take`.
macro_rules! limiters {
    ($($name:literal, $type:ty {
        new($rate:ident) $new:expr;
        $(try($tried:ident) $try:expr;)?
        $(take($taken:ident) $take:expr;)?
    })*) => {$(
        impl Limiter for $type {
            const NAME: &'static str = $name;

            fn with_rate($rate: Rate) -> Self {
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
    "tollgate", RateLimiter {
        new(rate) Self::new(quota(rate));
        try(it) it.try_acquire();
        take(it) it.acquire();
    }
    "&RateLimiter, as a throttle", ByReference {
        new(rate) Self(Box::leak(Box::new(OurLimiter::with_rate(rate))));
        try(it) it.0.try_enter();
    }
    "Arc<RateLimiter>, as a throttle", ByArc {
        new(rate) Self(Arc::new(OurLimiter::with_rate(rate)));
        try(it) it.0.try_enter();
    }
    "FairQueue in front", OurFairQueue {
        new(rate) FairQueue::new(Arc::new(OurLimiter::with_rate(rate))).class(7);
        take(it) it.acquire();
    }
    "tollgate, sliding log", OurLog {
        new(rate) {
            let quota = Quota::new(u64::from(rate.count), rate.period);
            Self(RateLimiter::new(quota).algorithm(Algorithm::SlidingLog))
        };
        try(it) it.0.try_acquire();
    }
    "mutex ring", MutexRing {
        new(rate) {
            let times = vec![None; rate.count as usize].into();
            let ring = Lock::new(Ring { times, next: 0 });
            Self { clock: Clock::new(), period: rate.period, ring }
        };
        try(it) it.try_start();
    }
    "governor", Governor {
        new(rate) Self::direct(governor_quota(rate));
        try(it) it.check();
        take(it) it.until_ready();
    }
    "governor, upkeep clock", UpkeptGovernor {
        new(rate) {
            let clock = QuantaUpkeepClock::from_interval(Duration::from_millis(1));
            let clock = clock.expect("nobody else keeps the clock up");
            Self::direct_with_clock(governor_quota(rate), clock)
        };
        try(it) it.check();
    }
    "leaky-bucket", LeakyBucket {
        new(rate) {
            let (count, interval) = rate.in_milliseconds();
            Self::builder()
                .interval(interval)
                .refill(count as usize)
                .max(rate.burst.max(count) as usize)
                .initial(rate.burst as usize)
                .build()
        };
        try(it) it.try_acquire(1);
        take(it) it.acquire_one();
    }
    // It cannot be awaited, so this is the loop that its users write.
    "ratelimit", ratelimit::Ratelimiter {
        new(rate) {
            let built = Self::builder(u64::from(rate.count))
                .period(rate.period)
                .max_tokens(u64::from(rate.burst))
                .initial_available(u64::from(rate.burst))
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
        new(rate) Self::builder().rate(rate.count, rate.period).burst(rate.burst).build();
        try(it) it.try_acquire();
        take(it) it.acquire();
    }
    "tower RateLimit, mutex", SharedRateLimit {
        new(rate) Self(Mutex::new(tower_rate(rate)));
        take(it) async move {
            let mut service = it.0.lock().await;
            let ready = service.ready().await.expect("it never fails");
            ready.call(()).await.expect("it never fails");
        };
    }
}
