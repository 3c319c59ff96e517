//! Tasks of smol, without tokio: three at once, 200 per second, and a deadline for each wait.

use std::time::Duration;

use smol::{Executor, Task, future::block_on};
use tollgate::{AcquireError, Quota, RateLimiter, Semaphore, all};

static SLOTS: Semaphore = Semaphore::new(3);
static RATE: RateLimiter = RateLimiter::new(Quota::per_second(200));
const PATIENCE: Duration = Duration::from_secs(10);

/// Holds a slot until it has the result.
async fn square(number: u64) -> Result<u64, AcquireError> {
    let _permits = all((&SLOTS, &RATE)).acquire().timeout(PATIENCE).await?;
    Ok(number * number)
}

fn main() -> Result<(), AcquireError> {
    let executor = Executor::new();
    let tasks: Vec<Task<_>> = (0..20).map(|n| executor.spawn(square(n))).collect();
    block_on(executor.run(async {
        let mut sum = 0;
        for task in tasks {
            sum += task.await?;
        }
        println!("the squares sum up to {sum}");
        Ok(())
    }))
}
