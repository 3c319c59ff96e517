//! The other throttles, beside the bare channels that two of them use; wrappers of throttles, beside handwritten
//! equivalents; and a fair queue, with permits to spare and with ten thousand waiters.
//!
//! The handwritten form acquires one semaphore after the other, and each answer goes through `black_box` by itself,
//! like in [`crate::semaphore`]; `all` gives one answer, which goes through once.
//!
//! The rows of "mutex beside channel" are those of threads that block, because the mutex can do nothing else. When a
//! flume future that has waited is dropped, it searches all waiters, so a long queue of senders is slow to drain. A
//! long queue of receivers is not, because the first one that is dropped while there is a message wakes all.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;

use futures::executor::block_on;
use priority_semaphore::PrioritySemaphore;
use tokio::sync::Semaphore as Tokio;
use tollgate::fair::{Class, ClassHandle, FairQueue};
use tollgate::semaphore::Permit;
use tollgate::throttle::BoxThrottle;
use tollgate::{ChannelSemaphore, CondvarSemaphore, Pool, Semaphore, Throttle, TryThrottle, all};

use crate::floor;
use crate::harness::{Contender, Row, Shared, abreast, alone, tasks, together};
use crate::line::{self, Line, Part, WAITERS, in_line, stand};
use crate::peer::{
    AsThrottle, BlockingPeer, BusyAsyncChannel, BusyFlume, IdleAsyncChannel, IdleFlume, IdleQueue,
    Ours, SyncChannel, TryPeer,
};
use crate::semaphore::{LIMIT, acquire, try_acquire, wait, waiting, yielding};
use crate::{each, repeat, repeat_async, rows};

type Items = Pool<()>;
type Vectors = Pool<Vec<u8>>;
type Plain = floor::CondvarSemaphore;
type AsyncLock = async_lock::Semaphore;

/// The number of copies that [`placed`] makes of a contender.
const PLACES: usize = 16;

/// Spreads the operations over several copies of a contender, each at another place of the heap.
///
/// With the same instructions, an operation on a bounded async-channel takes some 37 ns or some 56,
/// and keeps to the one or the other for tens of thousands of operations. A batch on one channel
/// shows one of the two by chance; a batch on several is made of both.
fn placed(name: &str, prepare: impl Fn() -> Shared + 'static) -> Contender {
    alone(name, move || {
        let mut between = Vec::new();
        let mut works: Vec<Shared> = Vec::new();
        for place in 0..PLACES {
            between.push(vec![0_u8; 16 + place * 7919 % 3000]);
            works.push(prepare());
        }
        move |times| {
            black_box(&between);
            for (place, work) in works.iter().enumerate() {
                let reached = |place| times * place as u64 / PLACES as u64;
                work(reached(place + 1) - reached(place));
            }
        }
    })
}

/// Returns all rows except those of fair queues.
pub fn rows() -> Vec<Row> {
    let all = [ready(), composed(), contended(), waiters()];
    all.into_iter().flatten().collect()
}

/// One thread, permits to spare.
fn ready() -> Vec<Row> {
    let mut rows = rows! {
        placed "pool: try + drop"
            [try_acquire: Items, IdleAsyncChannel: 1.15, IdleFlume, IdleQueue, Ours, Vectors];
        placed "pool: acquire ready + drop"
            [acquire: Items, IdleAsyncChannel: 1.15, IdleFlume, Ours, Vectors];
        placed "channel semaphore: try + drop"
            [try_acquire: ChannelSemaphore, BusyAsyncChannel, BusyFlume, SyncChannel, Ours, Items];
        placed "channel semaphore: acquire ready + drop"
            [acquire: ChannelSemaphore, BusyAsyncChannel, BusyFlume, Ours, Items]
            {"sync_channel, mutex, busy" => wait::<SyncChannel>};
        placed "condvar semaphore: try + drop"
            [try_acquire: CondvarSemaphore, Plain, SyncChannel, Ours];
        placed "tokio's as a throttle: try + drop" [try_acquire: AsThrottle<Tokio>, Tokio];
        placed "tokio's as a throttle: enter ready + drop" [acquire: AsThrottle<Tokio>, Tokio];
        placed "async-lock's as a throttle: enter ready + drop"
            [acquire: AsThrottle<AsyncLock>, AsyncLock];
    };
    // The blocking form, without any wait.
    let waits = blocking(LIMIT, false, placed);
    rows.push(Row::new("mutex beside channel: wait ready + drop", waits));
    rows
}

type Waits = fn(usize, bool) -> Shared;

