//! A crawler: one request at a time to each host, 50 ms between two of them, and 64 to all hosts.
use reqwest_middleware::{ClientBuilder, Result};
use std::{sync::Arc, time::Duration};
use tollgate::{Keyed, Semaphore};
use tollgate_reqwest::{Pauses, PausesMiddleware, ThrottleMiddleware};

mod server;

#[tokio::main]
async fn main() -> Result<()> {
    let hosts = Arc::new(Keyed::semaphores(1));
    let by_host = ThrottleMiddleware::by(move |request| {
        Arc::clone(&hosts).key_owned(request.url().authority().to_owned())
    });
    // A paused host holds no slot of the total.
    let total = Arc::new(Semaphore::new(64));
    let client = ClientBuilder::new(reqwest::Client::new())
        .with(by_host.release_after(Duration::from_millis(50)))
        .with(PausesMiddleware::new(Pauses::new()).behind(total))
        .build();
    let hosts = [server::start().await, server::start().await];
    let pages = (0..20).map(async |page| {
        let answer = client.get(format!("{}/slow", hosts[page % 2]));
        Ok(answer.send().await?.error_for_status()?.text().await?)
    });
    let pages: Result<Vec<_>> = futures::future::try_join_all(pages).await;
    println!("{} pages, one at once from each host", pages?.len());
    Ok(())
}
