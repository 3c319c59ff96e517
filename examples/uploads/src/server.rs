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

use futures_util::future::poll_fn;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};
use hyper::service::{Service, service_fn};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tollgate::RateLimiter;
use tollgate_tower::ThrottledBody;

use crate::arrivals::Arrivals;
use crate::gauge::{Gauge, Slot};
use crate::observed::{Behaviour, Observed};

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