/// Returns the contenders whose threads wait. `limit` is the number of permits; with `yields`, a thread yields while it
/// holds one.
fn blocking(
    limit: usize,
    yields: bool,
    how: impl Fn(&'static str, Box<dyn Fn() -> Shared>) -> Contender,
) -> Vec<Contender> {
    fn named(name: &'static str, waits: impl Fn() -> Waits) -> (&'static str, Waits) {
        (name, waits())
    }
    fn waits<P: BlockingPeer>() -> Waits {
        waiting::<P>
    }
    let all = each!(
        named, waits;
        CondvarSemaphore, Plain, Ours, Items, ChannelSemaphore, IdleAsyncChannel, BusyAsyncChannel,
        IdleFlume, BusyFlume, SyncChannel
    );
    let contender = |(name, waits): (_, Waits)| how(name, Box::new(move || waits(limit, yields)));
    all.into_iter().map(contender).collect()
}

/// Several threads, several tasks, and a long queue.
fn contended() -> Vec<Row> {
    // The blocking waits of threads are in "mutex beside channel".
    let mut rows = rows! {
        together "throttles, two threads, limit 8: try"
            [try_acquire: Items, IdleAsyncChannel: 1.15, IdleFlume, IdleQueue, ChannelSemaphore,
             BusyAsyncChannel, BusyFlume, SyncChannel, CondvarSemaphore, Plain, Ours];
        together "throttles, two threads, limit 8: acquire"
            [acquire: Items, IdleAsyncChannel: 1.15, IdleFlume, ChannelSemaphore, BusyAsyncChannel,
             BusyFlume, Ours];
        tasks "throttles, 64 tasks on 2 workers, limit 8"
            [yielding(LIMIT): Items, IdleAsyncChannel: 1.15, IdleFlume, ChannelSemaphore,
             BusyAsyncChannel, BusyFlume, Ours];
    };
    for (name, threads, limit, yields) in [
        ("two threads, limit 8", 2, 8, false),
        ("10 threads, limit 4", 10, 4, false),
        ("10 threads, limit 4, yield", 10, 4, true),
    ] {
        let all = blocking(limit, yields, |name, work| abreast(threads, name, work));
        rows.push(Row::new(format!("mutex beside channel: {name}"), all));
    }
    rows
}

/// Ten thousand waiters.
fn waiters() -> Vec<Row> {
    let row = |name, part: &Part| {
        let all = [
            line::of::<Items>(WAITERS, part),
            line::of::<IdleAsyncChannel>(WAITERS, part),
            line::of::<IdleFlume>(WAITERS, part),
            line::of::<ChannelSemaphore>(WAITERS, part),
            line::of::<BusyAsyncChannel>(WAITERS, part),
            line::of::<BusyFlume>(WAITERS, part),
            line::of::<Ours>(WAITERS, part),
        ];
        Row::new(name, all)
    };
    let both = row("throttles, 10,000 waiters: enqueue + drain", &Part::Both);
    vec![
        row("throttles, 10,000 waiters: enqueue", &Part::Enqueue),
        row("throttles, 10,000 waiters: drain", &Part::Drain),
        both.held(1, 1.15),
    ]
}

/// Wrappers of throttles.
fn composed() -> Vec<Row> {
    rows! {
        alone "all of two: try + drop"
            {"all" => || tried(all((leaked(), leaked()))), "by hand": 1.15 => try_two_by_hand};
        alone "all of two: acquire ready + drop"
            {"all" => || enter(all((leaked(), leaked()))), "by hand": 1.15 => two_by_hand};
        alone "all of three: try + drop"
            {"all" => || tried(all((leaked(), leaked(), leaked()))), "by hand" => try_three_by_hand};
        alone "all of three: acquire ready + drop"
            {"all" => || enter(all((leaked(), leaked(), leaked()))), "by hand" => three_by_hand};
        alone "boxed throttle: acquire ready + drop"
            {"BoxThrottle" => || enter(BoxThrottle::new(shared())), "tollgate, owned" => acquire_owned};
        alone "cost of 3: enter ready + drop"
            {"Cost" => || enter(shared().cost_owned(COST.into())), "tollgate, acquire_many(3)" => || repeat_async!(shared(), |semaphore| {
                drop(black_box(Arc::clone(semaphore).acquire_many(COST.into()).await));
            })};
    }
}

/// The cost of each entry of a [`tollgate::throttle::Cost`].
const COST: u32 = 3;

fn shared() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(LIMIT))
}

/// Returns a throttle that lives for ever, for futures that borrow it.
pub fn leak<T>(throttle: T) -> &'static T {
    Box::leak(Box::new(throttle))
}

fn leaked() -> &'static Semaphore {
    leak(Semaphore::new(LIMIT))
}

