//! Limiters that refuse, and quotas that change.

use std::future::{Ready, ready};
use std::io;

use tollgate::throttle::Weighted;
use tollgate::{AcquireError, ErrorKind, Quota, Throttle, Waiting};
use tollgate_io::ThrottleIoExt;

use super::stream::Stream;
use super::{MS, inside, leave, limiter, read, read_now, read_with, waker, write};

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

/// Refuses always.
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
    // Set again, it holds again, after a burst.
    limiter.set_quota(Quota::per_second(1000).burst(1000));
    assert_eq!(read_now(&mut streams[0], 5000), 500);
    assert_eq!(read_now(&mut streams[1], 5000), 500);
    assert!(read(&mut streams[1], 5000).is_none());
    clock.advance(500 * MS);
    assert_eq!(read_now(&mut streams[1], 5000), 500);
}
