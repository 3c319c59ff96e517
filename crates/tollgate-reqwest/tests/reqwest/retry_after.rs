//! Clients that wait as long as servers ask for.

use futures::future::{join_all, try_join_all};
use reqwest_middleware::{ClientWithMiddleware, RequestBuilder};
use tokio::time::timeout;
use tollgate::fair::FairQueue;
use tollgate::{Semaphore, all};
use tollgate_reqwest::ThrottleMiddleware;

use super::*;

/// The status that a request gets in the end, and after which time.
async fn send(request: RequestBuilder) -> (u16, Duration) {
    let begun = Instant::now();
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), begun.elapsed())
}

fn client(retry: impl Into<RetryAfterMiddleware>, server: &Server) -> ClientWithMiddleware {
    builder().with(retry.into()).with(server.clone()).build()
}

#[tokio::test(start_paused = true)]
async fn middleware_sends_a_refused_request_again_after_the_pause() {
    let server = Server::new([refusal(5), refusal(2)]);
    let client = client(retry(), &server);
    assert_eq!(send(client.get("http://a.test/")).await, (200, 7 * SECOND));
    assert_eq!(server.times(), [0.0, 5.0, 7.0]);
}

#[tokio::test(start_paused = true)]
async fn middleware_sends_again_what_is_idempotent_and_can_be_cloned() {
    let stream = || reqwest::Body::wrap(reqwest::Body::from("text"));
    for (method, body, expected) in [
        ("PUT", Some("text".into()), 200),
        ("DELETE", None, 200),
        ("PUT", Some(stream()), 429),
        ("POST", None, 429),
    ] {
        let server = Server::new([refusal(5)]);
        let client = client(retry(), &server);
        let mut request = client.request(method.parse().unwrap(), "http://a.test/");
        if let Some(body) = body {
            request = request.body(body);
        }
        assert_eq!(send(request).await.0, expected, "{method}");
        // It has blocked the gate in any case.
        send(client.get("http://a.test/")).await;
        assert_eq!(server.times()[..2], [0.0, 5.0], "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn from_takes_the_settings_of_the_layer() {
    let server = Server::new([refusal(60), refusal(1)]);
    let client = client(exact().max_wait(5 * SECOND).retries(0), &server);
    let waits = [0, 5, 1].map(|seconds| seconds * SECOND);
    for (status, wait) in [429, 429, 200].into_iter().zip(waits) {
        assert_eq!(send(client.get("http://a.test/")).await, (status, wait));
    }
    assert_eq!(server.times(), [0.0, 5.0, 6.0]);
}

#[tokio::test(start_paused = true)]
async fn middleware_holds_all_requests_to_the_origin_and_no_others() {
    let server = Server::new([refusal(5)]);
    let retry = RetryAfterMiddleware::from(exact().retries(0));
    let clients = [client(retry.clone(), &server), client(retry, &server)];
    assert_eq!(send(clients[0].get("http://a.test/")).await.0, 429);
    let urls = [
        ("http://a.test/b?c", 5),
        ("http://u:p@A.TEST:80/", 5),
        ("https://a.test/", 0),
        ("http://a.test:81/", 0),
        ("http://b.test/", 0),
    ];
    let jobs = urls.map(|(url, seconds)| {
        let request = clients[1].get(url);
        async move { assert_eq!(send(request).await, (200, seconds * SECOND), "{url}") }
    });
    join_all(jobs).await;
    assert_eq!(server.times(), [0.0, 0.0, 0.0, 0.0, 5.0, 5.0]);
}

#[tokio::test(start_paused = true)]
async fn middleware_of_a_dropped_request_sends_nothing() {
    let server = Server::new([refusal(5)]);
    let client = client(retry(), &server);
    for _ in 0..2 {
        assert!(
            timeout(SECOND, send(client.get("http://a.test/")))
                .await
                .is_err()
        );
    }
    assert_eq!(send(client.get("http://a.test/")).await, (200, 3 * SECOND));
    assert_eq!(server.times(), [0.0, 5.0]);
}

/// Adds what is between the outer middleware and the innermost one.
type Inside = fn(ClientBuilder) -> ClientBuilder;

fn insides() -> [(&'static str, Inside); 5] {
    [
        ("nothing", |builder| builder),
        ("a rate", |builder| {
            builder.with(ThrottleMiddleware::new(limiter(Quota::per_second(10))))
        }),
        ("a semaphore", |builder| {
            builder.with(ThrottleMiddleware::new(Arc::new(Semaphore::new(2))))
        }),
        ("a fair queue", |builder| {
            let queue = FairQueue::new(Arc::new(Semaphore::new(2)));
            builder.with(ThrottleMiddleware::new(queue.class("a")))
        }),
        ("slots and a rate", |builder| {
            let slots = Arc::new(Semaphore::new(4));
            let both = all((slots, limiter(Quota::per_second(20).burst(5))));
            builder.with(ThrottleMiddleware::new(both))
        }),
    ]
}

/// The fifth and the thirtieth request are refused for ten seconds.
#[tokio::test(start_paused = true)]
async fn innermost_sends_no_request_in_a_pause() {
    for (what, inside) in insides() {
        for slots in [1, 4, 64] {
            let answers = (0..30).map(|number| match number {
                4 | 29 => refusal(10),
                _ => Response::default(),
            });
            let mut server = Server::new(answers);
            server.latency = Duration::from_millis(350);
            let retry = retry();
            let builder = builder()
                .with(ThrottleMiddleware::new(Arc::new(Semaphore::new(slots))))
                .with(retry.clone());
            let client = inside(builder)
                .with(retry.innermost())
                .with(server.clone())
                .build();
            let jobs = (0..100).map(|_| client.get("http://a.test/").send());
            let jobs = jobs.map(|job| async { job.await.map(|answer| answer.status()) });
            for status in try_join_all(jobs).await.unwrap() {
                assert_eq!(status, 200, "{what}, {slots} slots");
            }
            assert_eq!(server.sent_in_pauses(), [], "{what}, {slots} slots");
            assert_eq!(server.times().len(), 102, "{what}, {slots} slots");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pausing_sends_requests_one_by_one_after_the_pause() {
    let server = Server::new([refusal(10)]);
    let rate = limiter(Quota::per_second(10));
    let retry = RetryAfterMiddleware::from(exact().pausing(Arc::clone(&rate)));
    let client = builder()
        .with(retry.clone())
        .with(ThrottleMiddleware::new(rate))
        .with(retry.innermost())
        .with(server.clone())
        .build();
    let jobs = (0..20).map(|_| client.get("http://a.test/").send());
    try_join_all(jobs).await.unwrap();
    let after = (0..20).map(|nth| 10.0 + f64::from(nth) / 10.0);
    let expected: Vec<_> = std::iter::once(0.0).chain(after).collect();
    assert_eq!(server.times(), expected);
}
