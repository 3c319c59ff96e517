//! Ctrl-C cancels the waiting jobs; the running one finishes.

use std::time::Duration;

use futures::future::join_all;
use tokio_util::sync::CancellationToken;
use tollgate::{AcquireError, Semaphore};

async fn job(slots: &Semaphore, shutdown: &CancellationToken) -> Result<(), AcquireError> {
    let _permit = slots.acquire().cancel_on(shutdown).await?;
    println!("a job runs; Ctrl-C cancels the others");
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(())
}

#[tokio::main]
async fn main() {
    let (slots, shutdown) = (Semaphore::new(1), CancellationToken::new());
    let token = shutdown.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            token.cancel();
        }
    });
    let jobs = join_all((0..100).map(|_| job(&slots, &shutdown))).await;
    let done = jobs.iter().filter(|job| job.is_ok()).count();
    println!("{done} done, {} cancelled", jobs.len() - done);
}
