//! Measures the other throttles, next to the bare channels on which two of them are built; and compositions of
//! throttles, next to the same written by hand.
//!
//! The hand-written code acquires one semaphore after the other, and each answer goes through `black_box` by itself,
//! as in [`crate::semaphore`]; the answer of `all` is a single one, and goes through once.
//!
//! The rows of "mutex beside channel" are those of threads that block, since the mutex supports nothing else. A
//! future of flume that has waited searches through all waiters when it is dropped, so a long line of senders is slow
//! to drain. A long line of receivers is not slow, because the first receiver that is dropped while there is a
//! message wakes all.

use std::hint::black_box;
use std::sync::Arc;

use tokio::sync::Semaphore as Tokio;
use tollgate::{
    BoxThrottle, ChannelSemaphore, CondvarSemaphore, Pool, Semaphore, Throttle, TryThrottle, all,
};

use crate::floor;
use crate::harness::{Contender, Row, Shared, abreast, alone, together};
use crate::line::{self, Part, WAITERS};
use crate::peer::{
    AsThrottle, BlockingPeer, BusyAsyncChannel, BusyFlume, IdleAsyncChannel, IdleFlume, IdleQueue,
    Ours, SyncChannel, TryPeer,
};
use crate::semaphore::{LIMIT, acquire, tasks, try_acquire, wait, waiting, yielding};
use crate::{each, repeat, repeat_async, rows};

type Items = Pool<()>;
type Vectors = Pool<Vec<u8>>;
type Plain = floor::CondvarSemaphore;
type AsyncLock = async_lock::Semaphore;

/// The number of instances that [`placed`] makes of a contender.
const PLACES: usize = 16;

/// Spreads the operations over several instances of a contender, each at another place of the heap.
///
/// With the same instructions, an operation on a bounded async-channel takes about 37 ns or about 56,
/// and keeps one of the two for tens of thousands of operations. A batch on one channel
/// shows one of the two by chance; a batch on several channels mixes both.
fn placed(name: impl Into<String>, prepare: impl Fn() -> Shared + 'static) -> Contender {
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

/// One thread with permits to spare.
#[must_use]
pub fn ready() -> Vec<Row> {
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
    // The blocking form, in which no thread has to wait.
    let waits = blocking(LIMIT, false, placed);
    rows.push(Row::new("mutex beside channel: wait ready + drop", waits));
    rows
}

type Waits = fn(usize, bool) -> Shared;

/// Returns all contenders whose threads wait for `limit` permits, and may yield while they hold one.
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

/// Several threads, several tasks, and a long line.
#[must_use]
pub fn contended() -> Vec<Row> {
    // Blocking waits of threads for all of them are in "mutex beside channel".
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

/// Ten thousand in line.
#[must_use]
pub fn waiters() -> Vec<Row> {
    let row = |name, part: &Part, target| {
        let bare = line::of::<IdleAsyncChannel>(WAITERS, part);
        let bare = match target {
            Some(target) => bare.at_most(target),
            None => bare,
        };
        let others = [
            line::of::<IdleFlume>(WAITERS, part),
            line::of::<ChannelSemaphore>(WAITERS, part),
            line::of::<BusyAsyncChannel>(WAITERS, part),
            line::of::<BusyFlume>(WAITERS, part),
            line::of::<Ours>(WAITERS, part),
        ];
        let first = [line::of::<Items>(WAITERS, part), bare];
        Row::new(name, first.into_iter().chain(others))
    };
    vec![
        row("throttles, 10,000 waiters: enqueue", &Part::Enqueue, None),
        row("throttles, 10,000 waiters: drain", &Part::Drain, None),
        row(
            "throttles, 10,000 waiters: enqueue + drain",
            &Part::Both,
            Some(1.15),
        ),
    ]
}

/// Compositions of throttles.
#[must_use]
pub fn composed() -> Vec<Row> {
    rows! {
        alone "all of two: try + drop"
            {"all" => || tried(two()), "by hand": 1.15 => try_two_by_hand};
        alone "all of two: acquire ready + drop"
            {"all" => || enter(two()), "by hand": 1.15 => two_by_hand};
        alone "all of three: try + drop"
            {"all" => || tried(three()), "by hand" => try_three_by_hand};
        alone "all of three: acquire ready + drop"
            {"all" => || enter(three()), "by hand" => three_by_hand};
        alone "boxed throttle: acquire ready + drop"
            {"BoxThrottle" => || enter(BoxThrottle::new(shared())), "tollgate, owned" => acquire_owned};
        alone "cost of 3: enter ready + drop"
            {"Cost" => || enter(shared().cost_owned(COST)), "tollgate, acquire_many(3)" => acquire_many};
    }
}

/// The cost of each entry of a [`tollgate::Cost`].
const COST: u32 = 3;

fn shared() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(LIMIT))
}

/// Returns a throttle that lives forever, for futures that borrow it.
pub fn leak<T>(throttle: T) -> &'static T {
    Box::leak(Box::new(throttle))
}

fn leaked() -> &'static Semaphore {
    leak(Semaphore::new(LIMIT))
}

/// Composes two with `all`.
fn two() -> impl TryThrottle + Send + Sync + 'static {
    all((leaked(), leaked()))
}

/// Composes three with `all`.
fn three() -> impl TryThrottle + Send + Sync + 'static {
    all((leaked(), leaked(), leaked()))
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

/// Tries one, and then the other.
fn try_two_by_hand() -> Shared {
    repeat!(semaphores::<2>(), |them| {
        let first = black_box(black_box(&them[0]).try_acquire());
        assert!(first.is_ok(), "a permit is free");
        let second = black_box(black_box(&them[1]).try_acquire());
        assert!(second.is_ok(), "a permit is free");
    })
}

/// Tries three, one after the other.
fn try_three_by_hand() -> Shared {
    repeat!(semaphores::<3>(), |them| {
        let first = black_box(black_box(&them[0]).try_acquire());
        assert!(first.is_ok(), "a permit is free");
        let second = black_box(black_box(&them[1]).try_acquire());
        assert!(second.is_ok(), "a permit is free");
        let third = black_box(black_box(&them[2]).try_acquire());
        assert!(third.is_ok(), "a permit is free");
    })
}

/// Runs `let first = one.acquire().await?; let second = two.acquire().await?;`.
fn two_by_hand() -> Shared {
    repeat_async!(semaphores::<2>(), |them| {
        let first = black_box(black_box(&them[0]).acquire().await);
        let _first = first.expect("it is not closed");
        let second = black_box(black_box(&them[1]).acquire().await);
        let _second = second.expect("it is not closed");
    })
}

/// Does the same for three.
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

/// Acquires a shared semaphore with its own method: the inner operation of a boxed throttle.
pub fn acquire_owned() -> Shared {
    repeat_async!(shared(), |semaphore| {
        drop(black_box(Arc::clone(semaphore).acquire_owned().await));
    })
}

/// Acquires a weight that belongs to the call.
fn acquire_many() -> Shared {
    repeat_async!(shared(), |semaphore| {
        drop(black_box(Arc::clone(semaphore).acquire_many(COST).await));
    })
}
