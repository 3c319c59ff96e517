//! Together with other middleware.

use futures::future::try_join_all;
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;
use reqwest_tracing::TracingMiddleware;
use tollgate::Semaphore;
use tollgate_reqwest::ThrottleMiddleware;

use super::*;

/// What fails is sent again by reqwest-retry and what is refused by ours, each within the limits.
#[tokio::test(start_paused = true)]
async fn middleware_works_inside_of_retries_and_traces() {
    let failure = Response::builder().status(500).body("").unwrap();
    let mut server = Server::new([Response::default(), failure, refusal(10)]);
    server.latency = Duration::from_millis(350);
    let backoff = ExponentialBackoff::builder().build_with_max_retries(3);
    let retry = retry();
    let client = builder()
        .with(TracingMiddleware::default())
        .with(RetryTransientMiddleware::new_with_policy(backoff))
        .with(ThrottleMiddleware::new(Arc::new(Semaphore::new(8))))
        .with(retry.clone())
        .with(ThrottleMiddleware::new(limiter(Quota::per_second(10))))
        .with(retry.innermost())
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

/// A refusal that ours hands on, because the method may have an effect or the pause is too long, is repeated by
/// reqwest-retry, and that waits at the gate.
#[tokio::test(start_paused = true)]
async fn middleware_holds_the_attempts_of_reqwest_retry() {
    for (method, seconds) in [("POST", 10), ("GET", 3600)] {
        let server = Server::new([refusal(seconds), refusal(seconds)]);
        // It waits for no longer than the pause.
        let backoff = ExponentialBackoff::builder().retry_bounds(SECOND, 5 * SECOND);
        let backoff = backoff.build_with_max_retries(3);
        let client = builder()
            .with(RetryTransientMiddleware::new_with_policy(backoff))
            .with(RetryAfterMiddleware::from(exact().max_wait(10 * SECOND)))
            .with(server.clone())
            .build();
        let request = client.request(method.parse().unwrap(), "http://a.test/");
        assert_eq!(request.body("text").send().await.unwrap().status(), 200);
        assert_eq!(server.sent_in_pauses(), [], "{method}");
        assert_eq!(server.times(), [0.0, 10.0, 20.0], "{method}");
    }
}
