//! Streams that are dropped, and polls that panic.

use tollgate::io::ThrottleIoExt;

use super::stream::{Step, Stream};
use super::{MS, charged, leave, limiter, read, read_now, write};
use crate::support::foreign::panic_message;

#[test]
fn dropped_in_a_wait_leaves_the_line_uncharged() {
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
fn dropped_after_a_grant_gives_it_back() {
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
fn a_panicking_source_refunds() {
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
