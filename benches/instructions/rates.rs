//! Decisions of rate limiters.
//!
//! valgrind counts the instruction that reads the processor's counter as one, and it takes some 20 cycles; a clock of
//! the operating system is a few dozen instructions, or a call into it, which is not counted.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ratelimit::Ratelimiter;
use throttle_net::Throttle as ThrottleNet;
use tollgate::{Algorithm, Quota, RateLimiter};
use tollgate_bench::floor::Reading;
use tollgate_bench::peer::{
    ByArc, ByReference, Governor, LeakyBucket, Limiter, MutexRing, OurLimiter, OurLog, Rate,
    TryLimiter, UpkeptGovernor, WaitLimiter,
};
use tollgate_bench::{local, rates};

use crate::{Counted, counted};

const ALLOWED: &str = "rate: decision allowed";
const DENIED: &str = "rate: decision denied";
const READY: &str = "rate: acquire ready";
const LOG_ALLOWED: &str = "log: decision allowed";
const LOG_DENIED: &str = "log: decision denied";
const LOCAL: &str = "local(32): decision allowed";

/// More than is asked for, however slow valgrind is.
const PLENTY: Rate = Rate {
    count: 1_000,
    period: Duration::from_micros(1),
    burst: 1_000,
};

/// Used up.
const SCARCE: Rate = Rate {
    count: 1_000,
    period: Duration::from_secs(30 * 24 * 60 * 60),
    burst: 1_000,
};

const fn allowed<L: TryLimiter>() -> Counted {
    counted(ALLOWED, L::NAME, || Box::new(rates::allowed::<L>()))
}

const fn even_allowed<L: TryLimiter>() -> Counted {
    counted("even rate: decision allowed", L::NAME, || {
        Box::new(rates::allowed_of::<L>(rates::PLENTY_EVEN))
    })
}

const fn even_ready<L: WaitLimiter>() -> Counted {
    counted("even rate: acquire ready", L::NAME, || {
        Box::new(rates::ready_of::<L>(rates::PLENTY_EVEN))
    })
}

const fn denied<L: TryLimiter>() -> Counted {
    counted(DENIED, L::NAME, || Box::new(rates::denied::<L>()))
}

const fn ready<L: WaitLimiter>() -> Counted {
    counted(READY, L::NAME, || Box::new(rates::ready::<L>()))
}

const fn allowed_floor<C: Reading>() -> Counted {
    counted(ALLOWED, C::NAME, || Box::new(rates::allowed_floor::<C>()))
}

const fn denied_floor<C: Reading>() -> Counted {
    counted(DENIED, C::NAME, || Box::new(rates::denied_floor::<C>()))
}

const fn log_allowed<L: TryLimiter>() -> Counted {
    counted(LOG_ALLOWED, L::NAME, || {
        Box::new(rates::allowed_of::<L>(PLENTY))
    })
}

const fn log_denied<L: TryLimiter>() -> Counted {
    counted(LOG_DENIED, L::NAME, || {
        Box::new(rates::denied_of::<L>(SCARCE))
    })
}

fn window(rate: Rate) -> RateLimiter {
    let quota = Quota::new(u64::from(rate.count), rate.period);
    RateLimiter::new(quota).algorithm(Algorithm::SlidingWindow)
}

pub(crate) const COUNTED: &[Counted] = &[
    counted("unlimited: decision allowed", OurLimiter::NAME, || {
        let limiter = RateLimiter::new(Quota::UNLIMITED);
        Box::new(move |times| {
            for _ in 0..times {
                black_box(limiter.try_acquire()).expect("there is no limit");
            }
        })
    }),
    even_allowed::<OurLimiter>(),
    even_allowed::<Governor>(),
    even_ready::<OurLimiter>(),
    even_ready::<Governor>(),
    allowed::<OurLimiter>(),
    allowed::<ByReference>(),
    allowed::<ByArc>(),
    allowed::<Governor>(),
    allowed::<UpkeptGovernor>(),
    allowed::<LeakyBucket>(),
    allowed::<Ratelimiter>(),
    allowed::<ThrottleNet>(),
    counted(ALLOWED, "tower RateLimit", || {
        Box::new(rates::tower_allowed())
    }),
    allowed_floor::<quanta::Clock>(),
    allowed_floor::<Instant>(),
    denied::<OurLimiter>(),
    denied::<ByReference>(),
    denied::<ByArc>(),
    denied::<Governor>(),
    denied::<UpkeptGovernor>(),
    denied::<LeakyBucket>(),
    denied::<Ratelimiter>(),
    denied::<ThrottleNet>(),
    counted(
        DENIED,
        "tower RateLimit",
        || Box::new(rates::tower_denied()),
    ),
    denied_floor::<quanta::Clock>(),
    denied_floor::<Instant>(),
    ready::<OurLimiter>(),
    ready::<Governor>(),
    ready::<LeakyBucket>(),
    ready::<ThrottleNet>(),
    log_allowed::<OurLog>(),
    log_allowed::<MutexRing>(),
    log_denied::<OurLog>(),
    log_denied::<MutexRing>(),
    counted(
        "window: decision allowed",
        "tollgate, sliding window",
        || Box::new(rates::allowed_by(window(rates::PLENTY))),
    ),
    counted(
        "window: decision denied",
        "tollgate, sliding window",
        || Box::new(rates::denied_by(window(SCARCE))),
    ),
    counted("local(32): decision denied", "tollgate, local(32)", || {
        Box::new(local::denied())
    }),
    counted(LOCAL, "tollgate, local(32)", || Box::new(local::allowed())),
    counted(LOCAL, Governor::NAME, || {
        Box::new(rates::allowed::<Governor>())
    }),
];
