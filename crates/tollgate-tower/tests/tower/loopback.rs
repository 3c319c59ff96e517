//! The scenario of a leaky bucket as middleware, over sockets: twenty clients for twenty seconds, of a
//! clock that the test moves. It does so when every request was answered or is in the queue, so nothing
//! depends on how fast the machine is.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use http_body_util::BodyExt;
use tokio::task::JoinSet;
use tollgate::{Clock, LeakyBucket, MissedTickBehavior, Quota};
use tollgate_tower::ThrottleLayer;

use super::peers::{Client, Server, until};
use crate::support::yield_now;

const CAPACITY: usize = 10;
const CLIENTS: usize = 20;
/// The clock moves by this much at a time, and then those who were refused ask again.
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

/// Lets everybody ask until nobody is left who is neither refused nor in the queue: who was released asks
/// again at once. Returns those who were refused.
async fn until_at_rest(sent: &mut Sent, bucket: &LeakyBucket) -> Vec<Client> {
    let mut refused = Vec::new();
    // Nobody is in the queue whose request was not sent, so if they are as many, they are the same.
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
            // Less than a second is left, or all of it.
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

    // One at once, and each of the others a second after the one before.
    let seconds: Vec<_> = released
        .lock()
        .unwrap()
        .iter()
        .map(|at| at.as_nanos())
        .collect();
    let expected: Vec<_> = (0..=20).map(|second| second * 1_000_000_000).collect();
    assert_eq!(seconds, expected);

    // Those in the queue go away.
    sent.shutdown().await;
    until(|| bucket.snapshot().waiting == 0).await;
    server.stop().await;
    assert_eq!(released.lock().unwrap().len(), 21);
}
