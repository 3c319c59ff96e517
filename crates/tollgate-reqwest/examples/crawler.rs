//! A crawler: one request at once to each host, and 64 to all of them.
use reqwest_middleware::{ClientBuilder, Result};
use std::sync::Arc;
use tollgate::{Keyed, Semaphore, all};
use tollgate_reqwest::{RetryAfterMiddleware, ThrottleMiddleware};

mod server;

#[tokio::main]
async fn main() -> Result<()> {
    let hosts = Arc::new(Keyed::semaphores(1));
    let slots = Arc::new(Semaphore::new(64));
    let by_host = ThrottleMiddleware::by(move |request| {
        let host = request.url().authority().to_owned();
        all((Arc::clone(&hosts).key_owned(host), Arc::clone(&slots)))
    });
    let builder = ClientBuilder::new(reqwest::Client::new()).with(by_host);
    let client = builder.with(RetryAfterMiddleware::new()).build();

    let hosts = [server::start().await, server::start().await];
    let urls = (1..=40).map(|page| format!("{}/page?number={page}", hosts[page % 2]));
    let pages = urls.map(async |url| {
        let answer = client.get(url).send().await?.error_for_status()?;
        Ok(answer.text().await?.len())
    });
    let pages: Result<Vec<_>> = futures::future::try_join_all(pages).await;
    println!("{} pages, one at once from each host", pages?.len());
    Ok(())
}
