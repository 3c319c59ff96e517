//! Tests that a fresh start shows the point of each panel within five seconds.

use serde_json::Value;
use tokio::time::{Duration, sleep};

use super::{Demo, number, text};

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
    // The limit is explained.
    assert_ne!(event["backend"]["why"]["reason"], "unknown");
    let baseline = number(&event, "backend.why.baseline_ms");
    assert!((10.0..60.0).contains(&baseline), "{baseline}");
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
    // Sliders of other panels, and refused values, leave them alone.
    demo.send("PUT", "/settings/algorithms.calls", "0").await;
    demo.send("PUT", "/settings/tenants.noise", "1").await;
    demo.send("PUT", "/settings/backend.calls", "1001").await;
    let moved = async |expected: f64| {
        let event = demo.event_after(step).await;
        assert_eq!(workers(&event), expected);
        assert_eq!(event["settings"]["backend.workers"], expected as u64);
        assert_eq!(event["backend"]["cycling"], true);
    };
    moved(4.0).await;
    demo.send("PUT", "/settings/backend.calls", "0").await;
    let event = demo.event_after(step).await;
    assert_eq!(
        (workers(&event), &event["backend"]["cycling"]),
        (4.0, &false.into())
    );
    // Fewer calls of the fleet, for the time of the test.
    demo.send("PUT", "/settings/backend.service_ms", "100")
        .await;
    demo.send("PUT", "/settings/backend.workers", "5").await;
    let answer = demo.send("POST", "/backend/cycle", "").await;
    assert_eq!(answer.status(), 204);
    assert_eq!(
        workers(&demo.event_after(Duration::from_millis(100)).await),
        10.0
    );
    for expected in [4.0, 30.0, 10.0] {
        moved(expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn five_clients_with_the_default_controller_share_and_with_the_naive_one_run_away() {
    let demo = Demo::start().await;
    // Thirty workers of the shared backend, all the time, and no calls to the others.
    demo.send("PUT", "/settings/backend.workers", "10").await;
    demo.send("PUT", "/settings/backend.calls", "0").await;
    demo.send("PUT", "/settings/tenants.noise", "1").await;
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

    // New clients and a new backend: the queue is gone.
    demo.send("POST", "/backend/fleet/default", "").await;
    let [limits, _, goodput, ..] = shown(&demo.event_after(Duration::from_secs(5)).await);
    assert!(limits < 150.0 && goodput > 0.8 * capacity, "{limits}");
    let answer = demo.send("POST", "/backend/fleet/other", "").await;
    assert_eq!(answer.status(), 400);
}

// Waiters that are cancelled and return.

/// Starts with one call per second, so that none is admitted meanwhile.
async fn slow() -> Demo {
    let demo = Demo::start().await;
    demo.send("PUT", "/settings/queue.quota", "1").await;
    demo
}

/// Returns the numbers of waiting, admitted and cancelled waiters in an event, which equal those of
/// the list.
fn counts(queue: &Value) -> [u64; 3] {
    let list = queue["waiters"].as_str().expect("a text");
    let counts = [("waiting", 'w'), ("admitted", 'a'), ("cancelled", 'c')].map(|(name, state)| {
        let count = queue[name].as_u64().expect("a number");
        assert_eq!(count, list.matches(state).count() as u64, "{name}");
        count
    });
    assert_eq!(counts.iter().sum::<u64>(), 200);
    counts
}

async fn next_counts(demo: &Demo) -> [u64; 3] {
    counts(&demo.event().await["queue"])
}

#[tokio::test(start_paused = true)]
async fn cancel_then_refill_leaves_a_fifth_and_brings_all_back() {
    let demo = slow().await;
    // The first one did not have to wait.
    assert_eq!(next_counts(&demo).await, [199, 1, 0]);

    assert_eq!(demo.send("POST", "/queue/cancel", "").await.status(), 204);
    assert_eq!(next_counts(&demo).await, [40, 1, 159]);

    assert_eq!(demo.send("POST", "/queue/refill", "").await.status(), 204);
    assert_eq!(next_counts(&demo).await, [200, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn cancel_shortens_the_wait_of_the_last_and_keeps_the_rate() {
    let demo = Demo::start().await;
    demo.event_after(Duration::from_secs(1)).await;
    // Ten a second, looked at half-way between two of them.
    for (first, wait_ms) in [(188, 18_850), (34, 3450)] {
        for event in 0..10 {
            let queue = demo.event().await["queue"].take();
            assert_eq!(queue["per_second"], 10);
            assert_eq!(counts(&queue)[0], first - event);
            let seconds = queue["last_waits_s"].as_f64().expect("a number");
            assert_eq!((seconds * 1000.0).round() as u64, wait_ms - 100 * event);
        }
        // Six more are admitted before the list is read, and four out of five of the others leave.
        if first == 188 {
            demo.event_after(Duration::from_millis(500)).await;
            demo.send("POST", "/queue/cancel", "").await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn refill_directly_after_cancel_replaces_the_cancelled() {
    let demo = slow().await;
    demo.send("POST", "/queue/cancel", "").await;
    demo.send("POST", "/queue/refill", "").await;
    assert_eq!(next_counts(&demo).await, [200, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn refill_after_cancel_keeps_the_list_in_the_order_of_admission() {
    let demo = slow().await;
    demo.send("POST", "/queue/cancel", "").await;
    demo.send("POST", "/queue/refill", "").await;
    demo.send("PUT", "/settings/queue.quota", "100").await;
    // Those that kept their place are admitted first, then the new ones: always the next in the
    // list.
    for event in 1..=19 {
        let queue = demo.event().await["queue"].take();
        let admitted = 10 * event;
        assert_eq!(
            queue["waiters"],
            "a".repeat(admitted) + &"w".repeat(200 - admitted)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn cancel_lets_the_rest_move_up() {
    let demo = slow().await;
    demo.send("POST", "/queue/cancel", "").await;
    demo.send("PUT", "/settings/queue.quota", "20").await;
    let queue = demo.event_after(Duration::from_millis(2050)).await["queue"].take();
    // One of 40 each 50 ms, instead of one of 199.
    assert_eq!(counts(&queue), [0, 41, 159]);
}

#[tokio::test(start_paused = true)]
async fn queue_that_has_been_empty_for_two_seconds_is_full_again() {
    let demo = Demo::start().await;
    demo.send("PUT", "/settings/queue.quota", "200").await;
    let queue = demo.event_after(Duration::from_secs(2)).await["queue"].take();
    assert_eq!(counts(&queue), [0, 200, 0]);
    demo.send("PUT", "/settings/queue.quota", "1").await;
    let queue = demo.event_after(Duration::from_secs(2)).await["queue"].take();
    assert!(counts(&queue)[0] >= 198, "{queue}");
}

// The sliders.

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

/// Each slider, a value, a series of its panel, and the value of that series 4.6 seconds after the
/// start: with the sliders of a fresh start, and with this value. Times and random numbers are the same
/// in each run, so the values are exact; those of the backend depend on the order in which tokio runs
/// tasks.
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
