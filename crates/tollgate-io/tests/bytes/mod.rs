//! Tests readers, writers, bodies and sinks at a limited bandwidth: charges, waits and refunds.
//! One byte arrives each millisecond, and up to 1,000 accumulate, on a manual clock.

mod scenarios;
mod shares;
#[cfg(feature = "stream")]
mod sink;
mod throttles;

use std::collections::VecDeque;
use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
use tollgate::time::ManualClock;
use tollgate::{AcquireError, Clock, Quota, RateLimiter};

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

/// Reads into a buffer of this size. `None` means that the read waits.
fn read<R: AsyncRead + Unpin>(reader: &mut R, size: usize) -> Option<io::Result<usize>> {
    shown(poll_read(reader, size, Waker::noop()))
}

fn poll_read<R: AsyncRead + Unpin>(
    reader: &mut R,
    size: usize,
    waker: &Waker,
) -> Poll<io::Result<usize>> {
    let mut bytes = vec![0; size];
    let mut buffer = ReadBuf::new(&mut bytes);
    let polled = Pin::new(reader).poll_read(&mut Context::from_waker(waker), &mut buffer);
    polled.map_ok(|()| buffer.filled().len())
}

fn write<W: AsyncWrite + Unpin>(writer: &mut W, size: usize) -> Option<io::Result<usize>> {
    let mut context = Context::from_waker(Waker::noop());
    shown(Pin::new(writer).poll_write(&mut context, &vec![7; size]))
}

fn shown<R>(polled: Poll<R>) -> Option<R> {
    match polled {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

/// Returns the number of bytes read; the read must neither wait nor fail.
#[track_caller]
fn read_now<R: AsyncRead + Unpin>(reader: &mut R, size: usize) -> usize {
    read(reader, size).expect("it waits").expect("it fails")
}

/// Returns the limiter's error inside an I/O error.
fn inside(error: &io::Error) -> Option<&AcquireError> {
    error.get_ref()?.downcast_ref()
}

// A stream whose calls follow a script and are counted.

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Moves this number of bytes, or all requested bytes if those are fewer. A body has a frame of so many.
    Moves(usize),
    NotReady,
    Fails,
    Panics,
    /// Claims that more bytes have moved than any call can request.
    Claims,
    /// The end of the readable bytes; a write accepts nothing.
    Ends,
    /// The trailers of a body.
    Trailers,
}

/// Performs its steps in order, and then moves all requested bytes; a body then ends.
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
    /// The size hint of a body.
    least: u64,
    most: Option<u64>,
}

impl FromStr for Step {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text {
            "not-ready" => Self::NotReady,
            "fails" => Self::Fails,
            "panics" => Self::Panics,
            "claims" => Self::Claims,
            "ends" => Self::Ends,
            "trailers" => Self::Trailers,
            bytes => Self::Moves(bytes.parse().map_err(|_| ())?),
        })
    }
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
            None | Some(Step::Trailers) => asked,
            Some(Step::Moves(bytes)) => bytes.min(asked),
            Some(Step::Ends) => 0,
            Some(Step::NotReady) => return Poll::Pending,
            Some(Step::Fails) => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            Some(Step::Panics) => panic!("the stream panics"),
            Some(Step::Claims) => return Poll::Ready(Ok(usize::MAX)),
        };
        self.moved += moved as u64;
        Poll::Ready(Ok(moved))
    }

    fn step_vectored(&mut self, buffers: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.slices = buffers.iter().map(|buffer| buffer.len()).collect();
        self.step(self.slices.iter().sum())
    }

    fn flush(&mut self) -> Poll<io::Result<()>> {
        self.flushed += 1;
        Poll::Ready(Ok(()))
    }

    fn shut_down(&mut self) -> Poll<io::Result<()>> {
        self.shut_down += 1;
        Poll::Ready(Ok(()))
    }

    fn seek(&mut self, position: SeekFrom) {
        if let SeekFrom::Start(position) = position {
            self.sought = position;
        }
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
        self.step_vectored(buffers)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.flush()
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shut_down()
    }
}

impl AsyncSeek for Stream {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        self.seek(position);
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(Ok(self.sought))
    }
}

#[cfg(feature = "futures-io")]
mod futures {
    use super::{Context, IoSlice, Pin, Poll, SeekFrom, Stream, io};
    use ::futures::io::{AsyncRead, AsyncSeek, AsyncWrite};

    impl AsyncRead for Stream {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            self.step(buffer.len())
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
            self.step_vectored(buffers)
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.flush()
        }

        fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.shut_down()
        }
    }

    impl AsyncSeek for Stream {
        fn poll_seek(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            position: SeekFrom,
        ) -> Poll<io::Result<u64>> {
            self.seek(position);
            Poll::Ready(Ok(self.sought))
        }
    }
}

#[cfg(feature = "http-body")]
mod body {
    use super::{Context, Pin, Poll, Step, Stream, io};
    use hyper::HeaderMap;
    use hyper::body::{Body, Bytes, Frame, SizeHint};

    impl Body for Stream {
        type Data = Bytes;
        type Error = io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
            match self.steps.front() {
                None => return Poll::Ready(None),
                Some(Step::Trailers) => {
                    self.steps.pop_front();
                    return Poll::Ready(Some(Ok(Frame::trailers(HeaderMap::new()))));
                }
                Some(_) => {}
            }
            let stepped = self.step(usize::MAX);
            stepped.map(|moved| Some(moved.map(|bytes| Frame::data(vec![7; bytes].into()))))
        }

        fn is_end_stream(&self) -> bool {
            self.steps.is_empty()
        }

        fn size_hint(&self) -> SizeHint {
            let mut hint = SizeHint::new();
            hint.set_lower(self.least);
            if let Some(most) = self.most {
                hint.set_upper(most);
            }
            hint
        }
    }
}
