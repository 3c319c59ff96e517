//! Measures calls of a store in memory, and HTTP requests that are answered at once, without and behind a limit that
//! is never reached; and an object store over HTTP: object_store's, with a client of hyper, and a server of axum on
//! the loopback interface.

use std::cell::LazyCell;
use std::future::pending;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Instant;
use std::{io, thread};

use ::object_store::client::{
    ClientOptions, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest,
    HttpRequestBody, HttpResponse, HttpResponseBody, HttpService,
};
use ::object_store::http::{HttpBuilder, HttpStore};
use ::object_store::limit::LimitStore;
use ::object_store::memory::InMemory;
use ::object_store::path::Path;
use ::object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use async_trait::async_trait;
use axum::Router;
use axum::body::Bytes;
use axum::routing::get;
use futures::StreamExt;
use futures::executor::block_on;
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;
use tollgate::Semaphore;
use tollgate_object_store::{Throttled, ThrottledConnector};

use crate::harness::{Contender, Row, Work, alone, made};
use crate::rows;

/// The number of permits, which exceeds the number of callers.
const PERMITS: usize = 64;

/// The number of listed objects.
const LISTED: usize = 100;

/// Object stores behind a limit that is never reached, next to object_store's own limit.
#[must_use]
pub fn rows() -> Vec<Row> {
    rows! {
        alone "object store: an HTTP request"
            {"ThrottledConnector" => || requests(ThrottledConnector::new(answers(), throttle())),
             "no limit" => || requests(answers())};
        alone "object store: put"
            {"Throttled" => || puts(Throttled::new(memory(0), throttle())),
             "LimitStore" => || puts(LimitStore::new(memory(0), PERMITS)),
             "no limit" => || puts(memory(0))};
        alone "object store: get"
            {"Throttled" => || gets(Throttled::new(memory(1), throttle())),
             "LimitStore" => || gets(LimitStore::new(memory(1), PERMITS)),
             "no limit" => || gets(memory(1))};
        alone "object store: list of 100"
            {"Throttled" => || lists(Throttled::new(memory(LISTED), throttle())),
             "LimitStore" => || lists(LimitStore::new(memory(LISTED), PERMITS)),
             "no limit" => || lists(memory(LISTED))};
    }
}

/// Requests over the loopback interface, which may take one percent longer behind a limit.
///
/// Both contenders use one connection. On one thread, the processor time of client and server is counted without their
/// waits for each other, so that the limit is a larger part of it. On two threads the wall clock counts, which includes
/// the time of the server.
#[must_use]
pub fn over_loopback() -> Vec<Row> {
    let row = |name: &str, bytes: usize, start: fn(usize) -> Rc<Loopback>, by_wall: bool| {
        // The contender that is prepared first starts it.
        let loopback = Rc::new(LazyCell::new(move || start(bytes)));
        let same = Rc::clone(&loopback);
        let limited = move || same.gets(ThrottledConnector::new(same.connector(), throttle()));
        let bare = move || loopback.gets(loopback.connector());
        let all = if by_wall {
            [
                walled("ThrottledConnector", limited),
                walled("no limit", bare).at_most(1.01),
            ]
        } else {
            [
                alone("ThrottledConnector", limited),
                alone("no limit", bare),
            ]
        };
        let all = all.map(|contender| contender.stretched(16));
        Row::new(format!("object store: get of {name}"), all)
    };
    vec![
        row(
            "1 KiB over loopback",
            1 << 10,
            Loopback::on_two_threads,
            true,
        ),
        row(
            "1 MiB over loopback",
            1 << 20,
            Loopback::on_two_threads,
            true,
        ),
        row(
            "1 KiB, client and server on one thread",
            1 << 10,
            Loopback::on_one_thread,
            false,
        ),
    ]
}

/// Makes a contender that is timed by the wall clock.
fn walled<W: FnMut(u64) + 'static>(name: &str, prepare: impl Fn() -> W + 'static) -> Contender {
    made(name, move || {
        let mut work = prepare();
        let batch = Box::new(move |times| {
            let start = Instant::now();
            work(times);
            start.elapsed()
        });
        Work::Timed { unit: 1, batch }
    })
}

/// Returns a store with one object of 64 KiB, or with the listed ones.
fn memory(objects: usize) -> InMemory {
    let store = InMemory::new();
    block_on(async {
        for n in 0..objects {
            let data = PutPayload::from(vec![7; 64 << 10]);
            let put = store.put(&Path::from(format!("{n:03}")), data).await;
            put.expect("memory takes it");
        }
    });
    store
}

fn throttle() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(PERMITS))
}

/// Returns a service that answers with 64 KiB.
fn answers() -> Answers {
    Answers(vec![7; 64 << 10].into())
}

/// Puts 1 KiB.
fn puts(store: impl ObjectStore) -> impl FnMut(u64) + 'static {
    let (path, data) = (Path::from("000"), PutPayload::from(vec![7; 1 << 10]));
    move |times| {
        block_on(async {
            for _ in 0..times {
                let put = store.put(&path, data.clone()).await;
                black_box(put).expect("memory takes it");
            }
        });
    }
}

