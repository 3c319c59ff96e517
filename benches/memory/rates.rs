//! The rate limiters: bytes of one, of its line, and of who waits in it; of the rules, for 10,000 a day; and of streams at a
//! limited bandwidth, while 1,000 wait for their turn.
//!
//! What a crate sets up once for the whole process, as a thread that keeps its timers, is there before anything is
//! counted: another limiter of the same kind has let somebody wait, and go. Nobody is let through while it is counted.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ratelimit::Ratelimiter;
use stats_alloc::Region;
use throttle_net::Throttle as ThrottleNet;
use tokio::io::{AsyncRead, Empty, ReadBuf};
use tokio::runtime::Builder;
use tollgate::{Algorithm, Quota, RateLimiter};
use tollgate_bench::cells;
use tollgate_bench::harness::{Options, Table};
use tollgate_bench::line::{Boxed, Places, WAITERS};
use tollgate_bench::peer::{
    Answer, Governor, LeakyBucket, OurLimiter, Rate, SharedRateLimit, TryLimiter, UpkeptGovernor,
    WaitLimiter,
};
use tollgate_bench::rates::SCARCE;
use tollgate_io::{ThrottleIoExt, Throttled};

use crate::{COUNTING, calls, held, print};

/// What ours is held to: bytes of a limiter in whose line somebody has been. A warm line allocates nothing.
const WITH_LINE: usize = 256;

/// What a limiter takes: the cells of its row, the bytes of one in whose line somebody has been, and the allocations of
/// 10,000 that wait and give up where 10,000 did so before.
struct Asked {
    cells: Vec<String>,
    with_line: usize,
    warm: usize,
}

/// Bytes of a limiter, on its heap when it is new, and when it has decided once.
fn tried<L: TryLimiter>() -> Asked {
    drop(L::with_rate(SCARCE));
    let region = Region::new(COUNTING);
    let limiter = L::with_rate(SCARCE);
    let fresh = held(&region);
    assert!(limiter.try_take().is_permit(), "the first may go");
    let mut cells = cells![L::NAME, size_of::<L>(), fresh, held(&region)];
    cells.resize(9, String::new());
    let (with_line, warm) = (0, 0);
    Asked {
        cells,
        with_line,
        warm,
    }
}

/// The same; on its heap when one has waited and given up, and when 10,000 have; bytes of a future; and on the heap for
/// each of 10,000 that wait.
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
    let warm = calls(&again);

    let allocations = warm as f64 / WAITERS as f64;
    let [each, allocations] = [format!("{each:.1}"), format!("{allocations:.2}")];
    Asked {
        cells: cells![
            L::NAME,
            itself,
            fresh,
            decided,
            one,
            many,
            future,
            each,
            allocations
        ],
        with_line: itself + one,
        warm,
    }
}

/// Prints the table; whether ours keeps within its limits.
pub(crate) fn limiters(options: &Options) -> bool {
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
    let Asked {
        with_line, warm, ..
    } = all[0];
    all.into_iter().for_each(|asked| table.push(asked.cells));
    table.print(options.markdown);
    let claim = format!(
        "{with_line} bytes with an empty line (<= {WITH_LINE}), {warm} allocations of {WAITERS} waiters once warm (<= 0)",
    );
    print(&claim, with_line <= WITH_LINE && warm == 0)
}

const QUOTA: Quota = Quota::per_day(10_000);

/// What ours is held to, beside the places of a log: what every limiter has, and what it has for who needs its lock.
const BESIDE: usize = 768;

/// Bytes, with the limiter itself, when it has decided once.
fn bytes(algorithm: Algorithm) -> usize {
    drop(RateLimiter::new(QUOTA).try_acquire());
    let region = Region::new(COUNTING);
    let limiter = RateLimiter::new(QUOTA).algorithm(algorithm);
    assert!(limiter.try_acquire().is_ok(), "the first may go");
    held(&region) + size_of::<RateLimiter>()
}

/// Prints the table of the rules; whether ours keeps within its limits.
pub(crate) fn rules(options: &Options) -> bool {
    let mut table = Table::new(&["10,000 a day", "bytes", "of them places"]);
    let mut kept = true;
    for &algorithm in Algorithm::all() {
        // All but the log take as much for any count.
        let place = 8 * usize::from(algorithm == Algorithm::SlidingLog);
        let (bytes, places) = (bytes(algorithm), 10_000 * place);
        kept &= bytes <= places + BESIDE;
        table.push(cells![algorithm, bytes, places]);
    }
    table.print(options.markdown);
    print(&format!("at most {BESIDE} bytes beside the places"), kept)
}

const STREAMS: usize = 1_000;

/// What a stream that waits is held to, on the heap: a place in the queue of the limiter, and no buffer.
const HEAP: usize = 128;

/// Bytes on the heap for each of the streams that wait.
fn waiting() -> usize {
    let limiter = RateLimiter::new(Quota::per_hour(1).burst(1024));
    limiter.charge(1024);
    let mut streams: Vec<_> = (0..STREAMS)
        .map(|_| tokio::io::empty().throttled(&limiter))
        .collect();
    let mut bytes = [0; 64];
    let mut context = Context::from_waker(Waker::noop());
    let region = Region::new(COUNTING);
    for stream in &mut streams {
        let polled = Pin::new(stream).poll_read(&mut context, &mut ReadBuf::new(&mut bytes));
        assert_eq!(polled.map_err(drop), Poll::Pending, "nothing is left");
    }
    held(&region) / STREAMS
}

/// Prints the table; whether ours keeps within its limits.
pub(crate) fn streams(options: &Options) -> bool {
    let mut table = Table::new(&["stream", "bytes", "heap bytes, waiting"]);
    let waiting = waiting();
    let borrowed = size_of::<Throttled<(), &RateLimiter>>();
    let owned = size_of::<Throttled<(), Arc<RateLimiter>>>();
    assert_eq!(size_of::<Empty>(), 0, "the stream itself is not counted");
    for (name, bytes) in [("Throttled, &limiter", borrowed), ("Throttled, Arc", owned)] {
        table.push(cells![name, bytes, waiting]);
    }
    table.print(options.markdown);
    print(
        &format!("a stream that waits <= {HEAP} bytes on the heap"),
        waiting <= HEAP,
    )
}
