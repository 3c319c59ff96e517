//! Threads without a runtime: eight workers, at most two in the database at once.

use std::thread;
use std::time::Duration;

use tollgate::{AcquireError, Semaphore};

/// Blocks the thread until it is its turn, in the order of arrival, and for a second at most.
/// (`CondvarSemaphore` is the one without any order.)
fn query(database: &Semaphore, number: u64) -> Result<u64, AcquireError> {
    let timeout = Duration::from_secs(1);
    let _permit = database.acquire().timeout(timeout).wait()?;
    thread::sleep(Duration::from_millis(20));
    Ok(number * number)
}

fn main() {
    let database = Semaphore::new(2);
    thread::scope(|scope| {
        for number in 1..=8 {
            let database = &database;
            scope.spawn(move || match query(database, number) {
                Ok(answer) => println!("{number}: {answer}"),
                Err(error) => println!("{number}: {error}"),
            });
        }
    });
}
