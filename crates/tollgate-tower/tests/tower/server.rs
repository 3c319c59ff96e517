//! axum on loopback.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::routing::get;
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tollgate::Semaphore;
use tollgate_tower::ThrottleLayer;

use super::peers::{Server, until};
use crate::support::assert_at_rest;

/// As issue 833 of tower: there, the limit is for each service, and a server has one for each
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

/// What a handler does whose answer is written by the test.
fn written_by(pages: mpsc::UnboundedReceiver<Bytes>) -> Body {
    let pages = futures::stream::unfold(pages, |mut pages| async {
        let page = pages.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(page), pages))
    });
    Body::from_stream(pages)
}

/// A router whose answers are written by who gets the other end of the channel.
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

    // The next waits, and who comes then is refused.
    let mut second = server.connect().await;
    let second = tokio::spawn(async move { second.get("/").await.status() });
    until(|| slots.snapshot().waiting == 1).await;
    let mut third = server.connect().await;
    // A refusal keeps the connection.
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

    // The slot goes to the one behind, and the handler has seen two requests.
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
