//! A server on loopback for the examples. It answers every request but one, which it asks for a second of peace, and
//! fails requests that are made at once with another one for the same page.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router, routing::get};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::sleep;

/// How many requests came, and until when the server wants no more.
#[derive(Default)]
struct Api {
    requests: AtomicU32,
    pages_at_once: AtomicU32,
    shut_until: Mutex<Option<Instant>>,
}

/// Starts a server, and returns its URL. It ends with the process.
pub(crate) async fn start() -> String {
    let app = Router::new()
        .route("/square", get(square))
        .route("/page", get(page))
        .with_state(Arc::new(Api::default()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, app).await });
    url
}

/// The square of `number`. The tenth request is refused for a second, and no request may come before its end.
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

/// One of five pages, with a number and the way to the next one.
async fn page(State(api): State<Arc<Api>>, Query(query): Query<Value>) -> Response {
    if api.pages_at_once.fetch_add(1, SeqCst) > 0 {
        return StatusCode::FORBIDDEN.into_response();
    }
    sleep(Duration::from_millis(10)).await;
    api.pages_at_once.fetch_sub(1, SeqCst);
    let number: u32 = query["number"].as_str().unwrap().parse().unwrap();
    let next = (number < 5).then(|| format!("/page?number={}", number + 1));
    Json(json!({ "items": [number, 10 * number], "next": next })).into_response()
}
