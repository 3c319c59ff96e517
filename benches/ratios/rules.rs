//! Decisions by rules other than the default: the log beside a ring under a mutex, the sliding window
//! beside the default, and all of them.

use std::time::Duration;

use tollgate::{Algorithm, Quota, RateLimiter};
use tollgate_bench::harness::{Contender, Entry, Row};
use tollgate_bench::peer::{Governor, MutexRing, OurLimiter, OurLog, Rate, TryLimiter};
use tollgate_bench::rates::{self, allowed_by, allowed_of, denied_by, denied_of};

use crate::contended::{THREADS, abreast};
use crate::ready::timed;

pub(crate) const ENTRIES: &[Entry] = &[
    ("log: decision allowed", allowed),
    ("log: decision denied", denied),
    ("two threads, log: decision allowed", threads_allowed),
    ("two threads, log: decision denied", threads_denied),
    ("window: decision allowed", window_allowed),
    ("window: decision denied", window_denied),
    (
        "two threads, window: decision allowed",
        threads_window_allowed,
    ),
    (
        "two threads, window: decision denied",
        threads_window_denied,
    ),
    ("rules: decision allowed", rules_allowed),
    ("rules: decision denied", rules_denied),
];

/// More than anybody can ask for: it has come back before it is used up.
const PLENTY: Rate = Rate {
    count: 1_000,
    period: Duration::from_micros(2),
    burst: 1_000,
};

/// Used up; also a single one comes back only after most of an hour.
const SCARCE: Rate = Rate {
    count: 1_000,
    period: Duration::from_secs(30 * 86_400),
    burst: 1_000,
};

fn alone_allowed<L: TryLimiter>() -> Contender {
    timed(L::NAME, allowed_of::<L>(PLENTY))
}

fn alone_denied<L: TryLimiter>() -> Contender {
    timed(L::NAME, denied_of::<L>(SCARCE))
}

fn together_allowed<L: TryLimiter>() -> Contender {
    abreast(THREADS, L::NAME, allowed_of::<L>(PLENTY))
}

fn together_denied<L: TryLimiter>() -> Contender {
    abreast(THREADS, L::NAME, denied_of::<L>(SCARCE))
}

fn allowed() -> Row {
    Row::of(alone_allowed::<OurLog>())
        .at_most(1.1, alone_allowed::<MutexRing>())
        .beside(alone_allowed::<Governor>())
}

fn denied() -> Row {
    Row::of(alone_denied::<OurLog>())
        .at_most(1.1, alone_denied::<MutexRing>())
        .beside(alone_denied::<Governor>())
}

fn threads_allowed() -> Row {
    Row::of(together_allowed::<OurLog>())
        .at_most(1.0, together_allowed::<MutexRing>())
        .beside(together_allowed::<Governor>())
}

fn threads_denied() -> Row {
    Row::of(together_denied::<OurLog>())
        .at_most(0.2, together_denied::<MutexRing>())
        .beside(together_denied::<Governor>())
}

fn window_allowed() -> Row {
    Row::of(timed(
        "tollgate, sliding window",
        allowed_by(window(rates::PLENTY)),
    ))
    .at_most(1.5, timed("tollgate", rates::allowed::<OurLimiter>()))
}

fn window_denied() -> Row {
    Row::of(timed("tollgate, sliding window", denied_by(window(SCARCE))))
        .at_most(1.5, alone_denied::<OurLimiter>())
}

fn threads_window_allowed() -> Row {
    let work = allowed_by(window(rates::PLENTY));
    Row::of(abreast(THREADS, "tollgate, sliding window", work)).at_most(
        2.0,
        abreast(THREADS, "tollgate", rates::allowed::<OurLimiter>()),
    )
}

fn threads_window_denied() -> Row {
    let work = denied_by(window(SCARCE));
    Row::of(abreast(THREADS, "tollgate, sliding window", work))
        .at_most(2.0, together_denied::<OurLimiter>())
}

fn window(rate: Rate) -> RateLimiter {
    by(Algorithm::SlidingWindow, rate)
}

/// Ours by an algorithm.
fn by(algorithm: Algorithm, rate: Rate) -> RateLimiter {
    let count = u64::from(rate.count);
    RateLimiter::new(Quota::new(count, rate.period).burst(count)).algorithm(algorithm)
}

/// The default beside the others.
fn beside_others(row: Row, contender: impl Fn(&str, Algorithm) -> Contender) -> Row {
    let others = Algorithm::all().iter().filter(|it| **it != Algorithm::Gcra);
    others.fold(row, |row, algorithm| {
        row.beside(contender(&format!("tollgate, {algorithm}"), *algorithm))
    })
}

fn rules_allowed() -> Row {
    beside_others(Row::of(alone_allowed::<OurLimiter>()), |name, algorithm| {
        timed(name, allowed_by(by(algorithm, PLENTY)))
    })
}

fn rules_denied() -> Row {
    beside_others(Row::of(alone_denied::<OurLimiter>()), |name, algorithm| {
        timed(name, denied_by(by(algorithm, SCARCE)))
    })
}
