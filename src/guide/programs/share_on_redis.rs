use std::time::Duration;

use tollgate::Quota;
use tollgate_redis::{Fallback, RateLimiter, Semaphore, Store};

/// Stands in for work that only four processes may do at once.
async fn export() {}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::new("redis://127.0.0.1/")?;

    // 50 per second over all processes; a quarter for each of four without the server.
    let requests = RateLimiter::new(&store, "requests", Quota::per_second(50).burst(8))
        .fallback(Fallback::Local { share: 4 });
    requests.acquire().timeout(Duration::from_secs(2)).await?;

    // Four at once over all processes. One that dies, or is cut off, loses its lease after 5 s.
    let exports = Semaphore::new(&store, "exports", 4).ttl(Duration::from_secs(5));
    let lease = exports.acquire().timeout(Duration::from_secs(60)).await?;
    if lease.token().run_until_cancelled(export()).await.is_none() {
        return Err("the lease was lost, so the export was stopped".into());
    }
    Ok(lease.release().await?)
}
