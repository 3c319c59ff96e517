//! A cap on the tasks of a `JoinSet`: ten downloads, at most three at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate::{AcquireError, Semaphore};

async fn download(number: u32) -> u32 {
    tokio::time::sleep(Duration::from_millis(20)).await;
    number * 100
}

#[tokio::main]
async fn main() -> Result<(), AcquireError> {
    let slots = Arc::new(Semaphore::new(3));
    let mut downloads = JoinSet::new();
    for number in 1..=10 {
        // Waits before spawning, so a task exists only when it can start.
        let permit = Arc::clone(&slots).acquire_owned().await?;
        downloads.spawn(async move {
            let bytes = download(number).await;
            drop(permit);
            bytes
        });
    }
    println!("{} bytes", downloads.join_all().await.iter().sum::<u32>());
    Ok(())
}
