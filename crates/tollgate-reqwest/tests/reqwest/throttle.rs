//! Tests requests that wait for their permits, and the time for which the permits are held.

use std::error::Error as _;

use axum::body::Body;
use axum::routing::get;
use axum::{Json, Router};
use futures::future::{join_all, try_join_all};
use futures::stream::{self, StreamExt};
use reqwest_middleware::{ClientWithMiddleware, Error};
use tokio::sync::Semaphore as Signal;
use tokio::time::timeout;
use tollgate::semaphore::Resting;
use tollgate::throttle::{BoxThrottle, Feedback};
use tollgate::{AcquireError, ErrorKind, Keyed};
use tollgate_adaptive::{AdaptiveSemaphore, Shared};
use tollgate_reqwest::feedback;

use super::*;

#[tokio::test(start_paused = true)]
async fn new_sends_requests_at_the_rate() {
    let server = Server::new([]);
    let rate = ThrottleMiddleware::new(limiter(Quota::per_second(10).burst(2)));
    let client = builder().with(rate).with(server.clone()).build();
    let jobs = (0..5).map(|_| client.get("http://a.test/").send());
    for answer in try_join_all(jobs).await.unwrap() {
        assert_eq!(answer.status(), 200);
    }
    assert_eq!(server.times(), [0.0, 0.0, 0.1, 0.2, 0.3]);
}

#[tokio::test(start_paused = true)]
async fn by_chooses_for_each_host_and_route() {
    let server = Server::new([]);
    let limiter = RateLimiter::new(Quota::per_second(1)).clock(Clock::tokio());
    let hosts = Arc::new(Keyed::<String, _>::new(limiter));
    let client = builder()
        .with(ThrottleMiddleware::by(move |request: &Request| {
            let host = request.url().host_str().unwrap().to_owned();
            (request.url().path() != "/free").then(|| Arc::clone(&hosts).key_owned(host))
        }))
        .with(server.clone())
        .build();
    let urls = ["a.test/", "a.test/", "b.test/", "b.test/", "a.test/free"];
    let jobs = urls.map(|url| client.get(format!("http://{url}")).send());
    try_join_all(jobs).await.unwrap();
    assert_eq!(server.times(), [0.0, 0.0, 0.0, 1.0, 1.0]);
}

/// A client behind one slot, and a server whose page `/slow` has two parts, the second after a signal.
async fn one_slot(
    option: fn(ThrottleMiddleware<Arc<Semaphore>>) -> ThrottleMiddleware<Arc<Semaphore>>,
) -> (
    OnLoopback,
    Arc<Signal>,
    Arc<Semaphore>,
    ClientWithMiddleware,
) {
    let signal = Arc::new(Signal::new(0));
    let parts = {
        let signal = Arc::clone(&signal);
        async move || {
            let second = stream::once(async move {
                signal.acquire().await.unwrap().forget();
                Ok("two")
            });
            let first = stream::iter([Ok::<_, axum::Error>("one ")]);
            Body::from_stream(first.chain(second))
        }
    };
    let app = Router::new()
        .route("/slow", get(parts))
        .route("/empty", get(async || ()))
        .route("/json", get(async || Json([1, 2, 3])));
    let slots = Arc::new(Semaphore::new(1));
    let throttle = option(ThrottleMiddleware::new(Arc::clone(&slots)));
    let client = builder().with(throttle).build();
    (OnLoopback::serve(app).await, signal, slots, client)
}

#[tokio::test]
async fn new_holds_the_permit_to_the_end_of_the_body() {
    let (server, signal, slots, client) = one_slot(|throttle| throttle).await;
    let slow = format!("{}slow", server.url);
    let mut answer = client.get(&slow).send().await.unwrap();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "one ");
    assert_eq!(slots.available_permits(), 0);
    signal.add_permits(1);
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "two");
    assert_eq!(answer.chunk().await.unwrap(), None);
    assert_eq!(slots.available_permits(), 1);

    // A response that is dropped, one that is read whole, and one without a body.
    let answer = client.get(&slow).send().await.unwrap();
    assert_eq!(slots.available_permits(), 0);
    drop(answer);
    assert_eq!(slots.available_permits(), 1);
    let json = client.get(format!("{}json", server.url)).send().await;
    assert_eq!(json.unwrap().text().await.unwrap(), "[1,2,3]");
    assert_eq!(slots.available_permits(), 1);
    let answer = client.get(format!("{}empty", server.url)).send().await;
    assert_eq!(slots.available_permits(), 1);
    assert_eq!(answer.unwrap().status(), 200);
}

