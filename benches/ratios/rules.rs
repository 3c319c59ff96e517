//! Decisions by rules other than the default: the log beside a ring under a mutex, and all of them.

use std::time::Duration;

use tollgate_bench::harness::{Contender, Entry, Row};
use tollgate_bench::peer::{
    Governor, MutexRing, OurFixedWindow, OurLimiter, OurLog, OurSlidingWindow, OurSubInterval,
    OurTokenBucket, Rate, TryLimiter,
};
use tollgate_bench::rates::{allowed_of, denied_of};

use crate::contended::{THREADS, abreast};
use crate::ready::timed;

pub(crate) const ENTRIES: &[Entry] = &[
    ("log: decision allowed", allowed),
    ("log: decision denied", denied),
    ("two threads, log: decision allowed", threads_allowed),
    ("two threads, log: decision denied", threads_denied),
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

/// The default beside the others.
fn rules_allowed() -> Row {
    Row::of(alone_allowed::<OurLimiter>())
        .beside(alone_allowed::<OurTokenBucket>())
        .beside(alone_allowed::<OurFixedWindow>())
        .beside(alone_allowed::<OurSlidingWindow>())
        .beside(alone_allowed::<OurSubInterval>())
        .beside(alone_allowed::<OurLog>())
}

fn rules_denied() -> Row {
    Row::of(alone_denied::<OurLimiter>())
        .beside(alone_denied::<OurTokenBucket>())
        .beside(alone_denied::<OurFixedWindow>())
        .beside(alone_denied::<OurSlidingWindow>())
        .beside(alone_denied::<OurSubInterval>())
        .beside(alone_denied::<OurLog>())
}
