//! Sources that are not ready when their turn comes: a read joins the queue again only after its source
//! has woken it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tollgate::io::{ThrottleIoExt, Throttled};
use tollgate::{Clock, Quota, RateLimiter};

use super::stream::{Step, Stream};
use super::{MS, leave, limiter, read, read_now, read_with, waker};

/// Counts the polls of a stream.
struct Counted(DuplexStream, Arc<AtomicUsize>);

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

/// A stream keeps the limiter busy for two seconds, while one task reads from two that are idle.
#[tokio::test(start_paused = true)]
async fn poll_read_of_two_idle_sources_in_one_task_polls_each_once() {
    let quota = Quota::per_second(100_000).burst(2000);
    let limiter = Arc::new(RateLimiter::new(quota).clock(Clock::tokio()));
    limiter.charge(2000);
    let busy = tokio::spawn({
        let mut stream = Stream::of([]).throttled(Arc::clone(&limiter));
        async move {
            loop {
                assert!(stream.read(&mut [0; 1000]).await.is_ok());
            }
        }
    });
    let polls = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let counts = || polls.each_ref().map(|polls| polls.load(Ordering::Relaxed));
    let (near, mut other) = tokio::io::duplex(64);
    let (idle, _idle_other) = tokio::io::duplex(64);
    let mut near = Counted(near, Arc::clone(&polls[0])).throttled(&limiter);
    let mut idle = Counted(idle, Arc::clone(&polls[1])).throttled(&limiter);
    let ((mut first, mut second), mut both) = (([0; 64], [0; 64]), None);
    {
        let mut reads = std::pin::pin!(async {
            tokio::select! {
                read = near.read(&mut first) => read.unwrap(),
                read = idle.read(&mut second) => read.unwrap(),
            }
        });
        let two_seconds = Duration::from_secs(2);
        assert!(tokio::time::timeout(two_seconds, &mut reads).await.is_err());
        assert_eq!(counts(), [1, 1]);
        other.write_all(b"ready").await.unwrap();
        both.replace(reads.await);
    }
    assert_eq!((both, &first[..5]), (Some(5), &b"ready"[..]));
    assert_eq!(counts(), [2, 1]);
    busy.abort();
}

/// Keeps the waker of the last call of any kind, and is never ready.
#[derive(Default)]
struct Slot(Option<Waker>);

impl AsyncRead for Slot {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0 = Some(context.waker().clone());
        Poll::Pending
    }
}

impl AsyncWrite for Slot {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        _: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0 = Some(context.waker().clone());
        Poll::Pending
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0 = Some(context.waker().clone());
        Poll::Pending
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A read has found its source not ready after a wait. Returns how many calls wait for the limiter once it was polled again,
/// after `then` has done something with its source.
fn waiting_after(then: impl FnOnce(&mut Throttled<Slot, &RateLimiter>)) -> usize {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut stream = Slot::default().throttled(&limiter);
    let (_woken, waker) = waker();
    assert!(read_with(&mut stream, 100, &waker).is_none());
    clock.advance(100 * MS);
    assert!(read_with(&mut stream, 100, &waker).is_none());
    assert_eq!((limiter.available(), limiter.waiting()), (100, 0));
    leave(&limiter, 0);
    then(&mut stream);
    assert!(read_with(&mut stream, 100, &waker).is_none());
    limiter.waiting()
}

#[test]
fn poll_read_before_its_source_wakes_does_not_enter() {
    assert_eq!(waiting_after(|_| {}), 0);
}

#[test]
fn poll_read_after_its_source_woke_enters() {
    let woken = waiting_after(|stream| stream.get_ref().0.as_ref().unwrap().wake_by_ref());
    assert_eq!(woken, 1);
}

/// The source would wake another call now.
#[test]
fn poll_read_after_its_source_dropped_the_waker_enters() {
    assert_eq!(waiting_after(|stream| stream.get_mut().0 = None), 1);
    let flushed = waiting_after(|stream| {
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(stream).poll_flush(&mut context).is_pending());
    });
    assert_eq!(flushed, 1);
    let written = waiting_after(|stream| {
        let mut context = Context::from_waker(Waker::noop());
        let inner = Pin::new(stream.get_mut());
        assert!(inner.poll_write(&mut context, &[7]).is_pending());
    });
    assert_eq!(written, 1);
}

#[test]
fn poll_read_by_another_task_enters() {
    let (_woken, other) = waker();
    let entered = waiting_after(|stream| assert!(read_with(stream, 100, &other).is_none()));
    assert_eq!(entered, 1);
}

#[test]
fn poll_read_after_its_source_woke_wakes_the_task() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut stream = Slot::default().throttled(&limiter);
    let (woken, waker) = waker();
    assert!(read_with(&mut stream, 100, &waker).is_none());
    clock.advance(100 * MS);
    assert!(read_with(&mut stream, 100, &waker).is_none());
    assert_eq!(woken.count(), 1);
    stream.get_mut().0.take().unwrap().wake();
    assert_eq!(woken.count(), 2);
}

#[cfg(feature = "tower")]
impl hyper::body::Body for Slot {
    type Data = hyper::body::Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<hyper::body::Frame<Self::Data>>>> {
        self.0 = Some(context.waker().clone());
        Poll::Pending
    }
}

#[cfg(feature = "tower")]
#[test]
fn poll_frame_before_its_source_wakes_does_not_enter() {
    use hyper::body::Body;

    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut body = Slot::default().throttled(&limiter).chunk(100);
    let (_woken, waker) = waker();
    let context = &mut Context::from_waker(&waker);
    let mut waits = || {
        assert!(Pin::new(&mut body).poll_frame(context).is_pending());
        (limiter.waiting(), body.get_ref().0.clone())
    };
    assert_eq!(waits().0, 1);
    clock.advance(100 * MS);
    let (waiting, source) = waits();
    assert_eq!(waiting, 0);
    leave(&limiter, 0);
    assert_eq!(waits().0, 0);
    source.unwrap().wake();
    assert_eq!(waits().0, 1);
}

/// Its source keeps no waker, so nothing can be waited for but the next poll.
#[test]
fn poll_read_of_a_source_without_wakers_enters_at_each_poll() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut stream = Stream::of([Step::NotReady, Step::NotReady]).throttled(&limiter);
    for _ in 0..2 {
        assert!(read(&mut stream, 100).is_none());
        clock.advance(100 * MS);
        assert!(read(&mut stream, 100).is_none());
        leave(&limiter, 0);
    }
    assert!(read(&mut stream, 100).is_none());
    clock.advance(100 * MS);
    assert_eq!(read_now(&mut stream, 100), 100);
}
