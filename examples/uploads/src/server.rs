//! The embedded S3 server: s3s over a directory, on a free port of the loopback interface.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::CONTENT_LENGTH;
use hyper::service::{Service, service_fn};
use hyper::{Method, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::arrivals::Arrivals;
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
        let arrivals = Arc::clone(&behaviour.arrivals);
        let mut service = S3ServiceBuilder::new(Observed::new(files, root.clone(), behaviour));
        service.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Ok(Server {
            address: listener.local_addr()?,
            root,
            accepting: tokio::spawn(accept(listener, service.build(), arrivals)),
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

/// Serves every connection until the task is aborted.
async fn accept(listener: TcpListener, service: S3Service, arrivals: Arc<Arrivals>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (service, arrivals) = (service.clone(), Arc::clone(&arrivals));
                let service = service_fn(move |request| {
                    note(&arrivals, &request);
                    Service::call(&service, request)
                });
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
