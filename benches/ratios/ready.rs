//! One thread, permits to spare: the price of a semaphore that nobody waits for.

use async_lock::Semaphore as AsyncLock;
use asyncband::semaphore::Semaphore as Asyncband;
use futures_intrusive::sync::Semaphore as Intrusive;
use tokio::sync::Semaphore as Tokio;
use tollgate_bench::condvar::CondvarSemaphore;
use tollgate_bench::harness::{Contender, Entry, Row, Stopwatch};
use tollgate_bench::peer::{Ours, OwnedPeer, Peer, TryPeer};
use tollgate_bench::ready;

pub(crate) const ENTRIES: &[Entry] = &[
    ("try_acquire + drop", try_acquire),
    ("acquire ready + drop", acquire),
    ("acquire_cancellable ready + drop", acquire_cancellable),
    ("owned try + drop", owned),
];

pub(crate) fn timed(name: &str, mut batch: impl FnMut(u64) + 'static) -> Contender {
    Contender::batched(name, 1, move |times| {
        let watch = Stopwatch::start();
        batch(times);
        watch.elapsed()
    })
}

fn try_acquire() -> Row {
    fn of<P: TryPeer>() -> Contender {
        timed(P::NAME, ready::try_acquire::<P>())
    }
    Row::of(of::<Ours>())
        .at_most(1.15, timed("floor: load, CAS, fetch_add", ready::floor()))
        .beside(timed("strict floor: CAS, increment", ready::strict_floor()))
        .at_most(0.60, of::<Tokio>())
        .beside(of::<AsyncLock>())
        .beside(of::<Intrusive>())
        .beside(of::<Asyncband>())
        .beside(of::<CondvarSemaphore>())
}

fn acquire() -> Row {
    fn of<P: Peer>() -> Contender {
        timed(P::NAME, ready::acquire::<P>())
    }
    Row::of(of::<Ours>())
        .at_most(1.3, timed("floor: load, CAS, fetch_add", ready::floor()))
        .beside(timed("strict floor: CAS, increment", ready::strict_floor()))
        .at_most(0.45, of::<Tokio>())
        .beside(of::<AsyncLock>())
        .beside(of::<Intrusive>())
        .beside(of::<Asyncband>())
        .beside(timed(
            CondvarSemaphore::NAME,
            ready::wait::<CondvarSemaphore>(),
        ))
        .beside(timed("tower ConcurrencyLimit", ready::tower_call()))
}

/// A token can be put around every future; a blocking wait and tower's readiness are none.
fn acquire_cancellable() -> Row {
    fn of<P: Peer>() -> Contender {
        timed(P::NAME, ready::acquire_cancellable::<P>())
    }
    Row::of(of::<Ours>())
        .at_most(0.40, of::<Tokio>())
        .beside(of::<AsyncLock>())
        .beside(of::<Intrusive>())
        .beside(of::<Asyncband>())
}

fn owned() -> Row {
    fn of<P: OwnedPeer>() -> Contender {
        timed(P::NAME, ready::try_acquire_owned::<P>())
    }
    Row::of(of::<Ours>())
        .at_most(0.65, of::<Tokio>())
        .beside(of::<AsyncLock>())
        .beside(timed(
            Intrusive::NAME,
            ready::try_acquire_shared_intrusive(),
        ))
        .beside(of::<Asyncband>())
}
