//! A service behind a throttle, polled by hand.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use axum::body::Bytes;
use axum::http::Response;
use hyper::body::{Body, Frame};
use tollgate::{Semaphore, Throttle};
use tollgate_tower::{ResponseFuture, ThrottleLayer, ThrottleService, ThrottledBody};
use tower::{Layer, Service};

use super::service::{ManualService, Pages};
use crate::support::Waiter;
use crate::support::scripted::{Log, Scripted};

/// A service with a throttle, which is `t` in the log of both.
pub(super) struct Setup<T: Throttle = Scripted> {
    pub(super) log: Log,
    pub(super) throttle: T,
    pub(super) inner: ManualService,
    pub(super) service: ThrottleService<ManualService, T>,
}

/// A request on its way.
pub(super) type Request<T = Scripted> = Waiter<ResponseFuture<ManualService, T, &'static str>>;

impl Setup {
    pub(super) fn with(layer: impl FnOnce(Scripted) -> ThrottleLayer<Scripted>) -> Self {
        let log = Log::default();
        let throttle = log.part("t");
        Self::of(log, throttle, layer)
    }

    /// One that waits.
    pub(super) fn new() -> Self {
        Self::with(ThrottleLayer::new)
    }
}

impl<'a> Setup<&'a Semaphore> {
    /// One that waits for a semaphore.
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

    /// A request that was not polled yet.
    pub(super) fn request(&mut self, request: &'static str) -> Request<T> {
        call(&mut self.service, request)
    }

    /// A request that is being answered.
    #[track_caller]
    pub(super) fn called(&mut self, request: &'static str) -> Request<T> {
        let mut waiter = self.request(request);
        assert!(waiter.is_pending());
        waiter
    }

    /// The body of an answer, which was asked for these pages; the log begins with it.
    #[track_caller]
    pub(super) fn body(&mut self, pages: Pages) -> Reader<ThrottledBody<Pages, T::Permit>> {
        let mut request = self.called("a");
        self.inner.answer(Ok(Response::new(pages)));
        let answer = request.output().expect("it was answered");
        self.log.take();
        Reader(Box::pin(answer.into_body()))
    }
}

/// Asks a service, when it is ready, which it must be.
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

/// Who reads a body, by hand.
pub(super) struct Reader<B>(pub(super) Pin<Box<B>>);

/// A frame, in words.
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

/// A text that was read.
pub(super) fn text(text: &str) -> Read {
    Read::Text(text.to_owned())
}
