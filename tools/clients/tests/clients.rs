//! Tests that the requests of these clients keep the limits: a maximum of simultaneous requests, the rate, and none
//! during a pause. Time passes only when a test advances it, so a slow machine makes no test fail.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Barrier;
use tokio::task::{JoinHandle, JoinSet, yield_now};
use tollgate::time::{ManualClock, Tick};
use tollgate::{Clock, Quota, RateLimiter, Semaphore};
use tollgate_tower::Pauses;

const STEP: Duration = Duration::from_millis(100);
/// The number of requests, and the number of slots.
const REQUESTS: usize = 20;
const SLOTS: usize = 4;

/// A server on loopback, which ends on drop.
struct Server {
    url: String,
    clock: ManualClock,
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    arrived: Mutex<Vec<Tick>>,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
}

impl Server {
    /// Starts a server that refuses the first `refused` requests for five seconds.
    async fn refusing(refused: usize) -> Self {
        Self::start(move |nth| async move { nth >= refused }).await
    }

    /// Starts a server that answers requests only when one request per slot has arrived.
    async fn holding() -> Self {
        let all = Arc::new(Barrier::new(SLOTS));
        Self::start(move |_| {
            let all = Arc::clone(&all);
            async move {
                all.wait().await;
                true
            }
        })
        .await
    }

    async fn start<F>(answers: impl Fn(usize) -> F + Clone + Send + Sync + 'static) -> Self
    where
        F: Future<Output = bool> + Send,
    {
        let (clock, seen) = (Clock::manual(), Arc::<Seen>::default());
        let app = {
            let (clock, seen) = (clock.clone(), Arc::clone(&seen));
            Router::new().fallback(async move || -> Response {
                let nth = {
                    let mut arrived = seen.arrived.lock().unwrap();
                    arrived.push(clock.now());
                    arrived.len() - 1
                };
                let at_once = seen.at_once.fetch_add(1, SeqCst) + 1;
                seen.most_at_once.fetch_max(at_once, SeqCst);
                let answers = answers(nth).await;
                seen.at_once.fetch_sub(1, SeqCst);
                if answers {
                    let fields = [("x-ratelimit-remaining-tokens", "17")];
                    (fields, Json(completion())).into_response()
                } else {
                    let error = json!({ "error": { "message": "slow down" } });
                    (
                        StatusCode::TOO_MANY_REQUESTS,
                        [("retry-after", "5")],
                        Json(error),
                    )
                        .into_response()
                }
            })
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async { axum::serve(listener, app).await.unwrap() });
        Self {
            url,
            clock,
            seen,
            task,
        }
    }

    fn slots(&self) -> Arc<Semaphore> {
        Arc::new(Semaphore::new(SLOTS))
    }

    fn rate(&self, quota: Quota) -> Arc<RateLimiter> {
        Arc::new(RateLimiter::new(quota).clock(&self.clock))
    }

    /// Returns pauses whose callers wait for as long as it takes.
    fn pauses(&self) -> Pauses {
        let pauses = Pauses::new().max_wait(Duration::MAX);
        pauses.clock(&self.clock)
    }

    /// Advances the time of tokio and of the limiters in steps until all requests are answered. During a pause, the
    /// time stands still until the client knows of it.
    async fn run<F>(&self, jobs: impl IntoIterator<Item = F>, pause: Option<&Pauses>)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut jobs = JoinSet::from_iter(jobs);
        while pause.is_some_and(|pauses| pauses.snapshot().paused == 0) {
            yield_now().await;
        }
        while !jobs.is_empty() {
            for _ in 0..20 {
                yield_now().await;
            }
            self.clock.advance(STEP);
            tokio::time::advance(STEP).await;
            while let Some(job) = jobs.try_join_next() {
                job.unwrap();
            }
        }
    }

    /// Returns the arrival times of requests, in steps.
    fn arrived(&self) -> Vec<u128> {
        let arrived = self.seen.arrived.lock().unwrap();
        let steps = arrived
            .iter()
            .map(|at| u128::from(at.as_nanos()) / STEP.as_nanos());
        steps.collect()
    }
}

