//! Clients of reqwest with middleware: in paused time in front of a server that is a middleware too, where every time
//! is exact, and on loopback.

mod beside;
mod loopback;
mod retry_after;
mod throttle;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use http::{Extensions, Response};
use reqwest::Request;
use reqwest_middleware::{ClientBuilder, Middleware, Next, Result};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tollgate::{Clock, Quota, RateLimiter};
use tollgate_reqwest::{RetryAfterLayer, RetryAfterMiddleware};

const SECOND: Duration = Duration::from_secs(1);

/// Gives the answers that it was made with, and 200 after these.
#[derive(Clone)]
struct Server {
    begun: Instant,
    latency: Duration,
    answers: Arc<Mutex<VecDeque<Response<&'static str>>>>,
    /// When requests were sent and refused, in this order.
    events: Arc<Mutex<Vec<Event>>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Sent(Duration),
    Refused(Duration),
}

impl Server {
    fn new(answers: impl IntoIterator<Item = Response<&'static str>>) -> Self {
        Self {
            begun: Instant::now(),
            latency: Duration::ZERO,
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            events: Arc::default(),
        }
    }

    fn push(&self, event: fn(Duration) -> Event) {
        self.events
            .lock()
            .unwrap()
            .push(event(self.begun.elapsed()));
    }

    /// When requests came since the last call, in seconds.
    fn times(&self) -> Vec<f64> {
        let events = std::mem::take(&mut *self.events.lock().unwrap());
        let sent = events.into_iter().filter_map(|event| match event {
            Event::Sent(at) => Some(at.as_secs_f64()),
            Event::Refused(_) => None,
        });
        sent.collect()
    }

    /// When requests were sent during a pause of ten seconds.
    fn sent_in_pauses(&self) -> Vec<Duration> {
        let mut until = Duration::ZERO;
        let events = self.events.lock().unwrap();
        let sent = events.iter().filter_map(|event| match *event {
            Event::Sent(at) => Some(at).filter(|at| *at < until),
            Event::Refused(at) => {
                until = until.max(at + 10 * SECOND);
                None
            }
        });
        sent.collect()
    }
}

#[async_trait::async_trait]
impl Middleware for Server {
    async fn handle(
        &self,
        _: Request,
        _: &mut Extensions,
        _: Next<'_>,
    ) -> Result<reqwest::Response> {
        self.push(Event::Sent);
        let answer = self.answers.lock().unwrap().pop_front();
        sleep(self.latency).await;
        let answer = answer.unwrap_or_default();
        if answer.status() == 429 {
            self.push(Event::Refused);
        }
        Ok(answer.into())
    }
}

fn refusal(seconds: u64) -> Response<&'static str> {
    let refusal = Response::builder().status(429);
    refusal.header("retry-after", seconds).body("").unwrap()
}

/// A client that begins with no middleware.
fn builder() -> ClientBuilder {
    ClientBuilder::new(reqwest::Client::new())
}

fn limiter(quota: Quota) -> Arc<RateLimiter> {
    Arc::new(RateLimiter::new(quota).clock(Clock::tokio()))
}

/// A layer whose pauses are exact, in tokio's time.
fn exact() -> RetryAfterLayer<Request> {
    RetryAfterLayer::copying(Request::try_clone)
        .jitter_percent(0)
        .clock(Clock::tokio())
}

fn retry() -> RetryAfterMiddleware {
    exact().into()
}

/// A server on loopback, which ends when this is dropped.
struct OnLoopback {
    url: String,
    task: JoinHandle<()>,
}

impl OnLoopback {
    async fn serve(app: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let task = tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
        Self { url, task }
    }
}

impl Drop for OnLoopback {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Lets others run until something has come about.
async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}
