//! The client of an API: 8 requests at once, 50 per second, and none while the server asks for a pause.
use reqwest_middleware::{ClientBuilder, Result};
use std::sync::Arc;
use tollgate::{Quota, RateLimiter, Semaphore, all};
use tollgate_reqwest::{Pauses, PausesMiddleware};

mod server;

#[tokio::main]
async fn main() -> Result<()> {
    let slots = Arc::new(Semaphore::new(8));
    let rate = Arc::new(RateLimiter::new(Quota::per_second(50)));
    let polite = PausesMiddleware::new(Pauses::new()).behind(all((slots, rate)));
    let client = reqwest::Client::builder().redirect(polite.redirect_policy());
    let client = ClientBuilder::new(client.build()?).with(polite).build();

    let api = server::start().await;
    let jobs = (0..50).map(async |number| {
        let answer = client.get(format!("{api}/square?number={number}"));
        Ok(answer.send().await?.error_for_status()?.json().await?)
    });
    let squares: Result<Vec<u32>> = futures::future::try_join_all(jobs).await;
    println!("the squares sum up to {}", squares?.iter().sum::<u32>());
    Ok(())
}
