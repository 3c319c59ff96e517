//! octocrab, in layers of tower.

use clients::github;
use octocrab::Octocrab;
use tollgate_tower::RetryAfterLayer;

use super::*;

async fn repository(client: Octocrab) {
    let answer: Value = client.get("/repos/a/b", None::<&()>).await.unwrap();
    assert_eq!(answer, completion());
}

#[tokio::test(start_paused = true)]
async fn client_sends_nothing_in_a_pause_and_then_at_the_rate() {
    let server = Server::refusing(1).await;
    let rate = server.rate(Quota::per_second(10));
    let retry = RetryAfterLayer::new().clock(&server.clock);
    let url = server.url.parse().unwrap();
    let client = github::client(url, server.slots(), Arc::clone(&rate), retry);
    let jobs = (0..REQUESTS).map(|_| repository(client.clone()));
    server.run(jobs, Some(&rate)).await;
    assert_paused_and_then_at_the_rate(&server.arrived());
}

#[tokio::test(start_paused = true)]
async fn client_sends_as_many_at_once_as_there_are_slots() {
    let server = Server::holding().await;
    let rate = server.rate(Quota::UNLIMITED);
    let url = server.url.parse().unwrap();
    let client = github::client(url, server.slots(), rate, RetryAfterLayer::new());
    let jobs = (0..REQUESTS).map(|_| repository(client.clone()));
    server.run(jobs, None).await;
    assert_eq!(server.seen.most_at_once.load(SeqCst), SLOTS);
}
