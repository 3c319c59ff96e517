//! Streams at a limited bandwidth: bytes of a stream, and on the heap while 1,000 wait for their turn.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use stats_alloc::Region;
use tokio::io::{AsyncRead, Empty, ReadBuf};
use tollgate::{Quota, RateLimiter};
use tollgate_bench::harness::{Options, Table};
use tollgate_io::{ThrottleIoExt, Throttled};

use crate::COUNTING;
use crate::rates::held;

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
pub(crate) fn table(options: &Options) -> bool {
    let mut table = Table::new(&["stream", "bytes", "heap bytes, waiting"]);
    let waiting = waiting();
    let borrowed = size_of::<Throttled<(), &RateLimiter>>();
    let owned = size_of::<Throttled<(), Arc<RateLimiter>>>();
    assert_eq!(size_of::<Empty>(), 0, "the stream itself is not counted");
    for (name, bytes) in [("Throttled, &limiter", borrowed), ("Throttled, Arc", owned)] {
        table.push(vec![
            name.to_owned(),
            bytes.to_string(),
            waiting.to_string(),
        ]);
    }
    table.print(options.markdown);
    let kept = waiting <= HEAP;
    println!(
        "tollgate: a stream that waits <= {HEAP} bytes on the heap: {}",
        if kept { "PASS" } else { "MISS" }
    );
    kept
}
