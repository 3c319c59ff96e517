use std::sync::Arc;

use reqwest_middleware::ClientBuilder;
use tollgate::{Quota, RateLimiter, Semaphore};
use tollgate_reqwest::{RetryAfterLayer, RetryAfterMiddleware, ThrottleMiddleware};

/// Allows 8 requests at once, 50 per second, and none while the server asks for a pause.
fn limited(client: reqwest::Client) -> ClientBuilder {
    let slots = Arc::new(Semaphore::new(8));
    let rate = Arc::new(RateLimiter::new(Quota::per_second(50)));
    let layer = RetryAfterLayer::copying(reqwest::Request::try_clone).pausing(Arc::clone(&rate));
    let retry = RetryAfterMiddleware::from(layer);
    ClientBuilder::new(client)
        .with(ThrottleMiddleware::new(slots)) // the outermost
        .with(retry.clone())
        .with(ThrottleMiddleware::new(rate))
        .with(retry.innermost())
}

#[tokio::main]
async fn main() -> reqwest_middleware::Result<()> {
    // Make one client, and clone it: the clones share the limits.
    let client = limited(reqwest::Client::new()).build();
    let answer = client.get("http://127.0.0.1:3000/").send().await?;
    println!("{}", answer.error_for_status()?.text().await?);
    Ok(())
}
