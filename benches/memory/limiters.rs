//! The memory of rate limiters: bytes of a limiter, of its wait queue, and of a waiter; of a key, in a full map and
//! under the default cap; and of streams at a limited bandwidth, while 1,000 wait for their turn.
//!
//! What a crate sets up once per process, such as a timer thread, exists before counting starts: another limiter of
//! the same kind has had a waiter and admitted it. No waiter is admitted during the counting.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ratelimit::Ratelimiter;
use ready_paths::quotas::SCARCE;
use stats_alloc::Region;
use throttle_net::Throttle as ThrottleNet;
use tokio::io::{AsyncRead, Empty, ReadBuf};
use tokio::runtime::Builder;
use tollgate::{Algorithm, Keyed, Quota, RateLimiter};
use tollgate_bench::harness::{Options, Spread, Table};
use tollgate_bench::keyed::{BenchKey, GovernorKeyed, KeyedLimiter};
use tollgate_bench::line::{Places, WAITERS};
use tollgate_bench::page::print_bytes;
use tollgate_bench::peer::{
    Governor, LeakyBucket, Limiter, OurLimiter, SharedRateLimit, WaitLimiter,
};
use tollgate_io::{ThrottleIoExt, Throttled};

use crate::{COUNTING, calls, held, print};

/// The target of ours: bytes of a limiter whose queue has had a waiter. A warm queue allocates
/// nothing.
const WITH_LINE: usize = 256;

