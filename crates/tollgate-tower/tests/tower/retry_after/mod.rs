//! Tests clients that wait as long as servers ask them to, in paused time: every time is exact.

mod stacks;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use axum::http::{HeaderValue, Request, Response};
use futures::future::{FutureExt, join_all};
use http_body_util::Full;
use tokio::time::{Instant, sleep, timeout};
use tollgate::Clock;
use tollgate_tower::{RetryAfterLayer, RetryAfterService};
use tower::{Layer, Service, ServiceExt};

type Body = Full<Bytes>;

const SECOND: Duration = Duration::from_secs(1);

/// A request that has arrived: its time in seconds from the beginning, and its description.
type Came = (f64, String);

/// A server that gives its prepared answers, and then 200.
#[derive(Clone)]
struct Server {
    begun: Instant,
    answers: Arc<Mutex<VecDeque<Response<Body>>>>,
    came: Arc<Mutex<Vec<Came>>>,
}

impl Server {
    fn new<const N: usize>(answers: [Response<Body>; N]) -> Self {
        Self {
            begun: Instant::now(),
            answers: Arc::new(Mutex::new(answers.into())),
            came: Arc::default(),
        }
    }

    /// Returns the requests since the last call.
    fn came(&self) -> Vec<Came> {
        std::mem::take(&mut self.came.lock().unwrap())
    }

    /// Returns the times of the requests since the last call.
    fn times(&self) -> Vec<f64> {
        self.came().into_iter().map(|(at, _)| at).collect()
    }
}

impl Service<Request<Body>> for Server {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let what = format!("{} {}", request.method(), request.uri());
        let came = (self.begun.elapsed().as_secs_f64(), what);
        self.came.lock().unwrap().push(came);
        let answer = self.answers.lock().unwrap().pop_front();
        ready(Ok(answer.unwrap_or_default()))
    }
}

