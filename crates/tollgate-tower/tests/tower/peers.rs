//! A server of axum that a test stops, and clients that have a connection to it.

use std::io;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::yield_now;

/// A request without a body.
pub(super) fn get() -> Request<Body> {
    Request::new(Body::empty())
}

/// Lets others run until something has come about.
pub(super) async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        yield_now().await;
    }
}

/// A client with a connection of its own, one that is closed when this is dropped.
pub(super) struct Client {
    send: SendRequest<Body>,
    connection: JoinHandle<()>,
}

impl Client {
    pub(super) async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let (send, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(async move {
            // How it ends is seen by who waits for an answer.
            let _ = connection.await;
        });
        Self { send, connection }
    }

    /// An answer, its body not read yet.
    pub(super) async fn get(&mut self, path: &str) -> Response<Incoming> {
        self.try_get(path).await.expect("an answer")
    }

    pub(super) async fn try_get(&mut self, path: &str) -> hyper::Result<Response<Incoming>> {
        self.send.ready().await?;
        let request = Request::get(path).header("host", "test");
        let request = request.body(Body::empty()).expect("a request");
        self.send.send_request(request).await
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// A server, and how to reach it.
pub(super) struct Server<A> {
    pub(super) address: A,
    stop: oneshot::Sender<()>,
    task: JoinHandle<io::Result<()>>,
}

impl<A> Server<A> {
    pub(super) fn of<L>(address: A, listener: L, app: Router) -> Self
    where
        L: Listener<Addr: std::fmt::Debug>,
    {
        let (stop, stopped) = oneshot::channel();
        let serve = axum::serve(listener, app).with_graceful_shutdown(async {
            let _ = stopped.await;
        });
        let task = tokio::spawn(async { serve.await });
        Self {
            address,
            stop,
            task,
        }
    }

    /// Returns when all connections are closed.
    pub(super) async fn stop(self) {
        self.stop.send(()).expect("it runs");
        self.task.await.unwrap().unwrap();
    }
}

impl Server<std::net::SocketAddr> {
    /// On loopback.
    pub(super) async fn on_loopback(app: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::of(listener.local_addr().unwrap(), listener, app)
    }

    pub(super) async fn connect(&self) -> Client {
        Client::over(TcpStream::connect(self.address).await.unwrap()).await
    }
}
