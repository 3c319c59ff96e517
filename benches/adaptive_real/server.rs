//! A server of axum on loopback, and a client that does not wait for answers to send requests.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::http::response::Parts;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout_at};

/// A listening server. It stops when this is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    client: Client<HttpConnector, Body>,
    task: AbortHandle,
}

impl Server {
    pub(crate) async fn start(app: Router) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let serve = tokio::spawn(async { axum::serve(listener, app).await });
        let task = serve.abort_handle();
        Ok(Self {
            address,
            client: Client::builder(TokioExecutor::new()).build_http(),
            task,
        })
    }

    /// Sends a request when it is polled, and returns the head of its answer, if there is one.
    pub(crate) fn request(&self) -> impl Future<Output = Option<Parts>> + Send + use<> {
        let request = Request::get(format!("http://{}/", self.address));
        let request = request.body(Body::empty()).expect("it is valid");
        let answer = self.client.clone();
        async move { Some(answer.request(request).await.ok()?.into_parts().0) }
    }
}

/// Sends requests at random times, on average so many per second, and returns how long each
/// successful one took from the time at which it was due. Requests that take longer than
/// `patience` are given up.
pub(crate) async fn load<F>(
    per_second: f64,
    duration: Duration,
    patience: Duration,
    seed: u64,
    request: impl Fn() -> F,
) -> Vec<Duration>
where
    F: Future<Output = bool> + Send + 'static,
{
    let latencies = Arc::new(Mutex::new(Vec::new()));
    let mut random = SmallRng::seed_from_u64(seed);
    let mut requests = JoinSet::new();
    let start = Instant::now();
    let mut due = start;
    loop {
        let unit: f64 = random.random();
        due += Duration::from_secs_f64(-(1.0 - unit).ln() / per_second);
        if due - start >= duration {
            break;
        }
        sleep_until(due).await;
        let answer = request();
        let latencies = Arc::clone(&latencies);
        requests.spawn(async move {
            if let Ok(true) = timeout_at(due + patience, answer).await {
                let mut latencies = latencies.lock().expect("nobody panics");
                latencies.push(due.elapsed());
            }
        });
        // Those that are over are not kept.
        while requests.try_join_next().is_some() {}
    }
    while requests.join_next().await.is_some() {}
    let mut latencies = latencies.lock().expect("nobody panics");
    std::mem::take(&mut *latencies)
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}
