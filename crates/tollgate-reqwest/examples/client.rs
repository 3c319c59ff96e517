//! The client of an API: 8 requests at once, 50 per second, and none while the server asks for a pause.
use reqwest_middleware::{ClientBuilder, Result};
use std::sync::Arc;
use tollgate::{Quota, RateLimiter, Semaphore};
use tollgate_reqwest::{RetryAfterLayer, RetryAfterMiddleware, ThrottleMiddleware};

mod server;

#[tokio::main]
async fn main() -> Result<()> {
    let slots = Arc::new(Semaphore::new(8));
    let rate = Arc::new(RateLimiter::new(Quota::per_second(50)));
    let layer = RetryAfterLayer::copying(reqwest::Request::try_clone).pausing(Arc::clone(&rate));
    let retry = RetryAfterMiddleware::from(layer);
    let client = ClientBuilder::new(reqwest::Client::new())
        .with(ThrottleMiddleware::new(slots))
        .with(retry.clone())
        .with(ThrottleMiddleware::new(rate))
        .with(retry.innermost())
        .build();

    let api = server::start().await;
    let jobs = (0..50).map(async |number| {
        let answer = client.get(format!("{api}/square?number={number}"));
        Ok(answer.send().await?.error_for_status()?.json().await?)
    });
    let squares: Result<Vec<u32>> = futures::future::try_join_all(jobs).await;
    println!("the squares sum up to {}", squares?.iter().sum::<u32>());
    Ok(())
}