/// Asserts that nothing arrives in the pause after the first request, and that the requests then come at the rate.
#[track_caller]
fn assert_paused_and_then_at_the_rate(arrived: &[u128]) {
    assert_eq!((arrived.len(), arrived[0]), (REQUESTS + 1, 0));
    for (nth, at) in arrived[1..].iter().enumerate() {
        assert!(*at >= 50 + nth as u128, "{arrived:?}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the answer of a model, which also serves every other request.
fn completion() -> Value {
    json!({
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "a model",
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": "hello" },
            "finish_reason": "stop",
        }],
    })
}

/// Tests octocrab, in layers of tower.
mod github {
    use clients::github;
    use octocrab::Octocrab;

    use super::*;

    async fn repository(client: Octocrab) {
        let answer: Value = client.get("/repos/a/b", None::<&()>).await.unwrap();
        assert_eq!(answer, completion());
    }

    #[tokio::test(start_paused = true)]
    async fn client_sends_nothing_in_a_pause_and_then_at_the_rate() {
        let server = Server::refusing(1).await;
        let rate = server.rate(Quota::per_second(10));
        let pauses = server.pauses();
        let url = server.url.parse().unwrap();
        let client = github::client(url, server.slots(), rate, pauses.clone());
        let jobs = (0..REQUESTS).map(|_| repository(client.clone()));
        server.run(jobs, Some(&pauses)).await;
        assert_paused_and_then_at_the_rate(&server.arrived());
    }

    #[tokio::test(start_paused = true)]
    async fn client_sends_as_many_at_once_as_there_are_slots() {
        let server = Server::holding().await;
        let rate = server.rate(Quota::UNLIMITED);
        let url = server.url.parse().unwrap();
        let client = github::client(url, server.slots(), rate, Pauses::new());
        let jobs = (0..REQUESTS).map(|_| repository(client.clone()));
        server.run(jobs, None).await;
        assert_eq!(server.seen.most_at_once.load(SeqCst), SLOTS);
    }
}

/// Tests async-openai, with middleware of reqwest and with a layer of tower.
mod openai {
    use async_openai::Client;
    use async_openai::config::OpenAIConfig;
    use async_openai::types::chat::{
        ChatCompletionRequestUserMessage, CreateChatCompletionRequest, CreateChatCompletionResponse,
    };
    use clients::openai;
    use reqwest::Request;
    use tollgate_reqwest::server_limits::Unit;
    use tollgate_reqwest::{ApiLimit, ApiLimits};

    use super::*;

    /// Limits of 10 requests a second, one by one, and of 98 tokens a minute, of which each request
    /// takes one.
    fn limits(server: &Server) -> ApiLimits<Request> {
        let requests = ApiLimit::new(Unit::Requests, 10, Duration::from_secs(1)).burst(1);
        let tokens = ApiLimit::new(Unit::Tokens, 100, Duration::from_secs(60));
        let clock = |limit: ApiLimit<Request>| limit.clock(&server.clock);
        ApiLimits::new([requests, tokens].map(clock))
    }

    async fn chat(client: Client<OpenAIConfig>) {
        let request = CreateChatCompletionRequest {
            model: "a model".into(),
            messages: vec![ChatCompletionRequestUserMessage::from("hello").into()],
            ..Default::default()
        };
        let answer = client.chat().create(request).await;
        let answer: CreateChatCompletionResponse = answer.unwrap();
        assert_eq!(answer.choices[0].message.content.as_deref(), Some("hello"));
    }

    #[tokio::test(start_paused = true)]
    async fn client_sends_nothing_in_a_pause_and_then_at_the_rate() {
        let server = Server::refusing(1).await;
        let (limits, pauses) = (limits(&server), server.pauses());
        let client = openai::client(&server.url, server.slots(), limits, pauses.clone());
        let jobs = (0..REQUESTS).map(|_| chat(client.clone()));
        server.run(jobs, Some(&pauses)).await;
        assert_paused_and_then_at_the_rate(&server.arrived());
    }

    /// The server says that others have taken most of the tokens.
    #[tokio::test(start_paused = true)]
    async fn client_follows_what_the_server_reports() {
        let server = Server::refusing(0).await;
        let limits = limits(&server);
        let client = openai::client(&server.url, server.slots(), limits.clone(), Pauses::new());
        server.run([chat(client)], None).await;
        let tokens = limits.limiters().nth(1).unwrap();
        assert_eq!(tokens.snapshot().available, 15);
    }

    #[tokio::test(start_paused = true)]
    async fn throttled_sends_every_attempt_at_the_rate() {
        let server = Server::refusing(3).await;
        let rate = server.rate(Quota::per_second(10));
        let client = openai::throttled(&server.url, server.slots(), rate);
        let jobs = (0..REQUESTS).map(|_| chat(client.clone()));
        server.run(jobs, None).await;
        let arrived = server.arrived();
        assert_eq!(arrived.len(), REQUESTS + 3);
        for (nth, at) in arrived.iter().enumerate() {
            assert!(*at >= nth as u128, "{arrived:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn clients_send_as_many_at_once_as_there_are_slots() {
        for is_throttled in [false, true] {
            let server = Server::holding().await;
            let rate = server.rate(Quota::UNLIMITED);
            let client = if is_throttled {
                openai::throttled(&server.url, server.slots(), rate)
            } else {
                {
                    let limits = ApiLimits::new([]);
                    openai::client(&server.url, server.slots(), limits, Pauses::new())
                }
            };
            let jobs = (0..REQUESTS).map(|_| chat(client.clone()));
            server.run(jobs, None).await;
            assert_eq!(server.seen.most_at_once.load(SeqCst), SLOTS);
        }
    }
}