/// The permit of a boxed throttle is not `Sync`, and the body of reqwest has to be.
#[tokio::test]
async fn new_of_a_boxed_throttle_holds_the_permit_to_the_end_of_the_body() {
    let slots = Arc::new(Semaphore::new(1));
    let throttle = BoxThrottle::new(Arc::clone(&slots));
    let client = builder().with(ThrottleMiddleware::new(throttle));
    let client = client.with(Server::new([Response::new("one")])).build();
    let answer = client.get("http://a.test/").send().await.unwrap();
    assert_eq!(slots.available_permits(), 0);
    assert_eq!(answer.text().await.unwrap(), "one");
    assert_eq!(slots.available_permits(), 1);
}

#[tokio::test]
async fn until_head_returns_the_permit_before_the_body() {
    let (server, signal, slots, client) = one_slot(ThrottleMiddleware::until_head).await;
    let slow = format!("{}slow", server.url);
    let mut answer = client.get(&slow).send().await.unwrap();
    assert_eq!(slots.available_permits(), 1);
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "one ");
    signal.add_permits(1);
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "two");
}

#[tokio::test]
async fn new_leaves_responses_as_they_are() {
    let (server, _, _, client) = one_slot(|throttle| throttle).await;
    let url = format!("{}json", server.url);
    let plain = reqwest::get(&url).await.unwrap();
    let answer = client.get(&url).send().await.unwrap();
    assert_eq!(answer.url(), plain.url());
    assert_eq!(answer.status(), plain.status());
    assert_eq!(answer.version(), plain.version());
    assert_eq!(answer.remote_addr(), plain.remote_addr());
    assert_eq!(answer.content_length(), Some(7));
    assert_eq!(answer.headers()["content-type"], "application/json");
    assert_eq!(answer.json::<Vec<u32>>().await.unwrap(), [1, 2, 3]);
}

/// Returns the error of the throttle that the caller gets.
fn rejection(answer: reqwest_middleware::Result<reqwest::Response>) -> AcquireError {
    let error = answer.expect_err("it is not admitted");
    assert!(error.is_middleware() && error.source().is_none(), "{error}");
    match error {
        Error::Middleware(error) => error.downcast().expect("one of a throttle"),
        Error::Reqwest(error) => panic!("{error}"),
    }
}

#[tokio::test(start_paused = true)]
async fn new_fails_with_the_error_of_the_throttle() {
    let server = Server::new([]);
    let slots = Arc::new(Semaphore::new(0).max_waiters(1));
    let throttle = ThrottleMiddleware::new(Arc::clone(&slots)).timeout(2 * SECOND);
    let client = builder().with(throttle).with(server.clone()).build();
    let get = || client.get("http://a.test/").send();
    let (first, second) = tokio::join!(get(), get());
    assert_eq!(server.begun.elapsed(), 2 * SECOND);
    assert_eq!(rejection(first).kind(), ErrorKind::TimedOut);
    assert_eq!(rejection(second).kind(), ErrorKind::QueueFull);
    slots.close();
    assert_eq!(rejection(get().await).kind(), ErrorKind::Closed);
    assert!(server.times().is_empty());
}

