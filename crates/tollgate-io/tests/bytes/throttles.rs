//! Tests the throttles of readers, writers and bodies: each kind, two at once, those that always refuse, extreme
//! quotas, and that the charge of random calls equals the delivered bytes.

use std::future::{Ready, ready};
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::time::Instant;
use tollgate::throttle::Weighted;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, Clock, ErrorKind, Quota, RateLimiter, Semaphore, Throttle};
use tollgate_io::{ThrottleIoExt, Throttled};

use super::{MS, Step, Stream, charged, inside, limiter, read, read_now, write};
use crate::support::random::Random;

#[test]
fn throttled_with_each_weighted_throttle_moves() {
    fn moves<T: Weighted>(limiter: T, expected: usize)
    where
        Throttled<Stream, T>: Unpin,
    {
        assert_eq!(
            read_now(&mut Stream::of([]).throttled(limiter), 100),
            expected
        );
    }
    let (rate, _clock) = limiter();
    let semaphore = Semaphore::new(7);
    moves(Some(&rate), 100);
    moves(None::<&RateLimiter>, 100);
    moves(std::sync::Arc::new(rate), 100);
    moves(&semaphore, 4);
    assert_eq!(semaphore.available_permits(), 7);
}

/// An abandoned wait keeps its place until the next call or the drop.
#[test]
fn drop_after_an_abandoned_wait_releases_its_permits() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire();
    let mut streams = [(); 2].map(|()| Stream::of([]).throttled(&semaphore));
    for stream in &mut streams {
        assert!(read(stream, 1).is_none());
    }
    drop(held);
    let [mut first, second] = streams;
    let state = || (semaphore.available_permits(), semaphore.snapshot().waiting);
    assert_eq!(state(), (0, 1));
    assert_eq!(read_now(&mut first, 1), 1);
    assert_eq!(state(), (0, 0));
    drop(second);
    assert_eq!(state(), (1, 0));
}

#[test]
fn poll_read_leaves_the_rest_of_the_buffer_as_it_is() {
    let (limiter, _clock) = limiter();
    let mut reader = Stream::of([Step::Moves(20)]).throttled(&limiter).chunk(64);
    let mut bytes = [MaybeUninit::uninit(); 256];
    let mut buffer = ReadBuf::uninit(&mut bytes);
    buffer.put_slice(&[7; 10]);
    let mut context = Context::from_waker(Waker::noop());
    let polled = Pin::new(&mut reader).poll_read(&mut context, &mut buffer);
    assert!(polled.is_ready());
    assert_eq!(
        (buffer.filled().len(), buffer.initialized().len()),
        (30, 30)
    );
    assert_eq!(charged(&limiter), 20);
}

#[test]
fn throttled_twice_has_a_limit_for_each_direction() {
    let ((down, _down), (up, _up)) = (limiter(), limiter());
    let stream = Stream::of([]).throttled(&down).reads_only();
    let mut stream = stream.throttled(&up).writes_only();
    assert_eq!(read_now(&mut stream, 10), 10);
    assert!(matches!(write(&mut stream, 20), Some(Ok(20))));
    assert_eq!((charged(&down), charged(&up)), (10, 20));
}

#[test]
fn throttled_twice_moves_at_the_lesser_rate_and_charges_both() {
    let clock = Clock::manual();
    let of = |rate| RateLimiter::new(Quota::per_second(rate).burst(100)).clock(&clock);
    for (outer, inner) in [(1000, 3000), (3000, 1000), (1000, 1000)] {
        let (outer, inner) = (of(outer), of(inner));
        let mut streams: Vec<_> = (0..3)
            .map(|_| Stream::of([]).throttled(&inner).throttled(&outer))
            .collect();
        let mut delivered = 0;
        for _ in 0..1000 {
            for stream in &mut streams {
                if let Some(Ok(bytes)) = read(stream, 20) {
                    delivered += bytes;
                }
            }
            clock.advance(MS);
        }
        // Each stream may hold a grant of one limiter while it waits for the other.
        assert!((1000 - 60..=1100).contains(&delivered), "{delivered}");
    }
}

