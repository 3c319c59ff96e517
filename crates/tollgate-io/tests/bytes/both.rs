//! Both directions of a stream.

use tollgate::{Clock, Quota, RateLimiter};
use tollgate_io::ThrottleIoExt;

use super::stream::Stream;
use super::{MS, charged, leave, limiter, read, read_now, read_with, waker, write, write_now};

#[test]
fn throttled_charges_both_directions() {
    let (limiter, _clock) = limiter();
    let mut stream = Stream::of([]).throttled(&limiter);
    assert_eq!(
        (read_now(&mut stream, 10), write_now(&mut stream, 20)),
        (10, 20)
    );
    assert_eq!(charged(&limiter), 30);
}

#[test]
fn reads_only_lets_writes_pass() {
    let (limiter, _clock) = limiter();
    let mut stream = Stream::of([]).throttled(&limiter).reads_only();
    assert_eq!(
        (read_now(&mut stream, 10), write_now(&mut stream, 5000)),
        (10, 5000)
    );
    assert_eq!(charged(&limiter), 10);
}

#[test]
fn writes_only_lets_reads_pass() {
    let (limiter, _clock) = limiter();
    let mut stream = Stream::of([])
        .throttled(&limiter)
        .reads_only()
        .writes_only();
    assert_eq!(
        (read_now(&mut stream, 5000), write_now(&mut stream, 10)),
        (5000, 10)
    );
    assert_eq!(charged(&limiter), 10);
}

#[test]
fn throttled_twice_has_a_limit_for_each_direction() {
    let ((down, _down), (up, _up)) = (limiter(), limiter());
    let stream = Stream::of([]).throttled(&down).reads_only();
    let mut stream = stream.throttled(&up).writes_only();
    assert_eq!(
        (read_now(&mut stream, 10), write_now(&mut stream, 20)),
        (10, 20)
    );
    assert_eq!((charged(&down), charged(&up)), (10, 20));
}

#[test]
fn poll_read_and_poll_write_wait_independently() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut stream = Stream::of([]).throttled(&limiter);
    let ((reads, reader), (writes, _)) = (waker(), waker());
    assert!(read_with(&mut stream, 10, &reader).is_none());
    assert!(write(&mut stream, 20).is_none());
    assert_eq!(limiter.snapshot().waiting, 2);
    clock.advance(10 * MS);
    assert_eq!((reads.count(), writes.count()), (1, 0));
    assert!(write(&mut stream, 20).is_none());
    assert_eq!(read_now(&mut stream, 10), 10);
    assert!(read(&mut stream, 10).is_none());
    clock.advance(20 * MS);
    assert_eq!(write_now(&mut stream, 20), 20);
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
                    delivered += bytes.len();
                }
            }
            clock.advance(MS);
        }
        // Each stream may hold a grant of the one while it waits for the other.
        assert!((1000 - 60..=1100).contains(&delivered), "{delivered}");
    }
}
