//! What a gate and a detector cost a request, on one thread and on two.
//!
//! A record is beside a decision that is made for each key.

use tollgate::{Keyed, RateLimiter};
use tollgate_bench::gate;
use tollgate_bench::harness::{Contender, Entry, Row};
use tollgate_bench::keyed::{GovernorKeyed, KeyedLimiter};

use crate::contended::{THREADS, abreast};
use crate::ready::timed;

pub(crate) const ENTRIES: &[Entry] = &[
    ("gate: check, open", checked),
    ("gate: check, open, and a branch", branched),
    ("gate: record", || recorded(alone)),
    ("gate: record, lost", || lost(alone)),
    ("gate: check by key, one shut out", || by_key(alone)),
    ("two threads, gate: check, open", threads_checked),
    ("two threads, gate: record", || recorded(together)),
    ("two threads, gate: record, lost", || lost(together)),
    ("two threads, gate: check by key, one shut out", || {
        by_key(together)
    }),
];

const FLAG: &str = "Arc<AtomicBool> by hand";

type Work = Box<dyn Fn(u64) + Send + Sync>;

fn alone(name: &str, work: Work) -> Contender {
    timed(name, work)
}

fn together(name: &str, work: Work) -> Contender {
    abreast(THREADS, name, work)
}

fn checked() -> Row {
    Row::of(timed("tollgate", gate::gate_check())).at_most(1.3, timed(FLAG, gate::flag_check()))
}

fn branched() -> Row {
    Row::of(timed("tollgate", gate::gate_branch())).at_most(1.3, timed(FLAG, gate::flag_branch()))
}

fn threads_checked() -> Row {
    Row::of(abreast(THREADS, "tollgate", gate::gate_check()))
        .at_most(1.3, abreast(THREADS, FLAG, gate::flag_check()))
}

/// Beside decisions for a thousand keys.
fn beside_decisions(ours: Work, on: fn(&str, Work) -> Contender) -> Row {
    fn of<L: KeyedLimiter<u64>>(name: &str, on: fn(&str, Work) -> Contender) -> Contender {
        on(name, Box::new(gate::decision::<L>()))
    }
    Row::of(on("tollgate", ours))
        .at_most(1.5, of::<Keyed<u64, RateLimiter>>("tollgate, keyed", on))
        .beside(of::<GovernorKeyed<u64>>("governor, keyed", on))
}

fn recorded(on: fn(&str, Work) -> Contender) -> Row {
    beside_decisions(Box::new(gate::record()), on)
}

fn lost(on: fn(&str, Work) -> Contender) -> Row {
    beside_decisions(Box::new(gate::record_lost()), on)
}

fn by_key(on: fn(&str, Work) -> Contender) -> Row {
    beside_decisions(Box::new(gate::check_by_key()), on)
}
