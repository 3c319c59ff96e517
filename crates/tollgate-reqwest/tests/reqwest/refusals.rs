//! Refusals that ask for a wait in their body.

use axum::body::Bytes;
use futures::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use reqwest::{ResponseBuilderExt, Url};
use reqwest_middleware::ClientWithMiddleware;
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

#[tokio::test(start_paused = true)]
async fn by_body_takes_the_wait_from_any_text_and_rounds_it_up() {
    let telegram = Refusals::by_body(
        |status, _| status == 429,
        |body| {
            let millis = std::str::from_utf8(body).ok()?.parse().ok()?;
            Some(Duration::from_millis(millis))
        },
    );
    let server = Server::new([answer(429, "4001"), answer(429, "0"), answer(429, "")]);
    let polite = PausesMiddleware::new(exact()).refusals(telegram);
    let client = builder().with(polite).with(server.clone()).build();
    get(&client).await;
    // Nothing is no wait, and is guessed.
    assert_eq!(server.times(), [0.0, 5.0, 6.0]);
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
