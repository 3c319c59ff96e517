//! A demonstration in paused time, whose routes are called without a socket.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::body::Body;
use axum::extract::connect_info::MockConnectInfo;
use axum::http::{Request, Response};
use demo::app::{App, Running};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::time::{Duration, sleep};
use tollgate::Clock;
use tower::ServiceExt;

/// A demonstration and its routes.
pub(crate) struct Demo {
    pub(crate) running: Running,
    pub(crate) router: Router,
}

impl Demo {
    /// Starts one, with the random numbers of a seed, and waits for its first event.
    pub(crate) async fn start() -> Self {
        fastrand::seed(7);
        let running = App::start(Clock::tokio());
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
