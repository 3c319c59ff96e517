//! The routes to send requests to, and the page.

use std::pin::pin;
use std::task::{Context, Waker};

use tokio::time::{Duration, sleep};

use super::common::{Demo, text};

#[tokio::test(start_paused = true)]
async fn hello_beyond_the_burst_is_refused_with_fields_and_a_problem() {
    let demo = Demo::start().await;
    for left in (0..10).rev() {
        let answer = demo.get("/api/hello").await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["ratelimit-policy"], r#""client";q=5;w=1"#);
        // No more than the quota, however large the burst is.
        let left = left.min(5);
        let field = answer.headers()["ratelimit"].to_str().expect("text");
        assert!(
            field.starts_with(&format!(r#""client";r={left}"#)),
            "{field}"
        );
    }
    let refused = demo.get("/api/hello").await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(
        refused.headers()["content-type"],
        "application/problem+json"
    );
    let problem: serde_json::Value = serde_json::from_str(&text(refused).await).expect("JSON");
    assert_eq!(problem["violated-policies"][0], "client");

    // The clock of the limits may have been ahead by a millisecond.
    sleep(Duration::from_millis(201)).await;
    assert_eq!(text(demo.get("/api/hello").await).await, "hello\n");
    assert_eq!(demo.get("/api/hello").await.status(), 429);
}

#[tokio::test(start_paused = true)]
async fn shared_beyond_the_burst_is_refused_as_the_servers_limit_and_counted() {
    let demo = Demo::start().await;
    for request in 0..25 {
        let answer = demo.get("/api/shared").await;
        let expected = if request < 20 { 200 } else { 503 };
        assert_eq!(answer.status(), expected, "{request}");
        assert_eq!(
            answer.headers()["ratelimit-policy"],
            r#""shared";q=200;w=1"#
        );
    }
    let http = demo.event().await["http"].take();
    assert_eq!(
        (http["admitted"].as_u64(), http["refused"].as_u64()),
        (Some(20), Some(5))
    );
    assert_eq!(
        ["per_second", "quota", "burst"].map(|name| http[name].as_u64()),
        [Some(20), Some(200), Some(20)]
    );
}

#[tokio::test(start_paused = true)]
async fn exports_beyond_two_at_once_are_refused_as_the_servers_limit() {
    let demo = Demo::start().await;
    let (mut first, mut second) = (
        pin!(demo.get("/api/exports")),
        pin!(demo.get("/api/exports")),
    );
    let mut context = Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(&mut context).is_pending());
    assert!(second.as_mut().poll(&mut context).is_pending());

    let refused = demo.get("/api/exports").await;
    assert_eq!(refused.status(), 503);
    assert_eq!(
        refused.headers()["content-type"],
        "application/problem+json"
    );
    // Nobody knows when a slot is free.
    assert!(!refused.headers().contains_key("retry-after"));

    assert_eq!(text(first.await).await, "exported\n");
    // Its slot is free, and the second one still has the other: its body has not been read.
    let second = second.await;
    assert_eq!(demo.get("/api/exports").await.status(), 200);
    assert_eq!(text(second).await, "exported\n");
}

#[tokio::test(start_paused = true)]
async fn page_is_one_document_below_48_kb_that_loads_nothing() {
    let page = Demo::start().await.get("/").await;
    assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
    let page = text(page).await;
    assert!(page.len() < 48_000, "{} bytes", page.len());
    assert!(!page.contains("/*page.js*/") && !page.contains("/*page.css*/"));
    for loads in ["src=\"", "href=\"http", "url(", "@import"] {
        assert!(!page.contains(loads), "{loads}");
    }
}
