//! Runs tasks with one client: when the server asks one of them to wait, all of them wait.
use axum::{Router, body::Body, http::Request, http::StatusCode, routing::get};
use std::{sync::Mutex, time::Duration};
use tokio::{task::JoinSet, time::Instant};
use tollgate::Clock;
use tollgate_tower::{Pauses, PausesLayer};
use tower::{Layer, ServiceExt};

/// The number of requests received, and the time until which the server accepts no more.
static SERVER: Mutex<(u32, Option<Instant>)> = Mutex::new((0, None));

async fn page() -> Result<&'static str, (StatusCode, [(&'static str, &'static str); 1])> {
    let (came, shut_until) = &mut *SERVER.lock().unwrap();
    assert!(shut_until.is_none_or(|until| Instant::now() >= until));
    *came += 1;
    if *came == 5 {
        *shut_until = Some(Instant::now() + Duration::from_secs(10));
        return Err((StatusCode::TOO_MANY_REQUESTS, [("retry-after", "10")]));
    }
    Ok("a page")
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let layer = PausesLayer::new(Pauses::new().clock(Clock::tokio()));
    let client = layer.layer(Router::new().route("/", get(page)));
    let jobs = (0..20).map(|_| client.clone().oneshot(Request::new(Body::empty())));
    let answers = JoinSet::from_iter(jobs).join_all().await;
    assert!(answers.iter().flatten().all(|it| it.status() == 200));
    println!("20 pages, {} requests", SERVER.lock().unwrap().0);
}
