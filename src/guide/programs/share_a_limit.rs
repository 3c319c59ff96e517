use tollgate::{AcquireError, Quota, RateLimiter};

/// Returns the limiter of one process, if `nodes` processes share the quota.
fn part(nodes: u32) -> RateLimiter {
    let fleet = Quota::per_second(50).burst(8);
    RateLimiter::new(fleet.split(nodes))
}

#[tokio::main]
async fn main() -> Result<(), AcquireError> {
    let limiter = part(4);
    println!("the part of this process: {}", limiter.quota());
    limiter.acquire().await?;
    Ok(())
}
