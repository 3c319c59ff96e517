//! Measures readers and writers in memory at a limited bandwidth, and the bandwidth that they keep.
//!
//! A source that is always ready copies from a block, and a destination copies into one, so the cost of a limit
//! is visible next to the minimal work of a stream.

use std::convert::Infallible;
use std::hint::black_box;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use async_speed_limit::Limiter;
use async_speed_limit::clock::StandardClock;
use axum::body::Bytes;
use cpu_time::ProcessTime;
use futures::executor::block_on;
use http_body::{Body, Frame};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tollgate::{Keyed, Quota, RateLimiter};
use tollgate_io::{ThrottleIoExt, Throttled};

use crate::harness::{Row, alone};
use crate::rows;

/// The size of large blocks.
const LARGE: usize = 64 * 1024;

/// The size of small blocks.
const SMALL: usize = 1024;

/// Reads and writes in memory at a limited bandwidth, next to bare ones and async-speed-limit's.
#[must_use]
pub fn rows() -> Vec<Row> {
    rows! {
        alone "bytes: read 64 KiB, unlimited"
            {"Throttled" => || reads(LARGE, unlimited), "bare": 1.02 => || reads(LARGE, bare),
             "async-speed-limit" => || reads(LARGE, speed_unlimited)};
        alone "bytes: read 64 KiB, a limit that never binds"
            {"Throttled" => || reads(LARGE, never_binding), "bare": 1.053 => || reads(LARGE, bare),
             "async-speed-limit" => || reads(LARGE, speed_never_binding)};
        alone "bytes: write 64 KiB, a limit that never binds"
            {"Throttled" => || writes(LARGE, never_binding), "bare": 1.053 => || writes(LARGE, bare),
             "async-speed-limit" => || writes(LARGE, speed_never_binding)};
        alone "bytes: read 1 KiB, unlimited"
            {"Throttled" => || reads(SMALL, unlimited), "bare" => || reads(SMALL, bare),
             "async-speed-limit" => || reads(SMALL, speed_unlimited)};
        alone "bytes: read 1 KiB, a limit that never binds"
            {"Throttled" => || reads(SMALL, never_binding), "bare" => || reads(SMALL, bare),
             "async-speed-limit" => || reads(SMALL, speed_never_binding),
             "Throttled by key" => || reads(SMALL, never_binding_key)};
        alone "bytes: write 1 KiB"
            {"Throttled" => || writes(SMALL, never_binding), "bare" => || writes(SMALL, bare)};
        alone "bytes: frame of a body"
            {"Throttled" => || frames(never_binding), "bare" => || frames(bare)};
    }
}

/// A source and a destination of blocks that are always ready.
#[derive(Debug)]
pub struct Blocks(Box<[u8]>);

impl Blocks {
    /// Creates blocks of this size.
    #[must_use]
    pub fn of(size: usize) -> Blocks {
        Blocks(vec![7; size].into())
    }
}

impl AsyncRead for Blocks {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let size = buffer.remaining().min(self.0.len());
        buffer.put_slice(&self.0[..size]);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Blocks {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let size = bytes.len().min(self.0.len());
        self.0[..size].copy_from_slice(&bytes[..size]);
        Poll::Ready(Ok(size))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Body for Blocks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[7; SMALL])))))
    }
}

/// Reads blocks of this size.
fn reads<R: AsyncRead + Unpin + 'static>(
    size: usize,
    limit: impl FnOnce(Blocks) -> R,
) -> impl FnMut(u64) + 'static {
    let mut reader = limit(Blocks::of(size));
    let mut buffer = vec![0; size];
    move |times| {
        block_on(async {
            for _ in 0..times {
                let read = reader.read(black_box(&mut buffer)).await;
                assert_eq!(read.expect("blocks never fail"), size, "a short read");
            }
        });
    }
}

