//! Tests servers that fail. After each failure all permits are back, and the charged bytes are
//! those that the server received.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use object_store::aws::AmazonS3;
use object_store::client::HttpErrorKind;
use object_store::{BackoffConfig, ObjectStoreExt, RetryConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::Instant;
use tollgate::{Clock, ErrorKind, Quota, RateLimiter, Semaphore};
use tollgate_adaptive::AdaptiveRate;
use tollgate_object_store::{ThrottledConnector, cause};

use crate::support::{self, Counted, FakeS3, Script, failure, kind};
use crate::wire::Direct;

/// The action of the server for a request that it has read.
enum Action {
    /// Writes this, and then closes the connection.
    Reply(&'static str),
    /// Writes this, and then resets the connection.
    Reset(&'static str),
    /// Writes this, and then nothing more.
    Stall(&'static str),
    /// Closes the cap, and then writes this.
    Close(&'static str),
}

use Action::{Close, Reply, Reset, Stall};

const OK: &str = "HTTP/1.1 200 OK\r\nETag: 1\r\nContent-Length: 0\r\n\r\n";
const SLOW_DOWN: &str = "HTTP/1.1 503 Slow Down\r\nContent-Length: 8\r\n\r\nSlowDown";
const SLOW_DOWN_FOR_AN_HOUR: &str =
    "HTTP/1.1 503 Slow Down\r\nRetry-After: 3600\r\nContent-Length: 8\r\n\r\nSlowDown";
/// Two of four bytes.
const HALF: &str = "HTTP/1.1 200 OK\r\nETag: 1\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
                    Content-Length: 4\r\n\r\n12";
const OTHER_HALF: &str = "HTTP/1.1 206 Partial Content\r\nETag: 1\r\n\
                          Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
                          Content-Range: bytes 2-3/4\r\nContent-Length: 2\r\n\r\n34";

/// The timeout of the client. It is so long that it passes only in paused time.
const TIMEOUT: Duration = Duration::from_secs(3_600);

const MANY: u64 = 1_000_000;

/// Returns a limit of bytes that is never reached.
fn many() -> Arc<RateLimiter> {
    let quota = Quota::per_second(1).burst(MANY);
    Arc::new(RateLimiter::new(quota).clock(Clock::manual()))
}

/// A server, and the limits in front of it.
struct Setup {
    cap: Arc<Semaphore>,
    rate: Arc<AdaptiveRate>,
    sent: Arc<RateLimiter>,
    received: Arc<RateLimiter>,
    actions: Arc<Mutex<VecDeque<Action>>>,
    /// The number of body bytes that the server received.
    got: Arc<AtomicU64>,
    store: AmazonS3,
}

impl Setup {
    async fn new(actions: impl IntoIterator<Item = Action>) -> Self {
        let cap = Arc::new(Semaphore::new(1));
        let rate = Arc::new(
            AdaptiveRate::new()
                .clock(Clock::tokio())
                .limits(1_000.0..=1_000_000.0),
        );
        let (sent, received) = (many(), many());
        let actions = Arc::new(Mutex::new(actions.into_iter().collect()));
        let got = Arc::new(AtomicU64::new(0));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(serve(
            listener,
            Arc::clone(&actions),
            Arc::clone(&got),
            Arc::clone(&cap),
        ));
        let timeout = Some(TIMEOUT);
        let connector = ThrottledConnector::new(Direct { timeout }, Arc::clone(&cap))
            .adaptive(Arc::clone(&rate))
            .bytes_sent(Arc::clone(&sent))
            .bytes_received(Arc::clone(&received));
        let store = store(address, connector);
        Self {
            cap,
            rate,
            sent,
            received,
            actions,
            got,
            store,
        }
    }

    /// Asserts that all actions were taken, that nothing was lost, and that `received` body bytes came back.
    fn assert_settled(&self, received: u64) {
        assert_eq!(MANY - self.received.snapshot().available, received);
        assert_eq!(self.actions.lock().expect("no panic").len(), 0);
        assert_eq!(
            (self.cap.available_permits(), self.cap.snapshot().waiting),
            (1, 0)
        );
        assert_eq!(
            MANY - self.sent.snapshot().available,
            self.got.load(Ordering::SeqCst)
        );
    }
}

fn store(address: SocketAddr, connector: ThrottledConnector<Direct, Arc<Semaphore>>) -> AmazonS3 {
    let retry = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(1),
            max_backoff: Duration::from_millis(1),
            base: 2.0,
        },
        ..RetryConfig::default()
    };
    support::store(&format!("http://{address}"), connector, retry)
}

/// Takes one action for each connection.
async fn serve(
    listener: TcpListener,
    actions: Arc<Mutex<VecDeque<Action>>>,
    got: Arc<AtomicU64>,
    cap: Arc<Semaphore>,
) {
    let mut stalled = Vec::new();
    loop {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        got.fetch_add(read(&mut stream).await, Ordering::SeqCst);
        let action = actions.lock().expect("no panic").pop_front();
        if matches!(action, Some(Close(_))) {
            cap.close();
        }
        match action {
            Some(Reply(answer) | Close(answer)) => {
                stream
                    .write_all(answer.as_bytes())
                    .await
                    .expect("an answer");
                stream.shutdown().await.expect("an end");
            }
            Some(Stall(answer)) => {
                stream
                    .write_all(answer.as_bytes())
                    .await
                    .expect("an answer");
                stalled.push(stream);
            }
            Some(Reset(answer)) => {
                stream
                    .write_all(answer.as_bytes())
                    .await
                    .expect("an answer");
                stream.set_zero_linger().expect("a socket");
            }
            None => panic!("one request too many"),
        }
    }
}

/// Reads a request, and returns the length of its body.
async fn read(stream: &mut TcpStream) -> u64 {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a head"));
    }
    let head = String::from_utf8(head).expect("text").to_lowercase();
    let length = head.split("content-length: ").nth(1);
    let length = length.and_then(|length| length.lines().next()?.parse().ok());
    let length: u64 = length.unwrap_or(0);
    let body = tokio::io::copy(&mut stream.take(length), &mut tokio::io::sink()).await;
    assert_eq!(body.expect("a body"), length);
    length
}

#[tokio::test]
async fn put_reset_before_the_answer_is_charged_again() {
    let setup = Setup::new([Reset(""), Reply(OK)]).await;
    setup
        .store
        .put(&"a".into(), vec![0; 1_000].into())
        .await
        .expect("an object");
    setup.assert_settled(0);
    assert_eq!(setup.got.load(Ordering::SeqCst), 2_000);
    // The reset tells nothing about the rate.
    assert_eq!(
        (
            setup.rate.snapshot().succeeded,
            setup.rate.snapshot().refusals
        ),
        (1, 0)
    );
}

#[tokio::test]
async fn get_reset_in_the_body_returns_the_permit_for_the_rest() {
    let setup = Setup::new([Reset(HALF), Reply(OTHER_HALF)]).await;
    let got = setup.store.get(&"a".into()).await.expect("an object");
    assert_eq!(got.bytes().await.expect("data"), "1234");
    setup.assert_settled(4);
}

#[tokio::test]
async fn get_with_a_short_body_returns_the_permit_for_the_rest() {
    let setup = Setup::new([Reply(HALF), Reply(OTHER_HALF)]).await;
    let got = setup.store.get(&"a".into()).await.expect("an object");
    assert_eq!(setup.cap.available_permits(), 0);
    assert_eq!(got.bytes().await.expect("data"), "1234");
    setup.assert_settled(4);
}

/// Returns the data of an object: the first half has been read, and the other half is not sent.
async fn stalled(setup: &Setup) -> BoxStream<'static, object_store::Result<Bytes>> {
    let got = setup.store.get(&"a".into()).await.expect("an object");
    let mut data = got.into_stream();
    let first = data.next().await.expect("data").expect("data");
    assert_eq!(first, "12");
    assert!(data.next().now_or_never().is_none());
    assert_eq!(setup.cap.available_permits(), 0);
    data
}

#[tokio::test]
async fn get_dropped_in_a_body_that_stalls_returns_the_permit() {
    let setup = Setup::new([Stall(HALF)]).await;
    let data = stalled(&setup).await;
    drop(data);
    setup.assert_settled(2);
}

#[tokio::test]
async fn get_after_a_timeout_in_a_body_that_stalls_has_a_permit_for_the_rest() {
    let setup = Setup::new([Stall(HALF), Reply(OTHER_HALF)]).await;
    let mut data = stalled(&setup).await;
    tokio::time::pause();
    tokio::time::advance(TIMEOUT).await;
    tokio::time::resume();
    let rest = data.next().await.expect("data").expect("data");
    assert_eq!(rest, "34");
    assert!(data.next().await.is_none());
    setup.assert_settled(4);
}

#[tokio::test(start_paused = true)]
async fn put_after_a_timeout_of_the_client_has_a_permit_for_the_retry() {
    let timeout = Duration::from_secs(30);
    let calls = AtomicU64::new(0);
    let fake = FakeS3::default();
    let script = Script::new(move |request| {
        let (fake, call) = (fake.clone(), calls.fetch_add(1, Ordering::Relaxed));
        async move {
            if call == 0 {
                tokio::time::sleep(timeout).await;
                return Err(failure(HttpErrorKind::Timeout));
            }
            Ok(fake.call(request).await)
        }
    });
    let (counted, sent) = (Counted::new(1), many());
    let connector =
        ThrottledConnector::new(script, counted.throttle()).bytes_sent(Arc::clone(&sent));
    let store = support::store("http://fake", connector, RetryConfig::default());
    let start = Instant::now();
    store
        .put(&"a".into(), vec![0; 1_000].into())
        .await
        .expect("an object");
    assert!(start.elapsed() > timeout);
    assert_eq!((counted.entered(), counted.cap.available_permits()), (2, 1));
    assert_eq!(MANY - sent.snapshot().available, 2_000);
}

#[tokio::test]
async fn put_after_slow_down_is_repeated_at_a_lower_rate() {
    let setup = Setup::new([Reply(SLOW_DOWN), Reply(OK)]).await;
    setup
        .store
        .put(&"a".into(), vec![0; 1_000].into())
        .await
        .expect("an object");
    setup.assert_settled(0);
    assert_eq!(
        (
            setup.rate.snapshot().succeeded,
            setup.rate.snapshot().refusals
        ),
        (1, 1)
    );
}

#[tokio::test]
async fn put_after_slow_down_for_an_hour_fails_at_once() {
    let setup = Setup::new([Reply(SLOW_DOWN_FOR_AN_HOUR)]).await;
    let error = setup.store.put(&"a".into(), vec![0; 1_000].into()).await;
    let error = error.expect_err("a refusal");
    let cause = cause(&error).expect("a cause");
    assert_eq!(cause.kind(), ErrorKind::TimedOut);
    assert!(
        cause.retry_after() > Some(Duration::from_secs(3_000)),
        "{cause}"
    );
    setup.assert_settled(0);
}

#[tokio::test]
async fn put_with_a_throttle_closed_before_the_retry_fails() {
    let setup = Setup::new([Close(SLOW_DOWN)]).await;
    let error = setup.store.put(&"a".into(), vec![0; 1_000].into()).await;
    let error = error.expect_err("a refusal");
    assert_eq!(kind(&error), Some(ErrorKind::Closed));
    setup.assert_settled(0);
}

#[tokio::test]
async fn put_to_a_refused_connection_is_charged_nothing() {
    // The port is taken, but no socket listens.
    let socket = TcpSocket::new_v4().expect("a socket");
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    socket.bind(any).expect("a port");
    let address = socket.local_addr().expect("an address");
    let cap = Arc::new(Semaphore::new(1));
    let sent = many();
    let connector =
        ThrottledConnector::new(Direct::default(), Arc::clone(&cap)).bytes_sent(Arc::clone(&sent));
    let error = store(address, connector)
        .put(&"a".into(), vec![0; 1_000].into())
        .await;
    assert_eq!(cause(&error.expect_err("no connection")), None);
    assert_eq!(
        (cap.available_permits(), sent.snapshot().available),
        (1, MANY)
    );
}
