//! [`tollgate::Semaphore`] and other semaphores.

use async_lock::Semaphore as AsyncLock;
use asyncband::semaphore::Semaphore as Asyncband;
use futures_intrusive::sync::Semaphore as Intrusive;
use tokio::sync::Semaphore as Tokio;
use tollgate_bench::condvar::CondvarSemaphore;
use tollgate_bench::line::{self, Order};
use tollgate_bench::peer::{Ours, Peer, TryPeer};
use tollgate_bench::ready;

use crate::{Counted, Work, counted, handed_on, held_to, in_line};

/// How long the short line is and how long the long one: what is O(1) costs the same in both.
const SHORT: usize = 1_000;
const LONG: usize = 10_000;

const TRY: &str = "try_acquire + drop";
const READY: &str = "acquire ready + drop";
const CANCELLABLE: &str = "acquire_cancellable ready + drop";
const OWNED: &str = "owned try + drop";
const HAND_ON: &str = "enqueue + drain, of 10,000";
const CANCEL_SHORT: &str = "enqueue + cancel, random, of 1,000";
const CANCEL_LONG: &str = "enqueue + cancel, random, of 10,000";
const CANCEL_FIRST: &str = "enqueue + cancel, first-in first, of 10,000";
const CANCEL_LAST: &str = "enqueue + cancel, last-in first, of 10,000";

pub(crate) const COUNTED: &[Counted] = &[
    held_to(
        30.0,
        counted(TRY, Ours::NAME, || Box::new(ready::try_acquire::<Ours>())),
    ),
    counted(TRY, "floor", || Box::new(ready::floor())),
    counted(TRY, Tokio::NAME, || Box::new(ready::try_acquire::<Tokio>())),
    counted(TRY, AsyncLock::NAME, || {
        Box::new(ready::try_acquire::<AsyncLock>())
    }),
    counted(TRY, Intrusive::NAME, || {
        Box::new(ready::try_acquire::<Intrusive>())
    }),
    counted(TRY, Asyncband::NAME, || {
        Box::new(ready::try_acquire::<Asyncband>())
    }),
    counted(TRY, CondvarSemaphore::NAME, || {
        Box::new(ready::try_acquire::<CondvarSemaphore>())
    }),
    counted(READY, Ours::NAME, || Box::new(ready::acquire::<Ours>())),
    counted(READY, Tokio::NAME, || Box::new(ready::acquire::<Tokio>())),
    counted(READY, AsyncLock::NAME, || {
        Box::new(ready::acquire::<AsyncLock>())
    }),
    counted(READY, Intrusive::NAME, || {
        Box::new(ready::acquire::<Intrusive>())
    }),
    counted(READY, Asyncband::NAME, || {
        Box::new(ready::acquire::<Asyncband>())
    }),
    counted(READY, "tower ConcurrencyLimit", || {
        Box::new(ready::tower_call())
    }),
    counted(CANCELLABLE, Ours::NAME, || {
        Box::new(ready::acquire_cancellable::<Ours>())
    }),
    counted(CANCELLABLE, Tokio::NAME, || {
        Box::new(ready::acquire_cancellable::<Tokio>())
    }),
    counted(OWNED, Ours::NAME, || {
        Box::new(ready::try_acquire_owned::<Ours>())
    }),
    counted(OWNED, Tokio::NAME, || {
        Box::new(ready::try_acquire_owned::<Tokio>())
    }),
    in_line(
        LONG,
        counted(HAND_ON, Ours::NAME, || handed_on(line::boxed::<Ours>(LONG))),
    ),
    in_line(
        LONG,
        counted(HAND_ON, Tokio::NAME, || {
            handed_on(line::boxed::<Tokio>(LONG))
        }),
    ),
    in_line(
        LONG,
        counted(HAND_ON, Intrusive::NAME, || {
            handed_on(line::boxed::<Intrusive>(LONG))
        }),
    ),
    in_line(
        SHORT,
        counted(CANCEL_SHORT, Ours::NAME, || {
            cancelled::<Ours>(Order::Random, SHORT)
        }),
    ),
    in_line(
        SHORT,
        counted(CANCEL_SHORT, Tokio::NAME, || {
            cancelled::<Tokio>(Order::Random, SHORT)
        }),
    ),
    in_line(
        LONG,
        counted(CANCEL_LONG, Ours::NAME, || {
            cancelled::<Ours>(Order::Random, LONG)
        }),
    ),
    in_line(
        LONG,
        counted(CANCEL_LONG, Tokio::NAME, || {
            cancelled::<Tokio>(Order::Random, LONG)
        }),
    ),
    in_line(
        LONG,
        counted(CANCEL_FIRST, Ours::NAME, || {
            cancelled::<Ours>(Order::FirstIn, LONG)
        }),
    ),
    in_line(
        LONG,
        counted(CANCEL_FIRST, Tokio::NAME, || {
            cancelled::<Tokio>(Order::FirstIn, LONG)
        }),
    ),
    in_line(
        LONG,
        counted(CANCEL_LAST, Ours::NAME, || {
            cancelled::<Ours>(Order::LastIn, LONG)
        }),
    ),
    in_line(
        LONG,
        counted(CANCEL_LAST, Tokio::NAME, || {
            cancelled::<Tokio>(Order::LastIn, LONG)
        }),
    ),
];

fn cancelled<P: Peer>(order: Order, count: usize) -> Work {
    let places = order.places(count);
    let mut line = line::boxed::<P>(count);
    line::warm(&mut *line);
    Box::new(move |times| {
        line::time_cancel(&mut *line, &places, times);
    })
}
