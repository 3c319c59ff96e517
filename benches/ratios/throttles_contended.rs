//! The other throttles with several threads, several tasks, and a long line.
//!
//! The rows of "mutex beside channel" are those of threads that block, since the mutex can do
//! nothing else.
//!
//! A future of flume that has waited looks through all who wait when it is dropped, so a long line
//! of senders is slow to drain. A long line of receivers is not, as the first of them that is
//! dropped while there is a message wakes all.

use std::time::Duration;

use tollgate::{ChannelSemaphore, CondvarSemaphore, Pool};
use tollgate_bench::condvar;
use tollgate_bench::harness::{Contender, Entry, Row};
use tollgate_bench::line::{self, Line, WAITERS};
use tollgate_bench::peer::{
    BlockingPeer, BusyAsyncChannel, BusyFlume, IdleAsyncChannel, IdleFlume, IdleQueue, Ours, Peer,
    SyncChannel,
};

use crate::contended::{
    THREAD_LIMIT, THREADS, acquiring, trying, waiting, waiting_in_line, yielding,
};
use crate::waiters::timed;

pub(crate) const ENTRIES: &[Entry] = &[
    ("throttles, two threads, limit 8: try", threads_try),
    ("throttles, two threads, limit 8: acquire", threads_acquire),
    ("throttles, 64 tasks on 2 workers, limit 8", tasks),
    ("throttles, 10,000 waiters: enqueue", || {
        everybody(None, line::time_enqueue)
    }),
    ("throttles, 10,000 waiters: drain", || {
        everybody(None, line::time_drain)
    }),
    ("throttles, 10,000 waiters: enqueue + drain", || {
        everybody(Some(1.15), line::time_both)
    }),
    ("mutex beside channel: two threads, limit 8", || {
        blocking(Waits {
            threads: THREADS,
            limit: THREAD_LIMIT,
            yields: false,
        })
    }),
    ("mutex beside channel: 10 threads, limit 4", || {
        blocking(Waits {
            threads: 10,
            limit: 4,
            yields: false,
        })
    }),
    ("mutex beside channel: 10 threads, limit 4, yield", || {
        blocking(Waits {
            threads: 10,
            limit: 4,
            yields: true,
        })
    }),
];

fn threads_try() -> Row {
    Row::of(trying::<Pool<()>>())
        .at_most(1.15, trying::<IdleAsyncChannel>())
        .beside(trying::<IdleFlume>())
        .beside(trying::<IdleQueue>())
        .beside(trying::<ChannelSemaphore>())
        .beside(trying::<BusyAsyncChannel>())
        .beside(trying::<BusyFlume>())
        .beside(trying::<SyncChannel>())
        .beside(trying::<CondvarSemaphore>())
        .beside(trying::<condvar::CondvarSemaphore>())
        .beside(trying::<Ours>())
}

/// The asynchronous ones; how threads wait for all of them by blocking is in "mutex beside
/// channel".
fn threads_acquire() -> Row {
    Row::of(acquiring::<Pool<()>>())
        .at_most(1.15, acquiring::<IdleAsyncChannel>())
        .beside(acquiring::<IdleFlume>())
        .beside(acquiring::<ChannelSemaphore>())
        .beside(acquiring::<BusyAsyncChannel>())
        .beside(acquiring::<BusyFlume>())
        .beside(acquiring::<Ours>())
}

fn tasks() -> Row {
    Row::of(yielding::<Pool<()>>(THREAD_LIMIT))
        .at_most(1.15, yielding::<IdleAsyncChannel>(THREAD_LIMIT))
        .beside(yielding::<IdleFlume>(THREAD_LIMIT))
        .beside(yielding::<ChannelSemaphore>(THREAD_LIMIT))
        .beside(yielding::<BusyAsyncChannel>(THREAD_LIMIT))
        .beside(yielding::<BusyFlume>(THREAD_LIMIT))
        .beside(yielding::<Ours>(THREAD_LIMIT))
}

fn everybody<T>(target: Option<f64>, time: T) -> Row
where
    T: Fn(&mut dyn Line, u64) -> Duration + Clone + 'static,
{
    fn of<P: Peer>(time: impl Fn(&mut dyn Line, u64) -> Duration + 'static) -> Contender {
        timed(P::NAME, line::boxed::<P>(WAITERS), time)
    }
    let ours = Row::of(of::<Pool<()>>(time.clone()));
    let bare = of::<IdleAsyncChannel>(time.clone());
    let row = match target {
        Some(target) => ours.at_most(target, bare),
        None => ours.beside(bare),
    };
    row.beside(of::<IdleFlume>(time.clone()))
        .beside(of::<ChannelSemaphore>(time.clone()))
        .beside(of::<BusyAsyncChannel>(time.clone()))
        .beside(of::<BusyFlume>(time.clone()))
        .beside(of::<Ours>(time))
}

/// How many threads wait for how many permits, and whether they yield while they hold one.
#[derive(Clone, Copy)]
struct Waits {
    threads: usize,
    limit: usize,
    yields: bool,
}

fn blocking(waits: Waits) -> Row {
    fn of<P: BlockingPeer>(waits: Waits) -> Contender {
        let contender = if waits.yields {
            waiting_in_line::<P>
        } else {
            waiting::<P>
        };
        contender(waits.threads, waits.limit)
    }
    Row::of(of::<CondvarSemaphore>(waits))
        .beside(of::<condvar::CondvarSemaphore>(waits))
        .beside(of::<Ours>(waits))
        .beside(of::<Pool<()>>(waits))
        .beside(of::<ChannelSemaphore>(waits))
        .beside(of::<IdleAsyncChannel>(waits))
        .beside(of::<BusyAsyncChannel>(waits))
        .beside(of::<IdleFlume>(waits))
        .beside(of::<BusyFlume>(waits))
        .beside(of::<SyncChannel>(waits))
}
