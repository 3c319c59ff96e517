//! A scripted HTTP client, and requests and responses for it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use http::header::RETRY_AFTER;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt};
use tollgate::throttle::All;
use tollgate::{AcquireError, Clock, ErrorKind, Quota, RateLimiter, Semaphore, all};
use tollgate_object_store::cause;

pub(crate) type Answer = Result<HttpResponse, HttpError>;

/// A client whose answers a closure makes.
#[derive(Clone)]
pub(crate) struct Script(Arc<dyn Fn(HttpRequest) -> BoxFuture<'static, Answer> + Send + Sync>);

impl Script {
    pub(crate) fn new<F>(answer: impl Fn(HttpRequest) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        Self(Arc::new(move |request| Box::pin(answer(request))))
    }

    /// Answers at once.
    pub(crate) fn ready(answer: impl Fn(HttpRequest) -> Answer + Send + Sync + 'static) -> Self {
        Self::new(move |request| std::future::ready(answer(request)))
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Script")
    }
}

#[async_trait]
impl HttpService for Script {
    async fn call(&self, request: HttpRequest) -> Answer {
        (self.0)(request).await
    }
}

impl HttpConnector for Script {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

/// The client of a connector.
pub(crate) fn client(connector: &impl HttpConnector) -> HttpClient {
    connector.connect(&ClientOptions::new()).expect("a client")
}

/// Deletes what a store lists while it lists it, and returns how much that was.
pub(crate) async fn delete_listed(store: &impl ObjectStore) -> usize {
    let paths = store.list(None).map_ok(|object| object.location).boxed();
    let deleted = store.delete_stream(paths);
    deleted.map(|path| path.expect("a path")).count().await
}

/// A request without a body.
pub(crate) fn get() -> HttpRequest {
    Request::new(HttpRequestBody::empty())
}

/// A request with a body of this length.
pub(crate) fn put(length: usize) -> HttpRequest {
    let mut request = Request::new(vec![0; length].into());
    *request.method_mut() = Method::PUT;
    request
}

/// A response with this status and body.
pub(crate) fn status(status: u16, body: impl Into<HttpResponseBody>) -> Answer {
    let mut response = Response::new(body.into());
    *response.status_mut() = status.try_into().expect("a status");
    Ok(response)
}

/// A refusal that asks for a pause of so many seconds.
pub(crate) fn retry_after(refusal: u16, seconds: u64) -> Answer {
    let mut answer = status(refusal, Vec::new())?;
    answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    Ok(answer)
}

/// A body of several frames; each is data or a failure.
pub(crate) fn frames<const N: usize>(
    frames: [Result<&'static str, HttpErrorKind>; N],
) -> HttpResponseBody {
    let frames = frames.map(|frame| match frame {
        Ok(data) => Ok(Frame::data(Bytes::from_static(data.as_bytes()))),
        Err(kind) => Err(failure(kind)),
    });
    HttpResponseBody::new(StreamBody::new(stream::iter(frames)))
}

/// A failure of the transport.
pub(crate) fn failure(kind: HttpErrorKind) -> HttpError {
    HttpError::new(kind, std::io::Error::other("the wire broke"))
}

/// A cap, and a count of those who enter.
pub(crate) struct Counted {
    pub(crate) cap: Arc<Semaphore>,
    requests: Arc<RateLimiter>,
}

const MANY: u64 = 1_000_000;

impl Counted {
    pub(crate) fn new(permits: usize) -> Self {
        let requests = RateLimiter::new(Quota::per_second(1).burst(MANY)).clock(Clock::manual());
        Self {
            cap: Arc::new(Semaphore::new(permits)),
            requests: Arc::new(requests),
        }
    }

    pub(crate) fn throttle(&self) -> All<(Arc<Semaphore>, Arc<RateLimiter>)> {
        all((Arc::clone(&self.cap), Arc::clone(&self.requests)))
    }

    /// Returns how many requests have entered.
    pub(crate) fn entered(&self) -> u64 {
        MANY - self.requests.snapshot().available
    }
}

/// One second.
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A limit of requests in flight.
pub(crate) fn cap(permits: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(permits))
}

/// A limit of bytes or of requests, on tokio's time.
pub(crate) fn rate(quota: Quota) -> Arc<RateLimiter> {
    Arc::new(RateLimiter::new(quota))
}

/// The kind of the [`tollgate::AcquireError`] that an error of a store or of a client comes from.
pub(crate) fn kind(error: &(dyn Error + 'static)) -> Option<ErrorKind> {
    cause(error).map(AcquireError::kind)
}

/// The path of an object.
pub(crate) fn path(name: &str) -> Path {
    name.into()
}

/// A store with these objects, each of 4 bytes.
pub(crate) async fn memory(names: impl IntoIterator<Item = String>) -> InMemory {
    let store = InMemory::new();
    for name in names {
        store
            .put(&path(&name), "data".into())
            .await
            .expect("an object");
    }
    store
}
