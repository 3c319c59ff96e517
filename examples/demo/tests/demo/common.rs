//! A demonstration in paused time, whose routes are called without a socket.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::body::Body;
use axum::extract::connect_info::MockConnectInfo;
use axum::http::{Request, Response};
use demo::app::{App, Running};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::time::{Duration, interval, sleep};
use tollgate::Clock;
use tower::ServiceExt;

const MS: Duration = Duration::from_millis(1);

/// A demonstration and its routes.
pub(crate) struct Demo {
    pub(crate) running: Running,
    pub(crate) router: Router,
}

impl Demo {
    /// Starts one, with the random numbers of a seed, and waits for its first event.
    pub(crate) async fn start() -> Self {
        fastrand::seed(7);
        // Tokio's clock began with the first test of this process; this one begins now, so that
        // limits see the same times in each run.
        let clock = Clock::manual();
        let running = App::start(Clock::from(&clock));
        tokio::spawn(async move {
            // It is ahead of tokio's by at most a millisecond: a sleep that is over is over for limits.
            let mut ticker = interval(MS);
            loop {
                ticker.tick().await;
                clock.advance(MS);
            }
        });
        let client = SocketAddr::from((Ipv4Addr::LOCALHOST, 4000));
        let router = running.app.router().layer(MockConnectInfo(client));
        running.app.next_event().await;
        Self { running, router }
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &str) -> Response<Body> {
        let request = Request::builder().method(method).uri(path);
        let request = request
            .body(Body::from(body.to_owned()))
            .expect("a valid request");
        let Ok(answer) = self.router.clone().oneshot(request).await;
        answer
    }

    pub(crate) async fn get(&self, path: &str) -> Response<Body> {
        self.send("GET", path, "").await
    }

    /// Returns the next event.
    pub(crate) async fn event(&self) -> Value {
        let event = self.running.app.next_event().await;
        serde_json::from_str(&event).expect("an event is JSON")
    }

    /// Returns the next event after a while.
    pub(crate) async fn event_after(&self, duration: Duration) -> Value {
        sleep(duration).await;
        self.event().await
    }
}

pub(crate) async fn text(answer: Response<Body>) -> String {
    let bytes = answer
        .into_body()
        .collect()
        .await
        .expect("the body is whole")
        .to_bytes();
    String::from_utf8(bytes.into()).expect("the body is text")
}

/// Returns a number of an event by the name of its series, as the page has it.
pub(crate) fn number(event: &Value, series: &str) -> f64 {
    let mut at = event;
    for part in series.split('.') {
        let rows = at.get("rows").unwrap_or(at).as_array();
        let row = rows.and_then(|rows| rows.iter().find(|row| row["id"] == part));
        at = row.unwrap_or(&at[part]);
    }
    at.as_f64()
        .unwrap_or_else(|| panic!("{series} is no number but {at}"))
}
