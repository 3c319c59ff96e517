//! Reads.

use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Waker};

use tokio::io::{AsyncRead, ReadBuf};
use tollgate::throttle::Weighted;
use tollgate::{Clock, Oversize, Quota, RateLimiter, Semaphore};
use tollgate_io::{ThrottleIoExt, Throttled};

use super::stream::{Step, Stream};
use super::{MS, charged, leave, limiter, read, read_now, read_with, waker};

#[test]
fn poll_read_of_ready_source_charges_what_moved() {
    let (limiter, _clock) = limiter();
    let source = Stream::of([Step::Moves(1), Step::Moves(30)]);
    let mut reader = source.throttled(&limiter);
    assert_eq!(read_now(&mut reader, 100), 1);
    assert_eq!(charged(&limiter), 1);
    assert_eq!(read_now(&mut reader, 100), 30);
    assert_eq!(charged(&limiter), 31);
    assert_eq!(read_now(&mut reader, 100), 100);
    assert_eq!(charged(&limiter), 131);
}

#[test]
fn poll_read_of_pending_source_refunds_in_the_same_poll() {
    let (limiter, _clock) = limiter();
    let mut reader = Stream::of([Step::NotReady]).throttled(&limiter);
    assert!(read(&mut reader, 100).is_none());
    assert_eq!((charged(&limiter), limiter.snapshot().waiting), (0, 0));
    assert_eq!(reader.get_ref().asked, [100]);
}

/// The most that one call may ask for is then not the burst.
#[test]
fn poll_read_with_overdraft_takes_half_of_the_burst() {
    let limiter = RateLimiter::new(Quota::per_second(1000).burst(10)).clock(Clock::manual());
    let limiter = limiter.oversize(Oversize::Overdraft);
    let mut stream = Stream::of([]).throttled(&limiter);
    for _ in 0..2 {
        assert_eq!(read_now(&mut stream, 1_000_000), 5);
    }
    assert!(read(&mut stream, 1_000_000).is_none());
}

#[test]
fn poll_read_with_an_error_refunds() {
    let (limiter, _clock) = limiter();
    let mut reader = Stream::of([Step::Fails]).throttled(&limiter);
    let error = read(&mut reader, 100).unwrap().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!(charged(&limiter), 0);
}

#[test]
fn poll_read_at_the_end_costs_nothing() {
    let (limiter, _clock) = limiter();
    let mut reader = Stream::of([Step::Ends]).throttled(&limiter);
    assert_eq!(read_now(&mut reader, 100), 0);
    assert_eq!(charged(&limiter), 0);
}

#[test]
fn poll_read_into_an_empty_buffer_does_not_enter() {
    let (limiter, _clock) = limiter();
    leave(&limiter, 0);
    limiter.close();
    let mut reader = Stream::of([]).throttled(&limiter);
    assert_eq!(read_now(&mut reader, 0), 0);
    assert_eq!(reader.get_ref().asked, [0]);
}

#[test]
fn poll_read_above_what_is_left_waits_before_it_calls_the_source() {
    let (limiter, clock) = limiter();
    leave(&limiter, 40);
    let mut reader = Stream::of([]).throttled(&limiter);
    let (woken, waker) = waker();
    assert!(read_with(&mut reader, 100, &waker).is_none());
    assert_eq!(
        (limiter.snapshot().waiting, reader.get_ref().asked.len()),
        (1, 0)
    );
    clock.advance(59 * MS);
    assert_eq!(woken.count(), 0);
    clock.advance(MS);
    assert_eq!(woken.count(), 1);
    assert_eq!(read_now(&mut reader, 100), 100);
    assert_eq!(limiter.snapshot().available, 0);
}

#[test]
fn poll_read_with_a_shorter_buffer_after_a_wait_settles() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut reader = Stream::of([]).throttled(&limiter);
    assert!(read(&mut reader, 100).is_none());
    clock.advance(100 * MS);
    assert_eq!(read_now(&mut reader, 30), 30);
    assert_eq!(reader.get_ref().asked, [30]);
    assert_eq!(limiter.snapshot().available, 70);
}

#[test]
fn poll_read_with_a_longer_buffer_after_a_wait_moves_what_was_charged() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut reader = Stream::of([]).throttled(&limiter);
    assert!(read(&mut reader, 100).is_none());
    clock.advance(100 * MS);
    assert_eq!(read_now(&mut reader, 500), 100);
    assert_eq!(limiter.snapshot().available, 0);
}

#[test]
fn poll_read_of_pending_source_after_a_wait_refunds() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut reader = Stream::of([Step::NotReady]).throttled(&limiter);
    assert!(read(&mut reader, 100).is_none());
    clock.advance(100 * MS);
    assert!(read(&mut reader, 100).is_none());
    assert_eq!(
        (limiter.snapshot().available, limiter.snapshot().waiting),
        (100, 0)
    );
}

#[test]
fn poll_read_refund_admits_the_next_waiter() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut idle = Stream::of([Step::NotReady]).throttled(&limiter);
    let mut busy = Stream::of([]).throttled(&limiter);
    assert!(read(&mut idle, 100).is_none());
    let (woken, waker) = waker();
    assert!(read_with(&mut busy, 100, &waker).is_none());
    clock.advance(100 * MS);
    assert_eq!(woken.count(), 0);
    assert!(read(&mut idle, 100).is_none());
    assert_eq!(woken.count(), 1);
    assert_eq!(read_now(&mut busy, 100), 100);
}

#[test]
fn poll_read_takes_a_chunk_at_most() {
    // Half of the burst.
    let (full, _clock) = limiter();
    assert_eq!(read_now(&mut Stream::of([]).throttled(&full), 5000), 500);
    let single = RateLimiter::new(Quota::per_second(1)).clock(Clock::manual());
    assert_eq!(read_now(&mut Stream::of([]).throttled(&single), 5000), 1);
    // What was set.
    let (limiter, _clock) = limiter();
    let mut reader = Stream::of([]).throttled(&limiter).chunk(64);
    assert_eq!(read_now(&mut reader, 5000), 64);
    // Ten milliseconds of the rate, and at least 1 KiB.
    for (rate, chunk) in [(1_000_000, 10_000), (1000, 1024), (102_500, 1025)] {
        let quota = Quota::per_second(rate).burst(rate.max(3000));
        let limiter = RateLimiter::new(quota).clock(Clock::manual());
        let mut reader = Stream::of([]).throttled(&limiter);
        assert_eq!(read_now(&mut reader, 100_000), chunk);
    }
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
