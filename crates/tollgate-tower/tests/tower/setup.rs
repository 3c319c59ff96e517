//! Sets up a service behind a throttle, polled by hand.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use axum::body::Bytes;
use axum::http::{HeaderMap, Response};
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::oneshot;
use tollgate::{Semaphore, Throttle};
use tollgate_tower::{ResponseFuture, ThrottleLayer, ThrottleService, ThrottledBody};
use tower::{Layer, Service};

use crate::support::Waiter;
use crate::support::scripted::{Log, Scripted};

/// A service with a throttle, which is `t` in the log of both.
pub(super) struct Setup<T: Throttle = Scripted> {
    pub(super) log: Log,
    pub(super) throttle: T,
    pub(super) inner: ManualService,
    pub(super) service: ThrottleService<ManualService, T>,
}

/// A request in progress.
pub(super) type Request<T = Scripted> = Waiter<ResponseFuture<ManualService, T, &'static str>>;

impl Setup {
    pub(super) fn with(layer: impl FnOnce(Scripted) -> ThrottleLayer<Scripted>) -> Self {
        let log = Log::default();
        let throttle = log.part("t");
        Self::of(log, throttle, layer)
    }

    /// Returns a setup whose requests wait.
    pub(super) fn new() -> Self {
        Self::with(ThrottleLayer::new)
    }
}

impl<'a> Setup<&'a Semaphore> {
    /// Returns a setup whose requests wait for a semaphore.
    pub(super) fn behind(semaphore: &'a Semaphore) -> Self {
        Self::of(Log::default(), semaphore, ThrottleLayer::new)
    }
}

impl<T: Throttle> Setup<T> {
    fn of(log: Log, throttle: T, layer: impl FnOnce(T) -> ThrottleLayer<T>) -> Self {
        let inner = ManualService::new(&log);
        let service = layer(throttle.clone()).layer(inner.clone());
        Self {
            log,
            throttle,
            inner,
            service,
        }
    }

    /// Returns a request that was not polled yet.
    pub(super) fn request(&mut self, request: &'static str) -> Request<T> {
        call(&mut self.service, request)
    }

    /// Returns a request that is being answered.
    #[track_caller]
    pub(super) fn called(&mut self, request: &'static str) -> Request<T> {
        let mut waiter = self.request(request);
        assert!(waiter.is_pending());
        waiter
    }

    /// Returns the body of an answer with these pages; the log begins with the body.
    #[track_caller]
    pub(super) fn body(&mut self, pages: Pages) -> Reader<ThrottledBody<Pages, T::Permit>> {
        let mut request = self.called("a");
        self.inner.answer(Ok(Response::new(pages)));
        let answer = request.output().expect("it was answered");
        self.log.take();
        Reader(Box::pin(answer.into_body()))
    }
}

/// Calls a service, which must be ready.
#[track_caller]
pub(super) fn call<S>(service: &mut S, request: &'static str) -> Waiter<S::Future>
where
    S: Service<&'static str, Error: std::fmt::Debug>,
{
    let mut ready = Waiter::new(poll_fn(|context| service.poll_ready(context)));
    ready.output().expect("it is always ready");
    drop(ready);
    Waiter::new(service.call(request))
}

/// Reads a body by hand.
pub(super) struct Reader<B>(pub(super) Pin<Box<B>>);

/// The text form of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    Text(String),
    Trailers,
    Failed,
    End,
    NotYet,
}

impl<B: Body<Data = Bytes>> Reader<B> {
    pub(super) fn read(&mut self) -> Read {
        let polled = self
            .0
            .as_mut()
            .poll_frame(&mut Context::from_waker(Waker::noop()));
        match polled.map(|frame| frame.map(|read| read.map(Frame::into_data))) {
            Poll::Ready(Some(Ok(Ok(data)))) => {
                Read::Text(String::from_utf8(data.to_vec()).expect("text"))
            }
            Poll::Ready(Some(Ok(Err(_)))) => Read::Trailers,
            Poll::Ready(Some(Err(_))) => Read::Failed,
            Poll::Ready(None) => Read::End,
            Poll::Pending => Read::NotYet,
        }
    }
}

/// Returns the read of a text.
pub(super) fn text(text: &str) -> Read {
    Read::Text(text.to_owned())
}