/// Writes blocks of this size.
fn writes<W: AsyncWrite + Unpin + 'static>(
    size: usize,
    limit: impl FnOnce(Blocks) -> W,
) -> impl FnMut(u64) + 'static {
    let mut writer = limit(Blocks::of(size));
    let buffer = vec![7; size];
    move |times| {
        block_on(async {
            for _ in 0..times {
                let written = writer.write(black_box(&buffer)).await;
                assert_eq!(written.expect("blocks never fail"), size, "a short write");
            }
        });
    }
}

/// Reads frames of a body of [`SMALL`] blocks.
fn frames<B: Body<Data = Bytes> + Unpin + 'static>(
    limit: impl FnOnce(Blocks) -> B,
) -> impl FnMut(u64) + 'static {
    let mut body = limit(Blocks::of(SMALL));
    move |times| {
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..times {
            let polled = Pin::new(&mut body).poll_frame(&mut context);
            assert!(matches!(polled, Poll::Ready(Some(Ok(_)))), "no frame");
            drop(black_box(polled));
        }
    }
}

/// Applies no limit.
fn bare(blocks: Blocks) -> Blocks {
    blocks
}

/// Applies a limiter without a limit, which may get one later.
fn unlimited(blocks: Blocks) -> Throttled<Blocks, Arc<RateLimiter>> {
    blocks.throttled(Arc::new(RateLimiter::new(Quota::UNLIMITED)))
}

/// Applies a limiter that decides about each call, and has enough for the whole benchmark.
fn never_binding(blocks: Blocks) -> Throttled<Blocks, Arc<RateLimiter>> {
    let quota = Quota::per_second(1_000_000_000).burst(10_000_000_000_000_000);
    blocks.throttled(Arc::new(RateLimiter::new(quota)))
}

/// Applies the same limiter for a key of a map.
fn never_binding_key(blocks: Blocks) -> impl AsyncRead + Unpin + 'static {
    let quota = Quota::per_second(1_000_000_000).burst(10_000_000_000_000_000);
    blocks.throttled(Arc::new(Keyed::<u64, _>::rate_limiters(quota)).key_owned(7))
}

/// Applies async-speed-limit's limiter, without a limit.
fn speed_unlimited(blocks: Blocks) -> impl AsyncRead + AsyncWrite + Unpin + 'static {
    <Limiter<StandardClock>>::new(f64::INFINITY).limit(blocks)
}

/// Applies async-speed-limit's limiter, with a limit that is never reached.
fn speed_never_binding(blocks: Blocks) -> impl AsyncRead + AsyncWrite + Unpin + 'static {
    <Limiter<StandardClock>>::new(1e15).limit(blocks)
}

/// How accurately some streams kept to a bandwidth.
#[derive(Clone, Copy, Debug)]
pub struct Bandwidth {
    /// The delivered bytes relative to the allowed ones; 0.01 is one per cent more.
    pub error: f64,
    /// The processor time of the process relative to the wall time.
    pub cpu: f64,
    /// The bytes that the streams delivered in their first 100 milliseconds, in milliseconds of the rate.
    pub start: f64,
}

/// A limiter of the bandwidth of streams.
pub trait Limits: Send + 'static {
    /// Changes the rate from now on.
    fn set(&self, rate: u64);

    /// Returns a stream that shares the limit.
    fn limit(&self, blocks: Blocks) -> impl AsyncRead + Unpin + Send + 'static;
}

impl Limits for Arc<RateLimiter> {
    fn set(&self, rate: u64) {
        self.set_quota(Quota::bytes_per_second(rate));
    }

    fn limit(&self, blocks: Blocks) -> impl AsyncRead + Unpin + Send + 'static {
        blocks.throttled(Arc::clone(self))
    }
}

impl Limits for Limiter<StandardClock> {
    fn set(&self, rate: u64) {
        self.set_speed_limit(rate as f64);
    }

    fn limit(&self, blocks: Blocks) -> impl AsyncRead + Unpin + Send + 'static {
        self.clone().limit(blocks)
    }
}

