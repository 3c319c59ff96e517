//! Tests limiters that refuse, and quotas that change.

use std::future::{Ready, ready};
use std::io;
use std::time::Duration;

use tollgate::throttle::Weighted;
use tollgate::{AcquireError, Clock, ErrorKind, Quota, RateLimiter, Semaphore, Throttle, Waiting};
use tollgate_io::ThrottleIoExt;

use super::{
    BURST, MS, Step, Stream, charged, inside, leave, limiter, read, read_now, read_with, waker,
    write,
};
use crate::support::foreign::panic_message;

#[test]
fn poll_read_of_a_closed_limiter_returns_its_error() {
    let (limiter, _clock) = limiter();
    leave(&limiter, 0);
    let mut stream = Stream::of([]).throttled(&limiter);
    assert!(read(&mut stream, 100).is_none());
    limiter.close();
    for error in [
        read(&mut stream, 100).unwrap().unwrap_err(),
        write(&mut stream, 100).unwrap().unwrap_err(),
    ] {
        assert_eq!(error.kind(), io::ErrorKind::Other);
        assert_eq!(inside(&error).kind(), ErrorKind::Closed);
    }
    assert!(stream.get_ref().asked.is_empty());
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
fn poll_read_that_timed_out_has_the_kind_timed_out() {
    let refuses = Refuses(AcquireError::new(ErrorKind::TimedOut));
    let error = read(&mut Stream::of([]).throttled(refuses), 100);
    let error = error.unwrap().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(inside(&error).kind(), ErrorKind::TimedOut);
}

#[test]
fn poll_read_of_a_limiter_whose_capacity_is_always_exceeded_fails() {
    for error in [
        AcquireError::exceeds_capacity(0),
        AcquireError::exceeds_capacity(3),
        AcquireError::exceeds_capacity(1000),
        AcquireError::new(ErrorKind::ExceedsCapacity),
    ] {
        let error = read(&mut Stream::of([]).throttled(Refuses(error)), 100);
        let error = error.unwrap().unwrap_err();
        assert_eq!(inside(&error).kind(), ErrorKind::ExceedsCapacity);
    }
}

#[test]
fn poll_read_after_the_burst_shrank_asks_again() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut stream = Stream::of([]).throttled(&limiter).chunk(1000);
    assert!(read(&mut stream, 1000).is_none());
    limiter.set_quota(Quota::per_second(1000).burst(10));
    assert!(read(&mut stream, 1000).is_none());
    assert_eq!(limiter.snapshot().waiting, 1);
    clock.advance(1000 * MS);
    assert_eq!(read_now(&mut stream, 1000), 10);
    assert_eq!(stream.get_ref().asked, [10]);
}

#[test]
fn set_quota_moves_a_waiting_read() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut stream = Stream::of([]).throttled(&limiter).chunk(1000);
    assert!(read(&mut stream, 1000).is_none());
    limiter.set_quota(Quota::per_second(100_000).burst(1000));
    clock.advance(10 * MS);
    assert_eq!(read_now(&mut stream, 1000), 1000);
}

#[test]
fn set_quota_to_unlimited_releases_all_waiting_reads() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut streams: Vec<_> = (0..100)
        .map(|_| Stream::of([]).throttled(&limiter))
        .collect();
    let (woken, waker) = waker();
    for stream in &mut streams {
        assert!(read_with(stream, 500, &waker).is_none());
    }
    limiter.set_quota(Quota::UNLIMITED);
    assert_eq!(woken.count(), 100);
    for stream in &mut streams {
        assert_eq!(read_now(stream, 500), 500);
        assert_eq!(read_now(stream, 1_000_000), 1_000_000);
    }
    // A limit that is set again applies again, after a burst.
    limiter.set_quota(Quota::per_second(1000).burst(1000));
    assert_eq!(read_now(&mut streams[0], 5000), 500);
    assert_eq!(read_now(&mut streams[1], 5000), 500);
    assert!(read(&mut streams[1], 5000).is_none());
    clock.advance(500 * MS);
    assert_eq!(read_now(&mut streams[1], 5000), 500);
}

// Tests dropped streams, and polls that panic.

