use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tollgate::{AcquireError, Semaphore};

async fn job(slots: Arc<Semaphore>, shutdown: CancellationToken) -> Result<(), AcquireError> {
    let _permit = slots.acquire().cancel_on(&shutdown).await?;
    sleep(Duration::from_secs(5)).await; // The work is not cancelled, only the wait.
    Ok(())
}

/// Runs ten jobs, as many at once as there are slots, until `signal` ends. Returns how each job ended.
async fn run(
    slots: Arc<Semaphore>,
    signal: impl Future,
) -> Result<Vec<Result<(), AcquireError>>, AcquireError> {
    let shutdown = CancellationToken::new();
    let mut jobs = JoinSet::new();
    for _ in 0..10 {
        jobs.spawn(job(Arc::clone(&slots), shutdown.clone()));
    }
    signal.await;

    shutdown.cancel(); // The waiting jobs leave the queue now.
    slots.close(); // Later callers are refused.
    slots.wait_idle().timeout(Duration::from_secs(30)).await?;
    Ok(jobs.join_all().await)
}

#[tokio::main]
async fn main() -> Result<(), AcquireError> {
    let ends = run(Arc::new(Semaphore::new(2)), tokio::signal::ctrl_c()).await?;
    println!(
        "{} jobs were done",
        ends.iter().filter(|end| end.is_ok()).count()
    );
    Ok(())
}
