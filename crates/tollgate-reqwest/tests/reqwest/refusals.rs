//! Refusals that ask for a wait in their body.

use axum::body::Bytes;
use futures::{StreamExt, stream};
use http::HeaderMap;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use reqwest::{ResponseBuilderExt, Url};
use reqwest_middleware::ClientWithMiddleware;
use tokio::time::timeout;
use tollgate_reqwest::Refusals;

use super::*;

/// The texts of GitHub.
const SECONDARY: &str = r#"{"documentation_url": "https://docs.github.com/", "message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}"#;
const MISSING: &str = r#"{"message": "Resource not accessible by integration", "documentation_url": "https://docs.github.com/"}"#;

fn github(server: &Server) -> ClientWithMiddleware {
    let polite = PausesMiddleware::new(patient()).refusals(Refusals::github());
    builder().with(polite).with(server.clone()).build()
}

fn answer(status: u16, body: &'static str) -> Response<&'static str> {
    let answer = Response::builder().status(status);
    let fields = answer.header("x-ratelimit-remaining", 4987);
    fields.body(body).unwrap()
}

/// Sends a request. Returns the status, the text, and the time that it took.
async fn get(client: &ClientWithMiddleware) -> (u16, String, Duration) {
    let begun = Instant::now();
    let answer = client.get("http://a.test/").send().await.unwrap();
    let status = answer.status().as_u16();
    (status, answer.text().await.unwrap(), begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn github_with_a_secondary_limit_waits_for_a_minute() {
    for status in [403, 429] {
        let server = Server::new([answer(status, SECONDARY), answer(200, "a page")]);
        let page = get(&github(&server)).await;
        assert_eq!(page, (200, "a page".to_owned(), 60 * SECOND));
    }
}

#[tokio::test(start_paused = true)]
async fn github_with_a_missing_right_pauses_nobody() {
    let server = Server::new([answer(403, MISSING), answer(404, SECONDARY)]);
    let client = github(&server);
    let missing = get(&client).await;
    assert_eq!(missing, (403, MISSING.to_owned(), Duration::ZERO));
    // Only a refusal is read.
    let other = get(&client).await;
    assert_eq!(other, (404, SECONDARY.to_owned(), Duration::ZERO));
    assert_eq!(get(&client).await.2, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn github_with_a_field_waits_as_long_as_it_says() {
    let mut refusal = answer(403, SECONDARY);
    refusal.headers_mut().insert("retry-after", 7.into());
    let server = Server::new([refusal]);
    assert_eq!(
        get(&github(&server)).await,
        (200, String::new(), 7 * SECOND)
    );
}

#[tokio::test(start_paused = true)]
async fn github_with_an_exhausted_limit_waits_until_its_reset() {
    let mut refusal = answer(403, SECONDARY);
    for (name, value) in [
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1767226200"),
        ("date", "Thu, 01 Jan 2026 00:00:00 GMT"),
    ] {
        refusal.headers_mut().insert(name, value.parse().unwrap());
    }
    let client = github(&Server::new([refusal]));
    assert_eq!(get(&client).await.2, 600 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn github_reads_at_most_64_kib_and_hands_on_the_whole_body() {
    for (before, waits) in [(60_000, true), (64 * 1024 - 10, false), (200_000, false)] {
        let text = " ".repeat(before) + "Secondary Rate Limit" + &" ".repeat(1_000_000);
        let text: &'static str = text.leak();
        let server = Server::new([answer(403, text), answer(403, text), answer(403, text)]);
        let (status, body, took) = get(&github(&server)).await;
        assert_eq!((status, body.len()), (403, text.len()));
        assert_eq!(body, text);
        assert_eq!(took, if waits { 120 * SECOND } else { Duration::ZERO });
    }
}

/// Takes the milliseconds from the body of each response, like some servers that answer 200.
fn by_millis() -> Refusals {
    let millis = |body: &[u8]| std::str::from_utf8(body).ok()?.parse().ok();
    Refusals::by_body(
        |_, _| true,
        move |body| millis(body).map(Duration::from_millis),
    )
}

#[tokio::test(start_paused = true)]
async fn by_body_takes_the_wait_from_any_text_with_any_status() {
    let mut zero = answer(429, "0");
    zero.headers_mut().insert("retry-after", 3.into());
    let waits = [
        answer(200, "4001"),
        answer(400, "20"),
        zero,
        answer(429, ""),
    ];
    let server = Server::new(waits);
    let polite = PausesMiddleware::new(exact().retries(4)).refusals(by_millis());
    let client = builder().with(polite).with(server.clone()).build();
    assert_eq!(get(&client).await.0, 200);
    // Nothing is no wait: the head decides, and the last one is guessed.
    assert_eq!(server.times(), [0.0, 4.001, 4.021, 7.021, 8.021]);
}

#[tokio::test(start_paused = true)]
async fn by_body_with_a_long_wait_pauses_for_the_longest_one() {
    for millis in ["18446744073709551615", "3456000000", "86400001"] {
        let pauses = exact();
        let polite = PausesMiddleware::new(pauses.clone()).refusals(by_millis());
        let server = Server::new([answer(403, millis)]);
        let client = builder().with(polite).with(server).build();
        assert_eq!(get(&client).await.0, 403);
        let paused = pauses.check("http://a.test:80").unwrap_err();
        assert_eq!(paused.remaining(), Some(86_400 * SECOND), "{millis}");
    }
}

#[tokio::test(start_paused = true)]
async fn by_body_with_the_longest_duration_pauses_for_the_longest_one() {
    let pauses = exact();
    let refusals = Refusals::by_body(|_, _| true, |_| Some(Duration::MAX));
    let polite = PausesMiddleware::new(pauses.clone()).refusals(refusals);
    let client = builder().with(polite).with(Server::new([])).build();
    get(&client).await;
    let paused = pauses.check("http://a.test:80").unwrap_err();
    assert_eq!(paused.remaining(), Some(86_400 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn by_body_of_a_request_that_is_dropped_in_the_body_returns_its_permit() {
    let slots = Arc::new(Semaphore::new(1));
    let polite = PausesMiddleware::new(exact()).behind(Arc::clone(&slots));
    let client = builder()
        .with(polite.refusals(by_millis()))
        .with(Stalls)
        .build();
    let sending = timeout(SECOND, client.get("http://a.test/").send());
    assert!(sending.await.is_err());
    assert_eq!(slots.available_permits(), 1);
}

/// Returns a refusal whose body stalls after its first part.
struct Stalls;

#[async_trait::async_trait]
impl Middleware for Stalls {
    async fn handle(
        &self,
        _: Request,
        _: &mut Extensions,
        _: Next<'_>,
    ) -> Result<reqwest::Response> {
        let part = stream::iter([Ok::<_, std::fmt::Error>(Frame::data(Bytes::from("7")))]);
        let body = StreamBody::new(part.chain(stream::pending()));
        let refusal = Response::builder().status(429);
        Ok(refusal.body(reqwest::Body::wrap(body)).unwrap().into())
    }
}

/// What reqwest gets from a server, with and without the reading of the body.
#[tokio::test]
async fn by_body_hands_on_what_a_server_sends() {
    use axum::routing::any;

    async fn trailers() -> ([(&'static str, &'static str); 1], Body) {
        let trailers = HeaderMap::from_iter([(http::header::ETAG, "7".parse().unwrap())]);
        let frames = [Frame::data(Bytes::from("text")), Frame::trailers(trailers)];
        let frames = stream::iter(frames.map(Ok::<_, std::convert::Infallible>));
        let body = Body::new(StreamBody::new(frames));
        ([("trailer", "etag")], body)
    }
    let app = Router::new()
        .route("/text", any(|| async { "text" }))
        .route("/long", any(|| async { "x".repeat(300_000) }))
        .route("/none", any(|| async { http::StatusCode::NO_CONTENT }))
        .route("/trailers", any(trailers));
    let server = OnLoopback::serve(app).await;
    let pauses = Pauses::new();
    let slots = Arc::new(Semaphore::new(1));
    let polite = PausesMiddleware::new(pauses).behind(Arc::clone(&slots));
    let reading = builder().with(polite.refusals(by_millis())).build();
    for (method, path) in [
        ("GET", "text"),
        ("HEAD", "text"),
        ("GET", "long"),
        ("HEAD", "long"),
        ("GET", "none"),
        ("GET", "trailers"),
    ] {
        let method: reqwest::Method = method.parse().unwrap();
        let url = format!("{}{path}", server.url);
        let plain = plain().request(method.clone(), &url);
        let plain = plain.header("te", "trailers").send().await.unwrap();
        let read = reading.request(method, &url).header("te", "trailers");
        let read = read.send().await.unwrap();
        assert_eq!(read.content_length(), plain.content_length(), "{path}");
        let content = |response: &reqwest::Response| {
            let fields = ["content-length", "content-type", "transfer-encoding"];
            fields.map(|field| response.headers().get(field).cloned())
        };
        assert_eq!(content(&read), content(&plain), "{path}");
        assert_eq!(read.url(), plain.url());
        assert_eq!(read.version(), plain.version());
        assert_eq!(read.remote_addr(), plain.remote_addr());
        let (read, plain) = (frames(read).await, frames(plain).await);
        assert_eq!(read, plain, "{path}");
        assert_eq!(read.1.is_some(), path == "trailers");
        assert_eq!(slots.available_permits(), 1, "{path}");
    }
}

/// Returns the data and the trailers of a response.
async fn frames(response: reqwest::Response) -> (Bytes, Option<HeaderMap>) {
    let body: reqwest::Body = response.into();
    let body = body.collect().await.unwrap();
    let trailers = body.trailers().cloned();
    (body.to_bytes(), trailers)
}

/// Returns a body in parts.
struct InParts(&'static [std::result::Result<&'static str, &'static str>]);

#[async_trait::async_trait]
impl Middleware for InParts {
    async fn handle(
        &self,
        _: Request,
        _: &mut Extensions,
        _: Next<'_>,
    ) -> Result<reqwest::Response> {
        let parts = self.0.iter();
        let parts = parts.map(|part| part.map(|part| Frame::data(Bytes::from(part))));
        let url = Url::parse("http://b.test/other").unwrap();
        let body = reqwest::Body::wrap(StreamBody::new(stream::iter(parts)));
        let answer = Response::builder().status(403).url(url);
        Ok(answer.body(body).unwrap().into())
    }
}

#[tokio::test(start_paused = true)]
async fn github_reads_a_body_in_parts_and_keeps_its_url() {
    let pauses = exact().retries(0);
    let polite = PausesMiddleware::new(pauses.clone()).refusals(Refusals::github());
    let parts = InParts(&[
        Ok("a second"),
        Ok("ary rate"),
        Ok(" limit, "),
        Ok("and more"),
    ]);
    let client = builder().with(polite).with(parts).build();
    let answer = client.get("http://a.test/").send().await.unwrap();
    assert_eq!(answer.url().as_str(), "http://b.test/other");
    assert_eq!(
        answer.text().await.unwrap(),
        "a secondary rate limit, and more"
    );
    // It pauses the origin that answered.
    let paused = pauses.check("http://b.test:80").unwrap_err();
    assert_eq!(paused.remaining(), Some(60 * SECOND));
    assert!(pauses.check("http://a.test:80").is_ok());
}

/// A part takes more memory than its text.
#[tokio::test(start_paused = true)]
async fn github_reads_small_parts_into_one() {
    let parts: &[_] = vec![Ok(" "); 70_000].leak();
    let polite = PausesMiddleware::new(exact()).refusals(Refusals::github());
    let client = builder().with(polite).with(InParts(parts)).build();
    let answer = client.get("http://a.test/").send().await.unwrap();
    let frames = reqwest::Body::from(answer).into_data_stream();
    let lengths: Vec<_> = frames.map(|data| data.unwrap().len()).collect().await;
    assert_eq!(
        (lengths[0], lengths.len()),
        (64 * 1024, 1 + 70_000 - 64 * 1024)
    );
}

#[tokio::test(start_paused = true)]
async fn github_hands_on_a_body_that_fails() {
    let parts = InParts(&[Ok("a secondary "), Err("it broke"), Ok("rate limit")]);
    let polite = PausesMiddleware::new(exact()).refusals(Refusals::github());
    let client = builder().with(polite).with(parts).build();
    let answer = client.get("http://a.test/").send().await.unwrap();
    assert_eq!(answer.status(), 403);
    let error = answer.bytes().await.unwrap_err();
    assert!(format!("{error:?}").contains("it broke"), "{error:?}");
}
