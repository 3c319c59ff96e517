//! Which requests are made again, and what is answered otherwise.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::HeaderValue;
use tokio::time::sleep;

use super::*;

#[tokio::test(start_paused = true)]
async fn call_refused_for_a_while_is_made_again_after_it() {
    for (status, fields) in [
        (429, &[("retry-after", "7")][..]),
        (503, &[("retry-after", "7")]),
        (429, &[("ratelimit", r#""a";r=0;t=7, "b";r=1;t=9"#)]),
        (503, &[("ratelimit", r#""a";r=0;t=7"#)]),
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
        // It has blocked the gate all the same.
        assert_eq!(send(&client, method, uri).await, (200, SECOND));
        assert_eq!(server.times(), [0.0, 1.0]);
    }
}

#[tokio::test(start_paused = true)]
async fn call_with_a_body_that_is_not_copied_is_not_made_again() {
    // Those without a body are, by default.
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
        // Refused, and nobody knows for how long.
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
    let endless = "9".repeat(40);
    for asked in ["61", "3600", &endless] {
        let (server, client) = setup(&exact(), [refusal(asked)]);
        assert_eq!(get(&client).await, (429, Duration::ZERO));
        sleep(10 * SECOND).await;
        assert_eq!(get(&client).await, (200, 50 * SECOND));
        assert_eq!(server.times(), [0.0, 60.0]);
    }
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

/// The secondary limits of GitHub have a `Retry-After`, and its primary ones a limit that is used up.
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
