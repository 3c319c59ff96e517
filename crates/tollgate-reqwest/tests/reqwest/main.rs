//! Clients of reqwest with middleware: in paused time in front of a server that is a middleware too, where every time
//! is exact, and on loopback.

mod pauses;
mod random;
mod refusals;
mod throttle;

use std::collections::VecDeque;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use futures::future::try_join_all;
use http::{Extensions, Response};
use reqwest::Request;
use reqwest_middleware::{ClientBuilder, Middleware, Next, Result};
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_tracing::TracingMiddleware;
use tokio::net::TcpListener;
use tokio::sync::Barrier;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};
use tollgate::{Clock, Quota, RateLimiter, Semaphore, all};
use tollgate_reqwest::{Paused, Pauses, PausesMiddleware, ThrottleMiddleware};

const SECOND: Duration = Duration::from_secs(1);

/// Returns the given responses, and 200 after these.
#[derive(Clone)]
struct Server {
    begun: Instant,
    latency: Duration,
    answers: Arc<Mutex<VecDeque<Response<&'static str>>>>,
    /// The times at which requests were sent and refused, in this order.
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

    /// Returns the times of the requests since the last call, in seconds.
    fn times(&self) -> Vec<f64> {
        let events = std::mem::take(&mut *self.events.lock().unwrap());
        let sent = events.into_iter().filter_map(|event| match event {
            Event::Sent(at) => Some(at.as_secs_f64()),
            Event::Refused(_) => None,
        });
        sent.collect()
    }

