//! A server of axum on loopback, and a client that does not wait for answers to send requests.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

/// A listening server. It stops when this is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    task: AbortHandle,
}

impl Server {
    pub(crate) async fn start(app: Router) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let serve = tokio::spawn(async { axum::serve(listener, app).await });
        let task = serve.abort_handle();
        Ok(Self { address, task })
    }

    /// Sends requests at random times, on average so many per second, and returns how long each
    /// successful one took from the time at which it was due. Requests that take longer than
    /// `patience` are given up.
    pub(crate) async fn load(
        &self,
        per_second: f64,
        duration: Duration,
        patience: Duration,
        seed: u64,
    ) -> Vec<Duration> {
        let client: Client<_, Body> = Client::builder(TokioExecutor::new()).build_http();
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
            let request = Request::get(format!("http://{}/", self.address));
            let request = request.body(Body::empty()).expect("it is valid");
            let answer = client.request(request);
            let latencies = Arc::clone(&latencies);
            requests.spawn(async move {
                let answer = tokio::time::timeout_at(due + patience, answer).await;
                if matches!(answer, Ok(Ok(answer)) if answer.status() == StatusCode::OK) {
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
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}
