//! Together with servers: one of ours, whose fields it reads, and one on a socket, by hyper's client.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use futures::future::join_all;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tollgate::{Quota, RateLimiter};
use tollgate_tower::{RateLimitHeaders, ThrottleLayer};

use super::*;
use crate::peers;

/// A server that says in each answer when its quota is used up refuses nothing.
#[tokio::test(start_paused = true)]
async fn call_heeds_the_fields_of_a_throttle_layer() {
    let limiter = RateLimiter::new(Quota::per_second(1).burst(2)).clock(Clock::tokio());
    let fields = RateLimitHeaders::Draft11;
    let behind = ThrottleLayer::new(Arc::new(limiter))
        .refusing()
        .headers(fields);
    let client = RetryAfterLayer::new()
        .jitter_percent(0)
        .clock(Clock::tokio())
        .retries(0)
        .rate_limit_of_any_status(true)
        .layer(Router::new().route("/", get("a page")).layer(behind));
    let begun = Instant::now();
    let jobs = (0..6).map(|_| async {
        let answer = client.clone().oneshot(peers::get()).await.unwrap();
        (answer.status().as_u16(), begun.elapsed().as_secs())
    });
    let answers = join_all(jobs).await;
    assert_eq!(
        answers,
        [(200, 0), (200, 0), (200, 1), (200, 2), (200, 3), (200, 4)]
    );
}

#[tokio::test]
async fn call_over_a_socket_is_made_again() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let page = async move || match counted.fetch_add(1, Ordering::SeqCst) {
        0 => Err((StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "5")])),
        _ => Ok("a page"),
    };
    let server = peers::Server::on_loopback(Router::new().route("/", get(page))).await;
    let clock = Clock::manual();
    let client = Client::builder(TokioExecutor::new()).build_http::<axum::body::Body>();
    let client = RetryAfterLayer::new().clock(&clock).layer(client);
    let mut request = peers::get();
    *request.uri_mut() = format!("http://{}/", server.address).parse().unwrap();
    let answer = tokio::spawn(client.oneshot(request));
    // When the refusal comes is not known, so time goes on until it is over.
    peers::until(|| {
        clock.advance(SECOND);
        answer.is_finished()
    })
    .await;
    let answer = answer.await.unwrap().unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(requests.load(Ordering::SeqCst), 2);
    let body = http_body_util::BodyExt::collect(answer.into_body()).await;
    assert_eq!(body.unwrap().to_bytes(), "a page");
    server.stop().await;
}
