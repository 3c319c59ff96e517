//! Tests clients that wait as long as servers ask them to, in paused time: every time is exact.

mod random;
mod stacks;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use axum::http::{HeaderValue, Request, Response};
use futures::future::{FutureExt, join_all};
use http_body::Frame;
use http_body_util::Full;
use tokio::time::{Instant, sleep, timeout};
use tollgate::Clock;
use tollgate_http::PausedBy;
use tollgate_tower::{Paused, Pauses, PausesLayer};
use tower::{BoxError, Layer, Service, ServiceExt};

type Body = Full<Bytes>;

const SECOND: Duration = Duration::from_secs(1);
const ORIGIN: &str = "http://a.test:80";

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

/// Returns pauses without jitter, in the time of tokio.
fn exact() -> Pauses {
    let pauses = Pauses::new().jitter_percent(0).max_wait(60 * SECOND);
    pauses.clock(Clock::tokio())
}

fn layer(pauses: &Pauses) -> PausesLayer<Body> {
    PausesLayer::retrying(pauses.clone(), |body| Some(body.clone()))
}

fn request(method: &str, uri: &str) -> Request<Body> {
    let request = Request::builder().method(method).uri(uri);
    request.body(Body::from("text")).unwrap()
}

/// Returns the final status of a request, and the time until it.
async fn send<S, R>(client: &S, method: &str, uri: &str) -> (u16, Duration)
where
    S: Service<Request<Body>, Response = Response<R>, Error = BoxError> + Clone,
{
    let begun = Instant::now();
    let answer = client.clone().oneshot(request(method, uri)).await.unwrap();
    (answer.status().as_u16(), begun.elapsed())
}

async fn get<S, R>(client: &S) -> (u16, Duration)
where
    S: Service<Request<Body>, Response = Response<R>, Error = BoxError> + Clone,
{
    send(client, "GET", "http://a.test/").await
}

/// Returns the pause for which a request is refused locally.
async fn refused<S>(client: &S) -> Paused
where
    S: Service<Request<Body>, Error = BoxError> + Clone,
{
    let sent = client.clone().oneshot(request("GET", "http://a.test/"));
    let error = sent.await.err().expect("it is refused");
    Paused::in_chain(&*error).expect("a pause").clone()
}

/// A client of a server with these pauses.
macro_rules! setup {
    ($pauses:expr, $answers:expr) => {{
        let server = Server::new($answers);
        let client = layer($pauses).layer(server.clone());
        (server, client)
    }};
}
use setup;

// Tests that each origin has one gate, for all clones and all requests.

#[tokio::test(start_paused = true)]
async fn call_of_a_clone_waits_at_the_same_gate() {
    let pauses = exact();
    let (server, client) = setup!(&pauses, []);
    let another = layer(&pauses).layer(server.clone());
    pauses.pause(ORIGIN, 5 * SECOND);
    let clones = [client.clone(), client, another];
    let waits = clones.iter().map(get);
    assert_eq!(join_all(waits).await, [(200, 5 * SECOND); 3]);
    assert_eq!(server.times(), [5.0, 5.0, 5.0]);
}

