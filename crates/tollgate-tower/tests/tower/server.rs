//! Runs a server of axum that a test stops, and clients that have a connection to it.

use std::io::{self, Write};
use std::net::{self, IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Request, Response, StatusCode};
use axum::routing::get;
use axum::serve::Listener;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tollgate::{Clock, ErrorKind, Keyed, Quota, RateLimiter, Semaphore, all};
use tollgate_tower::{ClientIp, IpNet, ThrottleLayer};

use crate::support::{assert_at_rest, kind, yield_now};

/// Returns a request without a body.
pub(super) fn root() -> Request<Body> {
    Request::new(Body::empty())
}

/// Lets other tasks run until the condition is true.
pub(super) async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        yield_now().await;
    }
}

/// A client with a connection of its own, which is closed on drop.
pub(super) struct Client {
    send: SendRequest<Body>,
    connection: JoinHandle<()>,
}

impl Client {
    pub(super) async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let (send, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(async move {
            // The waiter for an answer sees how the connection ends.
            let _ = connection.await;
        });
        Self { send, connection }
    }

    /// Returns an answer whose body is not read yet.
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

/// A running server and its address.
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

    /// Stops the server, and returns when all connections are closed.
    pub(super) async fn stop(self) {
        self.stop.send(()).expect("it runs");
        self.task.await.unwrap().unwrap();
    }
}

impl Server<std::net::SocketAddr> {
    /// Starts a server on loopback.
    pub(super) async fn on_loopback(app: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::of(listener.local_addr().unwrap(), listener, app)
    }

    pub(super) async fn connect(&self) -> Client {
        Client::over(TcpStream::connect(self.address).await.unwrap()).await
    }
}

// Tests axum on loopback.

/// In issue 833 of tower, the limit is per service, and a server has one service per
/// connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_connections_and_routes_share_the_throttle() {
    let slots = Arc::new(Semaphore::new(2));
    let layer = ThrottleLayer::new(Arc::clone(&slots));
    let inside = Arc::new(AtomicUsize::new(0));
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let handler = {
        let (inside, gate) = (Arc::clone(&inside), Arc::clone(&gate));
        async move || {
            inside.fetch_add(1, Ordering::SeqCst);
            gate.acquire().await.unwrap().forget();
            inside.fetch_sub(1, Ordering::SeqCst);
            "done"
        }
    };
    let app = Router::new()
        .route("/", get(handler.clone()).layer(layer.clone()))
        .merge(Router::new().route("/other", get(handler)).layer(layer));
    let server = Server::on_loopback(app).await;
    for _ in 0..3 {
        let mut requests = JoinSet::new();
        for path in ["/", "/other", "/", "/other"] {
            let mut client = server.connect().await;
            requests.spawn(async move {
                let answer = client.get(path).await;
                assert_eq!(answer.status(), StatusCode::OK);
                assert_eq!(answer.collect().await.unwrap().to_bytes(), "done");
            });
        }
        let at_work = || inside.load(Ordering::SeqCst);
        until(|| at_work() + slots.snapshot().waiting == 4).await;
        assert_eq!((at_work(), slots.snapshot().waiting), (2, 2));
        gate.add_permits(4);
        requests.join_all().await;
    }
    server.stop().await;
    assert_at_rest(&slots, 2);
}

/// Returns the body of a handler whose answer the test writes.
fn written_by(pages: mpsc::UnboundedReceiver<Bytes>) -> Body {
    let pages = futures::stream::unfold(pages, |mut pages| async {
        let page = pages.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(page), pages))
    });
    Body::from_stream(pages)
}

/// Returns a router whose answers the test writes through the returned channel.
fn written_by_hand(
    layer: ThrottleLayer<Arc<Semaphore>>,
) -> (
    Router,
    mpsc::UnboundedReceiver<mpsc::UnboundedSender<Bytes>>,
) {
    let (writers, answers) = mpsc::unbounded_channel();
    let handler = async move || {
        let (writer, pages) = mpsc::unbounded_channel();
        writers.send(writer).unwrap();
        written_by(pages)
    };
    (Router::new().route("/", get(handler)).layer(layer), answers)
}

#[tokio::test]
async fn the_slot_is_taken_until_the_body_was_sent() {
    let slots = Arc::new(Semaphore::new(1).max_waiters(1));
    let (app, mut answers) = written_by_hand(ThrottleLayer::new(Arc::clone(&slots)));
    let server = Server::on_loopback(app).await;
    let mut first = server.connect().await;
    let mut body = first.get("/").await.into_body();
    let writer = answers.recv().await.unwrap();
    writer.send(Bytes::from_static(b"page")).unwrap();
    let page = body.frame().await.unwrap().unwrap();
    assert_eq!(page.into_data().unwrap(), "page");

    // The second request waits, and a later one is refused.
    let mut second = server.connect().await;
    let second = tokio::spawn(async move { second.get("/").await.status() });
    until(|| slots.snapshot().waiting == 1).await;
    let mut third = server.connect().await;
    // A refusal keeps the connection open.
    for _ in 0..3 {
        let refused = third.get("/").await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(refused.headers()["content-length"], "0");
        assert!(refused.collect().await.unwrap().to_bytes().is_empty());
    }
    assert_eq!(
        (slots.available_permits(), slots.snapshot().waiting),
        (0, 1)
    );

    drop(writer);
    assert!(body.frame().await.is_none());
    drop(answers.recv().await.unwrap());
    assert_eq!(second.await.unwrap(), StatusCode::OK);
    drop((first, third));
    server.stop().await;
    assert_at_rest(&slots, 1);
}

