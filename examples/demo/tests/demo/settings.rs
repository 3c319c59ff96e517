//! The sliders.

use serde_json::Value;
use tokio::time::{Duration, sleep};

use super::common::{Demo, number, text};

async fn sliders(demo: &Demo) -> Vec<Value> {
    let answer = demo.get("/settings").await;
    assert_eq!(answer.headers()["content-type"], "application/json");
    serde_json::from_str(&text(answer).await).expect("the sliders are JSON")
}

#[tokio::test(start_paused = true)]
async fn set_within_the_bounds_is_in_the_next_event() {
    let demo = Demo::start().await;
    for slider in sliders(&demo).await {
        let (name, value) = (slider["name"].as_str().expect("a name"), &slider["value"]);
        let path = format!("/settings/{name}");
        assert!(name.starts_with(slider["panel"].as_str().expect("a panel")));
        for bound in ["min", "max"] {
            let body = slider[bound].to_string();
            assert_eq!(
                demo.send("PUT", &path, &body).await.status(),
                204,
                "{name} {body}"
            );
            let event = demo.event().await;
            assert_eq!(event["settings"][name], slider[bound]);
        }
        demo.send("PUT", &path, &value.to_string()).await;
    }
    assert_eq!(sliders(&demo).await.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn set_quota_changes_the_limits_at_once() {
    let demo = Demo::start().await;
    for (name, value) in [
        ("algorithms.quota", 200),
        ("queue.quota", 95),
        ("http.quota", 30),
    ] {
        demo.send("PUT", &format!("/settings/{name}"), &value.to_string())
            .await;
    }
    let event = demo.event().await;
    assert_eq!(event["algorithms"]["quota"], 200);
    assert_eq!(
        (&event["queue"]["quota"], &event["http"]["quota"]),
        (&95.into(), &30.into())
    );
    // One at once, and nine in the tenth of a second since.
    assert_eq!(event["queue"]["admitted"], 10);
}

#[tokio::test(start_paused = true)]
async fn set_outside_of_the_bounds_is_a_problem_and_changes_nothing() {
    let demo = Demo::start().await;
    let before = sliders(&demo).await;
    for slider in &before {
        let name = slider["name"].as_str().expect("a name");
        let below = slider["min"].as_f64().expect("a number") - 1.0;
        let above = slider["max"].as_f64().expect("a number") + 1.0;
        for body in [
            &below.to_string(),
            &above.to_string(),
            "NaN",
            "inf",
            "many",
            "",
        ] {
            let answer = demo.send("PUT", &format!("/settings/{name}"), body).await;
            assert_eq!(answer.status(), 400, "{name} {body}");
            assert_eq!(answer.headers()["content-type"], "application/problem+json");
            let problem: Value = serde_json::from_str(&text(answer).await).expect("JSON");
            let bounds = format!("from {} to {}", slider["min"], slider["max"]);
            assert!(problem["detail"].as_str().expect("text").ends_with(&bounds));
        }
    }
    assert_eq!(sliders(&demo).await, before);
}

#[tokio::test(start_paused = true)]
async fn set_of_an_unknown_name_is_not_found() {
    let demo = Demo::start().await;
    let answer = demo.send("PUT", "/settings/queue.patience", "1").await;
    assert_eq!(answer.status(), 404);
    assert_eq!(answer.headers()["content-type"], "application/problem+json");
}

#[tokio::test(start_paused = true)]
async fn set_between_whole_numbers_is_rounded() {
    let demo = Demo::start().await;
    demo.send("PUT", "/settings/tenants.slots", "3.6").await;
    assert_eq!(demo.event().await["settings"]["tenants.slots"], 4);
}

/// Each slider, a value, a series of its panel, and what that is 4.6 seconds after the start: with the
/// sliders of a fresh start, and with this value. Times and random numbers are the same in each run, so
/// the values are exact; those of the backend hang on the order in which tokio runs tasks.
const EFFECTS: &str = "
    algorithms.calls    400  algorithms.offered                       119  398
    algorithms.quota    100  algorithms.sliding_log.most_in_a_second   50  100
    algorithms.burst     40  algorithms.gcra.most_in_a_second          59   89
    queue.quota          20  queue.admitted                            47   93
    tenants.noise         1  tenants.fifo.noisy.waiting               298    0
    tenants.slots        32  tenants.fifo.noisy.per_second            185  300
    backend.workers      50  backend.fixed-100.goodput                  0  700
    backend.service_ms   40  backend.fixed-5.goodput                  223  120
    backend.calls       100  backend.fixed-5.goodput                  223  99
    http.quota           50  http.admitted                             20    5
";

#[tokio::test(start_paused = true)]
async fn set_changes_what_the_panel_shows() {
    let before = after_a_while(&Demo::start().await).await;
    for row in EFFECTS.trim().lines() {
        let words: Vec<_> = row.split_whitespace().collect();
        let [slider, value, series, was, is] = words[..] else {
            panic!("five words: {row}");
        };
        let demo = Demo::start().await;
        let answer = demo
            .send("PUT", &format!("/settings/{slider}"), value)
            .await;
        assert_eq!(answer.status(), 204);
        let after = after_a_while(&demo).await;
        for (event, expected) in [(&before, was), (&after, is)] {
            let (seen, expected) = (number(event, series), expected.parse::<f64>().expect(row));
            assert_eq!(seen, expected, "{row}");
        }
    }
}

/// Returns the event 4.6 seconds after the start, when calls to the algorithms have come for a second.
/// The route that all clients share has just got 25 requests.
async fn after_a_while(demo: &Demo) -> Value {
    sleep(Duration::from_millis(4550)).await;
    for _ in 0..25 {
        demo.get("/api/shared").await;
    }
    demo.event().await
}
