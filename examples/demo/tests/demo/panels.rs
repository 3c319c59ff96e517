//! A fresh start shows what each panel is about within five seconds.

use serde_json::Value;
use tokio::time::Duration;

use super::common::{Demo, number};

async fn after_five_seconds() -> Value {
    Demo::start()
        .await
        .event_after(Duration::from_secs(5))
        .await
}

#[tokio::test(start_paused = true)]
async fn algorithms_at_first_show_twice_the_quota_around_a_boundary() {
    let event = after_five_seconds().await;
    let most = |id| number(&event, &format!("algorithms.{id}.most_in_a_second"));
    let quota = 50.0;
    assert_eq!(number(&event, "algorithms.quota"), quota);
    assert_eq!(
        (most("fixed_window"), most("sliding_log")),
        (2.0 * quota, quota)
    );
    // A burst of ten, and what comes within the second after it.
    assert!(most("gcra") <= quota + 10.0 && most("gcra") > quota);
    assert!(most("sub_interval_4") <= quota);
    for row in event["algorithms"]["rows"].as_array().expect("rows") {
        assert!(
            row["admitted"].as_u64() > Some(0) && row["refused"].as_u64() > Some(0),
            "{row}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn tenants_at_first_wait_long_in_one_queue_and_briefly_in_a_fair_one() {
    let event = after_five_seconds().await;
    for quiet in ["quiet-1", "quiet-2", "quiet-3"] {
        let fifo = number(&event, &format!("tenants.fifo.{quiet}.p99_ms"));
        let fair = number(&event, &format!("tenants.fair.{quiet}.p99_ms"));
        assert!(fifo >= 10.0 * fair && fair <= 50.0, "{fifo} {fair}");
        let served = number(&event, &format!("tenants.fair.{quiet}.per_second"));
        assert_eq!(served, 15.0);
    }
}

#[tokio::test(start_paused = true)]
async fn backend_at_first_wastes_behind_five_and_thrashes_behind_a_hundred() {
    let event = after_five_seconds().await;
    let rows = &event["backend"]["rows"];
    let goodput = |id| number(&event, &format!("backend.{id}.goodput"));
    assert!(goodput("adaptive") >= 1.5 * goodput("fixed-5"), "{rows}");
    assert!(goodput("adaptive") >= 0.95 * goodput("fixed-20"), "{rows}");
    assert!(goodput("fixed-100") <= 0.1 * goodput("adaptive"), "{rows}");
    let p99 = |id| number(&event, &format!("backend.{id}.p99_ms"));
    assert!(
        p99("adaptive") < p99("fixed-20") && p99("fixed-20") < p99("fixed-100"),
        "{rows}"
    );
}

#[tokio::test(start_paused = true)]
async fn set_begins_percentiles_again_and_keeps_rates() {
    let demo = Demo::start().await;
    let before = demo.event_after(Duration::from_secs(1)).await;
    demo.send("PUT", "/settings/backend.calls", "0").await;
    demo.send("PUT", "/settings/tenants.slots", "3").await;
    let after = demo.event().await;
    for id in ["fixed-5", "fixed-20", "adaptive"] {
        let goodput = format!("backend.{id}.goodput");
        assert!(number(&after, &goodput) > 0.5 * number(&before, &goodput));
    }
    for (event, has) in [(&before, true), (&after, false)] {
        let rows = &event["backend"]["rows"];
        for row in rows.as_array().expect("rows") {
            assert_eq!(row["p99_ms"].is_f64(), has, "{row}");
        }
    }
    assert!(before["tenants"]["fifo"][0]["p99_ms"].is_f64());
    assert!(after["tenants"]["fifo"][0]["p99_ms"].is_null());
}

#[tokio::test(start_paused = true)]
async fn workers_move_by_themselves_until_a_slider_is_moved_and_again_when_asked() {
    let demo = Demo::start().await;
    let step = Duration::from_secs(20);
    let workers = |event: &Value| number(event, "backend.workers");
    assert_eq!(workers(&demo.event().await), 10.0);
    for expected in [4.0, 30.0, 10.0] {
        let event = demo.event_after(step).await;
        assert_eq!(workers(&event), expected);
        assert_eq!(event["settings"]["backend.workers"], expected as u64);
        assert_eq!(event["backend"]["cycling"], true);
    }
    // Sliders of other panels, and values that are refused, leave them alone.
    demo.send("PUT", "/settings/queue.quota", "20").await;
    demo.send("PUT", "/settings/backend.calls", "1001").await;
    assert_eq!(demo.event().await["backend"]["cycling"], true);
    demo.send("PUT", "/settings/backend.calls", "600").await;
    let event = demo.event_after(step).await;
    assert_eq!(
        (workers(&event), &event["backend"]["cycling"]),
        (10.0, &false.into())
    );
    demo.send("PUT", "/settings/backend.workers", "5").await;
    let answer = demo.send("POST", "/backend/cycle", "").await;
    assert_eq!(answer.status(), 204);
    assert_eq!(
        workers(&demo.event_after(Duration::from_millis(100)).await),
        10.0
    );
    assert_eq!(workers(&demo.event_after(step).await), 4.0);
}

#[tokio::test(start_paused = true)]
async fn five_clients_with_the_default_controller_share_and_with_the_naive_one_run_away() {
    let demo = Demo::start().await;
    // Thirty workers of the shared backend, all the time.
    demo.send("PUT", "/settings/backend.workers", "10").await;
    let shown = |event: &Value| {
        ["limits", "p99_ms", "goodput", "capacity", "unqueued_ms"]
            .map(|name| number(event, &format!("backend.fleet.{name}")))
    };
    let event = demo.event_after(Duration::from_secs(40)).await;
    let [limits, p99, goodput, capacity, unqueued] = shown(&event);
    assert_eq!((capacity, unqueued), (1500.0, 30.0));
    assert!(limits < 90.0 && p99 < 3.0 * unqueued, "{limits} {p99}");
    assert!(goodput > 0.9 * capacity, "{goodput}");

    let answer = demo.send("POST", "/backend/fleet/naive", "").await;
    assert_eq!(answer.status(), 204);
    let event = demo.event_after(Duration::from_secs(40)).await;
    assert_eq!(event["backend"]["fleet"]["controller"], "naive");
    let [limits, p99, ..] = shown(&event);
    assert!(limits > 150.0 && p99 > 4.0 * unqueued, "{limits} {p99}");

    // New clients and a new backend: nothing is left of the queue.
    demo.send("POST", "/backend/fleet/default", "").await;
    let [limits, _, goodput, ..] = shown(&demo.event_after(Duration::from_secs(5)).await);
    assert!(limits < 150.0 && goodput > 0.8 * capacity, "{limits}");
    let answer = demo.send("POST", "/backend/fleet/other", "").await;
    assert_eq!(answer.status(), 400);
}
