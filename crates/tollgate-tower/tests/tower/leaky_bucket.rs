//! Tests a leaky bucket as middleware: without a connection in paused time, where every time
//! is exact, and over sockets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use http_body_util::BodyExt;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tollgate::rate::MissedTickBehavior;
use tollgate::{AcquireError, Clock, LeakyBucket, Quota, Semaphore, Throttle};
use tollgate_tower::ThrottleLayer;
use tower::ServiceExt;

use super::server::{self, Client, Server, until};
use crate::support::{assert_at_rest, yield_now};

const SECOND: Duration = Duration::from_secs(1);
const CAPACITY: usize = 10;
const CLIENTS: usize = 20;
const LASTING: Duration = Duration::from_secs(20);
/// The time after which a client returns.
const PAUSE: Duration = Duration::from_millis(100);

/// Returns a bucket that admits one request a second.
fn bucket(capacity: usize) -> Arc<LeakyBucket> {
    let bucket = LeakyBucket::new(Quota::per_second(1), capacity)
        .missed_tick(MissedTickBehavior::Delay)
        .clock(Clock::tokio());
    Arc::new(bucket)
}

/// Returns a server that answers at once.
fn app<T>(layer: ThrottleLayer<T>) -> Router
where
    T: Throttle<Permit: Send, Enter: Send> + Send + Sync + 'static,
{
    Router::new().route("/", get(async || "done")).layer(layer)
}

/// An answer that a client has received: its time, counted from the beginning, and its status.
type Received = (Duration, StatusCode);

/// Runs `clients` clients that send request after request for `lasting`. Each pauses after its last
/// answer; the last requests are sent just before the time is over. The answers are in order of arrival.
async fn crowd(app: &Router, clients: usize, lasting: Duration, pause: Duration) -> Vec<Received> {
    let begun = Instant::now();
    let client = |app: Router| async move {
        let mut received = Vec::new();
        while begun.elapsed() < lasting {
            let answer = app.clone().oneshot(server::root()).await.unwrap();
            received.push((begun.elapsed(), answer.status()));
            sleep(pause).await;
        }
        received
    };
    let all: JoinSet<_> = (0..clients).map(|_| client(app.clone())).collect();
    let mut received = all.join_all().await.concat();
    received.sort_by_key(|(at, _)| *at);
    received
}

/// Asserts that one is admitted at once, ten wait, each a second after the one before, and the rest is refused.
#[track_caller]
fn assert_one_a_second(received: &[Received]) {
    let released: Vec<_> = received
        .iter()
        .filter(|(_, status)| status.is_success())
        .map(|(at, _)| *at)
        .collect();
    let refused = received.iter().filter(|(_, status)| *status == 429).count();
    assert_eq!(released.len() + refused, received.len());
    // The queue is full all the time, and the last waiters are admitted after the clients have stopped.
    let seconds: Vec<_> = (0..).map(|n| n * SECOND).take(released.len()).collect();
    assert_eq!(released, seconds);
    let in_time = released.iter().filter(|at| **at <= LASTING).count();
    assert_eq!(in_time, 21);
    // Refusals do not wait: the first nine arrive at once.
    let at_once = received.iter().filter(|(at, _)| at.is_zero()).count();
    assert_eq!(at_once, CLIENTS - CAPACITY);
}

#[tokio::test(start_paused = true)]
async fn twenty_clients_are_let_in_one_a_second() {
    let app = app(ThrottleLayer::new(bucket(CAPACITY)));
    assert_one_a_second(&crowd(&app, CLIENTS, LASTING, PAUSE).await);
}

