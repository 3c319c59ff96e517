//! Runs the embedded S3 server: s3s over a directory, on a free port of the loopback interface.
//!
//! 1. **Every request is counted** from its arrival until its answer has been handed to the
//!    connection, whatever its kind and its outcome.
//! 2. **A request above the rate is read to its end** before it is refused. If the server answered
//!    earlier, it would close the connection, and the client might see that instead of the answer.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::poll_fn;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};
use hyper::service::{Service, service_fn};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::dto::{
    AbortMultipartUploadInput, AbortMultipartUploadOutput, CompleteMultipartUploadInput,
    CompleteMultipartUploadOutput, CreateMultipartUploadInput, CreateMultipartUploadOutput,
    GetObjectInput, GetObjectOutput, PutObjectInput, PutObjectOutput, StreamingBlob,
    UploadPartInput, UploadPartOutput,
};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};
use s3s_fs::FileSystem;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tollgate::{RateLimiter, Semaphore};
use tollgate_tower::ThrottledBody;

use crate::arrivals::Arrivals;
use crate::gauge::{Gauge, Slot};

/// The access key that the server accepts.
pub const ACCESS_KEY: &str = "embedded";
/// The secret key. It needs no secrecy, since only this machine can reach the server.
pub const SECRET_KEY: &str = "embedded-secret";
/// The bucket on the server.
pub const BUCKET: &str = "uploads";

