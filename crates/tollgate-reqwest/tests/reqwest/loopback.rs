//! A real server on loopback, which counts what arrives.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use axum::body::Body;
use axum::routing::get;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tollgate::Semaphore;
use tollgate_reqwest::ThrottleMiddleware;

use super::*;

/// Counts the requests that reqwest is given while the server wants none. It is the last middleware.
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

/// The server holds the first requests until so many have arrived, refuses one of them for five seconds, and answers
/// the others when the client has that answer. So all that is under way has arrived before the pause, which ends
/// when the test says so, and no machine is too slow for this.
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
    let retry = RetryAfterMiddleware::from(exact().clock(&clock));
    let rate = burst.map(|burst| {
        let quota = Quota::per_second(10).burst(burst);
        Arc::new(RateLimiter::new(quota).clock(&clock))
    });
    let client = builder()
        .with(ThrottleMiddleware::new(Arc::new(Semaphore::new(slots))))
        .with(retry.clone())
        .with(ThrottleMiddleware::new(rate))
        .with(retry.innermost())
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
async fn innermost_sends_no_request_to_a_server_in_a_pause() {
    for slots in [1, 4, 64] {
        for burst in [None, Some(1), Some(3)] {
            sends_nothing_in_a_pause(slots, burst).await;
        }
    }
}

#[tokio::test]
async fn middleware_blocks_the_server_that_a_redirect_led_to() {
    let busy = async || (http::StatusCode::TOO_MANY_REQUESTS, [("retry-after", "5")]);
    let busy = OnLoopback::serve(Router::new().route("/", get(busy))).await;
    let to = busy.url.clone();
    let redirect = async move || axum::response::Redirect::temporary(&to);
    let first = OnLoopback::serve(Router::new().route("/", get(redirect))).await;

    let layer = exact().retries(0).clock(Clock::manual());
    let client = builder().with(RetryAfterMiddleware::from(layer.clone()));
    let answer = client.build().get(&first.url).send().await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), answer.url().as_str()),
        (429, &*busy.url)
    );
    let is_blocked = |url: &str| {
        let attempts = layer.attempts(url.trim_end_matches('/'));
        attempts.blocked().is_some()
    };
    assert!(is_blocked(&busy.url) && !is_blocked(&first.url));
}