/// Returns an answer with fields.
fn answer(status: u16, fields: &[(&'static str, &str)]) -> Response<Body> {
    let mut answer = Response::builder().status(status);
    for (name, value) in fields {
        answer = answer.header(*name, *value);
    }
    answer.body(Body::default()).unwrap()
}

fn refusal(seconds: &str) -> Response<Body> {
    answer(429, &[("retry-after", seconds)])
}

/// Returns a layer whose waits are exact.
fn exact() -> RetryAfterLayer<Body> {
    RetryAfterLayer::copying(|body: &Body| Some(body.clone()))
        .jitter_percent(0)
        .clock(Clock::tokio())
}

/// Returns the final status of a request, and the time until it.
async fn send<S>(client: &RetryAfterService<S, Body>, method: &str, uri: &str) -> (u16, Duration)
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone,
{
    let begun = Instant::now();
    let request = Request::builder().method(method).uri(uri);
    let request = request.body(Body::from("text")).unwrap();
    let answer = client.clone().oneshot(request).await.unwrap();
    (answer.status().as_u16(), begun.elapsed())
}

async fn get<S>(client: &RetryAfterService<S, Body>) -> (u16, Duration)
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone,
{
    send(client, "GET", "http://a.test/").await
}

/// Returns a server, and a client of it.
fn setup<const N: usize>(
    layer: &RetryAfterLayer<Body>,
    answers: [Response<Body>; N],
) -> (Server, RetryAfterService<Server, Body>) {
    let server = Server::new(answers);
    let client = layer.layer(server.clone());
    (server, client)
}

// Tests that each origin has one gate, for all clones and all requests.

/// Returns a layer that also waits after a successful answer.
fn exact_of_any_status() -> RetryAfterLayer<Body> {
    exact().rate_limit_of_any_status(true)
}

fn used_up(seconds: u32) -> Response<Body> {
    answer(200, &[("ratelimit", &format!(r#""a";r=0;t={seconds}"#))])
}

#[tokio::test(start_paused = true)]
async fn call_of_a_clone_waits_at_the_same_gate() {
    let layer = exact_of_any_status();
    let (server, client) = setup(&layer, [used_up(5)]);
    assert_eq!(get(&client).await, (200, Duration::ZERO));
    let another = layer.clone().layer(server.clone());
    let clones = [client.clone(), another];
    let waits = clones.iter().map(get);
    assert_eq!(join_all(waits).await, [(200, 5 * SECOND); 2]);
    assert_eq!(server.times(), [0.0, 5.0, 5.0]);
    // Another layer does not know about the pause.
    let (server, client) = setup(&layer, [used_up(5)]);
    get(&client).await;
    get(&exact_of_any_status().layer(server.clone())).await;
    assert_eq!(server.times(), [0.0, 0.0]);
}

/// Otherwise one exhausted route would stop all others.
#[tokio::test(start_paused = true)]
async fn call_after_a_used_up_limit_of_a_success_does_not_wait() {
    let (server, client) = setup(&exact(), [used_up(5)]);
    for uri in ["http://a.test/scarce", "http://a.test/"] {
        assert_eq!(send(&client, "GET", uri).await, (200, Duration::ZERO));
    }
    assert_eq!(server.times(), [0.0, 0.0]);
}

/// The next request may need no tokens.
#[tokio::test(start_paused = true)]
async fn call_after_a_success_that_leaves_no_tokens_does_not_wait() {
    let fields = [
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "5s"),
    ];
    let (server, client) = setup(
        &exact_of_any_status(),
        [answer(200, &fields), answer(429, &fields)],
    );
    for wait in [0, 5] {
        assert_eq!(get(&client).await, (200, wait * SECOND));
    }
    assert_eq!(server.times(), [0.0, 0.0, 5.0]);
}

#[tokio::test(start_paused = true)]
async fn call_to_another_origin_does_not_wait() {
    let (server, client) = setup(&exact_of_any_status(), [used_up(5)]);
    get(&client).await;
    for uri in [
        "https://a.test/",
        "http://a.test:81/",
        "http://b.test/",
        "/",
    ] {
        assert_eq!(send(&client, "GET", uri).await, (200, Duration::ZERO));
    }
    let same = "http://u:p@A.TEST:80/b";
    assert_eq!(send(&client, "POST", same).await, (200, 5 * SECOND));
    assert_eq!(server.times(), [0.0, 0.0, 0.0, 0.0, 0.0, 5.0]);
}

#[tokio::test(start_paused = true)]
async fn call_waits_for_the_longest_pause() {
    let server = Server::new([refusal("5"), refusal("2")]);
    // Both are sent before the first is answered, after a second.
    let slow = server.clone().map_future(|answer| async {
        sleep(SECOND).await;
        answer.await
    });
    let client = exact_of_any_status().layer(slow);
    let both = join_all([get(&client), get(&client)]).await;
    assert_eq!(both, [(200, 7 * SECOND); 2]);
    assert_eq!(server.times(), [0.0, 0.0, 6.0, 6.0]);
}

/// The gate opens, the first request to arrive is refused, and the others, released too, wait again.
#[tokio::test(start_paused = true)]
async fn call_released_together_with_one_that_is_refused_waits_again() {
    let (server, client) = setup(&exact_of_any_status(), [used_up(5), refusal("3")]);
    get(&client).await;
    let waits = join_all((0..5).map(|_| get(&client))).await;
    assert_eq!(waits, [(200, 8 * SECOND); 5]);
    assert_eq!(server.times(), [0.0, 5.0, 8.0, 8.0, 8.0, 8.0, 8.0]);
}

#[tokio::test(start_paused = true)]
async fn call_dropped_at_the_gate_is_not_made() {
    let (server, client) = setup(&exact_of_any_status(), [used_up(5)]);
    get(&client).await;
    assert!(timeout(SECOND, get(&client)).await.is_err());
    assert_eq!(get(&client).await, (200, 4 * SECOND));
    assert_eq!(server.times(), [0.0, 5.0]);
}

#[tokio::test(start_paused = true)]
async fn call_not_polled_before_the_gate_is_blocked_waits() {
    let (server, client) = setup(&exact_of_any_status(), [used_up(5)]);
    let early = get(&client);
    get(&client).await;
    assert_eq!(early.await, (200, 5 * SECOND));
    assert_eq!(server.times(), [0.0, 5.0]);
}

#[tokio::test(start_paused = true)]
async fn max_origins_bounds_the_gates() {
    let (server, client) = setup(
        &exact_of_any_status().max_origins(2),
        [used_up(5), used_up(9), used_up(7)],
    );
    let hosts = ["http://a.test/", "http://b.test/", "http://c.test/"];
    for uri in hosts {
        send(&client, "GET", uri).await;
    }
    // The gate that would have opened first has made room.
    let waits = hosts.map(|uri| send(&client, "GET", uri));
    let waits = join_all(waits).await.into_iter().map(|(_, waited)| waited);
    assert_eq!(waits.collect::<Vec<_>>(), [0, 9, 7].map(|n| n * SECOND));
    assert_eq!(server.times(), [0.0, 0.0, 0.0, 0.0, 7.0, 9.0]);
}

#[tokio::test(start_paused = true)]
async fn future_polled_after_completion_panics() {
    let (_, mut client) = setup(&exact_of_any_status(), []);
    let mut future = client.call(Request::new(Body::default()));
    assert!(format!("{future:?}").contains("waits"), "{future:?}");
    (&mut future).await.unwrap();
    let again = AssertUnwindSafe(future).catch_unwind().await.unwrap_err();
    let message = again.downcast_ref::<&str>();
    assert_eq!(message, Some(&"polled again after it was ready"));
}

// Tests which requests are sent again, and the answers to the others.

#[tokio::test(start_paused = true)]
async fn call_refused_for_a_while_is_made_again_after_it() {
    for (status, fields) in [
        (429, &[("retry-after", "7")][..]),
        (503, &[("retry-after", "7")]),
        (429, &[("ratelimit", r#""a";r=0;t=7, "b";r=1;t=9"#)]),
        (503, &[("ratelimit", r#""a";r=0;t=7"#)]),
        (529, &[("retry-after", "7.0")]),
        (418, &[("retry-after", "7")]),
        (429, &[("x-rate-limit-retry-after-seconds", "7")]),
        (429, &[("fastly-ratelimit-reset", "7")]),
        (
            429,
            &[("retry-after", "7"), ("ratelimit", r#""a";r=0;t=9"#)],
        ),
        (
            429,
            &[("retry-after", "soon"), ("ratelimit", r#""a";r=0;t=7"#)],
        ),
    ] {
        let (server, client) = setup(&exact(), [answer(status, fields)]);
        assert_eq!(get(&client).await, (200, 7 * SECOND), "{fields:?}");
        let get = "GET http://a.test/";
        let twice = [(0.0, get.to_owned()), (7.0, get.to_owned())];
        assert_eq!(server.came(), twice);
    }
}

#[tokio::test(start_paused = true)]
async fn call_copies_the_whole_request() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let inner = {
        let seen = Arc::clone(&seen);
        tower::service_fn(move |request: Request<Body>| {
            let mut seen = seen.lock().unwrap();
            seen.push(request);
            let status = if seen.len() < 3 { 429 } else { 200 };
            ready(Ok::<_, Infallible>(answer(status, &[("retry-after", "1")])))
        })
    };
    let mut request = Request::put("http://a.test/b?c")
        .body(Body::from("text"))
        .unwrap();
    *request.version_mut() = axum::http::Version::HTTP_2;
    request
        .headers_mut()
        .insert("accept", HeaderValue::from_static("d"));
    request.extensions_mut().insert("extension");
    let answer = exact().layer(inner).oneshot(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    assert_eq!(seen.len(), 3);
    for request in seen {
        assert_eq!(request.extensions().get(), Some(&"extension"));
        let (parts, body) = request.into_parts();
        let parts = (
            parts.method.as_str(),
            parts.uri.path(),
            parts.version,
            &parts.headers["accept"],
        );
        assert_eq!(format!("{parts:?}"), r#"("PUT", "/b", HTTP/2.0, "d")"#);
        let body = http_body_util::BodyExt::collect(body).await.unwrap();
        assert_eq!(body.to_bytes(), "text");
    }
}

#[tokio::test(start_paused = true)]
async fn call_with_a_method_that_may_have_an_effect_is_not_made_again() {
    for method in ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"] {
        let (server, client) = setup(&exact(), [refusal("1")]);
        assert_eq!(send(&client, method, "http://a.test/").await, (200, SECOND));
        assert_eq!(server.times(), [0.0, 1.0]);
    }
    for method in ["POST", "PATCH", "CONNECT", "LINK"] {
        let (server, client) = setup(&exact(), [refusal("1")]);
        let uri = "http://a.test/";
        assert_eq!(send(&client, method, uri).await, (429, Duration::ZERO));
        // The answer has still blocked the gate.
        assert_eq!(send(&client, method, uri).await, (200, SECOND));
        assert_eq!(server.times(), [0.0, 1.0]);
    }
}

#[tokio::test(start_paused = true)]
async fn call_with_a_body_that_is_not_copied_is_not_made_again() {
    // Requests without a body are sent again by default.
    let layer = || {
        RetryAfterLayer::<Body>::new()
            .jitter_percent(0)
            .clock(Clock::tokio())
    };
    let (_, client) = setup(&layer(), [refusal("1")]);
    assert_eq!(get(&client).await, (429, Duration::ZERO));

    let (_, client) = setup(&layer(), [refusal("1")]);
    let request = Request::put("http://a.test/")
        .body(Body::default())
        .unwrap();
    assert_eq!(client.oneshot(request).await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn retries_bounds_how_often_a_request_is_made_again() {
    for (layer, times) in [
        (exact(), &[0.0, 1.0, 3.0][..]),
        (exact().retries(1), &[0.0, 1.0]),
        (exact().retries(0), &[0.0]),
    ] {
        let refusals = ["1", "2", "4", "8"].map(refusal);
        let (server, client) = setup(&layer, refusals);
        assert_eq!(get(&client).await.0, 429);
        assert_eq!(server.times(), times);
    }
}

#[tokio::test(start_paused = true)]
async fn call_that_is_not_refused_is_not_made_again() {
    for (status, fields) in [
        (200, &[("retry-after", "5")][..]),
        (301, &[("retry-after", "5")]),
        (500, &[("retry-after", "5")]),
        // The request was refused, but the length of the pause is unknown.
        (429, &[]),
        (503, &[("retry-after", "later")]),
        (429, &[("ratelimit", r#""a";r=0"#)]),
    ] {
        let (server, client) = setup(&exact(), [answer(status, fields)]);
        assert_eq!(get(&client).await, (status, Duration::ZERO));
        assert_eq!(get(&client).await, (200, Duration::ZERO));
        assert_eq!(server.times(), [0.0, 0.0]);
    }
}

#[tokio::test(start_paused = true)]
async fn max_wait_hands_on_answers_that_ask_for_longer() {
    let longest = 31 * 24 * 60 * 60;
    for asked in ["61", "3600", &longest.to_string()] {
        let (server, client) = setup(&exact(), [refusal(asked)]);
        assert_eq!(get(&client).await, (429, Duration::ZERO));
        sleep(10 * SECOND).await;
        assert_eq!(get(&client).await, (200, 50 * SECOND));
        assert_eq!(server.times(), [0.0, 60.0]);
    }
    // A longer wait is not read, because it is hardly one in seconds.
    let (_, client) = setup(&exact(), [refusal(&(longest + 1).to_string())]);
    assert_eq!(get(&client).await, (429, Duration::ZERO));
    assert_eq!(get(&client).await, (200, Duration::ZERO));
    let (_, client) = setup(&exact(), [refusal("60")]);
    assert_eq!(get(&client).await, (200, 60 * SECOND));
    let (_, client) = setup(&exact().max_wait(100 * SECOND), [refusal("61")]);
    assert_eq!(get(&client).await, (200, 61 * SECOND));
    let (_, client) = setup(
        &exact().max_wait(Duration::ZERO),
        [refusal("1"), refusal("0")],
    );
    assert_eq!(get(&client).await, (429, Duration::ZERO));
    assert_eq!(get(&client).await, (200, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn wall_clock_is_what_dates_are_compared_with() {
    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(784_111_777)
    }
    let until = ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT");
    let layer = exact().wall_clock(now);
    let (_, client) = setup(&layer, [answer(503, &[until])]);
    assert_eq!(get(&client).await, (200, 30 * SECOND));
    let date = ("date", "Sun, 06 Nov 1994 08:50:00 GMT");
    let (_, client) = setup(&layer, [answer(503, &[until, date])]);
    assert_eq!(get(&client).await, (200, 7 * SECOND));
}

/// The secondary limits of GitHub have a `Retry-After`, and its primary ones an exhausted limit.
#[tokio::test(start_paused = true)]
async fn call_refused_with_403_is_made_again_if_it_asks_for_a_pause() {
    let secondary = answer(403, &[("retry-after", "5")]);
    let primary = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "7")];
    let (server, client) = setup(&exact(), [secondary, answer(403, &primary)]);
    assert_eq!(get(&client).await, (200, 12 * SECOND));
    assert_eq!(server.times(), [0.0, 5.0, 12.0]);
    let left = [("x-ratelimit-remaining", "9"), ("x-ratelimit-reset", "7")];
    let (server, client) = setup(&exact(), [answer(403, &left), answer(403, &[])]);
    for _ in 0..2 {
        assert_eq!(get(&client).await, (403, Duration::ZERO));
    }
    assert_eq!(server.times(), [0.0, 0.0]);
}

// Tests that pauses are slightly longer at random, and never shorter.

fn jittered() -> RetryAfterLayer<Body> {
    RetryAfterLayer::copying(|body: &Body| Some(body.clone())).clock(Clock::tokio())
}

/// Returns how long a request waits that is refused for a hundred seconds.
async fn wait(layer: RetryAfterLayer<Body>) -> Duration {
    let (_, client) = setup(&layer.max_wait(100 * SECOND), [refusal("100")]);
    let (status, waited) = get(&client).await;
    assert_eq!(status, 200);
    waited
}

#[tokio::test(start_paused = true)]
async fn jitter_makes_pauses_up_to_a_tenth_longer() {
    let percents = [
        (jittered(), 10),
        (jittered().jitter_percent(50), 50),
        (exact(), 0),
    ];
    for (layer, percent) in percents {
        let mut above_the_middle = 0;
        for _ in 0..128 {
            // The timer of tokio counts in milliseconds, and rounds up.
            let most = (100 + percent) * SECOND + Duration::from_millis(1);
            let waited = wait(layer.clone().clock(Clock::tokio())).await;
            assert!((100 * SECOND..=most).contains(&waited), "{waited:?}");
            above_the_middle += u32::from(waited > (100 * SECOND + most) / 2);
        }
        // All of them fall into one half in one of 2^127 runs.
        let is_spread = (1..128).contains(&above_the_middle);
        assert_eq!(is_spread, percent > 0, "{above_the_middle} of 128");
    }
}
