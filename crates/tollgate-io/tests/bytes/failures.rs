//! The ways in which throttles fail elsewhere, for streams: each test names where it was seen.

use std::time::Duration;

use tollgate::{Clock, ErrorKind, Quota, RateLimiter};
use tollgate_io::ThrottleIoExt;

use super::stream::Stream;
use super::{BURST, MS, charged, inside, leave, limiter, read, read_now, read_with, waker, write};

/// Granted, then dropped: python/asyncio#270.
#[test]
fn drop_after_grant_admits_the_next_waiter() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut first = Stream::of([]).throttled(&limiter);
    let mut second = Stream::of([]).throttled(&limiter);
    assert!(read(&mut first, 100).is_none());
    let (woken, waker) = waker();
    assert!(read_with(&mut second, 100, &waker).is_none());
    clock.advance(100 * MS);
    assert_eq!(woken.count(), 0);
    drop(first);
    assert_eq!(woken.count(), 1);
    assert_eq!(read_now(&mut second, 100), 100);
}

/// A large head is cancelled, and the small ones behind it sleep on: embassy-rs/embassy#6964.
#[test]
fn drop_of_a_large_head_wakes_the_small_reads_behind_it() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut large = Stream::of([]).throttled(&limiter).chunk(BURST);
    assert!(read(&mut large, 1000).is_none());
    let (woken, waker) = waker();
    let mut small = [(); 3].map(|()| Stream::of([]).throttled(&limiter));
    for stream in &mut small {
        assert!(read_with(stream, 10, &waker).is_none());
    }
    clock.advance(30 * MS);
    assert_eq!(woken.count(), 0);
    drop(large);
    assert_eq!(woken.count(), 3);
    for stream in &mut small {
        assert_eq!(read_now(stream, 10), 10);
    }
}

/// Cancelled waiters leak, and are credited twice: Astro36/qp#3, redisson/redisson#7206.
#[test]
fn drop_of_a_thousand_queued_reads_leaves_nothing() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    for _ in 0..1000 {
        let mut stream = Stream::of([]).throttled(&limiter);
        assert!(read(&mut stream, 100).is_none());
        drop(stream.into_inner());
    }
    assert_eq!(
        (limiter.snapshot().waiting, limiter.snapshot().available),
        (0, 0)
    );
    clock.advance(7 * MS);
    assert_eq!(limiter.snapshot().available, 7);
}

/// A stored wait that is never polled blocks the queue: tokio-rs/tokio#6450.
#[test]
fn poll_read_behind_a_read_that_is_never_polled_again_moves() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut stored = Stream::of([]).throttled(&limiter);
    let mut other = Stream::of([]).throttled(&limiter);
    assert!(read(&mut stored, 100).is_none());
    for _ in 0..3 {
        assert!(read(&mut other, 100).is_none());
        clock.advance(200 * MS);
        assert_eq!(read_now(&mut other, 100), 100);
        leave(&limiter, 0);
    }
}

/// Many small ones starve a large one: smol-rs/async-lock#23.
#[test]
fn poll_read_of_small_chunks_does_not_overtake_a_large_one() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut large = Stream::of([]).throttled(&limiter).chunk(BURST);
    assert!(read(&mut large, 1000).is_none());
    let mut small = Stream::of([]).throttled(&limiter);
    for _ in 0..99 {
        clock.advance(10 * MS);
        assert!(read(&mut small, 10).is_none());
    }
    clock.advance(10 * MS);
    assert_eq!(read_now(&mut large, 1000), 1000);
    assert!(read(&mut small, 10).is_none());
    clock.advance(10 * MS);
    assert_eq!(read_now(&mut small, 10), 10);
}

/// A queue without a bound at uploads: TraceMachina/nativelink#2730.
#[test]
fn poll_write_with_a_full_queue_fails_uncharged() {
    let (limiter, clock) = limiter();
    let limiter = limiter.max_waiters(2);
    leave(&limiter, 0);
    let mut uploads = [(); 3].map(|()| Stream::of([]).throttled(&limiter));
    assert!(write(&mut uploads[0], 100).is_none());
    assert!(write(&mut uploads[1], 100).is_none());
    let error = write(&mut uploads[2], 100).unwrap().unwrap_err();
    assert_eq!(inside(&error).kind(), ErrorKind::QueueFull);
    assert!(uploads[2].get_ref().asked.is_empty());
    clock.advance(200 * MS);
    assert_eq!(limiter.snapshot().waiting, 0);
    // A later call of the same stream is admitted.
    assert!(write(&mut uploads[2], 100).is_none());
    clock.advance(100 * MS);
    assert!(matches!(write(&mut uploads[2], 100), Some(Ok(100))));
}

/// A larger request than the limit blocks for ever: amazon-mq/rabbitmq-stream-s3#208.
#[test]
fn poll_write_above_the_burst_moves_a_part() {
    let (limiter, _clock) = limiter();
    let mut stream = Stream::of([]).throttled(&limiter).chunk(u64::MAX);
    let written = write(&mut stream, 100_000).unwrap().unwrap();
    assert_eq!(written as u64, BURST);
}

/// Overflow and panics at extreme quotas: commonwarexyz/monorepo#2487.
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
            let moved = moved.map_or(0, |bytes| bytes.unwrap().len());
            let most = quota.max_burst().min(1 << 20) as usize;
            assert_eq!(moved, if chunk.is_some() { most } else { moves }, "{quota}");
        }
    }
}

/// A chain keeps what it took before the refusal: BaseIntelligence/bounty-challenge#4191.
#[test]
fn throttled_twice_with_the_inner_limiter_closed_refunds_the_outer() {
    let ((outer, _outer), (inner, _inner)) = (limiter(), limiter());
    inner.close();
    let mut stream = Stream::of([]).throttled(&inner).throttled(&outer);
    for _ in 0..10 {
        let error = read(&mut stream, 100).unwrap().unwrap_err();
        assert_eq!(inside(&error).kind(), ErrorKind::Closed);
    }
    assert_eq!((charged(&outer), outer.snapshot().waiting), (0, 0));
}
