//! Tests the readers and writers of futures.

use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use futures::io::{AsyncRead, AsyncReadExt, AsyncSeekExt, AsyncWrite, AsyncWriteExt, Cursor};
use tollgate_io::ThrottleIoExt;

use super::{MS, Step, Stream, charged, leave, limiter};
use crate::support::Waiter;

/// A stream with the traits of futures.
struct Futures(Stream);

impl AsyncRead for Futures {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.0.step(buffer.len())
    }
}

impl AsyncWrite for Futures {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.step(bytes.len())
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.flushed += 1;
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.shut_down += 1;
        Poll::Ready(Ok(()))
    }
}

#[test]
fn poll_read_charges_what_moved_and_waits_for_what_is_missing() {
    let (limiter, clock) = limiter();
    let steps = [Step::Moves(30), Step::NotReady, Step::Fails, Step::Ends];
    let mut reader = Futures(Stream::of(steps)).throttled(&limiter);
    let mut bytes = [0; 100];
    assert_eq!(Waiter::new(reader.read(&mut bytes)).output().unwrap(), 30);
    assert!(Waiter::new(reader.read(&mut bytes)).is_pending());
    assert!(Waiter::new(reader.read(&mut bytes)).output().is_err());
    assert_eq!(Waiter::new(reader.read(&mut bytes)).output().unwrap(), 0);
    assert_eq!(charged(&limiter), 30);
    leave(&limiter, 99);
    assert!(Waiter::new(reader.read(&mut bytes)).is_pending());
    assert_eq!(reader.get_ref().0.asked, [100; 4]);
    clock.advance(MS);
    assert_eq!(Waiter::new(reader.read(&mut bytes)).output().unwrap(), 100);
}

#[test]
fn poll_write_is_cut_and_the_rest_passes() {
    let (limiter, _clock) = limiter();
    let mut writer = Futures(Stream::of([])).throttled(&limiter).chunk(1000);
    assert_eq!(
        Waiter::new(writer.write(&[7; 5000])).output().unwrap(),
        1000
    );
    assert!(Waiter::new(writer.write(&[7; 5000])).is_pending());
    Waiter::new(writer.flush()).output().unwrap();
    Waiter::new(writer.close()).output().unwrap();
    assert_eq!(
        (writer.get_ref().0.flushed, writer.get_ref().0.shut_down),
        (1, 1)
    );
}

#[test]
fn poll_write_vectored_is_cut() {
    let (limiter, _clock) = limiter();
    let mut writer = Cursor::new(Vec::new()).throttled(&limiter).chunk(25);
    let slices = [
        IoSlice::new(&[1; 10]),
        IoSlice::new(&[]),
        IoSlice::new(&[2; 20]),
    ];
    let mut context = Context::from_waker(Waker::noop());
    let polled = Pin::new(&mut writer).poll_write_vectored(&mut context, &slices);
    assert!(matches!(polled, Poll::Ready(Ok(25))));
    assert_eq!(charged(&limiter), 25);
    assert_eq!(writer.get_ref().get_ref().len(), 25);
}

#[test]
fn poll_seek_is_free() {
    let (limiter, _clock) = limiter();
    let mut reader = Cursor::new([1, 2, 3]).throttled(&limiter);
    assert_eq!(
        Waiter::new(reader.seek(SeekFrom::Start(2)))
            .output()
            .unwrap(),
        2
    );
    let mut bytes = [0; 10];
    assert_eq!(Waiter::new(reader.read(&mut bytes)).output().unwrap(), 1);
    assert_eq!(charged(&limiter), 1);
}
