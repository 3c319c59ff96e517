use std::time::Duration;

use tollgate::{AcquireError, Quota, RateLimiter, Semaphore, all};

/// The limits of reports, which share a pool of connections with everything else.
struct Reports {
    slots: Semaphore,
    rate: RateLimiter,
}

impl Reports {
    /// Runs `query` within the limits. It takes its connection when it begins, so a report that waits here
    /// holds none.
    async fn run<T>(&self, query: impl Future<Output = T>) -> Result<T, AcquireError> {
        let limits = all((&self.slots, &self.rate));
        let _permits = limits.acquire().timeout(Duration::from_secs(30)).await?;
        Ok(query.await)
    }
}

#[tokio::main]
async fn main() -> Result<(), AcquireError> {
    // Of ten connections, reports use two. 30 of them begin in a minute, and five at once after a pause.
    let rate = RateLimiter::new(Quota::per_minute(30).burst(5));
    let reports = Reports {
        slots: Semaphore::new(2),
        rate,
    };
    let query = async { 42 }; // Stands in for `sqlx::query_scalar(SQL).fetch_one(&pool)`.
    println!("{}", reports.run(query).await?);
    Ok(())
}
