//! The ready paths: one operation of one peer, over and over, on one thread and with permits to spare.
//!
//! The asynchronous ones run inside one future on a plain `block_on` and never return to it. tokio's semaphore looks at
//! its cooperative budget on every completed acquire; outside tokio's own runtime that budget is unlimited, so tokio
//! pays for looking, as it always does, but never for the forced yield after 128 operations. That is the best that can
//! be done for tokio, and the executor is the same for everybody.
//!
//! Every permit goes through `black_box`: it is held in memory, as one is that is held while something is done, and
//! cannot be taken apart into registers by whichever crate happens to be inlined best.

use std::hint::black_box;
use std::sync::Arc;

use futures::executor::block_on;
use tokio_util::sync::CancellationToken;
use tower::limit::ConcurrencyLimit;
use tower::{Service, ServiceExt};

use crate::floor::Floor;
use crate::peer::{Answer, BlockingPeer, OwnedPeer, Peer, TryPeer};
use crate::service::Immediate;

/// The permits of every ready path.
pub const LIMIT: usize = 8;

/// How many of a contender that [`in_many_places`] makes.
const PLACES: usize = 16;

/// Spreads the operations over several of a contender, each at another place of the heap.
///
/// With the same instructions, an operation on a bounded async-channel takes some 37 ns or some 56,
/// and keeps to the one or the other for tens of thousands of operations. A batch on one channel
/// shows one of the two by chance; a batch on several is made of both.
pub fn in_many_places<W: FnMut(u64)>(prepare: impl Fn() -> W) -> impl FnMut(u64) {
    let mut between = Vec::new();
    let mut works: Vec<W> = Vec::new();
    for place in 0..PLACES {
        between.push(vec![0_u8; 16 + place * 7919 % 3000]);
        works.push(prepare());
    }
    move |times| {
        black_box(&between);
        for (place, work) in works.iter_mut().enumerate() {
            let reached = |place| times * place as u64 / PLACES as u64;
            work(reached(place + 1) - reached(place));
        }
    }
}

/// The least that a semaphore over one word can do.
pub fn floor() -> impl FnMut(u64) + 'static {
    let floor = Floor::new(LIMIT);
    move |times| {
        for _ in 0..times {
            let permit = black_box(&floor).try_take();
            assert!(black_box(permit).is_some(), "a permit is free");
        }
    }
}

/// Two atomic operations, and nothing else.
pub fn strict_floor() -> impl FnMut(u64) + 'static {
    let floor = Floor::new(LIMIT);
    move |times| {
        for _ in 0..times {
            black_box(&floor).bare_pair();
        }
    }
}

/// `try_acquire` and give back.
pub fn try_acquire<P: TryPeer>() -> impl FnMut(u64) + 'static {
    let semaphore = P::with_permits(LIMIT);
    move |times| {
        for _ in 0..times {
            let permit = black_box(&semaphore).try_acquire();
            assert!(black_box(permit).is_permit(), "a permit is free");
            semaphore.give_back();
        }
    }
}

/// `acquire().await` and give back.
pub fn acquire<P: Peer>() -> impl FnMut(u64) + 'static {
    let semaphore = P::with_permits(LIMIT);
    move |times| {
        block_on(async {
            for _ in 0..times {
                drop(black_box(black_box(&semaphore).acquire().await));
                semaphore.give_back();
            }
        });
    }
}

/// The blocking form, and give back.
pub fn wait<P: BlockingPeer>() -> impl FnMut(u64) + 'static {
    let semaphore = P::with_permits(LIMIT);
    move |times| {
        for _ in 0..times {
            drop(black_box(black_box(&semaphore).wait()));
            semaphore.give_back();
        }
    }
}

/// The same under a token that is never cancelled.
pub fn acquire_cancellable<P: Peer>() -> impl FnMut(u64) + 'static {
    let semaphore = P::with_permits(LIMIT);
    let token = CancellationToken::new();
    move |times| {
        block_on(async {
            for _ in 0..times {
                let permit = black_box(&semaphore).acquire_cancellable(black_box(&token));
                drop(black_box(permit.await));
            }
        });
    }
}

/// Clone the `Arc`, try, drop what came out.
pub fn try_acquire_owned<P: OwnedPeer>() -> impl FnMut(u64) + 'static {
    let semaphore = Arc::new(P::with_permits(LIMIT));
    move |times| {
        for _ in 0..times {
            let permit = black_box(&semaphore).try_acquire_owned();
            assert!(black_box(permit).is_permit(), "a permit is free");
        }
    }
}

/// futures-intrusive keeps its owned form in a type of its own, which is an `Arc` inside.
pub fn try_acquire_shared_intrusive() -> impl FnMut(u64) + 'static {
    let fair = true;
    let semaphore = futures_intrusive::sync::SharedSemaphore::new(fair, LIMIT);
    move |times| {
        for _ in 0..times {
            let permit = black_box(&semaphore).try_acquire(1);
            assert!(black_box(permit).is_permit(), "a permit is free");
        }
    }
}

/// tower's limit around a service that answers at once: ready, call, answer.
pub fn tower_call() -> impl FnMut(u64) + 'static {
    let mut service = ConcurrencyLimit::new(Immediate, LIMIT);
    move |times| {
        block_on(async {
            for _ in 0..times {
                let ready = black_box(&mut service).ready().await;
                let answer = ready.expect("it never fails").call(()).await;
                answer.expect("it never fails");
            }
        });
    }
}
