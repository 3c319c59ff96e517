use std::io;
use std::time::Duration;

use tokio::time::sleep;
use tollgate_adaptive::AdaptiveSemaphore;

/// Sends a query when the limit admits it, and reports to the limit how it ended.
async fn limited<T>(
    limit: &AdaptiveSemaphore,
    query: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let permit = limit.acquire().await.map_err(io::Error::other)?;
    let answer = query.await;
    match &answer {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => permit.overloaded(),
        // No server answered: the quick error is no sample.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => permit.ignore(),
        // Its latency is a sample, even if the query fails with an error such as "no such row".
        _ => drop(permit),
    }
    answer
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let limit = AdaptiveSemaphore::default();
    let query = async || {
        sleep(Duration::from_millis(20)).await; // Stands in for the query of a database.
        Ok(())
    };
    for _ in 0..100 {
        limited(&limit, query()).await?;
    }
    let now = limit.snapshot();
    let why = now.explanation;
    println!(
        "{} calls at once: {}",
        now.permits.limit,
        why.reason.as_str()
    );
    println!("{:?}, {:?} without a queue", why.latency, why.baseline);
    Ok(())
}
