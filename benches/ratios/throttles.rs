//! The other throttles on one thread, beside the bare channels that two of them stand on.

use tokio::sync::Semaphore as Tokio;
use tollgate::{ChannelSemaphore, CondvarSemaphore, Pool};
use tollgate_bench::composed;
use tollgate_bench::condvar;
use tollgate_bench::harness::{Contender, Entry, Row};
use tollgate_bench::peer::{
    AsThrottle, BlockingPeer, BusyAsyncChannel, BusyFlume, IdleAsyncChannel, IdleFlume, IdleQueue,
    Ours, Peer, SyncChannel, TryPeer,
};
use tollgate_bench::ready::{self, in_many_places};

use crate::ready::timed;

pub(crate) const ENTRIES: &[Entry] = &[
    ("pool: try + drop", pool_try),
    ("pool: acquire ready + drop", pool_acquire),
    ("channel semaphore: try + drop", channel_try),
    ("channel semaphore: acquire ready + drop", channel_acquire),
    ("condvar semaphore: try + drop", condvar_try),
    ("mutex beside channel: wait ready + drop", blocking),
    ("all of two: try + drop", || {
        let ours = timed("all", composed::try_all_of_two());
        Row::of(ours).at_most(1.15, timed("by hand", composed::try_two_by_hand()))
    }),
    ("all of two: acquire ready + drop", || {
        let ours = timed("all", composed::all_of_two());
        Row::of(ours).at_most(1.15, timed("by hand", composed::two_by_hand()))
    }),
    ("all of three: try + drop", || {
        let ours = timed("all", composed::try_all_of_three());
        Row::of(ours).beside(timed("by hand", composed::try_three_by_hand()))
    }),
    ("all of three: acquire ready + drop", || {
        let ours = timed("all", composed::all_of_three());
        Row::of(ours).beside(timed("by hand", composed::three_by_hand()))
    }),
    ("boxed throttle: acquire ready + drop", || {
        let ours = timed("BoxThrottle", composed::enter_boxed());
        Row::of(ours).beside(timed("tollgate, owned", composed::acquire_owned()))
    }),
    ("cost of 3: enter ready + drop", || {
        let ours = timed("Cost", composed::enter_with_cost());
        Row::of(ours).beside(timed("tollgate, acquire_many(3)", composed::acquire_many()))
    }),
    ("tokio's as a throttle: try + drop", || {
        Row::of(tried::<AsThrottle<Tokio>>()).beside(tried::<Tokio>())
    }),
    ("tokio's as a throttle: enter ready + drop", || {
        Row::of(awaited::<AsThrottle<Tokio>>()).beside(awaited::<Tokio>())
    }),
    ("async-lock's as a throttle: enter ready + drop", || {
        type AsyncLock = async_lock::Semaphore;
        Row::of(awaited::<AsThrottle<AsyncLock>>()).beside(awaited::<AsyncLock>())
    }),
];

fn tried<P: TryPeer>() -> Contender {
    timed(P::NAME, in_many_places(ready::try_acquire::<P>))
}

fn awaited<P: Peer>() -> Contender {
    timed(P::NAME, in_many_places(ready::acquire::<P>))
}

fn waited<P: BlockingPeer>() -> Contender {
    timed(P::NAME, in_many_places(ready::wait::<P>))
}

fn pool_try() -> Row {
    Row::of(tried::<Pool<()>>())
        .at_most(1.15, tried::<IdleAsyncChannel>())
        .beside(tried::<IdleFlume>())
        .beside(tried::<IdleQueue>())
        .beside(tried::<Ours>())
        .beside(tried::<Pool<Vec<u8>>>())
}

fn pool_acquire() -> Row {
    Row::of(awaited::<Pool<()>>())
        .at_most(1.15, awaited::<IdleAsyncChannel>())
        .beside(awaited::<IdleFlume>())
        .beside(awaited::<Ours>())
        .beside(awaited::<Pool<Vec<u8>>>())
}

fn channel_try() -> Row {
    Row::of(tried::<ChannelSemaphore>())
        .beside(tried::<BusyAsyncChannel>())
        .beside(tried::<BusyFlume>())
        .beside(tried::<SyncChannel>())
        .beside(tried::<Ours>())
        .beside(tried::<Pool<()>>())
}

fn channel_acquire() -> Row {
    Row::of(awaited::<ChannelSemaphore>())
        .beside(awaited::<BusyAsyncChannel>())
        .beside(awaited::<BusyFlume>())
        .beside(waited::<SyncChannel>())
        .beside(awaited::<Ours>())
        .beside(awaited::<Pool<()>>())
}

fn condvar_try() -> Row {
    Row::of(tried::<CondvarSemaphore>())
        .beside(tried::<condvar::CondvarSemaphore>())
        .beside(tried::<SyncChannel>())
        .beside(tried::<Ours>())
}

/// The mutex beside the channels: the form that blocks, where nobody has to.
fn blocking() -> Row {
    Row::of(waited::<CondvarSemaphore>())
        .beside(waited::<condvar::CondvarSemaphore>())
        .beside(waited::<Ours>())
        .beside(waited::<Pool<()>>())
        .beside(waited::<ChannelSemaphore>())
        .beside(waited::<IdleAsyncChannel>())
        .beside(waited::<BusyAsyncChannel>())
        .beside(waited::<IdleFlume>())
        .beside(waited::<BusyFlume>())
        .beside(waited::<SyncChannel>())
}
