#![expect(dead_code, reason = "`main` is for readers")]

include!("../../src/guide/programs/find_the_right_limit.rs");

use std::sync::Arc;

use tollgate::Semaphore;

/// In place of a database: its workers take 20 ms for a call, and other calls queue there.
async fn database(workers: &Semaphore) -> io::Result<()> {
    let worker = workers.acquire().timeout(Duration::from_secs(1)).await;
    let _worker = worker.map_err(|error| io::Error::new(io::ErrorKind::TimedOut, error))?;
    sleep(Duration::from_millis(20)).await;
    Ok(())
}

/// The database loses three quarters of its workers, and the limit follows. Probes are at multiples of ten
/// seconds, at half of the limit, so it is looked at in between.
#[tokio::test(start_paused = true)]
async fn limited_calls_find_and_follow_the_number_of_workers() {
    let limit = Arc::new(AdaptiveSemaphore::default());
    let workers = Arc::new(Semaphore::new(40));
    for _ in 0..200 {
        let (limit, workers) = (Arc::clone(&limit), Arc::clone(&workers));
        tokio::spawn(async move {
            loop {
                let _ = limited(&limit, database(&workers)).await;
            }
        });
    }
    sleep(Duration::from_secs(8)).await;
    let found = limit.snapshot().permits.limit;
    assert!((40..60).contains(&found), "{found}");

    workers.set_permits(10);
    sleep(Duration::from_secs(8)).await;
    let found = limit.snapshot().permits.limit;
    assert!((10..20).contains(&found), "{found}");
}