    /// Returns the times at which requests were sent during a pause of ten seconds.
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

/// A client of reqwest. Where reqwest has TLS, it needs a provider, which the first call installs.
fn plain() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

/// A client that begins with no middleware.
fn builder() -> ClientBuilder {
    ClientBuilder::new(plain())
}

fn limiter(quota: Quota) -> Arc<RateLimiter> {
    Arc::new(RateLimiter::new(quota).clock(Clock::tokio()))
}

/// Pauses that are exact, in tokio's time.
fn exact() -> Pauses {
    let pauses = Pauses::new().jitter_percent(0).max_wait(60 * SECOND);
    pauses.clock(Clock::tokio())
}

/// Pauses whose callers wait for as long as it takes.
fn patient() -> Pauses {
    exact().max_wait(Duration::MAX)
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

/// Lets other tasks run until a condition is true.
async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}

// Together with other middleware.

/// Failed requests are repeated by reqwest-retry, and refused ones by our middleware, both within the limits.
#[tokio::test(start_paused = true)]
async fn middleware_works_inside_of_retries_and_traces() {
    let failure = Response::builder().status(500).body("").unwrap();
    let mut server = Server::new([Response::default(), failure, refusal(10)]);
    server.latency = Duration::from_millis(350);
    let backoff = ExponentialBackoff::builder().build_with_max_retries(3);
    let slots = Arc::new(Semaphore::new(8));
    let throttle = all((slots, limiter(Quota::per_second(10))));
    let client = builder()
        .with(TracingMiddleware::default())
        .with(RetryTransientMiddleware::new_with_policy(backoff))
        .with(PausesMiddleware::new(exact()).behind(throttle))
        .with(TracingMiddleware::default())
        .with(server.clone())
        .build();
    let jobs = (0..20).map(|_| client.get("http://a.test/").send());
    let jobs = jobs.map(|job| async { job.await.map(|answer| answer.status()) });
    for status in try_join_all(jobs).await.unwrap() {
        assert_eq!(status, 200);
    }
    assert_eq!(server.sent_in_pauses(), []);
    assert_eq!(server.times().len(), 22);
}

/// When our middleware passes a refusal on, because the method may have an effect, reqwest-retry repeats the request,
/// which waits at the gate.
#[tokio::test(start_paused = true)]
async fn middleware_holds_the_attempts_of_reqwest_retry() {
    let refusal = || {
        let refusal = Response::builder().status(503);
        refusal.header("retry-after", 10).body("").unwrap()
    };
    let server = Server::new([refusal(), refusal()]);
    // It waits for no longer than the pause.
    let backoff = ExponentialBackoff::builder().retry_bounds(SECOND, 5 * SECOND);
    let backoff = backoff.build_with_max_retries(3);
    let client = builder()
        .with(RetryTransientMiddleware::new_with_policy(backoff))
        .with(PausesMiddleware::new(exact()))
        .with(server.clone())
        .build();
    let request = client.post("http://a.test/");
    assert_eq!(request.body("text").send().await.unwrap().status(), 200);
    assert_eq!(server.times(), [0.0, 10.0, 20.0]);
}

// A real server on loopback, which counts what arrives.

/// Counts the requests that reach reqwest while the server wants none. It is the last middleware.
#[derive(Clone, Default)]
struct Recorder {
    is_paused: Arc<AtomicBool>,
    in_pause: Arc<AtomicUsize>,
}

#[async_trait::async_trait]
impl Middleware for Recorder {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<reqwest::Response> {
        let in_pause = usize::from(self.is_paused.load(SeqCst));
        self.in_pause.fetch_add(in_pause, SeqCst);
        let answer = next.run(request, extensions).await?;
        if answer.status() == 429 {
            self.is_paused.store(true, SeqCst);
        }
        Ok(answer)
    }
}

/// The server holds the first requests until this number has arrived, refuses one of them for five seconds, and
/// answers the others when the client has the refusal. So all requests in flight have arrived before the pause,
/// which the test ends, and the test works on a machine of any speed.
async fn sends_nothing_in_a_pause(slots: usize, burst: Option<u64>) {
    let held = burst.map_or(slots, |burst| slots.min(usize::try_from(burst).unwrap()));
    let (at_once, arrived) = (Arc::new(Barrier::new(held)), Arc::new(AtomicUsize::new(0)));
    let recorder = Recorder::default();
    let page = {
        let (arrived, is_paused) = (Arc::clone(&arrived), Arc::clone(&recorder.is_paused));
        async move || {
            let mut answer = Response::builder();
            if arrived.fetch_add(1, SeqCst) < held {
                if at_once.wait().await.is_leader() {
                    answer = answer.status(429).header("retry-after", "5");
                } else {
                    until(|| is_paused.load(SeqCst)).await;
                }
            }
            answer.body(Body::empty()).unwrap()
        }
    };
    let server = OnLoopback::serve(Router::new().route("/", get(page))).await;

    let clock = Clock::manual();
    let pauses = patient().clock(&clock);
    let rate = burst.map(|burst| {
        let quota = Quota::per_second(10).burst(burst);
        Arc::new(RateLimiter::new(quota).clock(&clock))
    });
    let throttle = all((Arc::new(Semaphore::new(slots)), rate));
    let client = builder()
        .with(PausesMiddleware::new(pauses).behind(throttle))
        .with(recorder.clone())
        .build();
    let requests = slots + 8;
    let mut jobs = JoinSet::new();
    for _ in 0..requests {
        let answer = client.get(&server.url).send();
        jobs.spawn(async move { answer.await.unwrap().status() });
    }

    until(|| recorder.is_paused.load(SeqCst)).await;
    for _ in 0..49 {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        clock.advance(Duration::from_millis(100));
    }
    assert_eq!(arrived.load(SeqCst), held);
    recorder.is_paused.store(false, SeqCst);
    let mut statuses = Vec::new();
    until(|| {
        clock.advance(Duration::from_millis(100));
        statuses.extend(std::iter::from_fn(|| jobs.try_join_next()));
        statuses.len() == requests
    })
    .await;
    for status in statuses {
        assert_eq!(status.unwrap(), 200);
    }
    assert_eq!(recorder.in_pause.load(SeqCst), 0);
    assert_eq!(arrived.load(SeqCst), requests + 1);
}

#[tokio::test]
async fn middleware_sends_no_request_to_a_server_in_a_pause() {
    for slots in [1, 4, 64] {
        for burst in [None, Some(1), Some(3)] {
            sends_nothing_in_a_pause(slots, burst).await;
        }
    }
}

/// A server that refuses each request, and one that redirects to it. It counts the requests to the first.
async fn redirecting() -> (OnLoopback, OnLoopback, Arc<AtomicUsize>) {
    let arrived = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&arrived);
    let busy = async move || {
        counted.fetch_add(1, SeqCst);
        (http::StatusCode::TOO_MANY_REQUESTS, [("retry-after", "5")])
    };
    let busy = OnLoopback::serve(Router::new().route("/", get(busy))).await;
    let to = busy.url.clone();
    let redirect = async move || axum::response::Redirect::temporary(&to);
    let first = OnLoopback::serve(Router::new().route("/", get(redirect))).await;
    (first, busy, arrived)
}

fn is_paused(pauses: &Pauses, server: &OnLoopback) -> bool {
    pauses.check(server.url.trim_end_matches('/')).is_err()
}

