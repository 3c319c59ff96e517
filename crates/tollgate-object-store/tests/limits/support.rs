//! Provides a scripted HTTP client, with requests and responses for it.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use http::header::{CONTENT_LENGTH, ETAG, LAST_MODIFIED, RETRY_AFTER};
use http::request::Parts;
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use object_store::memory::InMemory;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    ClientOptions, CopyOptions, GetOptions, GetResult, ListResult, MultipartId, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, RenameOptions, Result, RetryConfig, UploadPart,
};
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

    /// Returns a client that answers at once.
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

/// Returns the client of a connector.
pub(crate) fn client(connector: &impl HttpConnector) -> HttpClient {
    connector.connect(&ClientOptions::new()).expect("a client")
}

/// Deletes the objects of a store while it lists them, and returns their number.
pub(crate) async fn delete_listed(store: &impl ObjectStore) -> usize {
    let paths = store.list(None).map_ok(|object| object.location).boxed();
    let deleted = store.delete_stream(paths);
    deleted.map(|path| path.expect("a path")).count().await
}

/// Returns a request without a body.
pub(crate) fn get() -> HttpRequest {
    Request::new(HttpRequestBody::empty())
}

/// Returns a request with a body of this length.
pub(crate) fn put(length: usize) -> HttpRequest {
    let mut request = Request::new(vec![0; length].into());
    *request.method_mut() = Method::PUT;
    request
}

/// Returns a response with this status and body.
pub(crate) fn status(status: u16, body: impl Into<HttpResponseBody>) -> Answer {
    let mut response = Response::new(body.into());
    *response.status_mut() = status.try_into().expect("a status");
    Ok(response)
}

/// Returns a refusal that asks for a pause of this number of seconds.
pub(crate) fn retry_after(refusal: u16, seconds: u64) -> Answer {
    let mut answer = status(refusal, Vec::new())?;
    answer.headers_mut().insert(RETRY_AFTER, seconds.into());
    Ok(answer)
}

/// Returns a body of several frames; each is data or a failure.
pub(crate) fn frames<const N: usize>(
    frames: [Result<&'static str, HttpErrorKind>; N],
) -> HttpResponseBody {
    let frames = frames.map(|frame| match frame {
        Ok(data) => Ok(Frame::data(Bytes::from_static(data.as_bytes()))),
        Err(kind) => Err(failure(kind)),
    });
    HttpResponseBody::new(StreamBody::new(stream::iter(frames)))
}

/// Returns a failure of the transport.
pub(crate) fn failure(kind: HttpErrorKind) -> HttpError {
    HttpError::new(kind, std::io::Error::other("the wire broke"))
}

/// A cap, and a count of the requests that enter.
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

/// Returns a limit of requests in flight.
pub(crate) fn cap(permits: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(permits))
}

/// Returns a limit of bytes or of requests, on tokio's time.
pub(crate) fn rate(quota: Quota) -> Arc<RateLimiter> {
    Arc::new(RateLimiter::new(quota).clock(Clock::tokio()))
}

