//! The other throttles, the channels that they stand on, and what is made of throttles.

use async_lock::Semaphore as AsyncLock;
use tokio::sync::Semaphore as Tokio;
use tollgate::{ChannelSemaphore, CondvarSemaphore, Pool};
use tollgate_bench::adaptive::{Measured, Unmeasured};
use tollgate_bench::composed;
use tollgate_bench::condvar::CondvarSemaphore as Plain;
use tollgate_bench::line::{self, WAITERS};
use tollgate_bench::observed::{self, holders};
use tollgate_bench::peer::{
    AsThrottle, BusyAsyncChannel, BusyFlume, IdleAsyncChannel, IdleFlume, IdleQueue, Ours,
    SyncChannel, TryPeer,
};
use tollgate_bench::ready;

use crate::{Counted, counted, handed_on, in_line};

type Items = Pool<()>;

const POOL_TRY: &str = "pool: try + drop";
const POOL_READY: &str = "pool: acquire ready + drop";
const CHANNEL_TRY: &str = "channel semaphore: try + drop";
const CHANNEL_READY: &str = "channel semaphore: acquire ready + drop";
const CONDVAR_TRY: &str = "condvar semaphore: try + drop";
const WAIT: &str = "wait ready + drop, blocking";
const TRY_TWO: &str = "all of two: try + drop";
const TRY_THREE: &str = "all of three: try + drop";
const TWO: &str = "all of two: acquire ready + drop";
const THREE: &str = "all of three: acquire ready + drop";
const BOXED: &str = "boxed throttle: acquire ready + drop";
const COST: &str = "cost of 3: enter ready + drop";
const READY: &str = "as a throttle: enter ready + drop";
const ADAPTIVE_TRY: &str = "adaptive: try + drop";
const ADAPTIVE: &str = "adaptive: acquire ready + drop";
const OBSERVED_TRY: &str = "observed: try + drop";
const OBSERVED: &str = "observed: acquire ready + drop";
const HAND_ON: &str = "throttles, enqueue + drain, of 10,000";

const LONG: usize = WAITERS;

