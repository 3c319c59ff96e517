//! Tests bodies of HTTP messages.

use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tollgate::throttle::Weighted;
use tollgate::{AcquireError, ErrorKind};
use tollgate_io::{ThrottleIoExt, Throttled};

use super::{MS, charged, leave, limiter};

#[derive(Clone, Debug)]
enum Page {
    Data(usize),
    Trailers,
    NotReady,
    Fails,
}

#[derive(Debug, PartialEq)]
struct Failed;

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the body failed")
    }
}

impl std::error::Error for Failed {}

/// A body of these pages, with its size hint.
struct Pages(VecDeque<Page>, SizeHint);

impl Pages {
    fn of(pages: impl IntoIterator<Item = Page>) -> Self {
        Self(pages.into_iter().collect(), SizeHint::new())
    }

    fn exact(mut self, size: u64) -> Self {
        self.1 = SizeHint::with_exact(size);
        self
    }
}

impl Body for Pages {
    type Data = Bytes;
    type Error = Failed;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failed>>> {
        Poll::Ready(match self.0.pop_front() {
            Some(Page::Data(bytes)) => Some(Ok(Frame::data(vec![7; bytes].into()))),
            Some(Page::Trailers) => Some(Ok(Frame::trailers(HeaderMap::new()))),
            Some(Page::Fails) => Some(Err(Failed)),
            Some(Page::NotReady) => return Poll::Pending,
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.1
    }
}

#[derive(Debug, PartialEq)]
enum Read {
    Data(usize),
    Trailers,
    Failed,
    Refused(ErrorKind),
    End,
    Waits,
}

fn read<B, T>(body: &mut Throttled<B, T>) -> Read
where
    T: Weighted,
    B: Body<Error = Failed>,
    Throttled<B, T>: Unpin,
{
    let mut context = Context::from_waker(Waker::noop());
    match Pin::new(body).poll_frame(&mut context) {
        Poll::Pending => Read::Waits,
        Poll::Ready(None) => Read::End,
        Poll::Ready(Some(Err(error))) => match error.downcast_ref::<AcquireError>() {
            Some(error) => Read::Refused(error.kind()),
            None => {
                assert!(error.is::<Failed>());
                Read::Failed
            }
        },
        Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
            Ok(data) => Read::Data(data.len()),
            Err(_) => Read::Trailers,
        },
    }
}

#[test]
fn poll_frame_charges_what_moved() {
    let (limiter, _clock) = limiter();
    let pages = [
        Page::Data(10),
        Page::NotReady,
        Page::Data(20),
        Page::Data(0),
        Page::Fails,
    ];
    let mut body = Pages::of(pages).throttled(&limiter).chunk(100);
    for (expected, total) in [
        (Read::Data(10), 10),
        (Read::Waits, 10),
        (Read::Data(20), 30),
        (Read::Data(0), 30),
        (Read::Failed, 30),
        (Read::End, 30),
    ] {
        assert_eq!(read(&mut body), expected);
        assert_eq!((charged(&limiter), limiter.snapshot().waiting), (total, 0));
    }
}

#[test]
fn poll_frame_above_the_chunk_is_split() {
    let (limiter, clock) = limiter();
    let mut body = Pages::of([Page::Data(250), Page::Data(1)]);
    body.1.set_lower(5);
    body.1.set_upper(900);
    let mut body = body.throttled(&limiter).chunk(100);
    assert_eq!(read(&mut body), Read::Data(100));
    assert_eq!(charged(&limiter), 100);
    assert!(!body.is_end_stream());
    assert_eq!(
        (body.size_hint().lower(), body.size_hint().upper()),
        (155, Some(1050))
    );
    leave(&limiter, 99);
    assert_eq!(read(&mut body), Read::Waits);
    clock.advance(MS);
    assert_eq!(read(&mut body), Read::Data(100));
    // The rest is charged by its own size.
    clock.advance(50 * MS);
    assert_eq!(read(&mut body), Read::Data(50));
    assert_eq!(limiter.snapshot().available, 0);
    clock.advance(100 * MS);
    assert_eq!(read(&mut body), Read::Data(1));
    assert_eq!(limiter.snapshot().available, 99);
    assert!(body.is_end_stream());
}

/// A server does not poll a body that reports its end, and would cut the response.
#[test]
fn is_end_stream_of_the_last_frame_is_false_until_its_rest_is_out() {
    let (limiter, _clock) = limiter();
    let mut body = Pages::of([Page::Data(250)]).throttled(&limiter).chunk(100);
    for piece in [100, 100, 50] {
        assert!(!body.is_end_stream());
        assert_eq!(read(&mut body), Read::Data(piece));
    }
    assert!(body.is_end_stream());
}

#[test]
fn poll_frame_asks_for_no_more_than_the_size_hint() {
    let (limiter, _clock) = limiter();
    leave(&limiter, 10);
    let mut body = Pages::of([Page::Data(10)]).exact(10).throttled(&limiter);
    assert_eq!(read(&mut body), Read::Data(10));
    assert_eq!(limiter.snapshot().available, 0);
}

#[test]
fn poll_frame_of_trailers_and_the_end_is_free() {
    let (limiter, _clock) = limiter();
    leave(&limiter, 0);
    limiter.close();
    let mut body = Pages::of([Page::Trailers]).exact(0).throttled(&limiter);
    assert_eq!(read(&mut body), Read::Trailers);
    assert_eq!(read(&mut body), Read::End);
}

#[test]
fn poll_frame_at_the_end_of_an_unknown_size_is_free() {
    let (limiter, _clock) = limiter();
    let mut body = Pages::of([Page::Data(10)]).throttled(&limiter);
    assert_eq!(read(&mut body), Read::Data(10));
    leave(&limiter, 0);
    assert_eq!(read(&mut body), Read::End);
    assert_eq!(limiter.snapshot().waiting, 0);
}

#[test]
fn poll_frame_of_a_wrong_size_hint_is_charged() {
    let (limiter, clock) = limiter();
    leave(&limiter, 0);
    let mut body = Pages::of([Page::Data(10)]).exact(0).throttled(&limiter);
    assert_eq!(read(&mut body), Read::Waits);
    clock.advance(10 * MS);
    assert_eq!(read(&mut body), Read::Data(10));
    assert_eq!(limiter.snapshot().available, 0);
}

#[test]
fn poll_frame_of_a_closed_limiter_fails() {
    let (limiter, _clock) = limiter();
    limiter.close();
    let mut body = Pages::of([Page::Data(10)]).throttled(&limiter);
    assert_eq!(read(&mut body), Read::Refused(ErrorKind::Closed));
    assert_eq!(body.get_ref().0.len(), 1);
}

#[test]
fn poll_frame_with_writes_only_is_free() {
    let (limiter, _clock) = limiter();
    let pages = [Page::Data(5000), Page::Trailers, Page::Fails];
    let mut body = Pages::of(pages).throttled(&limiter).writes_only();
    assert_eq!(read(&mut body), Read::Data(5000));
    assert_eq!(read(&mut body), Read::Trailers);
    assert_eq!(read(&mut body), Read::Failed);
    assert_eq!(charged(&limiter), 0);
}

/// A charged poll kept its rest.
#[test]
fn poll_frame_of_a_rest_with_writes_only_is_free() {
    let (limiter, _clock) = limiter();
    let mut body = Pages::of([Page::Data(14), Page::Data(5)])
        .throttled(&limiter)
        .chunk(8);
    assert_eq!(read(&mut body), Read::Data(8));
    let mut body = body.writes_only();
    assert_eq!(read(&mut body), Read::Data(6));
    assert_eq!(read(&mut body), Read::Data(5));
    assert_eq!(read(&mut body), Read::End);
    assert_eq!(charged(&limiter), 8);
}

#[tokio::test]
async fn poll_frame_of_a_body_with_boxed_errors_has_boxed_errors() {
    let (limiter, _clock) = limiter();
    let body =
        Pages::of([Page::Data(5), Page::Fails]).map_err(Box::<dyn Error + Send + Sync>::from);
    let body = body.boxed_unsync().throttled(&limiter);
    let error = body.collect().await.err();
    assert!(error.is_some_and(|error| error.is::<Failed>()));
}
