//! Tasks with one HTTP client share one limiter, so they send no more requests than the server can handle.

use axum::{Router, body::Body, http::Uri, routing::get};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::{net::TcpListener, task::JoinSet};
use tollgate::{Quota, RateLimiter};

/// All requests to that server: one every five milliseconds.
static SERVER: RateLimiter = RateLimiter::new(Quota::per_second(200));

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let uri: Uri = format!("http://{}/", listener.local_addr()?).parse()?;
    tokio::spawn(async { axum::serve(listener, Router::new().route("/", get("hi"))).await });
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();

    // No request is sent before its future is awaited.
    let requests = (0..20).map(|_| client.get(uri.clone()));
    let jobs = requests.map(|request| async {
        let charge = SERVER.acquire().await.expect("it is never closed");
        request.await.expect("the server answers");
        charge.at()
    });
    let mut ticks = JoinSet::from_iter(jobs).join_all().await;
    ticks.sort_unstable();
    assert!(ticks.is_sorted_by(|one, next| next.saturating_since(*one).as_nanos() >= 4_999_999));
    println!("{} polite requests", ticks.len());
    Ok(())
}
