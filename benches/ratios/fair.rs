//! A fair queue beside the semaphore that it is in front of, and beside a semaphore with priorities.

use tollgate_bench::fair::{
    acquire, acquire_owned, acquire_priority_semaphore, fair_line, owned_line, priority_line,
};
use tollgate_bench::harness::{Entry, Row};
use tollgate_bench::line::{WAITERS, time_both, time_drain, time_enqueue};

use crate::ready::timed;
use crate::waiters::timed as timed_line;

const CLASSES: usize = 100;
const OWNED: &str = "Semaphore, owned";
const PRIORITY: &str = "priority-semaphore";

pub(crate) const ENTRIES: &[Entry] = &[
    ("fair: acquire ready + drop", || {
        Row::of(timed("FairQueue", acquire()))
            .at_most(2.5, timed(OWNED, acquire_owned()))
            .beside(timed(PRIORITY, acquire_priority_semaphore()))
    }),
    ("fair: 10,000 waiters in 100 classes: enqueue", || {
        let ours = timed_line("FairQueue", fair_line(WAITERS, CLASSES), time_enqueue);
        Row::of(ours)
            .beside(timed_line(OWNED, owned_line(WAITERS), time_enqueue))
            .beside(timed_line(PRIORITY, priority_line(WAITERS), time_enqueue))
    }),
    ("fair: 10,000 waiters in 100 classes: hand-off", || {
        let ours = timed_line("FairQueue", fair_line(WAITERS, CLASSES), time_drain);
        Row::of(ours)
            .at_most(3.0, timed_line(OWNED, owned_line(WAITERS), time_drain))
            .beside(timed_line(PRIORITY, priority_line(WAITERS), time_drain))
    }),
    (
        "fair: 10,000 waiters in 100 classes: enqueue + hand-off",
        || {
            let ours = timed_line("FairQueue", fair_line(WAITERS, CLASSES), time_both);
            Row::of(ours)
                .beside(timed_line(OWNED, owned_line(WAITERS), time_both))
                .beside(timed_line(PRIORITY, priority_line(WAITERS), time_both))
        },
    ),
];
