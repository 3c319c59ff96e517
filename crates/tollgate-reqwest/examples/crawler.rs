//! A crawler: one request at a time to each host, 50 ms between two of them, and 64 to all hosts.
use reqwest_middleware::{ClientBuilder, Result};
use std::{sync::Arc, time::Duration};
use tollgate::{Keyed, Semaphore, all, semaphore::Resting};
use tollgate_reqwest::{Pauses, PausesMiddleware, origin};

mod server;

const REST: Duration = Duration::from_millis(50);

#[tokio::main]
async fn main() -> Result<()> {
    let (hosts, total) = (Arc::new(Keyed::semaphores(1)), Arc::new(Semaphore::new(64)));
    // A paused host holds no slot of the total.
    let polite = PausesMiddleware::new(Pauses::new()).behind_by(move |request| {
        let host = Arc::clone(&hosts).key_owned(origin(request.url()));
        all((Resting::new(host, REST), Arc::clone(&total)))
    });
    let client = ClientBuilder::new(reqwest::Client::new())
        .with(polite)
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