/// Gets 64 KiB.
fn gets(store: impl ObjectStore) -> impl FnMut(u64) + 'static {
    let path = Path::from("000");
    move |times| {
        block_on(async {
            for _ in 0..times {
                let got = store.get(&path).await.expect("it is there");
                black_box(got.bytes().await).expect("it is in memory");
            }
        });
    }
}

/// Lists 100 objects.
fn lists(store: impl ObjectStore) -> impl FnMut(u64) + 'static {
    move |times| {
        block_on(async {
            for _ in 0..times {
                assert_eq!(store.list(None).count().await, LISTED);
            }
        });
    }
}

/// A service that answers at once, with 64 KiB.
#[derive(Clone, Debug)]
struct Answers(Bytes);

#[async_trait]
impl HttpService for Answers {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        drop(black_box(request));
        Ok(HttpResponse::new(self.0.clone().into()))
    }
}

impl HttpConnector for Answers {
    fn connect(&self, _: &ClientOptions) -> ::object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

/// Sends requests, each answered at once.
fn requests(connector: impl HttpConnector) -> impl FnMut(u64) + 'static {
    let client = connector.connect(&ClientOptions::new());
    let client = client.expect("it needs nothing");
    move |times| {
        block_on(async {
            for _ in 0..times {
                let request = HttpRequest::new(HttpRequestBody::empty());
                let answer = client.execute(request).await.expect("it is answered");
                black_box(answer.into_body().bytes().await).expect("it is in memory");
            }
        });
    }
}

/// Connects through a client of hyper. Clones share its connections.
#[derive(Clone, Debug)]
pub struct HyperConnector(Client<connect::HttpConnector, HttpRequestBody>);

impl HyperConnector {
    /// Creates a connector without connections. They need tokio's runtime.
    #[must_use]
    pub fn new() -> Self {
        Self(Client::builder(TokioExecutor::new()).build_http())
    }
}

impl Default for HyperConnector {
    fn default() -> Self {
        Self::new()
    }
}

impl HttpConnector for HyperConnector {
    fn connect(&self, _: &ClientOptions) -> ::object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for HyperConnector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let response = self.0.request(request).await.map_err(|error| {
            let kind = if error.is_connect() {
                HttpErrorKind::Connect
            } else {
                HttpErrorKind::Request
            };
            HttpError::new(kind, error)
        })?;
        Ok(response.map(|body| {
            let body = body.map_err(|error| HttpError::new(HttpErrorKind::Request, error));
            HttpResponseBody::new(body)
        }))
    }
}

/// Returns the store of a server, whose requests pass through a connector.
///
/// # Panics
///
/// Panics if object_store refuses the address.
pub fn store(address: SocketAddr, connector: impl HttpConnector) -> HttpStore {
    let builder = HttpBuilder::new().with_url(format!("http://{address}"));
    let store = builder.with_http_connector(connector).build();
    store.expect("the address is one of HTTP")
}

/// Starts a server in the runtime of the caller, and returns its address and its task.
///
/// # Errors
///
/// Fails if no port is available.
pub async fn serve(app: Router) -> io::Result<(SocketAddr, AbortHandle)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let serve = tokio::spawn(async { axum::serve(listener, app).await });
    Ok((address, serve.abort_handle()))
}

/// A server with one object, and its clients, which share a connection.
struct Loopback {
    runtime: Runtime,
    address: SocketAddr,
    connector: HyperConnector,
}

impl Loopback {
    /// Starts a server on the thread of its clients, so that the processor time is that of whole requests.
    fn on_one_thread(bytes: usize) -> Rc<Self> {
        let runtime = runtime();
        let (address, _) = runtime.block_on(serve(app(bytes))).expect("a port");
        Self::of(runtime, address)
    }

    /// Starts a server on a thread of its own, which runs as long as the process.
    fn on_two_threads(bytes: usize) -> Rc<Self> {
        let (sender, address) = mpsc::channel();
        thread::spawn(move || {
            runtime().block_on(async {
                let (address, _) = serve(app(bytes)).await.expect("a port");
                sender.send(address).expect("somebody waits for it");
                pending::<()>().await;
            });
        });
        Self::of(runtime(), address.recv().expect("the server starts"))
    }

    fn of(runtime: Runtime, address: SocketAddr) -> Rc<Self> {
        let connector = HyperConnector::new();
        Rc::new(Self {
            runtime,
            address,
            connector,
        })
    }

    /// Returns the connector of all clients.
    fn connector(&self) -> HyperConnector {
        self.connector.clone()
    }

    /// Gets the object through a connector.
    fn gets<C: HttpConnector>(self: &Rc<Self>, connector: C) -> impl FnMut(u64) + use<C> {
        let loopback = Rc::clone(self);
        let store = store(self.address, connector);
        let path = Path::from("object");
        move |times| {
            loopback.runtime.block_on(async {
                for _ in 0..times {
                    let got = store.get(&path).await.expect("the server has it");
                    got.bytes().await.expect("the server sends it");
                }
            });
        }
    }
}

fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime")
}

fn app(bytes: usize) -> Router {
    let data = Bytes::from(vec![7; bytes]);
    Router::new().route("/object", get(|| async { data }))
}
