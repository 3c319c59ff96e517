//! An adaptive semaphore beside a plain one, and beside others' adaptive limits.

use tollgate_bench::adaptive::{self, Measured, Unmeasured};
use tollgate_bench::harness::{Entry, Row};
use tollgate_bench::peer::{Ours, Peer, TryPeer};
use tollgate_bench::ready;

use crate::contended::{acquiring, trying};
use crate::ready::timed;

pub(crate) const ENTRIES: &[Entry] = &[
    ("adaptive: try + drop", || {
        fn of<P: TryPeer>() -> tollgate_bench::harness::Contender {
            timed(P::NAME, ready::try_acquire::<P>())
        }
        Row::of(of::<Unmeasured>())
            .at_most(1.25, of::<Ours>())
            .beside(of::<Measured>())
    }),
    ("adaptive: acquire ready + drop", || {
        fn of<P: Peer>() -> tollgate_bench::harness::Contender {
            timed(P::NAME, ready::acquire::<P>())
        }
        Row::of(of::<Unmeasured>())
            .at_most(1.25, of::<Ours>())
            .beside(of::<Measured>())
    }),
    ("adaptive, two threads: try", || {
        Row::of(trying::<Unmeasured>()).at_most(1.3, trying::<Ours>())
    }),
    ("adaptive, two threads: acquire", || {
        Row::of(acquiring::<Unmeasured>())
            .at_most(1.3, acquiring::<Ours>())
            .beside(acquiring::<Measured>())
    }),
    ("adaptive, measured: acquire ready + end", || {
        Row::of(timed(Measured::NAME, ready::acquire::<Measured>()))
            .beside(timed("congestion-limiter", adaptive::congestion_limiter()))
    }),
    ("adaptive, measured: a call through the layer", || {
        Row::of(timed("ThrottleLayer", adaptive::layer())).beside(timed(
            "tower-resilience-adaptive",
            adaptive::tower_resilience(),
        ))
    }),
];