/// Each of these is refused when less than a second is left.
#[tokio::test(start_paused = true)]
async fn a_client_that_comes_back_after_retry_after_is_admitted() {
    let no_line = app(ThrottleLayer::new(bucket(0)));
    let at_once = app(ThrottleLayer::new(bucket(CAPACITY)).refusing());
    let impatient = app(ThrottleLayer::new(bucket(CAPACITY)).timeout(SECOND / 100));
    for app in [no_line, at_once, impatient] {
        let get = || app.clone().oneshot(server::root());
        for _ in 0..3 {
            assert_eq!(get().await.unwrap().status(), StatusCode::OK);
            tokio::time::sleep(PAUSE).await;
            let refused = get().await.unwrap();
            assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
            let error = refused.extensions().get::<AcquireError>().unwrap();
            assert_eq!(error.retry_after(), Some(SECOND - PAUSE));
            assert_eq!(refused.headers()[RETRY_AFTER], "1");
            tokio::time::sleep(SECOND).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_waited_too_long_is_refused_and_leaves_the_queue() {
    let slots = Arc::new(Semaphore::new(1));
    let app = app(ThrottleLayer::new(Arc::clone(&slots)).timeout(2 * SECOND));
    let permit = slots.acquire().await.unwrap();
    let received = crowd(&app, 3, SECOND, SECOND).await;
    assert_eq!(received, [(2 * SECOND, StatusCode::TOO_MANY_REQUESTS); 3]);
    drop(permit);
    assert_at_rest(&slots, 1);
}

#[tokio::test(start_paused = true)]
async fn the_timeout_is_for_the_wait_and_not_for_the_work() {
    let slots = Arc::new(Semaphore::new(1));
    let layer = ThrottleLayer::new(Arc::clone(&slots)).timeout(2 * SECOND);
    let work = async || tokio::time::sleep(3 * SECOND / 2).await;
    let app = Router::new().route("/", get(work)).layer(layer);
    let received: Vec<_> = crowd(&app, 3, SECOND, SECOND)
        .await
        .iter()
        .map(|(at, status)| (at.as_millis(), status.as_u16()))
        .collect();
    assert_eq!(received, [(1500, 200), (2000, 429), (3000, 200)]);
    assert_at_rest(&slots, 1);
}

// Tests a leaky bucket as middleware over sockets: twenty clients for twenty seconds, of a
// clock that the test moves. The test moves it when every request was answered or is in the queue, so
// the result does not depend on the speed of the machine.

/// The clock moves by this much at a time, and then the refused clients ask again.
const STEP: Duration = Duration::from_millis(250);
const STEPS: u64 = 80;

/// Requests that were sent, each with the client that waits for its answer.
type Sent = JoinSet<(Client, StatusCode, HeaderMap)>;

fn send(sent: &mut Sent, mut client: Client) {
    sent.spawn(async move {
        let answer = client.get("/").await;
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        assert_eq!(body.is_empty(), parts.status != StatusCode::OK);
        (client, parts.status, parts.headers)
    });
}

/// Waits until every request was refused or is in the queue. A client whose request was released asks
/// again at once. Returns the refused clients.
async fn until_at_rest(sent: &mut Sent, bucket: &LeakyBucket) -> Vec<Client> {
    let mut refused = Vec::new();
    // Every request in the queue was sent, so if the numbers are equal, the requests are the same.
    while sent.len() != bucket.snapshot().waiting {
        let Some(answered) = sent.try_join_next() else {
            yield_now().await;
            continue;
        };
        let (client, status, headers) = answered.unwrap();
        if status == StatusCode::OK {
            send(sent, client);
        } else {
            assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
            // Less than a second is left, or a whole second.
            assert_eq!(headers[RETRY_AFTER], "1");
            refused.push(client);
        }
    }
    refused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_clients_on_sockets_are_let_in_one_a_second() {
    let clock = Clock::manual();
    let bucket = LeakyBucket::new(Quota::per_second(1), CAPACITY)
        .missed_tick(MissedTickBehavior::Delay)
        .clock(&clock);
    let bucket = Arc::new(bucket);
    let released = Arc::new(Mutex::new(Vec::new()));
    let handler = {
        let (clock, released) = (clock.clone(), Arc::clone(&released));
        async move || {
            released.lock().unwrap().push(clock.now());
            "done"
        }
    };
    let app = Router::new()
        .route("/", get(handler))
        .layer(ThrottleLayer::new(Arc::clone(&bucket)));
    let server = Server::on_loopback(app).await;

    let mut sent = Sent::new();
    for _ in 0..CLIENTS {
        send(&mut sent, server.connect().await);
    }
    for _ in 0..STEPS {
        let refused = until_at_rest(&mut sent, &bucket).await;
        // The queue is full all the time, so each request that is not in it was refused.
        assert_eq!((sent.len(), refused.len()), (CAPACITY, CLIENTS - CAPACITY));
        clock.advance(STEP);
        for client in refused {
            send(&mut sent, client);
        }
    }
    until_at_rest(&mut sent, &bucket).await;

    // One is admitted at once, and each of the others a second after the one before.
    let seconds: Vec<_> = released
        .lock()
        .unwrap()
        .iter()
        .map(|at| at.as_nanos())
        .collect();
    let expected: Vec<_> = (0..=20).map(|second| second * 1_000_000_000).collect();
    assert_eq!(seconds, expected);

    // The clients in the queue disconnect.
    sent.shutdown().await;
    until(|| bucket.snapshot().waiting == 0).await;
    server.stop().await;
    assert_eq!(released.lock().unwrap().len(), 21);
}
