//! The process behind the page, in paused time.

mod panels;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Waker};

use axum::Router;
use axum::body::Body;
use axum::extract::connect_info::MockConnectInfo;
use axum::http::{Request, Response};
use demo::app::{App, Running};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::time::{Duration, interval, sleep};
use tollgate::Clock;
use tower::ServiceExt;

// A demonstration in paused time, whose routes are called without a socket.

const MS: Duration = Duration::from_millis(1);

/// A demonstration and its routes.
pub(crate) struct Demo {
    pub(crate) running: Running,
    pub(crate) router: Router,
}

impl Demo {
    /// Starts one, with the random numbers of a seed, and waits for its first event.
    pub(crate) async fn start() -> Self {
        fastrand::seed(7);
        // Tokio's clock began with the first test of this process; this one begins now, so that
        // limits see the same times in each run.
        let clock = Clock::manual();
        let running = App::start(Clock::from(&clock));
        tokio::spawn(async move {
            // It is ahead of tokio's by at most a millisecond: a finished sleep is finished for
            // limits, too.
            let mut ticker = interval(MS);
            loop {
                ticker.tick().await;
                clock.advance(MS);
            }
        });
        let client = SocketAddr::from((Ipv4Addr::LOCALHOST, 4000));
        let router = running.app.router().layer(MockConnectInfo(client));
        running.app.next_event().await;
        Self { running, router }
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &str) -> Response<Body> {
        let request = Request::builder().method(method).uri(path);
        let request = request
            .body(Body::from(body.to_owned()))
            .expect("a valid request");
        let Ok(answer) = self.router.clone().oneshot(request).await;
        answer
    }

    pub(crate) async fn get(&self, path: &str) -> Response<Body> {
        self.send("GET", path, "").await
    }

    /// Returns the next event.
    pub(crate) async fn event(&self) -> Value {
        let event = self.running.app.next_event().await;
        serde_json::from_str(&event).expect("an event is JSON")
    }

    /// Returns the next event after a delay.
    pub(crate) async fn event_after(&self, duration: Duration) -> Value {
        sleep(duration).await;
        self.event().await
    }
}

pub(crate) async fn text(answer: Response<Body>) -> String {
    let bytes = answer
        .into_body()
        .collect()
        .await
        .expect("the body is whole")
        .to_bytes();
    String::from_utf8(bytes.into()).expect("the body is text")
}

/// Returns a number of an event by the name of its series, as the page has it.
pub(crate) fn number(event: &Value, series: &str) -> f64 {
    let mut at = event;
    for part in series.split('.') {
        let rows = at.get("rows").unwrap_or(at).as_array();
        let row = rows.and_then(|rows| rows.iter().find(|row| row["id"] == part));
        at = row.unwrap_or(&at[part]);
    }
    at.as_f64()
        .unwrap_or_else(|| panic!("{series} is no number but {at}"))
}

// The routes to send requests to, and the page.

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
    // The time of the next free slot is unknown.
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

// The contents of an event, and its receivers.

fn keys(value: &Value) -> String {
    let object = value.as_object().expect("an object");
    let keys: BTreeSet<_> = object.keys().map(String::as_str).collect();
    keys.into_iter().collect::<Vec<_>>().join(" ")
}

/// Returns the identifiers of the rows, and checks that each row has these keys.
fn rows(rows: &Value, expected: &str) -> Vec<String> {
    let rows = rows.as_array().expect("rows");
    assert!(rows.iter().all(|row| keys(row) == expected), "{rows:?}");
    rows.iter()
        .map(|row| row["id"].as_str().expect("an id").to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn event_has_every_field_of_the_page() {
    let event = Demo::start().await.event().await;

    assert_eq!(
        keys(&event),
        "algorithms backend http queue settings t tenants"
    );
    assert_eq!(
        keys(&event["settings"]),
        "algorithms.burst algorithms.calls algorithms.quota backend.calls backend.service_ms \
         backend.workers http.quota queue.quota tenants.noise tenants.slots"
    );
    assert_eq!(keys(&event["algorithms"]), "offered quota rows");
    let algorithm = "admitted id label most_in_a_second per_second refused";
    assert_eq!(
        rows(&event["algorithms"]["rows"], algorithm),
        [
            "gcra",
            "token_bucket",
            "fixed_window",
            "sliding_window",
            "sliding_log",
            "sub_interval_4"
        ]
    );
    assert_eq!(
        keys(&event["queue"]),
        "admitted cancelled last_waits_s per_second quota waiters waiting"
    );
    assert_eq!(keys(&event["tenants"]), "fair fifo slots");
    let tenant = "gave_up_per_second id label p99_ms per_second waiting";
    for queue in ["fifo", "fair"] {
        let ids = rows(&event["tenants"][queue], tenant);
        assert_eq!(ids, ["noisy", "quiet-1", "quiet-2", "quiet-3"]);
    }
    assert_eq!(keys(&event["backend"]), "cycling fleet rows why workers");
    assert_eq!(
        keys(&event["backend"]["why"]),
        "baseline_ms latency_ms reason"
    );
    let fleet = &event["backend"]["fleet"];
    assert_eq!(
        keys(fleet),
        "capacity controller goodput limits p99_ms rows unqueued_ms workers"
    );
    let clients = ["client-1", "client-2", "client-3", "client-4", "client-5"];
    assert_eq!(rows(&fleet["rows"], "id in_use label limit"), clients);
    assert_eq!(
        rows(
            &event["backend"]["rows"],
            "goodput id in_use label limit p99_ms"
        ),
        ["fixed-5", "fixed-20", "fixed-100", "adaptive"]
    );
    assert_eq!(
        keys(&event["http"]),
        "admitted burst per_second quota refused"
    );
}

#[tokio::test(start_paused = true)]
async fn events_read_late_skips_to_the_newest() {
    let demo = Demo::start().await;
    let answer = demo.get("/events").await;
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let mut body = answer.into_body();

    let first = time_of_next(&mut body).await;
    sleep(Duration::from_millis(5060)).await;
    let late = time_of_next(&mut body).await;
    let next = time_of_next(&mut body).await;
    // Of fifty events, only the last was kept.
    assert_eq!((first, late, next), (0.15, 5.15, 5.25));
}

async fn time_of_next(body: &mut axum::body::Body) -> f64 {
    let frame = body
        .frame()
        .await
        .expect("events go on")
        .expect("the body is whole");
    let data = frame.into_data().expect("no trailers");
    let text = std::str::from_utf8(&data).expect("an event is text");
    let event = text
        .strip_prefix("data: ")
        .and_then(|text| text.strip_suffix("\n\n"));
    let event: Value = serde_json::from_str(event.expect("one event")).expect("it is JSON");
    event["t"].as_f64().expect("a number")
}

#[tokio::test(start_paused = true)]
async fn events_after_the_end_of_the_load_end() {
    let demo = Demo::start().await;
    let mut body = demo.get("/events").await.into_body();
    time_of_next(&mut body).await;
    drop(demo.running);
    while let Some(frame) = body.frame().await {
        frame.expect("the body is whole");
    }
}
