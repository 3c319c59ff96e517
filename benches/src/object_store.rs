//! Calls of an in-memory store, and HTTP requests with immediate answers, with and without a limit that is never
//! reached; and an object store over HTTP: object_store's, with a client of hyper, and an axum server on the loopback
//! interface.

use std::cell::LazyCell;
use std::future::pending;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
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

use crate::harness::{Contender, Row, alone, awaited, walled};
use crate::rows;

/// More permits than the calls ever take.
const PERMITS: usize = 64;

/// The number of listed objects.
const LISTED: usize = 100;

/// Returns all rows.
pub fn rows() -> Vec<Row> {
    in_memory().into_iter().chain(over_loopback()).collect()
}

/// Object stores behind a limit that is never reached, beside object_store's own limit.
fn in_memory() -> Vec<Row> {
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
/// Both contenders use one connection. On one thread, the measurement is the processor time of client and server
/// without their waits for each other, so that the limit is a larger part of it. On two threads it is the wall-clock
/// time, which includes the server's.
fn over_loopback() -> Vec<Row> {
    fn row(
        name: &str,
        how: fn(&'static str, Box<dyn Fn() -> Gets>) -> Contender,
        start: impl Fn() -> Rc<Loopback> + 'static,
    ) -> Row {
        // The contender that is prepared first starts it.
        let loopback = Rc::new(LazyCell::new(start));
        let same = Rc::clone(&loopback);
        let limited =
            move || same.gets(ThrottledConnector::new(same.connector.clone(), throttle()));
        let bare = move || loopback.gets(loopback.connector.clone());
        let all = [
            how("ThrottledConnector", Box::new(limited)),
            how("no limit", Box::new(bare)),
        ];
        let all = all.map(|contender| contender.stretched(16));
        Row::new(format!("object store: get of {name}"), all)
    }
    let two = |bytes| move || Loopback::on_two_threads(bytes);
    vec![
        row("1 KiB over loopback", walled, two(1 << 10)).held(1, 1.01),
        row("1 MiB over loopback", walled, two(1 << 20)).held(1, 1.01),
        row("1 KiB, client and server on one thread", alone, || {
            Loopback::on_one_thread(1 << 10)
        }),
    ]
}

/// Creates a store with one object of 64 KiB, or with the listed objects.
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

/// Answers with 64 KiB.
fn answers() -> Answers {
    Answers(vec![7; 64 << 10].into())
}

/// Puts of 1 KiB.
fn puts(store: impl ObjectStore) -> impl FnMut(u64) + 'static {
    let (path, data) = (Path::from("000"), PutPayload::from(vec![7; 1 << 10]));
    awaited(async move || {
        let put = store.put(&path, data.clone()).await;
        black_box(put).expect("memory takes it");
    })
}

/// Gets of 64 KiB.
fn gets(store: impl ObjectStore) -> impl FnMut(u64) + 'static {
    let path = Path::from("000");
    awaited(async move || {
        let got = store.get(&path).await.expect("it is there");
        black_box(got.bytes().await).expect("it is in memory");
    })
}

/// Lists of 100 objects.
fn lists(store: impl ObjectStore) -> impl FnMut(u64) + 'static {
    awaited(async move || assert_eq!(store.list(None).count().await, LISTED))
}

/// Answers at once, with 64 KiB.
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

/// Requests, each answered at once.
fn requests(connector: impl HttpConnector) -> impl FnMut(u64) + 'static {
    let client = connector.connect(&ClientOptions::new());
    let client = client.expect("it needs nothing");
    awaited(async move || {
        let request = HttpRequest::new(HttpRequestBody::empty());
        let answer = client.execute(request).await.expect("it is answered");
        black_box(answer.into_body().bytes().await).expect("it is in memory");
    })
}

/// A connector with a client of hyper. Clones share its connections.
#[derive(Clone, Debug)]
pub struct HyperConnector(Client<connect::HttpConnector, HttpRequestBody>);

impl Default for HyperConnector {
    /// Creates a connector without connections. They need tokio's runtime.
    fn default() -> Self {
        Self(Client::builder(TokioExecutor::new()).build_http())
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

/// Returns the store of a server, with a connector in between.
///
/// # Panics
///
/// Panics if object_store refuses the address.
pub fn store(address: SocketAddr, connector: impl HttpConnector) -> HttpStore {
    let builder = HttpBuilder::new().with_url(format!("http://{address}"));
    let store = builder.with_http_connector(connector).build();
    store.expect("the address is one of HTTP")
}

/// Starts a server in the caller's runtime, and returns its address and its task.
///
/// # Errors
///
/// Fails if no port is free.
pub async fn serve(app: Router) -> io::Result<(SocketAddr, AbortHandle)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let serve = tokio::spawn(async { axum::serve(listener, app).await });
    Ok((address, serve.abort_handle()))
}

/// A function that gets the object this many times.
type Gets = Box<dyn FnMut(u64)>;

/// A server with one object, and its clients, which share a connection.
struct Loopback {
    runtime: Runtime,
    address: SocketAddr,
    connector: HyperConnector,
}

impl Loopback {
    /// Starts a server on the thread of its clients; the thread's processor time then covers whole
    /// requests.
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
        let connector = HyperConnector::default();
        Rc::new(Self {
            runtime,
            address,
            connector,
        })
    }

    /// Gets the object through a connector.
    fn gets(self: &Rc<Self>, connector: impl HttpConnector) -> Gets {
        let loopback = Rc::clone(self);
        let store = store(self.address, connector);
        let path = Path::from("object");
        Box::new(move |times| {
            loopback.runtime.block_on(async {
                for _ in 0..times {
                    let got = store.get(&path).await.expect("the server has it");
                    got.bytes().await.expect("the server sends it");
                }
            });
        })
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
