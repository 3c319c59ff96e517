//! A pool of eight threads without a runtime: at most two of them use the database at once.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use tollgate::{AcquireError, Semaphore};

/// Blocks the thread until its turn comes, in the order of arrival, and for a minute at most.
fn query(database: &Semaphore, number: u64) -> Result<u64, AcquireError> {
    let minute = Duration::from_secs(60);
    let _permit = database.acquire().timeout(minute).wait()?;
    thread::sleep(Duration::from_millis(20));
    Ok(number * number)
}

fn main() {
    let (database, jobs) = (Semaphore::new(2), Mutex::new(1..=20));
    let next = || jobs.lock().unwrap().next();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(number) = next() {
                    println!("{number}: {:?}", query(&database, number));
                }
            });
        }
    });
}
