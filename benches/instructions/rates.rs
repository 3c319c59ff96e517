//! Decisions of rate limiters.
//!
//! valgrind counts the instruction that reads the processor's counter as one, and it takes some 20 cycles; a clock of
//! the operating system is a few dozen instructions, or a call into it, which is not counted.

use std::time::Instant;

use ratelimit::Ratelimiter;
use throttle_net::Throttle as ThrottleNet;
use tollgate_bench::floor::Reading;
use tollgate_bench::peer::{
    Governor, LeakyBucket, OurLimiter, TryLimiter, UpkeptGovernor, WaitLimiter,
};
use tollgate_bench::rates;

use crate::{Counted, counted};

const ALLOWED: &str = "rate: decision allowed";
const DENIED: &str = "rate: decision denied";
const READY: &str = "rate: acquire ready";

const fn allowed<L: TryLimiter>() -> Counted {
    counted(ALLOWED, L::NAME, || Box::new(rates::allowed::<L>()))
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

pub(crate) const COUNTED: &[Counted] = &[
    allowed::<OurLimiter>(),
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
];