#[tokio::test]
async fn middleware_pauses_the_server_that_a_redirect_led_to() {
    let (first, busy, _) = redirecting().await;
    let pauses = exact().retries(0).clock(Clock::manual());
    let client = builder().with(PausesMiddleware::new(pauses.clone()));
    let answer = client.build().get(&first.url).send().await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), answer.url().as_str()),
        (429, &*busy.url)
    );
    assert!(is_paused(&pauses, &busy) && !is_paused(&pauses, &first));
}

#[tokio::test]
async fn redirect_policy_stops_a_hop_into_a_pause() {
    let (first, busy, arrived) = redirecting().await;
    let clock = Clock::manual();
    let pauses = exact().retries(0).clock(&clock);
    let middleware = PausesMiddleware::new(pauses.clone());
    let _with_provider = plain();
    let client = reqwest::Client::builder().redirect(middleware.redirect_policy());
    let client = ClientBuilder::new(client.build().unwrap()).with(middleware);
    let client = client.build();
    let answer = client.get(&first.url).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), arrived.load(SeqCst)), (429, 1));
    // The first server is not paused, and redirects.
    let error = client.get(&first.url).send().await.unwrap_err();
    let paused = Paused::in_chain(&error).expect("a pause");
    assert_eq!(paused.remaining(), Some(5 * SECOND));
    assert_eq!(paused.origin(), busy.url.trim_end_matches('/'));
    assert_eq!(arrived.load(SeqCst), 1);
    clock.advance(5 * SECOND);
    let answer = client.get(&first.url).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), arrived.load(SeqCst)), (429, 2));
    // It follows other redirects as before, up to the usual number.
    let again = async move || axum::response::Redirect::temporary("/");
    let again = OnLoopback::serve(Router::new().route("/", get(again))).await;
    let error = client.get(&again.url).send().await.unwrap_err();
    assert!(error.is_redirect() && Paused::in_chain(&error).is_none());
}

/// A server `there` and `back`: the first redirects to the second, which redirects to another page of the first.
#[tokio::test]
async fn redirect_policy_follows_a_way_back_unless_one_of_the_servers_is_paused() {
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let page = |name: &'static str, to: Arc<Mutex<String>>| {
        let arrived = Arc::clone(&arrived);
        get(async move || {
            arrived.lock().unwrap().push(name);
            axum::response::Redirect::temporary(&to.lock().unwrap())
        })
    };
    let refused = {
        let arrived = Arc::clone(&arrived);
        get(async move || {
            arrived.lock().unwrap().push("end");
            (http::StatusCode::TOO_MANY_REQUESTS, [("retry-after", "5")])
        })
    };
    let [to_back, to_end] = [(); 2].map(|()| Arc::new(Mutex::new(String::new())));
    let there = Router::new().route("/", page("there", Arc::clone(&to_back)));
    let there = OnLoopback::serve(there.route("/end", refused)).await;
    let back = Router::new().route("/", page("back", Arc::clone(&to_end)));
    let back = OnLoopback::serve(back).await;
    back.url.clone_into(&mut to_back.lock().unwrap());
    *to_end.lock().unwrap() = format!("{}end", there.url);

    let clock = Clock::manual();
    let pauses = exact().retries(0).max_wait(Duration::ZERO).clock(&clock);
    let middleware = PausesMiddleware::new(pauses.clone());
    let _with_provider = plain();
    let client = reqwest::Client::builder().redirect(middleware.redirect_policy());
    let client = ClientBuilder::new(client.build().unwrap()).with(middleware);
    let client = client.build();
    let arrivals = || std::mem::take(&mut *arrived.lock().unwrap());
    // The first server refuses the last hop.
    let response = client.get(&there.url).send().await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(arrivals(), ["there", "back", "end"]);
    assert!(is_paused(&pauses, &there) && !is_paused(&pauses, &back));
    let error = client.get(&there.url).send().await.unwrap_err();
    assert!(error.is_middleware() && Paused::in_chain(&error).is_some());
    // The second one redirects into the pause.
    let error = client.get(&back.url).send().await.unwrap_err();
    assert!(error.is_redirect() && Paused::in_chain(&error).is_some());
    assert_eq!(arrivals(), ["back"]);
    clock.advance(5 * SECOND);
    pauses.pause(back.url.trim_end_matches('/'), SECOND);
    let error = client.get(&there.url).send().await.unwrap_err();
    assert!(error.is_redirect() && Paused::in_chain(&error).is_some());
    assert_eq!(arrivals(), ["there"]);
}