#[tokio::test]
async fn a_client_that_goes_away_takes_its_request_out_of_the_queue() {
    let slots = Arc::new(Semaphore::new(1));
    let (app, mut answers) = written_by_hand(ThrottleLayer::new(Arc::clone(&slots)));
    let server = Server::on_loopback(app).await;
    let mut first = server.connect().await;
    let answer = first.get("/").await;
    let writer = answers.recv().await.unwrap();

    let mut impatient = server.connect().await;
    let waits = tokio::spawn(async move { impatient.get("/").await.status() });
    until(|| slots.snapshot().waiting == 1).await;
    let mut patient = server.connect().await;
    let patient = tokio::spawn(async move { patient.get("/").await.status() });
    until(|| slots.snapshot().waiting == 2).await;
    waits.abort();
    assert!(waits.await.unwrap_err().is_cancelled());
    until(|| slots.snapshot().waiting == 1).await;

    // The slot goes to the next waiter, and the handler has seen two requests.
    drop(writer);
    assert!(answer.collect().await.unwrap().to_bytes().is_empty());
    drop(answers.recv().await.unwrap());
    assert_eq!(patient.await.unwrap(), StatusCode::OK);
    assert!(answers.try_recv().is_err());
    drop(first);
    server.stop().await;
    assert_at_rest(&slots, 1);
}

#[tokio::test]
async fn a_client_that_goes_away_in_the_middle_of_the_body_gives_its_slot_back() {
    let slots = Arc::new(Semaphore::new(1));
    let (app, mut answers) = written_by_hand(ThrottleLayer::new(Arc::clone(&slots)));
    let server = Server::on_loopback(app).await;
    let mut client = server.connect().await;
    let mut answer = client.get("/").await;
    let writer = answers.recv().await.unwrap();
    writer.send(Bytes::from_static(b"page")).unwrap();
    assert!(answer.frame().await.unwrap().is_ok());
    assert_eq!(slots.available_permits(), 0);
    drop((answer, client));
    // The server notices, and drops the body.
    writer.closed().await;
    until(|| slots.available_permits() == 1).await;
    server.stop().await;
    assert_at_rest(&slots, 1);
}

// Tests clients that disconnect while their requests wait, over sockets: each request and each charge is
// undone, as if the client had never connected.
//
// The clock does not move, so a remaining charge would be visible.

const BURST: u64 = 2;
const NETWORKS: u8 = 25;
/// The clients of each network. The burst lets two of them join the queue for a slot; the rest wait for the rate.
const CLIENTS: usize = 10;
const WAVES: usize = 3;

fn network(index: u8) -> IpNet {
    IpAddr::from([192, 0, 2, index]).into()
}

/// Sends a request for a client of this network, and reads nothing.
fn send(server: SocketAddr, index: u8) -> net::TcpStream {
    let mut socket = net::TcpStream::connect(server).unwrap();
    let client = network(index).addr();
    let request = format!("GET / HTTP/1.1\r\nhost: test\r\nx-forwarded-for: {client}\r\n\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    socket
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_disconnect_while_they_wait_leave_nothing_behind() {
    let clock = Clock::manual();
    let clients: Arc<Keyed<IpNet, RateLimiter>> = Arc::new(Keyed::new(
        RateLimiter::new(Quota::per_second(1).burst(BURST)).clock(&clock),
    ));
    let slots = Arc::new(Semaphore::new(1));
    let handled = Arc::new(AtomicUsize::new(0));
    let handler = {
        let handled = Arc::clone(&handled);
        async move || {
            handled.fetch_add(1, Ordering::SeqCst);
            "done"
        }
    };
    let layer = {
        let (clients, slots) = (Arc::clone(&clients), Arc::clone(&slots));
        let client_ip = ClientIp::peer(|_| None).behind(1);
        ThrottleLayer::by(move |parts| {
            let client = Arc::clone(&clients).key_owned(client_ip.of(parts));
            all((client, Arc::clone(&slots)))
        })
    };
    let server = Server::on_loopback(Router::new().route("/", get(handler)).layer(layer)).await;
    let waiting = || {
        let of_rates = (0..NETWORKS).map(|index| clients.key(&network(index)).snapshot().waiting);
        (of_rates.sum::<usize>(), slots.snapshot().waiting)
    };

    let held = slots.try_acquire().unwrap();
    for _ in 0..WAVES {
        let mut sockets = Vec::new();
        for _ in 0..CLIENTS {
            for index in 0..NETWORKS {
                sockets.push(send(server.address, index));
            }
        }
        let in_burst = BURST as usize * usize::from(NETWORKS);
        until(|| waiting() == (sockets.len() - in_burst, in_burst)).await;
        drop(sockets);
        // A request that left one queue and is not in the next one holds its charge.
        let at_rest = |index| {
            let snapshot = clients.key(&network(index)).snapshot();
            (snapshot.in_use, snapshot.waiting) == (0, 0)
        };
        until(|| (0..NETWORKS).all(at_rest) && slots.snapshot().waiting == 0).await;
    }
    drop(held);

    // Each network has its whole burst, and no more.
    for index in 0..NETWORKS {
        let client = network(index);
        let client = clients.key(&client);
        let snapshot = client.snapshot();
        assert_eq!((snapshot.in_use, snapshot.available), (0, BURST));
        for _ in 0..BURST {
            assert!(client.try_acquire().is_ok());
        }
        assert_eq!(kind(client.try_acquire()), ErrorKind::RateLimited);
    }
    server.stop().await;
    // Nothing is kept for them once all charges would be paid off, including those that were undone.
    let charges = (WAVES * CLIENTS) as u64 + BURST;
    clock.advance(Duration::from_secs(charges));
    // The server may have closed a connection and not yet dropped its request.
    until(|| {
        clients.shrink();
        clients.is_empty()
    })
    .await;
    assert_eq!(handled.load(Ordering::SeqCst), 0);
    assert_at_rest(&slots, 1);
}
