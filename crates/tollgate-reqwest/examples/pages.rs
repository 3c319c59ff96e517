//! Reads an API with pages, at ten pages per second.
use reqwest_middleware::{ClientBuilder, Result};
use std::sync::Arc;
use tollgate::{Quota, RateLimiter};
use tollgate_reqwest::ThrottleMiddleware;

mod server;

#[derive(serde::Deserialize)]
struct Page {
    items: Vec<u32>,
    next: Option<String>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let rate = Arc::new(RateLimiter::new(Quota::per_second(10)));
    let builder = ClientBuilder::new(reqwest::Client::new());
    let client = builder.with(ThrottleMiddleware::new(rate)).build();

    let api = server::start().await;
    let (mut items, mut next) = (Vec::new(), Some("/page?number=1".to_owned()));
    while let Some(path) = next {
        let answer = client.get(format!("{api}{path}")).send().await?;
        let page: Page = answer.error_for_status()?.json().await?;
        items.extend(page.items);
        next = page.next;
    }
    println!("{items:?}");
    Ok(())
}
