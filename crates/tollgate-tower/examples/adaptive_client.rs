//! Finds the rate that a server accepts, using the few requests that the server refuses.
use axum::{Router, body::Body, http::Request, routing::get};
use std::{sync::Arc, time::Duration};
use tollgate::{Clock, Quota, RateLimiter};
use tollgate_tower::ThrottleLayer;
use tower::ServiceExt;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let limit = RateLimiter::new(Quota::per_second(300).burst(30)).clock(Clock::tokio());
    let refusing = ThrottleLayer::new(Arc::new(limit)).refusing(); // With 429 and `Retry-After`.
    let server = Router::new().route("/", get("a page")).layer(refusing);
    let rate = Arc::new(tollgate_adaptive::AdaptiveRate::new().clock(Clock::tokio()));
    let (start, mut found) = (tokio::time::Instant::now(), None);
    while start.elapsed() < Duration::from_secs(60) {
        let permit = rate.clone().acquire_owned().await.expect("it is open");
        let answer = server.clone().oneshot(Request::new(Body::empty()));
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(50)).await; // The way to the server.
            if let Some(after) = answer.await.unwrap().headers().get("retry-after") {
                let seconds = after.to_str().unwrap().parse().unwrap();
                permit.throttled(Some(Duration::from_secs(seconds)));
            }
        });
        let is_found = rate.snapshot().cuts > 0 && (270.0..330.0).contains(&rate.rate());
        found = found.or(is_found.then(|| start.elapsed().as_secs()));
    }
    let (end, found) = (rate.snapshot(), found.unwrap());
    assert!(found < 15 && end.refusals * 200 <= end.succeeded);
    println!("found in {found} s, with {} refusals", end.refusals);
}
