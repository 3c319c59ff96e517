//! A fair queue, the semaphore that it is in front of, and a semaphore with priorities.

use tollgate_bench::fair::{
    acquire, acquire_owned, acquire_priority_semaphore, fair_line, owned_line, priority_line,
};
use tollgate_bench::line::WAITERS;

use crate::{Counted, counted, handed_on, in_line};

const READY: &str = "fair: acquire ready + drop";
const HAND_ON: &str = "fair: enqueue + hand-off, of 10,000 in 100 classes";

pub(crate) const COUNTED: &[Counted] = &[
    counted(READY, "FairQueue", || Box::new(acquire())),
    counted(READY, "Semaphore, owned", || Box::new(acquire_owned())),
    counted(READY, "priority-semaphore", || {
        Box::new(acquire_priority_semaphore())
    }),
    in_line(
        WAITERS,
        counted(HAND_ON, "FairQueue", || handed_on(fair_line(WAITERS, 100))),
    ),
    in_line(
        WAITERS,
        counted(HAND_ON, "Semaphore, owned", || {
            handed_on(owned_line(WAITERS))
        }),
    ),
    in_line(
        WAITERS,
        counted(HAND_ON, "priority-semaphore", || {
            handed_on(priority_line(WAITERS))
        }),
    ),
];