/// Runs streams of `limits` and calls `measure` with the bytes that they have delivered so far.
async fn with_streams<L: Limits, R>(
    limits: &L,
    streams: usize,
    measure: impl AsyncFnOnce(&AtomicU64) -> R,
) -> R {
    let delivered = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..streams {
        let mut reader = limits.limit(Blocks::of(LARGE));
        let delivered = Arc::clone(&delivered);
        tasks.spawn(async move {
            let mut buffer = vec![0; LARGE];
            loop {
                let read = reader.read(&mut buffer).await.expect("blocks never fail");
                delivered.fetch_add(read as u64, Ordering::Relaxed);
            }
        });
    }
    let measured = measure(&delivered).await;
    tasks.shutdown().await;
    measured
}

/// Measures streams that share a limit of `rate` bytes each second, for `duration` after the start.
pub async fn bandwidth(
    limits: impl Limits,
    rate: u64,
    streams: usize,
    duration: Duration,
) -> Bandwidth {
    const START: Duration = Duration::from_millis(100);
    with_streams(&limits, streams, async |delivered| {
        tokio::time::sleep(START).await;
        let before = delivered.load(Ordering::Relaxed);
        let (clock, cpu) = (Instant::now(), ProcessTime::now());
        tokio::time::sleep(duration).await;
        let (passed, cpu) = (clock.elapsed().as_secs_f64(), cpu.elapsed().as_secs_f64());
        let moved = delivered.load(Ordering::Relaxed) - before;
        Bandwidth {
            error: moved as f64 / (rate as f64 * passed) - 1.0,
            cpu: cpu / passed,
            start: before as f64 / rate as f64 * 1e3,
        }
    })
    .await
}

/// Lowers the rate of one stream from the old one, and returns for how many milliseconds it kept the old one: the bytes
/// delivered in the next half second above the new rate, in milliseconds of the old one.
pub async fn lowered(limits: impl Limits, old: u64, new: u64) -> f64 {
    with_streams(&limits, 1, async |delivered| {
        tokio::time::sleep(Duration::from_millis(500)).await;
        limits.set(new);
        let (clock, before) = (Instant::now(), delivered.load(Ordering::Relaxed));
        tokio::time::sleep(Duration::from_millis(500)).await;
        let moved = (delivered.load(Ordering::Relaxed) - before) as f64;
        (moved - new as f64 * clock.elapsed().as_secs_f64()) / old as f64 * 1e3
    })
    .await
}

/// How accurately some streams kept to a bandwidth next to busy loops.
#[derive(Clone, Copy, Debug)]
pub struct Starved {
    /// The share of the allowed bytes that was delivered.
    pub kept: f64,
    /// The maximum delivered above the rate in any interval, in seconds of the rate.
    pub above: f64,
}

/// Measures streams that share a limit of `rate` bytes each second, while other threads compute.
pub async fn starved(
    limits: impl Limits,
    rate: u64,
    streams: usize,
    busy: usize,
    duration: Duration,
) -> Starved {
    let loops = Busy::start(busy);
    let start = Instant::now();
    // The minimum of delivered minus allowed bytes up to any time, and the maximum above that minimum.
    let mut ahead = (f64::MAX, 0.0_f64);
    let kept = with_streams(&limits, streams, async |delivered| {
        let mut passed = 0.0;
        while passed < duration.as_secs_f64() {
            passed = start.elapsed().as_secs_f64();
            let moved = delivered.load(Ordering::Relaxed) as f64 / rate as f64;
            let lead = moved - passed;
            ahead = (ahead.0.min(lead), ahead.1.max(lead - ahead.0));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        delivered.load(Ordering::Relaxed) as f64 / rate as f64 / start.elapsed().as_secs_f64()
    })
    .await;
    drop(loops);
    Starved {
        kept,
        above: ahead.1,
    }
}

/// Threads that compute until this value is dropped.
struct Busy {
    over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Busy {
    fn start(count: usize) -> Busy {
        let over = Arc::new(AtomicBool::new(false));
        let threads = (0..count).map(|_| {
            let over = Arc::clone(&over);
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        });
        Busy {
            threads: threads.collect(),
            over,
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
