//! An object store over HTTP: object_store's, with a client of hyper, and a server of axum on the loopback
//! interface.

use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::mpsc;
use std::{io, thread};

use ::object_store::ObjectStoreExt;
use ::object_store::client::{
    ClientOptions, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest,
    HttpRequestBody, HttpResponse, HttpResponseBody, HttpService,
};
use ::object_store::http::{HttpBuilder, HttpStore};
use ::object_store::path::Path;
use async_trait::async_trait;
use axum::Router;
use axum::body::Bytes;
use axum::routing::get;
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

/// Connects by a client of hyper. Clones share its connections.
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
            let kind = match error.is_connect() {
                true => HttpErrorKind::Connect,
                false => HttpErrorKind::Request,
            };
            HttpError::new(kind, error)
        })?;
        Ok(response.map(|body| {
            let body = body.map_err(|error| HttpError::new(HttpErrorKind::Request, error));
            HttpResponseBody::new(body)
        }))
    }
}

/// Returns the store of a server, whose requests pass a connector.
///
/// # Panics
///
/// Panics if object_store refuses the address.
pub fn store(address: SocketAddr, connector: impl HttpConnector) -> HttpStore {
    let builder = HttpBuilder::new().with_url(format!("http://{address}"));
    let store = builder.with_http_connector(connector).build();
    store.expect("the address is one of HTTP")
}

/// Starts a server in the runtime of the caller, and returns where it listens.
///
/// # Errors
///
/// Fails if no port can be had.
pub async fn serve(app: Router) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async { axum::serve(listener, app).await });
    Ok(address)
}

/// A server with one object, and its clients, which share a connection.
pub struct Loopback {
    runtime: Runtime,
    address: SocketAddr,
    connector: HyperConnector,
}

impl Loopback {
    /// Starts a server on the thread of its clients, whose processor time is that of whole requests then.
    ///
    /// # Panics
    ///
    /// Panics if the system does not let it.
    #[must_use]
    pub fn on_one_thread(bytes: usize) -> Rc<Self> {
        let runtime = runtime();
        let address = runtime.block_on(serve(app(bytes))).expect("a port");
        Self::of(runtime, address)
    }

    /// Starts a server on a thread of its own, which runs as long as the process.
    ///
    /// # Panics
    ///
    /// Panics if the system does not let it.
    #[must_use]
    pub fn on_two_threads(bytes: usize) -> Rc<Self> {
        let (sender, address) = mpsc::channel();
        thread::spawn(move || {
            runtime().block_on(async {
                let address = serve(app(bytes)).await.expect("a port");
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
    #[must_use]
    pub fn connector(&self) -> HyperConnector {
        self.connector.clone()
    }

    /// Gets the object through a connector.
    pub fn gets<C: HttpConnector>(self: &Rc<Self>, connector: C) -> impl FnMut(u64) + use<C> {
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
