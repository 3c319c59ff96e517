//! Tests clients that wait for as long as servers ask.

use futures::future::{join_all, try_join_all};
use reqwest::{ResponseBuilderExt, Url};
use reqwest_middleware::{ClientWithMiddleware, RequestBuilder};
use tokio::time::timeout;
use tollgate::fair::FairQueue;
use tollgate::{Keyed, Semaphore, all};
use tollgate_reqwest::ThrottleMiddleware;

use super::*;

/// Returns the final status of a request, and the time that it took.
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
        // The response has blocked the gate in any case.
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

/// Adds the middleware between the outermost and the innermost one.
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

/// The fourth request is charged at once and waits for one of three slots, and the fifth waits for the rate.
#[tokio::test(start_paused = true)]
async fn pausing_sends_the_first_of_the_rate_and_what_was_charged_before_at_its_end() {
    let mut server = Server::new([refusal(10)]);
    server.latency = SECOND / 2;
    let rate = limiter(Quota::per_second(1).burst(4));
    let retry = RetryAfterMiddleware::from(exact().pausing(Arc::clone(&rate)));
    let client = builder()
        .with(retry.clone())
        .with(ThrottleMiddleware::new(rate))
        .with(ThrottleMiddleware::new(Arc::new(Semaphore::new(3))))
        .with(retry.innermost())
        .with(server.clone())
        .build();
    let jobs = (0..5).map(|_| client.get("http://a.test/").send());
    try_join_all(jobs).await.unwrap();
    assert_eq!(server.times(), [0.0, 0.0, 0.0, 10.5, 10.5, 11.5]);
}

/// What reqwest returns when it has followed a redirect.
fn refusal_of(url: &str, seconds: u64) -> Response<&'static str> {
    let refusal = Response::builder().status(429);
    let refusal = refusal.header("retry-after", seconds);
    refusal.url(Url::parse(url).unwrap()).body("").unwrap()
}

#[tokio::test(start_paused = true)]
async fn middleware_blocks_the_origin_that_refused_after_a_redirect() {
    let refusals = [(); 2].map(|()| refusal_of("http://b.test/x", 5));
    let server = Server::new(refusals);
    let retry = RetryAfterMiddleware::from(exact().retries(1));
    let client = client(retry, &server);
    // It is sent again after the pause, and refused again.
    assert_eq!(send(client.get("http://a.test/")).await, (429, 5 * SECOND));
    let free = send(client.get("http://a.test/free")).await;
    assert_eq!(free, (200, Duration::ZERO));
    assert_eq!(send(client.get("http://b.test/")).await, (200, 5 * SECOND));
    assert_eq!(server.times(), [0.0, 5.0, 5.0, 10.0]);
}

/// The crawler of the guide, with two slots for all hosts.
fn crawler(server: &Server) -> ClientWithMiddleware {
    let hosts = Arc::new(Keyed::semaphores(1));
    let by_host = ThrottleMiddleware::by(move |request: &Request| {
        Arc::clone(&hosts).key_owned(request.url().authority().to_owned())
    });
    let total = ThrottleMiddleware::new(Arc::new(Semaphore::new(2)));
    let retry = retry();
    builder()
        .with(retry.clone())
        .with(by_host.release_after(2 * SECOND).clock(Clock::tokio()))
        .with(retry.innermost())
        .with(total)
        .with(retry.innermost())
        .with(server.clone())
        .build()
}

#[tokio::test(start_paused = true)]
async fn crawler_with_retries_leaves_two_seconds_between_requests_to_a_host() {
    let server = Server::new([refusal(0), refusal(1)]);
    let answer = send(crawler(&server).get("http://a.test/")).await;
    assert_eq!(answer, (200, 4 * SECOND));
    assert_eq!(server.times(), [0.0, 2.0, 4.0]);
}

/// Two requests to each of the paused hosts wait, and the total has two slots.
#[tokio::test(start_paused = true)]
async fn crawler_with_paused_hosts_holds_no_slots_of_all() {
    let server = Server::new([refusal(50), refusal(50)]);
    let client = crawler(&server);
    let paused = ["a.test/", "b.test/", "a.test/2", "b.test/2"];
    let paused = join_all(paused.map(|url| send(client.get(format!("http://{url}")))));
    let other = async {
        sleep(3 * SECOND).await;
        send(client.get("http://c.test/")).await
    };
    let (paused, other) = tokio::join!(paused, other);
    assert_eq!(other, (200, Duration::ZERO));
    let mut waits: Vec<_> = paused.into_iter().map(|(_, wait)| wait).collect();
    waits.sort();
    assert_eq!(waits, [50, 50, 52, 52].map(|seconds| seconds * SECOND));
    assert_eq!(server.times(), [0.0, 0.0, 3.0, 50.0, 50.0, 52.0, 52.0]);
}
