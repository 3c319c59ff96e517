#![expect(dead_code, reason = "`main` is for readers")]

include!("../../crates/tollgate-io/src/guide/programs/limit_bandwidth.rs");

use std::time::Duration;

use tokio::io::sink;
use tokio::time::{Instant, sleep};

const FILE: &[u8] = &[7; 100_000];

/// 100 kB at 200 kB/s, minus the burst of 80 ms.
#[tokio::test(start_paused = true)]
async fn send_to_one_client_keeps_the_limit_of_the_client() {
    let (limits, begun) = (Limits::new(), Instant::now());
    assert_eq!(limits.send(0, FILE, sink()).await.unwrap(), 100_000);
    assert_eq!(begun.elapsed(), Duration::from_millis(500 - 80));
}

/// 500 kB at 500 kB/s, minus the burst.
#[tokio::test(start_paused = true)]
async fn send_to_five_clients_keeps_the_limit_of_all() {
    let (limits, begun) = (Limits::new(), Instant::now());
    let sends = (1..=5).map(|client| limits.send(client, FILE, sink()));
    futures::future::try_join_all(sends).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_millis(1000 - 80));
    // The burst has come back after another 80 ms.
    sleep(Duration::from_millis(80)).await;
    let begun = Instant::now();
    limits.send(6, FILE, sink()).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_millis(500 - 80));
}
