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