#[tokio::test(start_paused = true)]
async fn timeout_fails_at_once_if_the_wait_is_known_to_be_longer() {
    let server = Server::new([]);
    let throttle = ThrottleMiddleware::new(limiter(Quota::per_minute(1))).timeout(SECOND);
    let client = builder().with(throttle).with(server.clone()).build();
    let get = || client.get("http://a.test/").send();
    get().await.unwrap();
    let error = rejection(get().await);
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(error.retry_after(), Some(60 * SECOND));
    assert_eq!(server.begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn new_of_a_dropped_request_returns_its_permit() {
    let mut server = Server::new([]);
    server.latency = 10 * SECOND;
    let slots = Arc::new(Semaphore::new(1));
    let client = builder()
        .with(ThrottleMiddleware::new(Arc::clone(&slots)))
        .with(server.clone())
        .build();
    let get = |seconds| timeout(seconds * SECOND, client.get("http://a.test/").send());
    // One request is in flight, and one waits.
    for dropped in join_all([get(2), get(1)]).await {
        assert!(dropped.is_err());
    }
    assert_eq!(slots.available_permits(), 1);
    assert_eq!(server.times(), [0.0]);
}

/// Tests the pause after a request that is answered, and after one that is dropped.
#[tokio::test(start_paused = true)]
async fn by_host_leaves_time_between_requests_to_it() {
    let mut server = Server::new([]);
    server.latency = SECOND;
    let hosts = Arc::new(Keyed::<String, Semaphore>::semaphores(1));
    let by_host = ThrottleMiddleware::by(move |request: &Request| {
        let host = request.url().host_str().unwrap().to_owned();
        let host = Arc::clone(&hosts).key_owned(host);
        Resting::new(host, 2 * SECOND).clock(Clock::tokio())
    });
    let client = builder()
        .with(by_host)
        .with(ThrottleMiddleware::new(Arc::new(Semaphore::new(64))))
        .with(server.clone())
        .build();
    let get = |url, limit| timeout(limit, client.get(url).send());
    let (a, long) = ("http://a.test/", 60 * SECOND);
    let jobs = [
        get(a, long),
        get("http://b.test/", long),
        // It is sent after three seconds, and dropped half a second later.
        get(a, Duration::from_millis(3500)),
        get(a, long),
    ];
    let answers = join_all(jobs.map(|job| async { job.await.is_ok() })).await;
    assert_eq!(answers, [true, true, false, true]);
    assert_eq!(server.times(), [0.0, 0.0, 3.0, 5.5]);
}

#[tokio::test]
async fn new_with_a_failing_request_returns_its_permit() {
    let slots = Arc::new(Semaphore::new(1));
    let client = builder()
        .with(ThrottleMiddleware::new(Arc::clone(&slots)))
        .build();
    let failed = client.get("ftp://127.0.0.1/").send().await.unwrap_err();
    assert!(!failed.is_middleware(), "{failed}");
    assert_eq!(slots.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn classify_reports_answers_and_errors_and_ignores_a_dropped_request() {
    let backend = Shared::from(AdaptiveSemaphore::default().clock(Clock::tokio()));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let throttle = ThrottleMiddleware::new(backend.clone()).classify({
        let seen = Arc::clone(&seen);
        move |answer| {
            let status = answer.map(|answer| answer.status().as_u16()).ok();
            seen.lock().unwrap().push(status);
            answer.map_or(Feedback::OVERLOADED, feedback)
        }
    });
    let mut server = Server::new([Response::new("text"), refusal(1)]);
    server.latency = SECOND;
    let answered = builder().with(throttle.clone()).with(server).build();
    // The second answer has no body that could hold the permit.
    for in_use in [1, 0] {
        let answer = answered.get("http://a.test/").send().await.unwrap();
        assert_eq!(backend.snapshot().permits.in_use, in_use);
        drop(answer);
    }
    let dropped = answered.get("http://a.test/").send();
    assert!(timeout(SECOND / 2, dropped).await.is_err());
    let failing = builder().with(throttle).build();
    failing.get("ftp://127.0.0.1/").send().await.unwrap_err();

    assert_eq!(*seen.lock().unwrap(), [Some(200), Some(429), None]);
    let snapshot = backend.snapshot();
    assert_eq!(
        (snapshot.permits.in_use, snapshot.window.overloaded()),
        (0, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn new_of_a_composition_and_several_middleware_hold_all_permits() {
    let [first, second, third] = [(); 3].map(|()| Arc::new(Semaphore::new(1)));
    let both = all((Arc::clone(&first), Arc::clone(&second)));
    let client = builder()
        .with(ThrottleMiddleware::new(both))
        .with(ThrottleMiddleware::new(Arc::clone(&third)))
        .with(Server::new([Response::new("text")]))
        .build();
    let free = || [&first, &second, &third].map(|slots| slots.available_permits());
    let answer = client.get("http://a.test/").send().await.unwrap();
    assert_eq!(free(), [0; 3]);
    assert_eq!(answer.text().await.unwrap(), "text");
    assert_eq!(free(), [1; 3]);
}

#[tokio::test]
async fn new_of_a_head_request_returns_its_permit_and_keeps_the_length() {
    let server = OnLoopback::serve(Router::new().route("/", get("hello"))).await;
    let slots = Arc::new(Semaphore::new(1));
    let client = builder().with(ThrottleMiddleware::new(Arc::clone(&slots)));
    let answer = plain().head(&server.url).send();
    let length = answer.await.unwrap().content_length();
    let answer = client.build().head(&server.url).send().await.unwrap();
    assert_eq!(answer.content_length(), length);
    assert_eq!(answer.headers()["content-length"], "5");
    assert_eq!(slots.available_permits(), 1);
}

#[tokio::test]
async fn new_of_an_upgrade_returns_its_permit_at_the_head() {
    let upgraded = async || {
        let fields = [("connection", "upgrade"), ("upgrade", "echo")];
        (http::StatusCode::SWITCHING_PROTOCOLS, fields)
    };
    let server = OnLoopback::serve(Router::new().route("/", get(upgraded))).await;
    let slots = Arc::new(Semaphore::new(1));
    let throttle = ThrottleMiddleware::new(Arc::clone(&slots));
    let request = builder().with(throttle).build().get(&server.url);
    let request = request.header("connection", "upgrade");
    let answer = request.header("upgrade", "echo").send().await.unwrap();
    assert_eq!(answer.status(), 101);
    assert_eq!(slots.available_permits(), 1);
    answer.upgrade().await.unwrap();
}
