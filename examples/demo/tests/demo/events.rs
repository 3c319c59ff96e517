//! What an event has, and who gets it.

use std::collections::BTreeSet;

use http_body_util::BodyExt;
use serde_json::Value;
use tokio::time::{Duration, sleep};

use super::common::Demo;

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
    assert_eq!(keys(&event["backend"]), "cycling fleet rows workers");
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
    // Of fifty events only the last was kept.
    assert_eq!((first, late, next), (0.05, 5.05, 5.15));
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
