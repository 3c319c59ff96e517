//! Tests readers, writers and bodies at a limited bandwidth: charges, waits and refunds.
//! One byte arrives each millisecond, and up to 1,000 accumulate, on a manual clock.

#[cfg(feature = "http-body")]
mod body;
mod errors;
mod exact;
#[cfg(feature = "futures-io")]
mod futures;
mod read_write;

use std::collections::VecDeque;
use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
use tollgate::{AcquireError, Clock, ManualClock, Quota, RateLimiter};

use crate::support::Counter;

const BURST: u64 = 1000;
const MS: Duration = Duration::from_millis(1);

fn limiter() -> (RateLimiter, ManualClock) {
    let clock = Clock::manual();
    let quota = Quota::per_second(1000).burst(BURST);
    (RateLimiter::new(quota).clock(&clock), clock)
}

/// Returns the charged bytes, if the clock has not moved since the limiter was full.
fn charged(limiter: &RateLimiter) -> u64 {
    BURST - limiter.snapshot().available
}

/// Charges the limiter so that `left` remains.
fn leave(limiter: &RateLimiter, left: u64) {
    limiter.charge(limiter.snapshot().available - left);
}

/// Reads into a buffer of this size. `None` means that the read waits.
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

/// Returns the number of bytes read; the read must neither wait nor fail.
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

/// Returns the limiter's error inside an I/O error.
#[track_caller]
fn inside(error: &io::Error) -> &AcquireError {
    let inside = error.get_ref().expect("an error inside");
    inside.downcast_ref().expect("an error of the limiter")
}

fn waker() -> (Arc<Counter>, Waker) {
    let counter = Arc::<Counter>::default();
    (Arc::clone(&counter), Waker::from(counter))
}

// A stream whose calls follow a script and are counted.

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Moves this number of bytes, or all requested bytes if those are fewer.
    Moves(usize),
    NotReady,
    Fails,
    Panics,
    /// Claims that this number of bytes has moved, whatever the call requested.
    Claims(usize),
    /// The end of the readable bytes; a write accepts nothing.
    Ends,
}

/// Performs its steps in order, and then moves all requested bytes.
#[derive(Debug, Default)]
struct Stream {
    steps: VecDeque<Step>,
    /// The number of bytes that each call requested.
    asked: Vec<usize>,
    /// The number of bytes that have moved.
    moved: u64,
    /// The slices of the last vectored write.
    slices: Vec<usize>,
    flushed: u32,
    shut_down: u32,
    sought: u64,
}

impl Stream {
    fn of(steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            steps: steps.into_iter().collect(),
            ..Self::default()
        }
    }

    fn step(&mut self, asked: usize) -> Poll<io::Result<usize>> {
        self.asked.push(asked);
        let moved = match self.steps.pop_front() {
            None => asked,
            Some(Step::Moves(bytes)) => bytes.min(asked),
            Some(Step::Ends) => 0,
            Some(Step::NotReady) => return Poll::Pending,
            Some(Step::Fails) => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            Some(Step::Panics) => panic!("the stream panics"),
            Some(Step::Claims(bytes)) => return Poll::Ready(Ok(bytes)),
        };
        self.moved += moved as u64;
        Poll::Ready(Ok(moved))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = self.step(buffer.remaining());
        polled.map_ok(|moved| buffer.put_slice(&vec![7; moved]))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.step(bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.slices = buffers.iter().map(|buffer| buffer.len()).collect();
        let asked = self.slices.iter().sum();
        self.step(asked)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.flushed += 1;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shut_down += 1;
        Poll::Ready(Ok(()))
    }
}

impl AsyncSeek for Stream {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        if let SeekFrom::Start(position) = position {
            self.sought = position;
        }
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(Ok(self.sought))
    }
}
