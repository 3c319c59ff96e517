//! Decisions out of a chunk that was taken ahead, beside those that ask the shared limiter each time.

use ratelimit::Ratelimiter;
use tollgate_bench::harness::{Contender, Entry, Row};
use tollgate_bench::peer::{Governor, OurLimiter, TryLimiter, WaitLimiter};
use tollgate_bench::{local, rates};

use crate::contended::{THREADS, abreast};
use crate::ready::timed;

pub(crate) const ENTRIES: &[Entry] = &[
    ("local(32): decision allowed", allowed),
    (
        "local(32): decision allowed, by reference",
        allowed_by_reference,
    ),
    ("local(32): decision denied", denied),
    ("local(32): acquire ready", ready),
    ("two threads, local(32): decision allowed", threads_allowed),
    (
        "two threads, local(32): decision allowed, by reference",
        threads_allowed_by_reference,
    ),
    ("two threads, local(32): decision denied", threads_denied),
];

/// What it is compared with is the same limiter, or a peer, without a handle.
const NAME: &str = "tollgate, local(32)";

fn allowed() -> Row {
    fn of<L: TryLimiter>() -> Contender {
        timed(L::NAME, rates::allowed::<L>())
    }
    Row::of(timed(NAME, local::allowed()))
        .at_most(0.15, of::<Governor>())
        .beside(of::<OurLimiter>())
        .beside(of::<Ratelimiter>())
}

fn allowed_by_reference() -> Row {
    fn of<L: TryLimiter>() -> Contender {
        timed(L::NAME, rates::allowed_by_reference::<L>())
    }
    Row::of(timed(NAME, local::allowed_by_reference()))
        .at_most(0.15, of::<Governor>())
        .beside(of::<OurLimiter>())
        .beside(of::<Ratelimiter>())
}

fn denied() -> Row {
    fn of<L: TryLimiter>() -> Contender {
        timed(L::NAME, rates::denied::<L>())
    }
    Row::of(timed(NAME, local::denied()))
        .beside(of::<Governor>())
        .beside(of::<OurLimiter>())
        .beside(of::<Ratelimiter>())
}

fn ready() -> Row {
    fn of<L: WaitLimiter>() -> Contender {
        timed(L::NAME, rates::ready::<L>())
    }
    Row::of(timed(NAME, local::ready()))
        .beside(of::<Governor>())
        .beside(of::<OurLimiter>())
}

fn threads_allowed() -> Row {
    fn of<L: TryLimiter>() -> Contender {
        abreast(THREADS, L::NAME, rates::allowed::<L>())
    }
    Row::of(abreast(THREADS, NAME, local::allowed()))
        .at_most(0.08, of::<Governor>())
        .beside(of::<OurLimiter>())
        .beside(of::<Ratelimiter>())
}

fn threads_allowed_by_reference() -> Row {
    fn of<L: TryLimiter>() -> Contender {
        abreast(THREADS, L::NAME, rates::allowed_by_reference::<L>())
    }
    Row::of(abreast(THREADS, NAME, local::allowed_by_reference()))
        .at_most(0.08, of::<Governor>())
        .beside(of::<OurLimiter>())
        .beside(of::<Ratelimiter>())
}

fn threads_denied() -> Row {
    fn of<L: TryLimiter>() -> Contender {
        abreast(THREADS, L::NAME, rates::denied::<L>())
    }
    Row::of(abreast(THREADS, NAME, local::denied()))
        .beside(of::<Governor>())
        .beside(of::<OurLimiter>())
        .beside(of::<Ratelimiter>())
}
