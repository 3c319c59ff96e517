//! An observed semaphore beside a bare one.

use tollgate_bench::harness::{Contender, Entry, Row};
use tollgate_bench::observed::{self, holders};
use tollgate_bench::peer::{Ours, TryPeer};
use tollgate_bench::ready;

use crate::ready::timed;

pub(crate) const ENTRIES: &[Entry] = &[
    ("observed by nobody: try + drop", || {
        Row::of(timed("Observed, ()", observed::try_acquire(()))).at_most(1.15, bare_try())
    }),
    ("observed by nobody: acquire ready + drop", || {
        Row::of(timed("Observed, ()", observed::acquire(()))).at_most(1.15, bare_acquire())
    }),
    ("observed by Holders: try + drop", || {
        let ours = timed("Observed, &Holders", observed::try_acquire(holders()));
        Row::of(ours).beside(bare_try())
    }),
    ("observed by Holders: acquire ready + drop", || {
        let ours = timed("Observed, &Holders", observed::acquire(holders()));
        Row::of(ours)
            .beside(bare_acquire())
            .beside(timed("Holders", observed::acquire(holders().clone())))
    }),
];

fn bare_try() -> Contender {
    timed(Ours::NAME, ready::try_acquire::<Ours>())
}

fn bare_acquire() -> Contender {
    timed(Ours::NAME, ready::acquire::<Ours>())
}
