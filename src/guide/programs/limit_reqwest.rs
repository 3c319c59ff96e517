use std::sync::Arc;

use reqwest_middleware::ClientBuilder;
use tollgate::{Quota, RateLimiter, Semaphore, all};
use tollgate_reqwest::{Pauses, PausesMiddleware};

/// Allows 8 requests at once, 50 per second, and none while the server asks for a pause.
fn limited() -> reqwest::Result<ClientBuilder> {
    let slots = Arc::new(Semaphore::new(8));
    let rate = Arc::new(RateLimiter::new(Quota::per_second(50)));
    let limits = PausesMiddleware::new(Pauses::new()).behind(all((slots, rate)));
    let client = reqwest::Client::builder().redirect(limits.redirect_policy());
    Ok(ClientBuilder::new(client.build()?).with(limits))
}

#[tokio::main]
async fn main() -> reqwest_middleware::Result<()> {
    // Make one client, and clone it: the clones share the limits.
    let client = limited()?.build();
    let answer = client.get("http://127.0.0.1:3000/").send().await?;
    println!("{}", answer.error_for_status()?.text().await?);
    Ok(())
}