/// Tries a throttle through the trait.
fn tried(throttle: impl TryThrottle + Send + Sync + 'static) -> Shared {
    repeat!(throttle, |throttle| {
        let permit = black_box(throttle.try_enter());
        assert!(permit.is_ok(), "a permit is free");
    })
}

/// Enters a throttle through the trait.
fn enter(throttle: impl Throttle + Send + Sync + 'static) -> Shared {
    repeat_async!(throttle, |throttle| {
        drop(black_box(throttle.enter().await));
    })
}

fn semaphores<const N: usize>() -> [Semaphore; N] {
    std::array::from_fn(|_| Semaphore::new(LIMIT))
}

fn take(one: &Semaphore) -> Permit<&Semaphore> {
    black_box(black_box(one).try_acquire()).expect("a permit is free")
}

/// One, and then the other.
fn try_two_by_hand() -> Shared {
    repeat!(semaphores::<2>(), |them| drop((
        take(&them[0]),
        take(&them[1])
    )))
}

/// One after the other.
fn try_three_by_hand() -> Shared {
    repeat!(semaphores::<3>(), |them| {
        drop((take(&them[0]), take(&them[1]), take(&them[2])));
    })
}

/// `let first = one.acquire().await?; let second = two.acquire().await?;`
fn two_by_hand() -> Shared {
    repeat_async!(semaphores::<2>(), |them| {
        let first = black_box(black_box(&them[0]).acquire().await);
        let _first = first.expect("it is not closed");
        let second = black_box(black_box(&them[1]).acquire().await);
        let _second = second.expect("it is not closed");
    })
}

/// The same for three.
fn three_by_hand() -> Shared {
    repeat_async!(semaphores::<3>(), |them| {
        let first = black_box(black_box(&them[0]).acquire().await);
        let _first = first.expect("it is not closed");
        let second = black_box(black_box(&them[1]).acquire().await);
        let _second = second.expect("it is not closed");
        let third = black_box(black_box(&them[2]).acquire().await);
        let _third = third.expect("it is not closed");
    })
}

/// Acquires a shared semaphore by its own method: the inside of a boxed throttle.
pub fn acquire_owned() -> Shared {
    repeat_async!(shared(), |semaphore| {
        drop(black_box(Arc::clone(semaphore).acquire_owned().await));
    })
}

/// Compares a fair queue with the semaphore behind it, and with a semaphore with priorities.
pub fn fair() -> Vec<Row> {
    let owned = |count| line::entered(count, Arc::new(Semaphore::new(1)));
    let row = |name: &str, part| {
        let all = [
            in_line(WAITERS, "FairQueue", fair_line, &part),
            in_line(WAITERS, "Semaphore, owned", owned, &part),
            in_line(WAITERS, "priority-semaphore", priority_line, &part),
        ];
        Row::new(format!("fair: 10,000 waiters in 100 classes: {name}"), all)
    };
    let mut rows = rows! {
        alone "fair: acquire ready + drop"
            {"FairQueue" => || repeat_async!(FairQueue::new(shared()).class(7), |class| {
                drop(black_box(class.acquire().await));
            }),
             "Semaphore, owned": 2.5 => acquire_owned,
             "priority-semaphore" => || repeat_async!(Arc::new(PrioritySemaphore::new(LIMIT)), |semaphore| {
                drop(black_box(semaphore.acquire(7).await));
            })};
    };
    rows.extend([
        row("enqueue", Part::Enqueue),
        row("hand-off", Part::Drain).held(1, 3.0),
        row("enqueue + hand-off", Part::Both),
    ]);
    rows
}

/// Creates a queue in a hundred classes, which take turns.
fn fair_line(count: usize) -> Box<dyn Line> {
    let queue = FairQueue::new(Arc::new(Semaphore::new(1))).classes(|_| Class::new());
    let classes: Vec<ClassHandle<_, _>> = (0..100).map(|key| queue.class(key)).collect();
    let next = Cell::new(0);
    let first = classes[0].clone();
    stand(
        count,
        move || first.try_acquire().expect("it is free"),
        move || {
            let class = next.get();
            next.set((class + 1) % classes.len());
            classes[class].acquire()
        },
        || {},
    )
}

/// Creates a queue of the crate priority-semaphore with one priority, which is first-in first-out.
fn priority_line(count: usize) -> Box<dyn Line> {
    let semaphore = Arc::new(PrioritySemaphore::new(1));
    let same = Arc::clone(&semaphore);
    stand(
        count,
        move || block_on(same.acquire(0)).expect("it is free"),
        move || semaphore.acquire(0),
        || {},
    )
}
