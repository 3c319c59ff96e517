//! Tests that the charge equals the delivered bytes, and that the limiter's bound is never exceeded.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::time::Instant;
use tollgate::{Clock, Quota, RateLimiter};
use tollgate_io::{ThrottleIoExt, Throttled};

use super::{MS, Step, Stream, limiter, read, write};
use crate::support::random::Random;

fn random_step(random: &mut Random) -> Step {
    match random.below(6) {
        0 => Step::NotReady,
        1 => Step::Fails,
        2 => Step::Ends,
        3 => Step::Moves(1),
        _ => Step::Moves(random.below(200) as usize),
    }
}

/// Polls streams of a limiter that does not refill: its remaining capacity shows the total
/// charge, whatever the order. Some streams are dropped and replaced.
#[test]
fn charged_equals_delivered_in_random_order() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let burst = 20_000;
        let limiter = RateLimiter::new(Quota::per_hour(1).burst(burst)).clock(Clock::manual());
        let mut streams: Vec<_> = (0..4).map(|_| Stream::of([]).throttled(&limiter)).collect();
        let mut dropped = 0;
        for _ in 0..200 {
            let index = random.below(4) as usize;
            let stream = &mut streams[index];
            let step = random_step(&mut random);
            stream.get_mut().steps.push_back(step);
            let size = random.below(150) as usize;
            match random.below(20) {
                0 => {
                    dropped += stream.get_ref().moved;
                    *stream = Stream::of([])
                        .throttled(&limiter)
                        .chunk(1 + u64::from(random.below(99)));
                }
                1..10 => drop(write(stream, size)),
                _ => drop(read(stream, size)),
            }
            let moved: u64 = streams.iter().map(|stream| stream.get_ref().moved).sum();
            assert_eq!(
                burst - limiter.snapshot().available,
                dropped + moved,
                "seed {seed}"
            );
        }
    }
}

/// Checks the same while the streams wait for each other. Whenever no stream waits, the limiter equals a
/// naive bucket that was charged for the delivered bytes.
#[test]
fn charged_equals_delivered_after_waits() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let (limiter, clock) = limiter();
        let mut streams: Vec<_> = (0..3)
            .map(|_| Stream::of([]).throttled(&limiter).chunk(100))
            .collect();
        limiter.charge(1000);
        // The remaining capacity of a naive bucket.
        let mut left = 0;
        let mut before = 0;
        let mut compared = 0;
        for _ in 1..300 {
            let index = random.below(3) as usize;
            let step = random_step(&mut random);
            let stream = &mut streams[index];
            stream.get_mut().steps.push_back(step);
            drop(read(stream, 1 + random.below(150) as usize));
            let delivered: u64 = streams.iter().map(|stream| stream.get_ref().moved).sum();
            assert!(delivered - before <= left, "seed {seed}");
            left -= delivered - before;
            before = delivered;
            let waits = |stream: &Throttled<_, _>| format!("{stream:?}").contains("waits: true");
            if !streams.iter().any(waits) {
                assert_eq!(limiter.snapshot().available, left, "seed {seed}");
                compared += 1;
            }
            clock.advance(10 * MS);
            left = (left + 10).min(1000);
        }
        assert!(compared > 10, "seed {seed}: {compared}");
    }
}

fn unpin<S: AsyncRead + Unpin>(_: &S) {}

/// The bound on the delivered bytes at any time is a burst, plus the rate since the start.
#[test]
fn bound_holds_for_64_streams() {
    let (limiter, clock) = limiter();
    let mut streams: Vec<Throttled<Stream, _>> = (0..64)
        .map(|_| Stream::of([]).throttled(&limiter))
        .collect();
    unpin(&streams[0]);
    let mut random = Random::new(7);
    let mut delivered = 0;
    for ms in 0..5000 {
        for stream in &mut streams {
            if random.below(3) == 0 {
                stream.get_mut().steps.push_back(random_step(&mut random));
            }
            if let Some(Ok(bytes)) = read(stream, 1 + random.below(64) as usize) {
                delivered += bytes as u64;
                assert!(delivered <= 1000 + ms, "{delivered} after {ms} ms");
            }
        }
        clock.advance(MS);
    }
    // Each stream may hold an uncollected grant of half of its 64 bytes on average.
    assert!(delivered > 1000 + 5000 - 64 * 64 / 2, "{delivered}");
}

// Tests that the rate is reached, even by streams that move fewer bytes than they requested.

/// A source that returns this number of bytes from every read.
struct Short(usize);

impl AsyncRead for Short {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let bytes = self.0.min(buffer.remaining());
        buffer.put_slice(&vec![7; bytes]);
        Poll::Ready(Ok(()))
    }
}

fn limiter_of(quota: Quota) -> RateLimiter {
    RateLimiter::new(quota).clock(Clock::tokio())
}

/// Returns how long it takes to read `total` bytes, `short` in each read.
async fn time_of(limiter: &RateLimiter, short: usize, total: usize) -> Duration {
    let mut reader = Short(short).throttled(limiter);
    let mut buffer = vec![0; 1 << 20];
    let start = Instant::now();
    let mut read = 0;
    while read < total {
        read += reader.read(&mut buffer).await.expect("it does not fail");
    }
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn short_reads_reach_the_rate() {
    for rate in [1_000_000, 10_000_000, 100_000_000] {
        for short in [100, 512, 1460, 16 << 10, 1 << 20] {
            if rate / short as u64 > 100_000 {
                continue;
            }
            let limiter = limiter_of(Quota::bytes_per_second(rate));
            let time = time_of(&limiter, short, 2 * rate as usize).await;
            // 80 ms of the two seconds are the burst.
            let range = Duration::from_millis(1910)..Duration::from_millis(1940);
            assert!(range.contains(&time), "{short} of {rate}: {time:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn short_reads_with_a_burst_of_ten_milliseconds_reach_the_rate() {
    let quota = Quota::per_second(1_000_000).burst(10_000);
    let time = time_of(&limiter_of(quota), 512, 2_000_000).await;
    let range = Duration::from_millis(1980)..Duration::from_millis(2000);
    assert!(range.contains(&time), "{time:?}");
}

#[tokio::test(start_paused = true)]
async fn set_quota_to_a_tenth_holds_within_twenty_milliseconds() {
    let limiter = limiter_of(Quota::bytes_per_second(10_000_000));
    time_of(&limiter, 1 << 20, 1_000_000).await;
    limiter.set_quota(Quota::bytes_per_second(1_000_000));
    let time = time_of(&limiter, 1 << 20, 1_000_000).await;
    let range = Duration::from_millis(980)..Duration::from_millis(1020);
    assert!(range.contains(&time), "{time:?}");
}
