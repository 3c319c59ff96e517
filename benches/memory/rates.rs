//! The rate limiters: bytes of one, of its line, and of who waits in it.
//!
//! What a crate sets up once for the whole process, as a thread that keeps its timers, is there before anything is
//! counted: another limiter of the same kind has let somebody wait, and go. Nobody is let through while it is counted.

use std::alloc::System;

use ratelimit::Ratelimiter;
use stats_alloc::Region;
use throttle_net::Throttle as ThrottleNet;
use tokio::runtime::Builder;
use tollgate_bench::harness::{Options, Table};
use tollgate_bench::line::{Boxed, Places, WAITERS};
use tollgate_bench::peer::{
    Answer, Governor, LeakyBucket, OurLimiter, Rate, SharedRateLimit, TryLimiter, UpkeptGovernor,
    WaitLimiter,
};
use tollgate_bench::rates::SCARCE;

use crate::{COUNTING, calls};

/// What ours is held to: bytes of a limiter in whose line somebody has been. A warm line allocates nothing.
const WITH_LINE: usize = 256;

/// Bytes of a limiter.
struct Asked {
    name: &'static str,
    itself: usize,
    /// On its heap when it is new.
    fresh: usize,
    /// When it has decided once.
    decided: usize,
    waited: Option<Waited>,
}

/// Of a limiter that can be awaited.
struct Waited {
    /// On its heap when one has waited and given up.
    one: usize,
    /// When 10,000 have.
    many: usize,
    /// Of a future.
    future: usize,
    /// On the heap for each of 10,000 that wait.
    each: f64,
    /// Allocations of 10,000 that wait and give up where 10,000 did so before.
    warm: usize,
}

/// How much more there is on the heap since.
pub(crate) fn held(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated - change.bytes_deallocated
}

fn tried<L: TryLimiter>() -> Asked {
    drop(L::with_rate(SCARCE));
    let region = Region::new(COUNTING);
    let limiter = L::with_rate(SCARCE);
    let fresh = held(&region);
    assert!(limiter.try_take().is_permit(), "the first may go");
    Asked {
        name: L::NAME,
        itself: size_of::<L>(),
        fresh,
        decided: held(&region),
        waited: None,
    }
}

fn awaited<L: WaitLimiter>() -> Asked {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime without threads");
    runtime.block_on(async {
        let before = L::with_rate(Rate::per_second(1_000, 1));
        before.take().await;
        before.take().await;
    });
    let _timers = runtime.enter();
    let mut places = Boxed::with_places(WAITERS);
    let region = Region::new(COUNTING);
    // The futures that stay in their places borrow it.
    let limiter: &'static L = Box::leak(Box::new(L::with_rate(SCARCE)));
    let itself = size_of::<L>();
    let heap = || held(&region) - itself;
    let fresh = heap();

    let first = limiter.take();
    let future = size_of_val(&first);
    places.put(0, first);
    assert!(places.poll(0).is_ready(), "the first may go");
    places.clear(0);
    let decided = heap();
    let wait = |places: &mut Boxed<_>, count| {
        for place in 0..count {
            places.put(place, limiter.take());
            assert!(places.poll(place).is_pending(), "it is exhausted");
        }
    };
    wait(&mut places, 1);
    places.clear(0);
    let one = heap();
    wait(&mut places, WAITERS);
    let each = (heap() - decided) as f64 / WAITERS as f64;
    (0..WAITERS).for_each(|place| places.clear(place));
    let many = heap();

    let again = Region::new(COUNTING);
    wait(&mut places, WAITERS);
    (0..WAITERS).for_each(|place| places.clear(place));
    let warm = calls(&again.change());

    Asked {
        name: L::NAME,
        itself,
        fresh,
        decided,
        waited: Some(Waited {
            one,
            many,
            future,
            each,
            warm,
        }),
    }
}

/// Prints the table; whether ours keeps within its limits.
pub(crate) fn table(options: &Options) -> bool {
    // governor comes last: a thread keeps its timers, and frees them while the next one would be counted.
    let all = [
        awaited::<OurLimiter>(),
        awaited::<LeakyBucket>(),
        awaited::<ThrottleNet>(),
        awaited::<SharedRateLimit>(),
        tried::<Ratelimiter>(),
        tried::<UpkeptGovernor>(),
        awaited::<Governor>(),
    ];
    let mut table = Table::new(&[
        "rate limiter",
        "bytes",
        "heap, new",
        "decided",
        "one waited",
        "10,000 did",
        "future bytes",
        "heap bytes a waiter",
        "allocations a waiter, warm",
    ]);
    for asked in &all {
        let mut cells = vec![
            asked.name.to_owned(),
            asked.itself.to_string(),
            asked.fresh.to_string(),
            asked.decided.to_string(),
        ];
        match &asked.waited {
            None => cells.resize(9, String::new()),
            Some(waited) => cells.extend([
                waited.one.to_string(),
                waited.many.to_string(),
                waited.future.to_string(),
                format!("{:.1}", waited.each),
                format!("{:.2}", waited.warm as f64 / WAITERS as f64),
            ]),
        }
        table.push(cells);
    }
    table.print(options.markdown);

    let ours = &all[0];
    let waited = ours.waited.as_ref().expect("ours can be awaited");
    let with_line = ours.itself + waited.one;
    let kept = with_line <= WITH_LINE && waited.warm == 0;
    println!(
        "tollgate: {with_line} bytes with an empty line (<= {WITH_LINE}), {} allocations of {WAITERS} waiters once warm (<= 0): {}",
        waited.warm,
        if kept { "PASS" } else { "MISS" }
    );
    kept
}