/// Otherwise one exhausted route would stop all others.
#[tokio::test(start_paused = true)]
async fn call_after_a_used_up_limit_of_a_success_does_not_wait() {
    let used_up = answer(200, &[("ratelimit", r#""a";r=0;t=5"#)]);
    let (server, client) = setup!(&exact(), [used_up]);
    for uri in ["http://a.test/scarce", "http://a.test/"] {
        assert_eq!(send(&client, "GET", uri).await, (200, Duration::ZERO));
    }
    assert_eq!(server.times(), [0.0, 0.0]);
}

#[tokio::test(start_paused = true)]
async fn call_to_another_origin_does_not_wait() {
    let pauses = exact();
    let (server, client) = setup!(&pauses, []);
    pauses.pause(ORIGIN, 5 * SECOND);
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
    assert_eq!(server.times(), [0.0, 0.0, 0.0, 0.0, 5.0]);
}

#[tokio::test(start_paused = true)]
async fn gate_by_names_what_a_refusal_pauses() {
    let server = Server::new([refusal("5")]);
    let pauses = exact();
    let by_path = layer(&pauses).gate_by(|request| request.uri().path().to_owned());
    let client = by_path.retry_if(|_, _| false).layer(server.clone());
    let send = |uri| send(&client, "GET", uri);
    assert_eq!(send("http://a.test/search").await, (429, Duration::ZERO));
    assert_eq!(send("http://a.test/").await, (200, Duration::ZERO));
    assert!(pauses.check("/search").is_err() && pauses.check("/").is_ok());
    assert_eq!(send("http://b.test/search").await, (200, 5 * SECOND));
    assert_eq!(server.times(), [0.0, 0.0, 5.0]);
}

#[tokio::test(start_paused = true)]
async fn call_waits_for_the_longest_pause() {
    let server = Server::new([refusal("5"), refusal("2")]);
    // Both are sent before the first is answered, after a second. After the pause they go one after the other.
    let slow = server.clone().map_future(|answer| async {
        sleep(SECOND).await;
        answer.await
    });
    let client = layer(&exact()).layer(slow);
    let both = join_all([get(&client), get(&client)]).await;
    assert_eq!(both, [(200, 7 * SECOND), (200, 8 * SECOND)]);
    assert_eq!(server.times(), [0.0, 0.0, 6.0, 7.0]);
}

#[tokio::test(start_paused = true)]
async fn call_behind_one_that_is_refused_after_the_pause_waits_again() {
    let pauses = exact();
    let (server, client) = setup!(&pauses, [refusal("3")]);
    pauses.pause(ORIGIN, 5 * SECOND);
    let waits = join_all((0..5).map(|_| get(&client))).await;
    assert_eq!(waits, [(200, 8 * SECOND); 5]);
    assert_eq!(server.times(), [5.0, 8.0, 8.0, 8.0, 8.0, 8.0]);
}

#[tokio::test(start_paused = true)]
async fn call_dropped_at_the_gate_is_not_made() {
    let pauses = exact();
    let (server, client) = setup!(&pauses, []);
    pauses.pause(ORIGIN, 5 * SECOND);
    assert!(timeout(SECOND, get(&client)).await.is_err());
    assert_eq!(pauses.snapshot().waiting, 0);
    assert_eq!(get(&client).await, (200, 4 * SECOND));
    assert_eq!(server.times(), [5.0]);
}

#[tokio::test(start_paused = true)]
async fn call_not_polled_before_the_pause_waits() {
    let pauses = exact();
    let (server, mut client) = setup!(&pauses, []);
    let early = client.call(request("GET", "http://a.test/"));
    pauses.pause(ORIGIN, 5 * SECOND);
    early.await.unwrap();
    assert_eq!(server.times(), [5.0]);
}

#[tokio::test(start_paused = true)]
async fn future_polled_after_completion_panics() {
    let (_, mut client) = setup!(&exact(), []);
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
        (
            429,
            &[
                ("x-ratelimit-remaining-tokens", "0"),
                ("x-ratelimit-reset-tokens", "7s"),
            ],
        ),
    ] {
        let (server, client) = setup!(&exact(), [answer(status, fields)]);
        assert_eq!(get(&client).await, (200, 7 * SECOND), "{fields:?}");
        let get = "GET http://a.test/";
        let twice = [(0.0, get.to_owned()), (7.0, get.to_owned())];
        assert_eq!(server.came(), twice);
    }
}

/// A 429 pauses the origin for a second, and a 503 delays its own request.
#[tokio::test(start_paused = true)]
async fn call_refused_without_a_time_is_made_again_after_a_guess() {
    for (status, fields, others) in [
        (429, &[][..], SECOND),
        (429, &[("ratelimit", r#""a";r=0"#)], SECOND),
        (429, &[("retry-after", "0")], SECOND),
        (503, &[("retry-after", "later")], Duration::ZERO),
        (503, &[], Duration::ZERO),
    ] {
        let pauses = exact();
        let (server, client) = setup!(&pauses, [answer(status, fields)]);
        let both = join_all([get(&client), get(&client)]).await;
        assert_eq!(both, [(200, SECOND), (200, others)], "{status} {fields:?}");
        assert_eq!(server.times().len(), 3);
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
    let mut request = request("PUT", "http://a.test/b?c");
    *request.version_mut() = axum::http::Version::HTTP_2;
    request
        .headers_mut()
        .insert("accept", HeaderValue::from_static("d"));
    request.extensions_mut().insert("extension");
    let answer = layer(&exact()).layer(inner).oneshot(request).await.unwrap();
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

/// A server that answers 429 has not handled the request; one that answers 503 may have.
#[tokio::test(start_paused = true)]
async fn call_with_a_method_that_may_have_an_effect_is_made_again_only_after_a_429() {
    let methods = [
        ("GET", true),
        ("HEAD", true),
        ("OPTIONS", true),
        ("TRACE", true),
        ("PUT", true),
        ("DELETE", true),
        ("POST", false),
        ("PATCH", false),
        ("CONNECT", false),
        ("LINK", false),
    ];
    let uri = "http://a.test/";
    for (method, is_idempotent) in methods {
        let (server, client) = setup!(&exact(), [refusal("1")]);
        assert_eq!(send(&client, method, uri).await, (200, SECOND));
        assert_eq!(server.times(), [0.0, 1.0]);

        let (server, client) = setup!(&exact(), [answer(503, &[("retry-after", "1")])]);
        if !is_idempotent {
            assert_eq!(send(&client, method, uri).await, (503, Duration::ZERO));
        }
        // In any case the answer has paused the origin.
        assert_eq!(send(&client, method, uri).await, (200, SECOND));
        assert_eq!(server.times(), [0.0, 1.0]);
    }
}

#[tokio::test(start_paused = true)]
async fn retry_if_decides_by_the_request_and_the_status() {
    let server = Server::new([refusal("1"), answer(503, &[("retry-after", "1")])]);
    let by_field = layer(&exact()).retry_if(|request, status| {
        request.headers.contains_key("idempotency-key") && status == 503
    });
    let client = by_field.layer(server.clone());
    assert_eq!(get(&client).await, (429, Duration::ZERO));
    let mut request = request("POST", "http://a.test/");
    let key = HeaderValue::from_static("7");
    request.headers_mut().insert("idempotency-key", key);
    let answer = client.clone().oneshot(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(server.times(), [0.0, 1.0, 2.0]);
}

#[tokio::test(start_paused = true)]
async fn call_with_a_body_that_is_not_copied_is_not_made_again() {
    // Requests without a body are sent again by default.
    let client = |pauses| PausesLayer::<Body>::new(pauses).layer(Server::new([refusal("1")]));
    assert_eq!(get(&client(exact())).await, (429, Duration::ZERO));

    let request = Request::put("http://a.test/").body(Body::default());
    let answer = client(exact()).oneshot(request.unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn retries_bounds_how_often_a_request_is_made_again() {
    for (pauses, times) in [
        (exact(), &[0.0, 1.0, 3.0][..]),
        (exact().retries(1), &[0.0, 1.0]),
        (exact().retries(0), &[0.0]),
    ] {
        let (server, client) = setup!(&pauses, ["1", "2", "4", "8"].map(refusal));
        assert_eq!(get(&client).await.0, 429);
        assert_eq!(server.times(), times);
    }
}

#[tokio::test(start_paused = true)]
async fn call_that_is_not_refused_is_not_made_again() {
    for status in [200, 301, 500] {
        let refused = answer(status, &[("retry-after", "5")]);
        let (server, client) = setup!(&exact(), [refused]);
        assert_eq!(get(&client).await, (status, Duration::ZERO));
        assert_eq!(get(&client).await, (200, Duration::ZERO));
        assert_eq!(server.times(), [0.0, 0.0]);
    }
}

#[tokio::test(start_paused = true)]
async fn max_wait_refuses_who_would_wait_for_longer() {
    for asked in [61, 3600, 24 * 3600] {
        let (server, client) = setup!(&exact(), [refusal(&asked.to_string())]);
        assert_eq!(get(&client).await, (429, Duration::ZERO));
        let paused = refused(&client).await;
        assert_eq!(paused.remaining(), Some(asked * SECOND));
        assert_eq!((paused.origin(), paused.by()), (ORIGIN, PausedBy::Server));
        sleep((asked - 60) * SECOND).await;
        assert_eq!(get(&client).await, (200, 60 * SECOND));
        assert_eq!(server.times(), [0.0, asked as f64]);
    }
    let (_, client) = setup!(&exact(), [refusal("60")]);
    assert_eq!(get(&client).await, (200, 60 * SECOND));
    let (_, client) = setup!(&exact().max_wait(100 * SECOND), [refusal("61")]);
    assert_eq!(get(&client).await, (200, 61 * SECOND));
    let (_, client) = setup!(&exact().max_wait(Duration::ZERO), [refusal("1")]);
    assert_eq!(get(&client).await, (429, Duration::ZERO));
    assert_eq!(refused(&client).await.remaining(), Some(SECOND));
}

/// Callers that go on whether or not they are refused.
#[tokio::test(start_paused = true)]
async fn call_in_a_pause_of_40_minutes_is_not_made() {
    for max_wait in [0, 60, 3600] {
        let server = Server::new([refusal("2400")]);
        let pauses = exact().max_wait(max_wait * SECOND);
        let client = layer(&pauses).layer(server.clone());
        let callers = (0..64).map(async |caller| {
            let (mut refused, mut returned) = (0, 0);
            sleep(Duration::from_millis(caller)).await;
            while server.begun.elapsed() < 2500 * SECOND {
                let sent = client.clone().oneshot(request("POST", "http://a.test/"));
                match sent.await {
                    Ok(answer) => returned += u32::from(answer.status() == 429),
                    Err(error) => {
                        assert!(Paused::in_chain(&*error).is_some(), "{error}");
                        refused += 1;
                    }
                }
                sleep(10 * SECOND).await;
            }
            (refused, returned)
        });
        let callers = join_all(callers).await;
        let times = server.times();
        assert_eq!(times[0], 0.0);
        assert!(times[1..].iter().all(|at| *at >= 2400.0), "{max_wait}");
        assert!(times.len() >= 64 * 10, "{}", times.len());
        let refused: u32 = callers.iter().map(|(refused, _)| refused).sum();
        let returned: u32 = callers.iter().map(|(_, returned)| returned).sum();
        assert_eq!(refused > 0, max_wait < 2400, "{max_wait}");
        assert_eq!(returned > 0, max_wait < 2400, "{max_wait}");
    }
}

#[tokio::test(start_paused = true)]
async fn wall_clock_is_what_dates_are_compared_with() {
    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(784_111_777)
    }
    let until = ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT");
    let pauses = || exact().wall_clock(now);
    let (_, client) = setup!(&pauses(), [answer(503, &[until])]);
    assert_eq!(get(&client).await, (200, 30 * SECOND));
    let date = ("date", "Sun, 06 Nov 1994 08:50:00 GMT");
    let (_, client) = setup!(&pauses(), [answer(503, &[until, date])]);
    assert_eq!(get(&client).await, (200, 7 * SECOND));
}

/// The secondary limits of GitHub have a `Retry-After`, and its primary ones an exhausted limit.
#[tokio::test(start_paused = true)]
async fn call_refused_with_403_is_made_again_if_it_asks_for_a_pause() {
    let secondary = answer(403, &[("retry-after", "5")]);
    let primary = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "7")];
    let (server, client) = setup!(&exact(), [secondary, answer(403, &primary)]);
    assert_eq!(get(&client).await, (200, 12 * SECOND));
    assert_eq!(server.times(), [0.0, 5.0, 12.0]);
    let left = [("x-ratelimit-remaining", "9"), ("x-ratelimit-reset", "7")];
    let (server, client) = setup!(&exact(), [answer(403, &left), answer(403, &[])]);
    for _ in 0..2 {
        assert_eq!(get(&client).await, (403, Duration::ZERO));
    }
    assert_eq!(server.times(), [0.0, 0.0]);
}

/// A body without an end that says when it was dropped.
struct Endless(Arc<AtomicBool>);

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// The connection of a refusal, and its slot, are free during the wait.
#[tokio::test(start_paused = true)]
async fn call_drops_the_body_of_a_refusal_before_the_wait() {
    let dropped = Arc::new(AtomicBool::new(false));
    let server = {
        let dropped = Arc::clone(&dropped);
        tower::service_fn(move |_: Request<Body>| {
            let refusal = Response::builder().status(429).header("retry-after", "5");
            ready(refusal.body(Endless(Arc::clone(&dropped))))
        })
    };
    let slots = Arc::new(tollgate::Semaphore::new(1));
    let layer = layer(&exact()).behind(Arc::clone(&slots));
    let sent = layer
        .layer(server)
        .oneshot(request("GET", "http://a.test/"));
    assert!(timeout(SECOND, sent).await.is_err());
    assert!(dropped.load(SeqCst));
    assert_eq!(slots.available_permits(), 1);
}