/// Returns the kind of the [`tollgate::AcquireError`] in the error of a store or of a client.
pub(crate) fn kind(error: &(dyn Error + 'static)) -> Option<ErrorKind> {
    cause(error).map(AcquireError::kind)
}

/// Returns the path of an object.
pub(crate) fn path(name: &str) -> Path {
    name.into()
}

/// Returns a store with these objects, each of 4 bytes.
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

// Implements the few operations of S3 that the tests use, in memory. A list has two keys on each page.

const PAGE: usize = 2;
pub(crate) const BUCKET: &str = "bucket";

/// The objects, the parts of uploads, and the log of requests.
#[derive(Clone, Default)]
pub(crate) struct FakeS3 {
    objects: Arc<Mutex<BTreeMap<String, Bytes>>>,
    parts: Arc<Mutex<BTreeMap<String, Bytes>>>,
    log: Arc<Mutex<Vec<String>>>,
}

impl FakeS3 {
    /// Returns the requests so far, as method and path or query, and forgets them.
    pub(crate) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().expect("no panic"))
    }

    pub(crate) fn put(&self, key: &str, data: impl Into<Bytes>) {
        let mut objects = self.objects.lock().expect("no panic");
        objects.insert(key.to_owned(), data.into());
    }

    /// Returns a client that is answered at once.
    pub(crate) fn script(&self) -> Script {
        let fake = self.clone();
        Script::new(move |request| {
            let fake = fake.clone();
            async move { Ok(fake.call(request).await) }
        })
    }

    pub(crate) async fn call(&self, request: HttpRequest) -> HttpResponse {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        self.answer(&parts, body).map(Into::into)
    }

    pub(crate) fn answer(&self, parts: &Parts, body: Bytes) -> Response<Bytes> {
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        let asked = if query.is_empty() { path } else { query };
        let mut log = self.log.lock().expect("no panic");
        log.push(format!("{} {asked}", parts.method));
        drop(log);
        let key = path.trim_start_matches('/').trim_start_matches(BUCKET);
        let key = key.trim_start_matches('/').to_owned();
        let mut objects = self.objects.lock().expect("no panic");
        match (&parts.method, query) {
            (&Method::GET, query) if query.contains("list-type=2") => {
                let after = query
                    .split('&')
                    .find_map(|pair| pair.strip_prefix("continuation-token="));
                list(&objects, after.unwrap_or_default())
            }
            (&Method::GET | &Method::HEAD, _) => match objects.get(&key) {
                Some(data) if parts.method == Method::HEAD => answer(200, data.len(), Bytes::new()),
                Some(data) => answer(200, data.len(), data.clone()),
                None => answer(404, 0, Bytes::new()),
            },
            (&Method::PUT, "") => {
                objects.insert(key, body);
                answer(200, 0, Bytes::new())
            }
            (&Method::PUT, part) => {
                let mut parts = self.parts.lock().expect("no panic");
                parts.insert(format!("{key}?{part}"), body);
                answer(200, 0, Bytes::new())
            }
            (&Method::POST, "uploads" | "uploads=") => xml(
                "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>",
            ),
            (&Method::POST, "delete") => {
                let body = String::from_utf8(body.to_vec()).expect("XML");
                let mut deleted = String::new();
                for key in body.split("<Key>").skip(1) {
                    let key = key.split('<').next().expect("a key");
                    objects.remove(key);
                    deleted += &format!("<Deleted><Key>{key}</Key></Deleted>");
                }
                xml(&format!("<DeleteResult>{deleted}</DeleteResult>"))
            }
            (&Method::POST, _) => {
                let mut parts = self.parts.lock().expect("no panic");
                let prefix = format!("{key}?");
                let of_key = parts.iter().filter(|(name, _)| name.starts_with(&prefix));
                let data: Vec<u8> = of_key.flat_map(|(_, data)| data.to_vec()).collect();
                parts.retain(|name, _| !name.starts_with(&prefix));
                objects.insert(key, data.into());
                xml("<CompleteMultipartUploadResult><ETag>1</ETag></CompleteMultipartUploadResult>")
            }
            (&Method::DELETE, _) => answer(204, 0, Bytes::new()),
            (method, _) => panic!("{method} {path}?{query}"),
        }
    }
}

/// Returns a page of the keys after `after`.
fn list(objects: &BTreeMap<String, Bytes>, after: &str) -> Response<Bytes> {
    let mut page = String::from("<ListBucketResult>");
    let keys: Vec<_> = objects.keys().filter(|key| key.as_str() > after).collect();
    for key in keys.iter().take(PAGE) {
        let (size, time) = (objects[*key].len(), "2026-01-01T00:00:00Z");
        page += &format!(
            "<Contents><Key>{key}</Key><Size>{size}</Size><LastModified>{time}</LastModified></Contents>"
        );
    }
    if keys.len() > PAGE {
        let token = keys[PAGE - 1];
        page += &format!("<NextContinuationToken>{token}</NextContinuationToken>");
    }
    xml(&(page + "</ListBucketResult>"))
}

