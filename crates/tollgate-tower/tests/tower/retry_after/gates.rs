//! One gate for each origin, for all clones and all requests.

use std::panic::AssertUnwindSafe;

use futures::future::{FutureExt, join_all};
use tokio::time::{sleep, timeout};

use super::*;

/// A layer that is told by a successful answer to wait.
fn exact() -> RetryAfterLayer<Body> {
    super::exact().rate_limit_of_any_status(true)
}

fn used_up(seconds: u32) -> Response<Body> {
    answer(200, &[("ratelimit", &format!(r#""a";r=0;t={seconds}"#))])
}

#[tokio::test(start_paused = true)]
async fn call_of_a_clone_waits_at_the_same_gate() {
    let layer = exact();
    let (server, client) = setup(&layer, [used_up(5)]);
    assert_eq!(get(&client).await, (200, Duration::ZERO));
    let another = layer.clone().layer(server.clone());
    let clones = [client.clone(), another];
    let waits = clones.iter().map(get);
    assert_eq!(join_all(waits).await, [(200, 5 * SECOND); 2]);
    assert_eq!(server.times(), [0.0, 5.0, 5.0]);
    // Another layer knows nothing of it.
    let (server, client) = setup(&layer, [used_up(5)]);
    get(&client).await;
    get(&exact().layer(server.clone())).await;
    assert_eq!(server.times(), [0.0, 0.0]);
}

/// One scarce route would otherwise stop all others.
#[tokio::test(start_paused = true)]
async fn call_after_a_used_up_limit_of_a_success_does_not_wait() {
    let (server, client) = setup(&super::exact(), [used_up(5)]);
    for uri in ["http://a.test/scarce", "http://a.test/"] {
        assert_eq!(send(&client, "GET", uri).await, (200, Duration::ZERO));
    }
    assert_eq!(server.times(), [0.0, 0.0]);
}

/// The next request may need no tokens.
#[tokio::test(start_paused = true)]
async fn call_after_a_success_that_leaves_no_tokens_does_not_wait() {
    let fields = [
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "5s"),
    ];
    let (server, client) = setup(&exact(), [answer(200, &fields), answer(429, &fields)]);
    for wait in [0, 5] {
        assert_eq!(get(&client).await, (200, wait * SECOND));
    }
    assert_eq!(server.times(), [0.0, 0.0, 5.0]);
}

#[tokio::test(start_paused = true)]
async fn call_to_another_origin_does_not_wait() {
    let (server, client) = setup(&exact(), [used_up(5)]);
    get(&client).await;
    for uri in [
        "https://a.test/",
        "http://a.test:81/",
        "http://b.test/",
        "/",
    ] {
        assert_eq!(send(&client, "GET", uri).await, (200, Duration::ZERO));
    }
    let same = "http://u:p@A.TEST:80/b";
    assert_eq!(send(&client, "POST", same).await, (200, 5 * SECOND));
    assert_eq!(server.times(), [0.0, 0.0, 0.0, 0.0, 0.0, 5.0]);
}

#[tokio::test(start_paused = true)]
async fn call_waits_for_the_longest_pause() {
    let server = Server::new([refusal("5"), refusal("2")]);
    // Both are sent before the first is answered, after a second.
    let slow = server.clone().map_future(|answer| async {
        sleep(SECOND).await;
        answer.await
    });
    let client = exact().layer(slow);
    let both = join_all([get(&client), get(&client)]).await;
    assert_eq!(both, [(200, 7 * SECOND); 2]);
    assert_eq!(server.times(), [0.0, 0.0, 6.0, 6.0]);
}

/// The gate opens, the first to come is refused, and the others, which were released as well, wait again.
#[tokio::test(start_paused = true)]
async fn call_released_together_with_one_that_is_refused_waits_again() {
    let (server, client) = setup(&exact(), [used_up(5), refusal("3")]);
    get(&client).await;
    let waits = join_all((0..5).map(|_| get(&client))).await;
    assert_eq!(waits, [(200, 8 * SECOND); 5]);
    assert_eq!(server.times(), [0.0, 5.0, 8.0, 8.0, 8.0, 8.0, 8.0]);
}

#[tokio::test(start_paused = true)]
async fn call_dropped_at_the_gate_is_not_made() {
    let (server, client) = setup(&exact(), [used_up(5)]);
    get(&client).await;
    assert!(timeout(SECOND, get(&client)).await.is_err());
    assert_eq!(get(&client).await, (200, 4 * SECOND));
    assert_eq!(server.times(), [0.0, 5.0]);
}

#[tokio::test(start_paused = true)]
async fn call_not_polled_before_the_gate_is_blocked_waits() {
    let (server, client) = setup(&exact(), [used_up(5)]);
    let early = get(&client);
    get(&client).await;
    assert_eq!(early.await, (200, 5 * SECOND));
    assert_eq!(server.times(), [0.0, 5.0]);
}

#[tokio::test(start_paused = true)]
async fn max_origins_bounds_the_gates() {
    let (server, client) = setup(
        &exact().max_origins(2),
        [used_up(5), used_up(9), used_up(7)],
    );
    let hosts = ["http://a.test/", "http://b.test/", "http://c.test/"];
    for uri in hosts {
        send(&client, "GET", uri).await;
    }
    // The gate that would have opened first has made room.
    let waits = hosts.map(|uri| send(&client, "GET", uri));
    let waits = join_all(waits).await.into_iter().map(|(_, waited)| waited);
    assert_eq!(waits.collect::<Vec<_>>(), [0, 9, 7].map(|n| n * SECOND));
    assert_eq!(server.times(), [0.0, 0.0, 0.0, 0.0, 7.0, 9.0]);
}

#[tokio::test(start_paused = true)]
async fn future_polled_after_completion_panics() {
    let (_, mut client) = setup(&exact(), []);
    let mut future = client.call(Request::new(Body::default()));
    assert!(format!("{future:?}").contains("waits"), "{future:?}");
    (&mut future).await.unwrap();
    let again = AssertUnwindSafe(future).catch_unwind().await.unwrap_err();
    let message = again.downcast_ref::<&str>();
    assert_eq!(message, Some(&"polled again after it was ready"));
}