// A service that the test answers by hand, with bodies prepared in advance, and a log of
// the events.
//
// In the log, for a request `a`: `call a` (the service was called), `drop work a` (the future of its
// answer was dropped), `drop body` (the body was dropped). The log also has the events of a throttle that
// shares it.

/// An answer of the service.
pub(super) type Answer = Result<Response<Pages>, &'static str>;

/// The service that the test answers by hand.
pub(super) struct ManualService {
    pub(super) log: Log,
    /// Whether this service, and not a clone of it, was made ready.
    ready: bool,
    unanswered: Arc<Mutex<VecDeque<oneshot::Sender<Answer>>>>,
}

impl ManualService {
    pub(super) fn new(log: &Log) -> Self {
        Self {
            log: log.clone(),
            ready: false,
            unanswered: Arc::default(),
        }
    }

    /// Answers the oldest unanswered request.
    #[track_caller]
    pub(super) fn answer(&self, answer: Answer) {
        let unanswered = self.unanswered.lock().unwrap().pop_front();
        let _ = unanswered.expect("called").send(answer);
    }

    /// Answers with a body of these pages.
    #[track_caller]
    pub(super) fn send(&self, pages: impl IntoIterator<Item = Page>) {
        self.answer(Ok(Response::new(self.pages(pages))));
    }

    /// Returns a body that consists of these pages, and does not know in advance that it has ended.
    pub(super) fn pages(&self, pages: impl IntoIterator<Item = Page>) -> Pages {
        Pages {
            pages: pages.into_iter().collect(),
            knows_its_end: false,
            size: SizeHint::default(),
            _dropped: Dropped::new(&self.log, "drop body"),
        }
    }
}

impl Clone for ManualService {
    fn clone(&self) -> Self {
        Self {
            log: self.log.clone(),
            ready: false,
            unanswered: Arc::clone(&self.unanswered),
        }
    }
}

impl Service<&'static str> for ManualService {
    type Response = Response<Pages>;
    type Error = &'static str;
    type Future = Work;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    /// Panics on request: `panic in call`, `panic in work`.
    fn call(&mut self, request: &'static str) -> Self::Future {
        assert!(self.ready, "called though it was not ready");
        self.ready = false;
        self.log.add(format!("call {request}"));
        assert_ne!(request, "panic in call", "on purpose");
        let (sender, answer) = oneshot::channel();
        self.unanswered.lock().unwrap().push_back(sender);
        Work {
            request,
            answer,
            _dropped: Dropped::new(&self.log, format!("drop work {request}")),
        }
    }
}

/// The future of an answer, which exists until it is dropped.
pub(super) struct Work {
    request: &'static str,
    answer: oneshot::Receiver<Answer>,
    _dropped: Dropped,
}

impl Future for Work {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        assert_ne!(self.request, "panic in work", "on purpose");
        let answer = Pin::new(&mut self.answer).poll(context);
        answer.map(|answer| answer.expect("the inner is there"))
    }
}

/// Logs its own drop.
struct Dropped(Log, String);

impl Dropped {
    fn new(log: &Log, event: impl Into<String>) -> Self {
        Self(log.clone(), event.into())
    }
}

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.add(&*self.1);
    }
}

/// The action of a body when it is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Text(&'static str),
    Trailers,
    Fails,
    /// The body has nothing yet, and will be polled again by hand.
    NotYet,
    Panics,
}

/// A body that consists of pages.
pub(super) struct Pages {
    pages: VecDeque<Page>,
    pub(super) knows_its_end: bool,
    pub(super) size: SizeHint,
    _dropped: Dropped,
}

impl Body for Pages {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        Poll::Ready(match self.pages.pop_front() {
            Some(Page::Text(text)) => Some(Ok(Frame::data(Bytes::from_static(text.as_bytes())))),
            Some(Page::Trailers) => Some(Ok(Frame::trailers(HeaderMap::new()))),
            Some(Page::Fails) => Some(Err("it failed")),
            Some(Page::NotYet) => return Poll::Pending,
            Some(Page::Panics) => panic!("on purpose"),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.knows_its_end && self.pages.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        #[allow(clippy::clone_on_copy, reason = "it is `Copy` from http-body 1.1")]
        self.size.clone()
    }
}
