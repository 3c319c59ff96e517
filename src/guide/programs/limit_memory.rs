use std::sync::Arc;

use futures::future::try_join_all;
use tollgate::{AcquireError, Semaphore};

const MEGABYTE: u64 = 1 << 20;

/// A file, and what is known of its size before it is read.
struct File {
    estimate: u64,
    actual: u64,
}

/// Reads and converts a file. The budget counts the estimate first, and then the bytes that are needed of it.
async fn convert(file: &File, memory: Arc<Semaphore>) -> Result<u64, AcquireError> {
    // A file larger than the whole budget is converted alone.
    let asked = file.estimate.min((memory.permits() as u64).max(1));
    let mut held = memory.cost_owned(asked).acquire().await?;
    tokio::task::yield_now().await; // Stands in for the read.
    let unneeded = asked.saturating_sub(file.actual);
    drop(held.split(unneeded as usize)); // For others, while this file is converted.
    tokio::task::yield_now().await; // Stands in for the conversion.
    Ok(held.count() as u64)
}

#[tokio::main]
async fn main() -> Result<(), AcquireError> {
    let memory = Arc::new(Semaphore::new(256 * MEGABYTE as usize));
    let files = [10, 200, 90, 1000].map(|size| File {
        estimate: size * MEGABYTE,
        actual: size * MEGABYTE / 2,
    });
    let held = try_join_all(files.iter().map(|file| convert(file, Arc::clone(&memory)))).await?;
    println!("{held:?} bytes");
    Ok(())
}
