//! Tests the throttles of readers, writers and bodies: each kind, two at once, those that always refuse, and extreme
//! quotas.

use std::future::{Ready, ready};
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tollgate::throttle::Weighted;
use tollgate::{AcquireError, Clock, ErrorKind, Quota, RateLimiter, Semaphore, Throttle, Waiting};
use tollgate_io::{ThrottleIoExt, Throttled};

use super::{MS, Step, Stream, charged, inside, limiter, read, read_now, write};

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

#[test]
fn poll_read_leaves_what_of_the_buffer_is_not_initialized() {
    let (limiter, _clock) = limiter();
    let mut reader = Stream::of([]).throttled(&limiter).chunk(64);
    let mut bytes = [MaybeUninit::uninit(); 256];
    let mut buffer = ReadBuf::uninit(&mut bytes);
    let mut context = Context::from_waker(Waker::noop());
    let polled = Pin::new(&mut reader).poll_read(&mut context, &mut buffer);
    assert!(polled.is_ready());
    assert_eq!(
        (buffer.filled().len(), buffer.initialized().len()),
        (64, 64)
    );
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