pub(crate) const COUNTED: &[Counted] = &[
    counted(POOL_TRY, Items::NAME, || {
        Box::new(ready::try_acquire::<Items>())
    }),
    counted(POOL_TRY, Pool::<Vec<u8>>::NAME, || {
        Box::new(ready::try_acquire::<Pool<Vec<u8>>>())
    }),
    counted(POOL_TRY, IdleAsyncChannel::NAME, || {
        Box::new(ready::try_acquire::<IdleAsyncChannel>())
    }),
    counted(POOL_TRY, IdleFlume::NAME, || {
        Box::new(ready::try_acquire::<IdleFlume>())
    }),
    counted(POOL_TRY, IdleQueue::NAME, || {
        Box::new(ready::try_acquire::<IdleQueue>())
    }),
    counted(POOL_READY, Items::NAME, || {
        Box::new(ready::acquire::<Items>())
    }),
    counted(POOL_READY, Pool::<Vec<u8>>::NAME, || {
        Box::new(ready::acquire::<Pool<Vec<u8>>>())
    }),
    counted(POOL_READY, IdleAsyncChannel::NAME, || {
        Box::new(ready::acquire::<IdleAsyncChannel>())
    }),
    counted(POOL_READY, IdleFlume::NAME, || {
        Box::new(ready::acquire::<IdleFlume>())
    }),
    counted(CHANNEL_TRY, ChannelSemaphore::NAME, || {
        Box::new(ready::try_acquire::<ChannelSemaphore>())
    }),
    counted(CHANNEL_TRY, BusyAsyncChannel::NAME, || {
        Box::new(ready::try_acquire::<BusyAsyncChannel>())
    }),
    counted(CHANNEL_TRY, BusyFlume::NAME, || {
        Box::new(ready::try_acquire::<BusyFlume>())
    }),
    counted(CHANNEL_TRY, SyncChannel::NAME, || {
        Box::new(ready::try_acquire::<SyncChannel>())
    }),
    counted(CHANNEL_READY, ChannelSemaphore::NAME, || {
        Box::new(ready::acquire::<ChannelSemaphore>())
    }),
    counted(CHANNEL_READY, BusyAsyncChannel::NAME, || {
        Box::new(ready::acquire::<BusyAsyncChannel>())
    }),
    counted(CHANNEL_READY, BusyFlume::NAME, || {
        Box::new(ready::acquire::<BusyFlume>())
    }),
    counted(CONDVAR_TRY, CondvarSemaphore::NAME, || {
        Box::new(ready::try_acquire::<CondvarSemaphore>())
    }),
    counted(CONDVAR_TRY, Plain::NAME, || {
        Box::new(ready::try_acquire::<Plain>())
    }),
    counted(WAIT, CondvarSemaphore::NAME, || {
        Box::new(ready::wait::<CondvarSemaphore>())
    }),
    counted(WAIT, Plain::NAME, || Box::new(ready::wait::<Plain>())),
    counted(WAIT, Ours::NAME, || Box::new(ready::wait::<Ours>())),
    counted(WAIT, Items::NAME, || Box::new(ready::wait::<Items>())),
    counted(WAIT, ChannelSemaphore::NAME, || {
        Box::new(ready::wait::<ChannelSemaphore>())
    }),
    counted(WAIT, IdleAsyncChannel::NAME, || {
        Box::new(ready::wait::<IdleAsyncChannel>())
    }),
    counted(WAIT, BusyAsyncChannel::NAME, || {
        Box::new(ready::wait::<BusyAsyncChannel>())
    }),
    counted(WAIT, IdleFlume::NAME, || {
        Box::new(ready::wait::<IdleFlume>())
    }),
    counted(WAIT, BusyFlume::NAME, || {
        Box::new(ready::wait::<BusyFlume>())
    }),
    counted(WAIT, SyncChannel::NAME, || {
        Box::new(ready::wait::<SyncChannel>())
    }),
    counted(TRY_TWO, "all", || Box::new(composed::try_all_of_two())),
    counted(TRY_TWO, "by hand", || Box::new(composed::try_two_by_hand())),
    counted(TRY_THREE, "all", || Box::new(composed::try_all_of_three())),
    counted(TRY_THREE, "by hand", || {
        Box::new(composed::try_three_by_hand())
    }),
    counted(TWO, "all", || Box::new(composed::all_of_two())),
    counted(TWO, "by hand", || Box::new(composed::two_by_hand())),
    counted(THREE, "all", || Box::new(composed::all_of_three())),
    counted(THREE, "by hand", || Box::new(composed::three_by_hand())),
    counted(BOXED, "BoxThrottle", || Box::new(composed::enter_boxed())),
    counted(BOXED, "tollgate, owned", || {
        Box::new(composed::acquire_owned())
    }),
    counted(COST, "Cost", || Box::new(composed::enter_with_cost())),
    counted(COST, "acquire_many(3)", || {
        Box::new(composed::acquire_many())
    }),
    counted(READY, AsThrottle::<Tokio>::NAME, || {
        Box::new(ready::acquire::<AsThrottle<Tokio>>())
    }),
    counted(READY, AsThrottle::<AsyncLock>::NAME, || {
        Box::new(ready::acquire::<AsThrottle<AsyncLock>>())
    }),
    counted(ADAPTIVE_TRY, Unmeasured::NAME, || {
        Box::new(ready::try_acquire::<Unmeasured>())
    }),
    counted(ADAPTIVE_TRY, Measured::NAME, || {
        Box::new(ready::try_acquire::<Measured>())
    }),
    counted(ADAPTIVE, Unmeasured::NAME, || {
        Box::new(ready::acquire::<Unmeasured>())
    }),
    counted(OBSERVED_TRY, "Observed, ()", || {
        Box::new(observed::try_acquire(()))
    }),
    counted(OBSERVED_TRY, "Observed, &Holders", || {
        Box::new(observed::try_acquire(holders()))
    }),
    counted(OBSERVED, "Observed, ()", || Box::new(observed::acquire(()))),
    counted(OBSERVED, "Observed, &Holders", || {
        Box::new(observed::acquire(holders()))
    }),
    in_line(
        LONG,
        counted(HAND_ON, Items::NAME, || {
            handed_on(line::boxed::<Items>(LONG))
        }),
    ),
    in_line(
        LONG,
        counted(HAND_ON, IdleAsyncChannel::NAME, || {
            handed_on(line::boxed::<IdleAsyncChannel>(LONG))
        }),
    ),
    in_line(
        LONG,
        counted(HAND_ON, ChannelSemaphore::NAME, || {
            handed_on(line::boxed::<ChannelSemaphore>(LONG))
        }),
    ),
    in_line(
        LONG,
        counted(HAND_ON, BusyAsyncChannel::NAME, || {
            handed_on(line::boxed::<BusyAsyncChannel>(LONG))
        }),
    ),
];
