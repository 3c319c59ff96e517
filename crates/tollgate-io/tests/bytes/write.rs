//! Writes.

use std::io::{IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncSeekExt, AsyncWrite, AsyncWriteExt};
use tollgate_io::ThrottleIoExt;

use super::stream::{Step, Stream};
use super::{MS, charged, leave, limiter, write, write_now};
use crate::support::Waiter;

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
    // Of many slices that are cut, 16 are written.
    assert_eq!(write_vectored(50, &[2; 40]), (32, vec![2; 16]));
    assert_eq!(write_vectored(100, &[2; 40]), (80, vec![2; 40]));
}

#[test]
fn poll_flush_shutdown_and_seek_are_free() {
    let (limiter, _clock) = limiter();
    leave(&limiter, 0);
    let mut stream = Stream::of([]).throttled(&limiter);
    // Also while a write waits.
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
