//! Clients that wait as long as servers ask them to, in paused time: every time is exact.

mod gates;
mod jitter;
mod layers;
mod retries;
mod servers;
mod stacks;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, Response};
use http_body_util::Full;
use tokio::time::Instant;
use tollgate::Clock;
use tollgate_tower::{RetryAfterLayer, RetryAfterService};
use tower::{Layer, Service, ServiceExt};

type Body = Full<Bytes>;

const SECOND: Duration = Duration::from_secs(1);

/// A request that has come: when, in seconds from the beginning, and what.
type Came = (f64, String);

/// A server that gives the answers that were put down for it, and 200 after these.
#[derive(Clone)]
struct Server {
    begun: Instant,
    answers: Arc<Mutex<VecDeque<Response<Body>>>>,
    came: Arc<Mutex<Vec<Came>>>,
}

impl Server {
    fn new<const N: usize>(answers: [Response<Body>; N]) -> Self {
        Self {
            begun: Instant::now(),
            answers: Arc::new(Mutex::new(answers.into())),
            came: Arc::default(),
        }
    }

    /// What has come since the last time.
    fn came(&self) -> Vec<Came> {
        std::mem::take(&mut self.came.lock().unwrap())
    }

    /// When it came.
    fn times(&self) -> Vec<f64> {
        self.came().into_iter().map(|(at, _)| at).collect()
    }
}

impl Service<Request<Body>> for Server {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let what = format!("{} {}", request.method(), request.uri());
        let came = (self.begun.elapsed().as_secs_f64(), what);
        self.came.lock().unwrap().push(came);
        let answer = self.answers.lock().unwrap().pop_front();
        ready(Ok(answer.unwrap_or_default()))
    }
}

/// An answer with fields.
fn answer(status: u16, fields: &[(&'static str, &str)]) -> Response<Body> {
    let mut answer = Response::builder().status(status);
    for (name, value) in fields {
        answer = answer.header(*name, *value);
    }
    answer.body(Body::default()).unwrap()
}

fn refusal(seconds: &str) -> Response<Body> {
    answer(429, &[("retry-after", seconds)])
}

/// A layer whose waits are exact.
fn exact() -> RetryAfterLayer<Body> {
    RetryAfterLayer::copying(|body: &Body| Some(body.clone()))
        .jitter_percent(0)
        .clock(Clock::tokio())
}

/// The status that a request gets in the end, and when.
async fn send<S>(client: &RetryAfterService<S, Body>, method: &str, uri: &str) -> (u16, Duration)
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone,
{
    let begun = Instant::now();
    let request = Request::builder().method(method).uri(uri);
    let request = request.body(Body::from("text")).unwrap();
    let answer = client.clone().oneshot(request).await.unwrap();
    (answer.status().as_u16(), begun.elapsed())
}

async fn get<S>(client: &RetryAfterService<S, Body>) -> (u16, Duration)
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone,
{
    send(client, "GET", "http://a.test/").await
}

/// A server, and a client of it.
fn setup<const N: usize>(
    layer: &RetryAfterLayer<Body>,
    answers: [Response<Body>; N],
) -> (Server, RetryAfterService<Server, Body>) {
    let server = Server::new(answers);
    let client = layer.layer(server.clone());
    (server, client)
}