/// A running server, which stops when it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    root: PathBuf,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Starts a server that stores its objects below `root`, which is created if necessary.
    ///
    /// An object is the file `root/BUCKET/KEY`.
    ///
    /// # Errors
    ///
    /// If the directory cannot be created, or no port is available.
    ///
    /// # Panics
    ///
    /// If called outside a tokio runtime.
    pub async fn start(root: &Path, behaviour: Behaviour) -> io::Result<Server> {
        fs::create_dir_all(root.join(BUCKET))?;
        let root = root.canonicalize()?;
        let files =
            FileSystem::new(&root).map_err(|error| io::Error::other(format!("{error:?}")))?;
        let (arrivals, requests) = (behaviour.arrivals.clone(), behaviour.requests.clone());
        let limit = behaviour.slow_down.clone();
        let mut service = S3ServiceBuilder::new(Observed::new(files, root.clone(), behaviour));
        service.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let watched = Watched {
            service: service.build(),
            requests,
            arrivals,
            limit,
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Ok(Server {
            address: listener.local_addr()?,
            root,
            accepting: tokio::spawn(accept(listener, watched)),
        })
    }

    /// Returns the URL of the server.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the directory whose files are the objects.
    pub fn objects(&self) -> PathBuf {
        self.root.join(BUCKET)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// The store, with the counters that see its requests first.
#[derive(Clone)]
struct Watched {
    service: S3Service,
    requests: Arc<Gauge>,
    arrivals: Arc<Arrivals>,
    limit: Option<Arc<RateLimiter>>,
}

/// The body of an answer. The request counts as in flight until the connection has its whole answer.
type Counted = ThrottledBody<s3s::Body, Slot>;

/// Serves every connection until the task is aborted.
async fn accept(listener: TcpListener, watched: Watched) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let watched = watched.clone();
                let service = service_fn(move |request| watched.clone().answer(request));
                tokio::spawn(async move {
                    // The client notices a broken connection by itself.
                    let _ = Builder::new(TokioExecutor::new())
                        .http1_only()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
            // Most likely, the process is out of file descriptors. Connections that end will free some.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

impl Watched {
    async fn answer(self, request: Request<Incoming>) -> Result<Response<Counted>, s3s::HttpError> {
        let slot = self.requests.enter();
        note(&self.arrivals, &request);
        let is_allowed = |limit: Arc<RateLimiter>| limit.try_acquire().is_ok();
        let answer = if self.limit.is_none_or(is_allowed) {
            Service::call(&self.service, request).await?
        } else {
            slow_down(request).await
        };
        Ok(answer.map(|body| Counted::holding(body, Some(slot))))
    }
}

/// Reads the request to its end, and answers that there are too many requests.
async fn slow_down(request: Request<Incoming>) -> Response<s3s::Body> {
    let mut body = request.into_body();
    // An error also ends the body.
    while let Some(Ok(_)) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {}
    let text = "<Error><Code>SlowDown</Code><Message>Reduce your request rate</Message></Error>";
    let answer = Response::builder()
        .status(StatusCode::SERVICE_UNAVAILABLE)
        .header(CONTENT_TYPE, "application/xml")
        .body(s3s::Body::from(text.to_owned()));
    answer.expect("the status and the field are valid")
}

/// Records a request that has just arrived, unless it only reads.
fn note(arrivals: &Arrivals, request: &Request<Incoming>) {
    let method = request.method();
    if method == Method::GET || method == Method::HEAD {
        return;
    }
    // The body of a POST does not contain bytes of a file.
    let length = request.headers().get(CONTENT_LENGTH);
    let length = length.filter(|_| method == Method::PUT);
    let bytes = length.and_then(|length| length.to_str().ok()?.parse().ok());
    arrivals.record(bytes.unwrap_or(0));
}

// Besides storing objects, the embedded server counts uploads, delays them, refuses selected ones, and
// reports the cause of each failure clearly.
//
// An upload is a PUT: `PutObject` or `UploadPart`. It counts while the server handles it,
// including the delay. The [server](crate::server) counts every request, records it on
// arrival, and refuses it if there are too many per second.

/// The behaviour of the embedded server towards uploads.
#[derive(Debug)]
pub struct Behaviour {
    /// The delay of each upload. An upload counts as in flight during it.
    pub delay: Duration,
    /// Counts the uploads in progress on the server.
    pub gauge: Arc<Gauge>,
    /// Counts the requests of any kind in progress on the server.
    pub requests: Arc<Gauge>,
    /// Records each request that changes something when it arrives.
    pub arrivals: Arc<Arrivals>,
    /// The rate above which requests are refused with `SlowDown`.
    pub slow_down: Option<Arc<RateLimiter>>,
    /// A semaphore from which each upload consumes one permit before it continues, so that a test can
    /// stop uploads at this point.
    pub gate: Option<Arc<Semaphore>>,
    /// The objects whose uploads are refused.
    pub refusals: Vec<Refusal>,
}

/// An object that the server refuses.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The key of the object.
    pub key: String,
    /// The number of the part, counted from one; `None` means the object as a whole.
    pub part: Option<i32>,
    /// The kind of the error that storing the object returns.
    pub error: io::ErrorKind,
}

impl Default for Behaviour {
    /// Returns a delay of 20 ms and no refusals. The delay is long enough to reach any cap that a machine
    /// can keep busy.
    fn default() -> Self {
        Behaviour {
            delay: Duration::from_millis(20),
            gauge: Gauge::new(false),
            requests: Gauge::new(false),
            arrivals: Arrivals::new(),
            slow_down: None,
            gate: None,
            refusals: Vec::new(),
        }
    }
}

/// A file-system store with the observed behaviour.
#[derive(Debug)]
pub(crate) struct Observed {
    files: FileSystem,
    root: PathBuf,
    behaviour: Behaviour,
}

impl Observed {
    pub(crate) fn new(files: FileSystem, root: PathBuf, behaviour: Behaviour) -> Observed {
        Observed {
            files,
            root,
            behaviour,
        }
    }

    /// Counts an upload, delays it, and refuses it if the behaviour requires that.
    async fn begin(&self, bucket: &str, key: &str, part: Option<i32>) -> S3Result<Slot> {
        let slot = self.behaviour.gauge.enter();
        tokio::time::sleep(self.behaviour.delay).await;
        if let Some(gate) = &self.behaviour.gate
            && let Ok(permit) = gate.acquire().await
        {
            permit.forget();
        }
        self.find_bucket(bucket)?;
        match self
            .behaviour
            .refusals
            .iter()
            .find(|refusal| refusal.key == key && refusal.part == part)
        {
            Some(refusal) => Err(explain(S3Error::internal_error(io::Error::from(
                refusal.error,
            )))),
            None => Ok(slot),
        }
    }

    /// Returns an error if the bucket, a directory, is missing. The store itself would create it.
    fn find_bucket(&self, bucket: &str) -> S3Result<()> {
        if self.root.join(bucket).is_dir() {
            Ok(())
        } else {
            Err(s3_error!(
                NoSuchBucket,
                "there is no bucket named {}",
                bucket
            ))
        }
    }
}

/// Reads the body of a refused upload. If a server closes a connection while the client still sends, the
/// client can lose the answer.
async fn read_if_refused(
    begun: S3Result<Slot>,
    body: &mut Option<StreamingBlob>,
) -> S3Result<Slot> {
    if let (Err(_), Some(body)) = (&begun, body) {
        while let Some(Ok(_)) = body.next().await {}
    }
    begun
}

/// Adds the cause to an error. The store reports everything as `InternalError` without a cause.
fn explain(mut error: S3Error) -> S3Error {
    if *error.code() != S3ErrorCode::InternalError || error.message().is_some() {
        return error;
    }
    let Some(source) = error.source() else {
        return error;
    };
    let message = source.to_string();
    match source.downcast_ref().map(io::Error::kind) {
        Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            error.set_code(S3ErrorCode::Custom("InsufficientStorage".into()));
            error.set_status_code(507.try_into().expect("a status between 100 and 999"));
        }
        // The store keeps an object's metadata in a file whose name contains the encoded key.
        Some(io::ErrorKind::InvalidFilename) => error.set_code(S3ErrorCode::KeyTooLongError),
        _ => {}
    }
    error.set_message(message);
    error
}

#[async_trait::async_trait]
impl S3 for Observed {
    async fn put_object(
        &self,
        mut request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        let begun = self
            .begin(&request.input.bucket, &request.input.key, None)
            .await;
        let _slot = read_if_refused(begun, &mut request.input.body).await?;
        self.files.put_object(request).await.map_err(explain)
    }

    async fn upload_part(
        &self,
        mut request: S3Request<UploadPartInput>,
    ) -> S3Result<S3Response<UploadPartOutput>> {
        let input = &mut request.input;
        let begun = self
            .begin(&input.bucket, &input.key, Some(input.part_number))
            .await;
        let _slot = read_if_refused(begun, &mut input.body).await?;
        self.files.upload_part(request).await.map_err(explain)
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        self.find_bucket(&request.input.bucket)?;
        self.files
            .create_multipart_upload(request)
            .await
            .map_err(explain)
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        self.files
            .complete_multipart_upload(request)
            .await
            .map_err(explain)
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        self.files
            .abort_multipart_upload(request)
            .await
            .map_err(explain)
    }

    async fn get_object(
        &self,
        request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        self.find_bucket(&request.input.bucket)?;
        self.files.get_object(request).await.map_err(explain)
    }
}
