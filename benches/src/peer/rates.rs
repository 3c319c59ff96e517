//! The rate limiters, each as near to the same quota as it can be set.
//!
//! Two cannot be set to a burst of one above 1,000 a second: leaky-bucket, whose interval is whole
//! milliseconds, and tower's limit, whose window ends on a tick of tokio's timer, which is a
//! millisecond as well. There both get as many at a time as belong into a millisecond, which favors
//! them. governor's interval is whole nanoseconds.

use std::future::Future;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::{Duration, Instant as StdInstant};

use governor::clock::{QuantaInstant, QuantaUpkeepClock};
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use quanta::{Clock, Instant};
use tokio::sync::Mutex;
use tollgate::fair::{ClassHandle, FairQueue};
use tollgate::{Algorithm, Quota, RateLimiter, TryThrottle};
use tower::limit::RateLimit;
use tower::{Service, ServiceExt};

use super::{Answer, Immediate};
use crate::floor::DecisionFloor;

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
    pub const fn per_second(count: u32, burst: u32) -> Rate {
        Rate {
            count,
            period: Duration::from_secs(1),
            burst,
        }
    }

    /// From one to the next.
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
pub type OurLimiter = RateLimiter;

/// Ours as adapters have it: by a handle, tried through the trait.
pub struct AsTried<H>(H);

/// A reference.
pub type ByReference = AsTried<&'static OurLimiter>;

/// A shared handle, as services and tasks have it.
pub type ByArc = AsTried<Arc<OurLimiter>>;

/// A class of a fair queue in front of ours.
pub type OurFairQueue = ClassHandle<Arc<RateLimiter>, u32>;

/// Ours, as a sliding log.
pub struct OurLog(RateLimiter);

/// governor, on the clock that it has by default.
pub type Governor = governor::DefaultDirectRateLimiter;

/// governor on a clock that a thread of its own sets forward every millisecond. It cannot be
/// awaited, and there can be one at a time.
pub type UpkeptGovernor = governor::RateLimiter<
    NotKeyed,
    InMemoryState,
    QuantaUpkeepClock,
    NoOpMiddleware<QuantaInstant>,
>;

/// leaky-bucket, fair as it is by default.
pub type LeakyBucket = leaky_bucket::RateLimiter;

/// tower's limit, which belongs to one owner. To share it takes a lock: that of tokio is fair, and
/// can be held while one waits for the service to become ready.
pub struct SharedRateLimit(Mutex<RateLimit<Immediate>>);

/// A ring of times under a mutex. Its clock is read under the lock, so that times rise in it.
///
/// A crate with an exact sliding log is not known to us, so ours is compared with what one writes
/// oneself: the ring of the article on throttling requests in Java.
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

/// A rate as ours have it.
fn quota(rate: Rate) -> Quota {
    Quota::new(u64::from(rate.count), rate.period).burst(u64::from(rate.burst))
}

/// A rate as governor has it.
///
/// # Panics
///
/// When it is too high for it.
pub fn governor_quota(rate: Rate) -> governor::Quota {
    // Its constructors divide by the count and round down; from the interval it takes the same.
    governor::Quota::with_period(rate.interval().max(Duration::from_nanos(1)))
        .expect("the interval is not nought")
        .allow_burst(rate.burst())
}

/// tower's limit by itself. It is built inside of a runtime, whose timer it holds.
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

/// Limiters, and how each does what it can do: `new`, `try` and `take`.
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
    // The counter of the processor as it is, not scaled to anything: there is nothing cheaper.
    "floor: counter, CAS", DecisionFloor<Clock> {
        new(rate) Self::new(Clock::new(), rate.interval());
        try(it) it.decide(|clock| clock.raw());
    }
    "floor: std Instant, CAS", DecisionFloor<StdInstant> {
        new(rate) Self::new(StdInstant::now(), rate.interval());
        try(it) it.decide(|clock| clock.elapsed().as_nanos() as u64);
    }
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
    // It cannot be awaited: this is the loop that its users write.
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
