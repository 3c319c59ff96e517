//! The embedded S3 server: s3s over a directory, on a free port of the loopback interface.
//!
//! 1. **Every request is counted** from its arrival until its answer has been handed to the
//!    connection, whatever it asks for and whatever becomes of it.
//! 2. **A request above the rate is read to its end** before it is refused. A server that answers
//!    earlier closes the connection, and the client may see that instead of the answer.

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

/// The access key that the server knows.
pub const ACCESS_KEY: &str = "embedded";
/// The secret that goes with it: no secret, since only this machine can reach the server.
pub const SECRET_KEY: &str = "embedded-secret";
/// The bucket that the server has.
pub const BUCKET: &str = "uploads";

/// A running server, which stops when it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    root: PathBuf,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Starts a server that keeps its objects below `root`, which is created if need be.
    ///
    /// An object is the file `root/BUCKET/KEY`.
    ///
    /// # Errors
    ///
    /// When the directory cannot be made or no port can be had.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
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

    /// The URL of the server.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The directory whose files are the objects.
    pub fn objects(&self) -> PathBuf {
        self.root.join(BUCKET)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// The store, and what sees its requests first.
#[derive(Clone)]
struct Watched {
    service: S3Service,
    requests: Arc<Gauge>,
    arrivals: Arc<Arrivals>,
    limit: Option<Arc<RateLimiter>>,
}

/// The body of an answer. Its request counts as under way until the connection has the last of it.
type Counted = ThrottledBody<s3s::Body, Slot>;

/// Serves every connection until the task is aborted.
async fn accept(listener: TcpListener, watched: Watched) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let watched = watched.clone();
                let service = service_fn(move |request| watched.clone().answer(request));
                tokio::spawn(async move {
                    // A connection that breaks off is the client's to notice.
                    let _ = Builder::new(TokioExecutor::new())
                        .http1_only()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
            // Out of file descriptors, most likely: connections that end will make room.
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

/// Reads the request to its end, and answers that there are too many.
async fn slow_down(request: Request<Incoming>) -> Response<s3s::Body> {
    let mut body = request.into_body();
    // An error is the end as well.
    while let Some(Ok(_)) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {}
    let text = "<Error><Code>SlowDown</Code><Message>Reduce your request rate</Message></Error>";
    let answer = Response::builder()
        .status(StatusCode::SERVICE_UNAVAILABLE)
        .header(CONTENT_TYPE, "application/xml")
        .body(s3s::Body::from(text.to_owned()));
    answer.expect("the status and the field are valid")
}

/// Writes a request down that has just arrived, unless it only reads.
fn note(arrivals: &Arrivals, request: &Request<Incoming>) {
    let method = request.method();
    if method == Method::GET || method == Method::HEAD {
        return;
    }
    // What a POST brings are not bytes of a file.
    let length = request.headers().get(CONTENT_LENGTH);
    let length = length.filter(|_| method == Method::PUT);
    let bytes = length.and_then(|length| length.to_str().ok()?.parse().ok());
    arrivals.record(bytes.unwrap_or(0));
}

// What the embedded server does besides storing: it counts uploads, delays them, refuses some on
// demand, and says clearly why it failed.
//
// An upload is a PUT: `PutObject` or `UploadPart`. It is counted for as long as the server has it,
// the delay included. The [server](crate::server) counts every request, writes it down when it
// arrives, and refuses it if there are too many per second.

/// How the embedded server treats uploads.
#[derive(Debug)]
pub struct Behaviour {
    /// How long each upload is held back, while it counts as under way.
    pub delay: Duration,
    /// Counts the uploads that the server has.
    pub gauge: Arc<Gauge>,
    /// Counts the requests of any kind that the server has.
    pub requests: Arc<Gauge>,
    /// Each request that changes something is written down here when it arrives.
    pub arrivals: Arc<Arrivals>,
    /// Requests above this rate are refused with `SlowDown`.
    pub slow_down: Option<Arc<RateLimiter>>,
    /// Each upload uses up one permit of it before it goes on, so that a test can hold uploads
    /// where it wants them.
    pub gate: Option<Arc<Semaphore>>,
    /// Uploads of these objects are refused.
    pub refusals: Vec<Refusal>,
}

/// An object that the server does not take.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The key of the object.
    pub key: String,
    /// The number of the part, counted from one; `None` stands for the object as a whole.
    pub part: Option<i32>,
    /// What storing it is made to fail with.
    pub error: io::ErrorKind,
}

impl Default for Behaviour {
    /// A delay of 20 ms, which is long enough for any cap that a machine can keep busy to be
    /// reached, and nothing refused.
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

/// A store on a file system that is watched.
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

    /// Counts an upload, holds it back, and refuses it if it is to be refused.
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

    /// A bucket is a directory. The store itself would make a missing one.
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

/// Reads the body of an upload that is refused: a server that closes a connection on which the client
/// still sends can cost it the answer.
async fn read_if_refused(
    begun: S3Result<Slot>,
    body: &mut Option<StreamingBlob>,
) -> S3Result<Slot> {
    if let (Err(_), Some(body)) = (&begun, body) {
        while let Some(Ok(_)) = body.next().await {}
    }
    begun
}

/// The store says `InternalError` to everything and keeps the reason to itself.
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
        // The store keeps notes on an object in a file that has the key, encoded, in its name.
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
