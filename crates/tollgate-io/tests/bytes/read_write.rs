//! Tests reads.

use std::io::{IoSlice, SeekFrom};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncSeekExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tollgate::throttle::Weighted;
use tollgate::{Clock, Oversize, Quota, RateLimiter, Semaphore};
use tollgate_io::{ThrottleIoExt, Throttled};

use super::{
    MS, Step, Stream, charged, leave, limiter, read, read_now, read_with, waker, write, write_now,
};
use crate::support::Waiter;

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

/// The maximum of one call is then not the burst.
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
    // The chunk is half of the burst.
    let (full, _clock) = limiter();
    assert_eq!(read_now(&mut Stream::of([]).throttled(&full), 5000), 500);
    let single = RateLimiter::new(Quota::per_second(1)).clock(Clock::manual());
    assert_eq!(read_now(&mut Stream::of([]).throttled(&single), 5000), 1);
    // The chunk is the configured one.
    let (limiter, _clock) = limiter();
    let mut reader = Stream::of([]).throttled(&limiter).chunk(64);
    assert_eq!(read_now(&mut reader, 5000), 64);
    // The chunk is ten milliseconds of the rate, and at least 1 KiB.
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

// Tests writes.

#[test]
fn poll_write_that_claims_too_much_is_charged_what_it_was_given() {
    let (limiter, _clock) = limiter();
    let mut writer = Stream::of([Step::Claims(usize::MAX)]).throttled(&limiter);
    assert_eq!(write_now(&mut writer, 10), usize::MAX);
    assert_eq!(charged(&limiter), 10);
}

#[test]
fn poll_write_charges_what_moved() {
    let (limiter, _clock) = limiter();
    let mut writer = Stream::of([Step::Moves(1), Step::Moves(30)]).throttled(&limiter);
    assert_eq!(write_now(&mut writer, 100), 1);
    assert_eq!(write_now(&mut writer, 100), 30);
    assert_eq!(write_now(&mut writer, 100), 100);
    assert_eq!(charged(&limiter), 131);
}

#[test]
fn poll_write_that_moves_nothing_refunds_in_the_same_poll() {
    let (limiter, _clock) = limiter();
    let mut writer = Stream::of([Step::NotReady, Step::Fails, Step::Ends]).throttled(&limiter);
    assert!(write(&mut writer, 100).is_none());
    assert_eq!(charged(&limiter), 0);
    assert!(write(&mut writer, 100).unwrap().is_err());
    assert_eq!(charged(&limiter), 0);
    assert_eq!(write_now(&mut writer, 100), 0);
    assert_eq!(charged(&limiter), 0);
}

#[test]
fn poll_write_cuts_at_max_units() {
    let (limiter, clock) = limiter();
    let mut writer = Stream::of([]).throttled(&limiter).chunk(2000);
    assert_eq!(write_now(&mut writer, 5000), 1000);
    assert!(write(&mut writer, 5000).is_none());
    assert_eq!(writer.get_ref().asked, [1000]);
    clock.advance(1000 * MS);
    assert_eq!(write_now(&mut writer, 5000), 1000);
}

#[test]
fn poll_write_of_nothing_does_not_enter() {
    let (limiter, _clock) = limiter();
    limiter.close();
    assert_eq!(write_now(&mut Stream::of([]).throttled(&limiter), 0), 0);
}

fn write_vectored(chunk: u64, sizes: &[usize]) -> (usize, Vec<usize>) {
    let (limiter, _clock) = limiter();
    let mut writer = Stream::of([]).throttled(&limiter).chunk(chunk);
    assert!(writer.is_write_vectored());
    let buffers: Vec<_> = sizes.iter().map(|size| vec![7; *size]).collect();
    let slices: Vec<_> = buffers.iter().map(|buffer| IoSlice::new(buffer)).collect();
    let mut context = Context::from_waker(Waker::noop());
    let polled = Pin::new(&mut writer).poll_write_vectored(&mut context, &slices);
    let Poll::Ready(Ok(moved)) = polled else {
        panic!("it waits or fails");
    };
    assert_eq!(charged(&limiter), moved as u64);
    (moved, writer.into_inner().slices)
}

#[test]
fn poll_write_vectored_cuts_without_copy() {
    assert_eq!(write_vectored(100, &[30, 0, 40]), (70, vec![30, 0, 40]));
    assert_eq!(write_vectored(70, &[30, 40]), (70, vec![30, 40]));
    assert_eq!(write_vectored(69, &[30, 0, 40]), (69, vec![30, 39]));
    assert_eq!(write_vectored(30, &[30, 40]), (30, vec![30]));
    assert_eq!(write_vectored(1, &[0, 30, 40]), (1, vec![1]));
    assert_eq!(write_vectored(100, &[]), (0, vec![]));
    // If a write of many slices is cut, 16 slices are written.
    assert_eq!(write_vectored(50, &[2; 40]), (32, vec![2; 16]));
    assert_eq!(write_vectored(100, &[2; 40]), (80, vec![2; 40]));
}

#[test]
fn poll_flush_shutdown_and_seek_are_free() {
    let (limiter, _clock) = limiter();
    leave(&limiter, 0);
    let mut stream = Stream::of([]).throttled(&limiter);
    // Flushing is free even while a write waits.
    assert!(write(&mut stream, 1).is_none());
    Waiter::new(stream.flush()).output().unwrap();
    Waiter::new(stream.shutdown()).output().unwrap();
    let sought = Waiter::new(stream.seek(SeekFrom::Start(5))).output();
    assert_eq!(sought.unwrap(), 5);
    assert_eq!(
        (stream.get_ref().flushed, stream.get_ref().shut_down),
        (1, 1)
    );
}

// Tests both directions of a stream.

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
        // Each stream may hold a grant of one limiter while it waits for the other.
        assert!((1000 - 60..=1100).contains(&delivered), "{delivered}");
    }
}
