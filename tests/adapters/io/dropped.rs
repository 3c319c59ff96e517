//! Streams that are dropped, and polls that panic.

use tollgate::io::ThrottleIoExt;

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
    assert_eq!(limiter.waiting(), 2);
    drop(stream);
    assert_eq!(limiter.waiting(), 0);
    clock.advance(5 * MS);
    assert_eq!(limiter.available(), 5);
}

#[test]
fn drop_after_grant_refunds() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut stream = Stream::of([]).throttled(&limiter);
    assert!(read(&mut stream, 100).is_none());
    clock.advance(100 * MS);
    assert_eq!(limiter.available(), 0);
    drop(stream.into_inner());
    assert_eq!(limiter.available(), 100);
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

/// A wait outlives the call that was dropped, and is granted. An hour later time has paid for it, so
/// the chunk is not moved on top of the burst.
#[test]
fn poll_read_with_an_hour_old_grant_charges_again() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut streams: Vec<_> = (0..10)
        .map(|_| Stream::of([]).throttled(&limiter).chunk(100))
        .collect();
    for stream in &mut streams {
        assert!(read(stream, 100).is_none());
    }
    clock.advance(3_600_000 * MS);
    assert_eq!(limiter.available(), BURST);
    for stream in &mut streams {
        assert_eq!(read_now(stream, 100), 100);
    }
    assert_eq!(charged(&limiter), BURST);
    assert!(read(&mut streams[0], 100).is_none());
}

#[test]
fn poll_read_with_a_second_old_grant_uses_it() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut stream = Stream::of([]).throttled(&limiter);
    assert!(read(&mut stream, 100).is_none());
    // It is granted after 100 ms.
    clock.advance(1100 * MS);
    assert_eq!(limiter.available(), BURST);
    assert_eq!(read_now(&mut stream, 100), 100);
    assert_eq!(limiter.available(), BURST);
}
