//! A service of hyper alone, over a connection in memory.

use std::sync::Arc;

use axum::body::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tollgate::{Quota, RateLimiter};
use tollgate_tower::{Answer, ThrottleLayer};
use tower::{Layer, service_fn};

#[tokio::test]
async fn the_layer_fits_a_service_of_hyper() {
    let limiter = Arc::new(RateLimiter::new(Quota::per_hour(1)));
    let layer =
        ThrottleLayer::by(move |head| (head.uri.path() != "/health").then(|| Arc::clone(&limiter)))
            .refusing();
    let service =
        layer
            .answer(Answer::ProblemJson)
            .layer(service_fn(async |_: hyper::Request<Incoming>| {
                Ok::<_, std::convert::Infallible>(hyper::Response::new(Full::new(Bytes::from(
                    "hello",
                ))))
            }));
    let (ours, theirs) = tokio::io::duplex(4096);
    let server = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(theirs), TowerToHyperService::new(service));
    let server = tokio::spawn(server);
    let (mut client, connection) = hyper::client::conn::http1::handshake(TokioIo::new(ours))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);

    let mut answers = Vec::new();
    for path in ["/", "/", "/health"] {
        let answer = client.send_request(super::request(path)).await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        answers.push((status, text.starts_with(b"hello")));
    }
    assert_eq!(answers, [(200, true), (429, false), (200, true)]);
    drop(client);
    connection.await.unwrap().unwrap();
    server.await.unwrap().unwrap();
}
