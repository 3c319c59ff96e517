//! Decisions of rate limiters, on one thread and on two that share one.
//!
//! tower's limit belongs to one owner, so two threads cannot share it.

use std::time::Instant;

use ratelimit::Ratelimiter;
use throttle_net::Throttle as ThrottleNet;
use tollgate_bench::floor::Reading;
use tollgate_bench::harness::{Contender, Entry, Row};
use tollgate_bench::peer::{
    ByArc, ByReference, Governor, LeakyBucket, Limiter, OurLimiter, SharedRateLimit, TryLimiter,
    UpkeptGovernor, WaitLimiter,
};
use tollgate_bench::rates;

use crate::contended::{THREADS, abreast};
use crate::ready::timed;

pub(crate) const ENTRIES: &[Entry] = &[
    ("rate: decision allowed", allowed),
    ("rate: decision denied", denied),
    ("rate: decision allowed, by reference", allowed_by_reference),
    ("rate: decision denied, by reference", denied_by_reference),
    ("rate: tried as a throttle, allowed", tried_allowed),
    ("rate: tried as a throttle, denied", tried_denied),
    ("rate: acquire ready", ready),
    ("even rate: decision allowed", even_allowed),
    ("even rate: acquire ready", even_ready),
    ("two threads, rate: decision allowed", threads_allowed),
    ("two threads, rate: decision denied", threads_denied),
    (
        "two threads, rate: decision allowed, by reference",
        threads_allowed_by_reference,
    ),
    (
        "two threads, rate: decision denied, by reference",
        threads_denied_by_reference,
    ),
];

/// On one thread.
fn alone(name: &str, work: impl Fn(u64) + 'static) -> Contender {
    timed(name, work)
}

/// On two.
fn together(name: &str, work: impl Fn(u64) + Send + Sync + 'static) -> Contender {
    abreast(THREADS, name, work)
}

/// The same row again and again: `$on` how many threads, `$work` which decision, `$floor` its floor.
macro_rules! decisions {
    ($on:ident, $work:ident, $floor:ident) => {{
        fn of<L: TryLimiter>() -> Contender {
            $on(L::NAME, rates::$work::<L>())
        }
        fn floor<C: Reading>() -> Contender {
            $on(C::NAME, rates::$floor::<C>())
        }
        Row::of(of::<OurLimiter>())
            .at_most(1.0, of::<Governor>())
            .beside(of::<UpkeptGovernor>())
            .at_most(0.5, of::<Ratelimiter>())
            .at_most(0.5, of::<LeakyBucket>())
            .beside(of::<ThrottleNet>())
            .beside(floor::<quanta::Clock>())
            .beside(floor::<Instant>())
    }};
}

fn allowed() -> Row {
    decisions!(alone, allowed, allowed_floor)
        .beside(timed("tower RateLimit", rates::tower_allowed()))
}

fn denied() -> Row {
    decisions!(alone, denied, denied_floor).beside(timed("tower RateLimit", rates::tower_denied()))
}

/// The handle of a service or a task, beside a reference.
fn tried_allowed() -> Row {
    Row::of(timed(ByArc::NAME, rates::allowed::<ByArc>())).at_most(
        1.1,
        timed(ByReference::NAME, rates::allowed::<ByReference>()),
    )
}

fn tried_denied() -> Row {
    Row::of(timed(ByArc::NAME, rates::denied::<ByArc>())).at_most(
        1.1,
        timed(ByReference::NAME, rates::denied::<ByReference>()),
    )
}

fn allowed_by_reference() -> Row {
    decisions!(alone, allowed_by_reference, allowed_floor)
}

fn denied_by_reference() -> Row {
    decisions!(alone, denied_by_reference, denied_floor)
}

fn threads_allowed() -> Row {
    decisions!(together, allowed, allowed_floor)
}

fn threads_denied() -> Row {
    decisions!(together, denied, denied_floor)
}

fn threads_allowed_by_reference() -> Row {
    decisions!(together, allowed_by_reference, allowed_floor)
}

fn threads_denied_by_reference() -> Row {
    decisions!(together, denied_by_reference, denied_floor)
}

fn even_allowed() -> Row {
    fn of<L: TryLimiter>() -> Contender {
        timed(L::NAME, rates::allowed_of::<L>(rates::PLENTY_EVEN))
    }
    Row::of(of::<OurLimiter>()).beside(of::<Governor>())
}

fn even_ready() -> Row {
    fn of<L: WaitLimiter>() -> Contender {
        timed(L::NAME, rates::ready_of::<L>(rates::PLENTY_EVEN))
    }
    Row::of(of::<OurLimiter>()).beside(of::<Governor>())
}

fn ready() -> Row {
    fn of<L: WaitLimiter>() -> Contender {
        timed(L::NAME, rates::ready::<L>())
    }
    Row::of(of::<OurLimiter>())
        .beside(of::<Governor>())
        .beside(of::<LeakyBucket>())
        .beside(of::<ThrottleNet>())
        .beside(of::<SharedRateLimit>())
}
