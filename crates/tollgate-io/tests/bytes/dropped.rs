//! Streams that are dropped, and polls that panic.

use tollgate::Semaphore;
use tollgate_io::ThrottleIoExt;

use super::stream::{Step, Stream};
use super::{BURST, MS, charged, leave, limiter, read, read_now, write};
use crate::support::foreign::panic_message;

#[test]
fn drop_while_queued_charges_nothing() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut stream = Stream::of([]).throttled(&limiter);
    assert!(read(&mut stream, 100).is_none());
    assert!(write(&mut stream, 100).is_none());
    assert_eq!(limiter.snapshot().waiting, 2);
    drop(stream);
    assert_eq!(limiter.snapshot().waiting, 0);
    clock.advance(5 * MS);
    assert_eq!(limiter.snapshot().available, 5);
}

#[test]
fn drop_after_grant_refunds() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut stream = Stream::of([]).throttled(&limiter);
    assert!(read(&mut stream, 100).is_none());
    clock.advance(100 * MS);
    assert_eq!(limiter.snapshot().available, 0);
    drop(stream.into_inner());
    assert_eq!(limiter.snapshot().available, 100);
}

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

/// A wait outlives the call that was dropped. It is charged when it is granted, so that time pays for all
/// of them, and its chunk moves at the next call, an hour later, on top of the burst.
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

/// Its task comes less than once a second, and loses none of what it was granted.
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
