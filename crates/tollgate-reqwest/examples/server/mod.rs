//! A server on loopback for the examples: it asks for a pause of one second once, and rejects requests that break its rules.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, routing::get};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::sleep;

/// The number of requests, and the times until which the server accepts no more: for squares, and for slow pages.
#[derive(Default)]
struct Api {
    requests: AtomicU32,
    shut_until: Mutex<Option<Instant>>,
    closed_until: Mutex<Option<Instant>>,
    is_busy: AtomicBool,
}

/// Starts a server, and returns its URL. It ends with the process.
pub(crate) async fn start() -> String {
    let app = Router::new()
        .route("/square", get(square))
        .route("/page", get(page))
        .route("/slow", get(slow))
        .with_state(Arc::new(Api::default()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, app).await });
    url
}

/// Returns the square of `number`. The tenth request is refused for a second, and no request may come before its end.
async fn square(State(api): State<Arc<Api>>, Query(query): Query<Value>) -> Response {
    let mut shut_until = api.shut_until.lock().unwrap();
    if shut_until.is_some_and(|until| Instant::now() < until) {
        return StatusCode::FORBIDDEN.into_response();
    }
    if api.requests.fetch_add(1, SeqCst) == 9 {
        *shut_until = Some(Instant::now() + Duration::from_secs(1));
        return (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "1")]).into_response();
    }
    let number: u32 = query["number"].as_str().unwrap().parse().unwrap();
    Json(number * number).into_response()
}

/// Returns one of five pages, with a number and the path of the next one.
async fn page(Query(query): Query<Value>) -> Response {
    let number: u32 = query["number"].as_str().unwrap().parse().unwrap();
    let next = (number < 5).then(|| format!("/page?number={}", number + 1));
    Json(json!({ "items": [number, 10 * number], "next": next })).into_response()
}

/// Returns a page that takes 10 ms. No other page may be requested meanwhile, and for 50 ms after it.
async fn slow(State(api): State<Arc<Api>>) -> Response {
    let closed_until = *api.closed_until.lock().unwrap();
    let is_closed = closed_until.is_some_and(|until| Instant::now() < until);
    if is_closed || api.is_busy.swap(true, SeqCst) {
        return StatusCode::FORBIDDEN.into_response();
    }
    sleep(Duration::from_millis(10)).await;
    *api.closed_until.lock().unwrap() = Some(Instant::now() + Duration::from_millis(50));
    api.is_busy.store(false, SeqCst);
    "a page".into_response()
}
