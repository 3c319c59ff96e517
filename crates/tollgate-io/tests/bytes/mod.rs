//! Readers, writers and bodies at a limited bandwidth: what is charged, what waits, and what is given
//! back. One byte comes each millisecond, and 1,000 at once, on a clock that is moved by hand.

#[cfg(feature = "http-body")]
mod body;
mod both;
mod dropped;
mod errors;
mod exact;
mod failures;
#[cfg(feature = "futures-io")]
mod futures;
mod read;
mod stream;
#[path = "../../../../tests/support/mod.rs"]
mod support;
mod throughput;
mod write;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tollgate::{AcquireError, Clock, ManualClock, Quota, RateLimiter};

use crate::support::Counter;

const BURST: u64 = 1000;
const MS: Duration = Duration::from_millis(1);

fn limiter() -> (RateLimiter, ManualClock) {
    let clock = Clock::manual();
    let quota = Quota::per_second(1000).burst(BURST);
    (RateLimiter::new(quota).clock(&clock), clock)
}

/// What is charged, if the clock has not moved since the limiter was full.
fn charged(limiter: &RateLimiter) -> u64 {
    BURST - limiter.snapshot().available
}

/// Takes all but `left` of the limiter.
fn leave(limiter: &RateLimiter, left: u64) {
    limiter.charge(limiter.snapshot().available - left);
}

/// Reads into a buffer of this size. `None` is a wait.
fn read_with<R: AsyncRead + Unpin>(
    reader: &mut R,
    size: usize,
    waker: &Waker,
) -> Option<io::Result<Vec<u8>>> {
    let mut bytes = vec![0; size];
    let mut buffer = ReadBuf::new(&mut bytes);
    let polled = Pin::new(reader).poll_read(&mut Context::from_waker(waker), &mut buffer);
    let read = buffer.filled().to_vec();
    match polled {
        Poll::Ready(result) => Some(result.map(|()| read)),
        Poll::Pending => None,
    }
}

fn read<R: AsyncRead + Unpin>(reader: &mut R, size: usize) -> Option<io::Result<Vec<u8>>> {
    read_with(reader, size, Waker::noop())
}

/// How many bytes are read; the read must neither wait nor fail.
#[track_caller]
fn read_now<R: AsyncRead + Unpin>(reader: &mut R, size: usize) -> usize {
    let bytes = read(reader, size).expect("it waits").expect("it fails");
    bytes.len()
}

fn write<W: AsyncWrite + Unpin>(writer: &mut W, size: usize) -> Option<io::Result<usize>> {
    let bytes = vec![7; size];
    match Pin::new(writer).poll_write(&mut Context::from_waker(Waker::noop()), &bytes) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

#[track_caller]
fn write_now<W: AsyncWrite + Unpin>(writer: &mut W, size: usize) -> usize {
    write(writer, size).expect("it waits").expect("it fails")
}

/// The error of the limiter that an error of input and output contains.
#[track_caller]
fn inside(error: &io::Error) -> &AcquireError {
    let inside = error.get_ref().expect("an error inside");
    inside.downcast_ref().expect("an error of the limiter")
}

fn waker() -> (Arc<Counter>, Waker) {
    let counter = Arc::<Counter>::default();
    (Arc::clone(&counter), Waker::from(counter))
}