/// A chain keeps its earlier permits after a refusal: BaseIntelligence/bounty-challenge#4191.
#[test]
fn throttled_twice_with_the_inner_limiter_closed_refunds_the_outer() {
    let ((outer, _outer), (inner, _inner)) = (limiter(), limiter());
    inner.close();
    let mut stream = Stream::of([]).throttled(&inner).throttled(&outer);
    for _ in 0..10 {
        let error = read(&mut stream, 100).unwrap().unwrap_err();
        assert_eq!(
            inside(&error).map(AcquireError::kind),
            Some(ErrorKind::Closed)
        );
    }
    assert_eq!((charged(&outer), outer.snapshot().waiting), (0, 0));
}

/// A throttle that always refuses.
#[derive(Clone)]
struct Refuses(AcquireError);

impl Throttle for Refuses {
    type Permit = ();
    type Enter = Ready<Result<(), AcquireError>>;

    fn enter(&self) -> Waiting<Self::Enter> {
        Waiting::new(ready(Err(self.0.clone())))
    }
}

impl Weighted for Refuses {
    type Many = Self;

    fn cost(&self, _: u64) -> Self {
        self.clone()
    }

    fn settle(&self, (): (), _: u64) {}

    fn max_units(&self) -> u64 {
        100
    }
}

#[test]
fn poll_read_of_a_throttle_that_always_refuses_fails() {
    for error in [
        AcquireError::new(ErrorKind::TimedOut),
        AcquireError::exceeds_capacity(0),
        AcquireError::exceeds_capacity(3),
        AcquireError::exceeds_capacity(1000),
        AcquireError::new(ErrorKind::ExceedsCapacity),
    ] {
        let expected = match error.kind() {
            ErrorKind::TimedOut => io::ErrorKind::TimedOut,
            _ => io::ErrorKind::Other,
        };
        let failed = read(&mut Stream::of([]).throttled(Refuses(error.clone())), 100);
        let failed = failed.unwrap().unwrap_err();
        let kind = inside(&failed).map(AcquireError::kind);
        assert_eq!((failed.kind(), kind), (expected, Some(error.kind())));
    }
}

/// Extreme quotas cause overflow and panics: commonwarexyz/monorepo#2487.
#[test]
fn poll_read_at_extreme_quotas_moves() {
    let nine_years = Duration::from_nanos(1 << 58);
    for (quota, moves) in [
        (Quota::new(1, nine_years), 1),
        (Quota::new(1 << 60, nine_years), 1),
        (Quota::bytes_per_second(1), 1024),
        (Quota::bytes_per_second(16_000_000_000), 1 << 20),
        (Quota::UNLIMITED, 1 << 20),
    ] {
        for chunk in [None, Some(u64::MAX)] {
            let limiter = RateLimiter::new(quota).clock(Clock::manual());
            let stream = Stream::of([]).throttled(&limiter);
            let mut stream = match chunk {
                None => stream,
                Some(chunk) => stream.chunk(chunk),
            };
            let moved = read(&mut stream, 1 << 20);
            let moved = moved.map_or(0, Result::unwrap);
            let most = quota.max_burst().min(1 << 20) as usize;
            assert_eq!(moved, if chunk.is_some() { most } else { moves }, "{quota}");
        }
    }
}

#[cfg(feature = "http-body")]
#[tokio::test]
async fn poll_frame_of_a_body_with_boxed_errors_has_boxed_errors() {
    use http_body_util::BodyExt;

    let (limiter, _clock) = limiter();
    let body = Stream::of([Step::Moves(5), Step::Fails]);
    let body = body.map_err(Box::<dyn std::error::Error + Send + Sync>::from);
    let body = body.boxed_unsync().throttled(&limiter);
    let error = body.collect().await.err();
    assert!(error.is_some_and(|error| error.is::<io::Error>()));
}

// The charge equals the delivered bytes, and the bound of the limiter is never exceeded.

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
    ) -> Poll<io::Result<()>> {
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