/// Bytes of a limiter; on its heap when it is new, after one decision, after one waiter has given up, and after 10,000
/// have; bytes of a future; and bytes on the heap per waiter, with 10,000 waiting.
fn awaited<L: WaitLimiter>() -> Awaited {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime without threads");
    runtime.block_on(async {
        let before = L::with_quota(Quota::per_second(1_000));
        before.take().await;
        before.take().await;
    });
    let _timers = runtime.enter();
    let mut places = Places::new(WAITERS);
    let region = Region::new(COUNTING);
    // The futures in these places borrow it.
    let limiter: &'static L = Box::leak(Box::new(L::with_quota(SCARCE)));
    let itself = size_of::<L>();
    let heap = || held(&region) - itself;
    let fresh = heap();

    let first = limiter.take();
    let future = size_of_val(&first);
    places.put(0, first);
    assert!(places.poll(0).is_ready(), "the first may go");
    places.clear(0);
    let decided = heap();
    let wait = |places: &mut Places<_>, count| {
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

    let (name, allocations) = (L::NAME, warm as f64 / WAITERS as f64);
    let line = format!(
        "{name} | {itself} | {fresh} | {decided} | {one} | {many} | {future} | {each:.1} | {allocations:.2}"
    );
    Awaited {
        line,
        with_line: itself + one,
        warm,
        waiter: future as f64 + each,
    }
}

/// The line of a table, and figures of it.
struct Awaited {
    line: String,
    /// The bytes of a limiter that has had a waiter.
    with_line: usize,
    /// The allocations of all waiters, once warm.
    warm: usize,
    /// The bytes of a waiter and of its future.
    waiter: f64,
}

/// Prints the lines of BENCHMARKS.md.
pub(crate) fn page(options: &Options) {
    let ours = awaited::<OurLimiter>().waiter;
    let row = "bytes of a waiter: rate limiter";
    let theirs = awaited::<LeakyBucket>().waiter;
    print_bytes(options, row, LeakyBucket::NAME, [ours, theirs], "");
    let why = "an entry is a key and 16 bytes, governor's a key and 8";
    for (name, keys) in [
        ("1,000", 1_000),
        ("100,000", 100_000),
        ("1,000,000", 1_000_000),
    ] {
        let ours = settled::<u64, Keyed<u64, _>>(keys);
        let theirs = settled::<u64, GovernorKeyed<u64>>(keys);
        let row = format!("bytes of a key, {name} keys");
        print_bytes(options, &row, Governor::NAME, [ours, theirs], why);
    }
}

/// Prints the table and returns whether ours keeps within its limits.
pub(crate) fn limiters(options: &Options) -> bool {
    // governor comes last: its thread keeps timers, and would free them while the next contender is
    // counted.
    let all = [
        awaited::<OurLimiter>(),
        awaited::<LeakyBucket>(),
        awaited::<ThrottleNet>(),
        awaited::<SharedRateLimit>(),
        awaited::<Ratelimiter>(),
        awaited::<Governor>(),
    ];
    let mut table = Table::new(
        "rate limiter | bytes | heap, new | decided | one waited | 10,000 did | future bytes \
         | heap bytes a waiter | allocations a waiter, warm",
    );
    all.iter().for_each(|one| table.push(&one.line));
    table.print(options.markdown);
    let Awaited {
        with_line, warm, ..
    } = all[0];
    let claim = format!(
        "{with_line} bytes with an empty line (<= {WITH_LINE}), {warm} allocations of {WAITERS} waiters once warm (<= 0)",
    );
    print(&claim, with_line <= WITH_LINE && warm == 0)
}

/// The target for a thousand keys under the default cap.
const FEW: f64 = 80.0;

/// A map with the default cap, however many keys will come.
struct Uncapped(Keyed<u64, RateLimiter>);

impl KeyedLimiter<u64> for Uncapped {
    fn with_keys(_keys: usize) -> Self {
        Self(Keyed::rate_limiters(Quota::per_hour(10).burst(10)))
    }

    fn try_take(&self, key: &u64) -> bool {
        self.0.key(key).try_acquire().is_ok()
    }
}

/// Returns the median of three: another thread may free memory meanwhile.
fn settled<K: BenchKey, L: KeyedLimiter<K>>(keys: usize) -> f64 {
    Spread::of((0..3).map(|_| bytes::<K, L>(keys))).median
}

/// Bytes per key, without the heap of the keys themselves, which is the same for both.
fn bytes<K: BenchKey, L: KeyedLimiter<K>>(keys: usize) -> f64 {
    assert!(L::with_keys(1).try_take(&K::of(0)), "there is plenty");
    let on_heap = {
        let region = Region::new(COUNTING);
        let all: Vec<K> = (0..keys as u64).map(|key| K::of(key).clone()).collect();
        held(&region) - all.capacity() * size_of::<K>()
    };
    let region = Region::new(COUNTING);
    let limiter = L::with_keys(keys);
    for key in 0..keys as u64 {
        assert!(limiter.try_take(&K::of(key)), "there is plenty");
    }
    (held(&region) - on_heap) as f64 / keys as f64
}

/// Prints the table and returns whether few keys take no more than they should.
pub(crate) fn keys(options: &Options) -> bool {
    fn line<K: BenchKey, L: KeyedLimiter<K>>(keys: usize, remark: &str) -> (f64, String) {
        let ours = settled::<K, L>(keys);
        let (name, theirs) = (K::NAME, settled::<K, GovernorKeyed<K>>(keys));
        (
            ours,
            format!("{keys} {name}{remark} | {ours:.1} | {theirs:.1}"),
        )
    }
    let mut table = Table::new("keys | tollgate | governor");
    let (few, first) = line::<u64, Uncapped>(1_000, ", default cap");
    table.push(first);
    for keys in [1_000, 100_000, 1_000_000] {
        table.push(line::<u64, Keyed<u64, _>>(keys, "").1);
        table.push(line::<String, Keyed<String, _>>(keys, "").1);
    }
    table.print(options.markdown);
    let claim = format!("1000 keys under the default cap take at most {FEW} bytes each");
    print(&claim, few <= FEW)
}

/// The target of ours, without the entries of a log: the size of every limiter, and its allocation
/// for callers that need its lock.
const BESIDE: usize = 768;

/// Prints the table of the rules and returns whether ours keeps within its limits.
pub(crate) fn rules(options: &Options) -> bool {
    let mut table = Table::new("10,000 a day | bytes | of them places");
    let mut kept = true;
    drop(RateLimiter::new(SCARCE).try_acquire());
    for &algorithm in Algorithm::all() {
        let region = Region::new(COUNTING);
        let limiter = RateLimiter::new(Quota::per_day(10_000)).algorithm(algorithm);
        assert!(limiter.try_acquire().is_ok(), "the first may go");
        let bytes = held(&region) + size_of::<RateLimiter>();
        // All but the log take the same memory for any count.
        let places = 80_000 * usize::from(algorithm == Algorithm::SlidingLog);
        kept &= bytes <= places + BESIDE;
        table.push(format!("{algorithm} | {bytes} | {places}"));
    }
    table.print(options.markdown);
    print(&format!("at most {BESIDE} bytes beside the places"), kept)
}

const STREAMS: usize = 1_000;

/// The heap target of a waiting stream: a slot in the queue of the limiter, and no buffer.
const HEAP: usize = 128;

/// Bytes on the heap for each waiting stream.
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

/// Prints the table and returns whether ours keeps within its limits.
pub(crate) fn streams(options: &Options) -> bool {
    let mut table = Table::new("stream | bytes | heap bytes, waiting");
    let waiting = waiting();
    let borrowed = size_of::<Throttled<(), &RateLimiter>>();
    let owned = size_of::<Throttled<(), Arc<RateLimiter>>>();
    assert_eq!(size_of::<Empty>(), 0, "the stream itself is not counted");
    for (name, bytes) in [("Throttled, &limiter", borrowed), ("Throttled, Arc", owned)] {
        table.push(format!("{name} | {bytes} | {waiting}"));
    }
    table.print(options.markdown);
    let claim = format!("a stream that waits <= {HEAP} bytes on the heap");
    print(&claim, waiting <= HEAP)
}
