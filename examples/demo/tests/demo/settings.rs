//! The sliders.

use serde_json::Value;

use super::common::{Demo, text};

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