#[test]
fn poll_read_of_a_panicking_source_refunds() {
    let (limiter, _clock) = limiter();
    let mut stream = Stream::of([Step::Panics, Step::Panics]).throttled(&limiter);
    let message = panic_message(|| read(&mut stream, 100));
    assert_eq!(message.as_deref(), Some("the stream panics"));
    assert_eq!(charged(&limiter), 0);
    assert!(panic_message(|| write(&mut stream, 100)).is_some());
    assert_eq!(charged(&limiter), 0);
    assert_eq!(read_now(&mut stream, 100), 100);
    assert_eq!(charged(&limiter), 100);
}

/// A wait outlives the dropped call. It is charged when it is granted, so that time pays off all
/// waits, and its chunk moves at the next call, an hour later, on top of the burst.
#[test]
fn poll_read_after_abandoned_waits_moves_a_chunk_each_above_the_burst() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut streams: Vec<_> = (0..100)
        .map(|_| Stream::of([]).throttled(&limiter).chunk(100))
        .collect();
    for stream in &mut streams {
        assert!(read(stream, 100).is_none());
    }
    for granted in 1..=100 {
        clock.advance(100 * MS);
        assert_eq!(
            (limiter.snapshot().available, limiter.snapshot().waiting),
            (0, 100 - granted)
        );
    }
    clock.advance(3_600_000 * MS);
    assert_eq!(limiter.snapshot().available, BURST);
    for stream in &mut streams {
        assert_eq!(read_now(stream, 100), 100);
        assert_eq!(limiter.snapshot().available, BURST);
    }
    for stream in &mut streams[..10] {
        assert_eq!(read_now(stream, 100), 100);
    }
    for stream in &mut streams {
        assert!(read(stream, 100).is_none());
    }
    let moved: u64 = streams.iter().map(|stream| stream.get_ref().moved).sum();
    assert_eq!(moved, 100 * 100 + BURST);
}

/// The task is polled less than once a second, and loses no grant.
#[test]
fn poll_read_seconds_after_each_grant_moves_it() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut stream = Stream::of([]).throttled(&limiter).chunk(500);
    assert!(read(&mut stream, 500).is_none());
    for _ in 0..10 {
        clock.advance(3000 * MS);
        for _ in 0..3 {
            assert_eq!(read_now(&mut stream, 500), 500);
        }
        assert!(read(&mut stream, 500).is_none());
    }
    assert_eq!(stream.get_ref().moved, 10 * (500 + BURST));
}

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
    assert_eq!(
        (semaphore.available_permits(), semaphore.snapshot().waiting),
        (0, 1)
    );
    assert_eq!(read_now(&mut first, 1), 1);
    assert_eq!(
        (semaphore.available_permits(), semaphore.snapshot().waiting),
        (0, 0)
    );
    drop(second.into_inner());
    assert_eq!(semaphore.available_permits(), 1);
}

// Checks streams for failures seen in other throttles. Each test names its source.

/// A wait was granted and then dropped: python/asyncio#270.
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

/// A large head is cancelled, and the small ones behind it keep sleeping: embassy-rs/embassy#6964.
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
        assert!(write(&mut stream, 100).is_none());
        assert_eq!(limiter.snapshot().waiting, 2);
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

/// Many small requests starve a large one: smol-rs/async-lock#23.
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

/// The queue of uploads has no bound: TraceMachina/nativelink#2730.
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

/// A request larger than the limit blocks forever: amazon-mq/rabbitmq-stream-s3#208.
#[test]
fn poll_write_above_the_burst_moves_a_part() {
    let (limiter, _clock) = limiter();
    let mut stream = Stream::of([]).throttled(&limiter).chunk(u64::MAX);
    let written = write(&mut stream, 100_000).unwrap().unwrap();
    assert_eq!(written as u64, BURST);
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
            let moved = moved.map_or(0, |bytes| bytes.unwrap().len());
            let most = quota.max_burst().min(1 << 20) as usize;
            assert_eq!(moved, if chunk.is_some() { most } else { moves }, "{quota}");
        }
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
        assert_eq!(inside(&error).kind(), ErrorKind::Closed);
    }
    assert_eq!((charged(&outer), outer.snapshot().waiting), (0, 0));
}