fn xml(text: &str) -> Response<Bytes> {
    answer(200, text.len(), Bytes::copy_from_slice(text.as_bytes()))
}

fn answer(status: u16, length: usize, body: Bytes) -> Response<Bytes> {
    let answer = Response::builder()
        .status(status)
        .header(CONTENT_LENGTH, length)
        .header(ETAG, "1")
        .header(LAST_MODIFIED, "Thu, 01 Jan 2026 00:00:00 GMT");
    answer.body(body).expect("an answer")
}

/// Returns a store of object_store at this endpoint.
pub(crate) fn store(endpoint: &str, connector: impl HttpConnector, retry: RetryConfig) -> AmazonS3 {
    AmazonS3Builder::new()
        .with_endpoint(endpoint)
        .with_allow_http(true)
        .with_bucket_name(BUCKET)
        .with_access_key_id("key")
        .with_secret_access_key("secret")
        .with_retry(retry)
        .with_http_connector(connector)
        .build()
        .expect("a store")
}

// A store in memory that asserts, in each of its methods, that the only permit of a cap is held.

#[derive(Clone, Debug)]
pub(crate) struct Watched<S = Arc<InMemory>> {
    inner: S,
    cap: Arc<Semaphore>,
}

impl Watched {
    pub(crate) fn new(inner: InMemory, cap: Arc<Semaphore>) -> Self {
        let inner = Arc::new(inner);
        Self { inner, cap }
    }
}

impl<S> Watched<S> {
    /// Returns the inner store, which must be called while the permit is held.
    fn held(&self) -> &S {
        assert_eq!(self.cap.available_permits(), 0, "the permit is held");
        &self.inner
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for Watched {
    async fn put_opts(&self, at: &Path, data: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.held().put_opts(at, data, opts).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let inner = self.held().put_multipart_opts(at, opts).await?;
        let cap = Arc::clone(&self.cap);
        Ok(Box::new(Watched { inner, cap }))
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        self.held().get_opts(at, options).await
    }

    async fn get_ranges(&self, at: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.held().get_ranges(at, ranges).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.watch(self.held().delete_stream(paths))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.watch(self.held().list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.watch(self.held().list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.held().list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.held().copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.held().rename_opts(from, to, options).await
    }
}

impl<S: Clone + Send + 'static> Watched<S> {
    /// Returns a stream that must be polled while the permit is held.
    fn watch<R: Send + 'static>(&self, mut inner: BoxStream<'static, R>) -> BoxStream<'static, R> {
        let this = self.clone();
        stream::poll_fn(move |context| {
            this.held();
            inner.poll_next_unpin(context)
        })
        .boxed()
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl MultipartUpload for Watched<Box<dyn MultipartUpload>> {
    /// Creates parts without a permit, which fixes their order, and sends them with one.
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (cap, part) = (Arc::clone(&self.cap), self.inner.put_part(data));
        Box::pin(async move {
            assert_eq!(cap.available_permits(), 0, "the permit is held");
            part.await
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        self.held();
        self.inner.complete().await
    }

    async fn abort(&mut self) -> Result<()> {
        self.held();
        self.inner.abort().await
    }
}

#[async_trait]
impl MultipartStore for Watched {
    async fn create_multipart(&self, at: &Path) -> Result<MultipartId> {
        self.held().create_multipart(at).await
    }

    async fn put_part(
        &self,
        at: &Path,
        id: &MultipartId,
        number: usize,
        data: PutPayload,
    ) -> Result<PartId> {
        self.held().put_part(at, id, number, data).await
    }

    async fn complete_multipart(
        &self,
        at: &Path,
        id: &MultipartId,
        parts: Vec<PartId>,
    ) -> Result<PutResult> {
        self.held().complete_multipart(at, id, parts).await
    }

    async fn abort_multipart(&self, at: &Path, id: &MultipartId) -> Result<()> {
        self.held().abort_multipart(at, id).await
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}
