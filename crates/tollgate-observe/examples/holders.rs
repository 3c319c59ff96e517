//! Finds a permit that is held for too long: its holder, since when it is held, and where it was acquired.

use std::{sync::Arc, time::Duration};

use tokio::time::sleep;
use tollgate::{AcquireError, Clock, Semaphore};
use tollgate_observe::{Holders, Observed};

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), AcquireError> {
    let holders = Holders::new("connections").clock(Clock::tokio());
    let connections = Observed::new(Arc::new(Semaphore::new(3)), holders.clone());

    let (of_report, line) = (connections.clone(), line!() + 2);
    let report = tokio::spawn(async move {
        let _connection = of_report.acquire().await?;
        sleep(Duration::from_secs(3600)).await;
        Ok::<_, AcquireError>(())
    });
    for _ in 0..60 {
        let _connection = connections.acquire().await?;
        sleep(Duration::from_secs(1)).await;
    }
    let suspects = holders.older_than(Duration::from_secs(30));
    let found = &suspects[0];
    assert_eq!((suspects.len(), found.task()), (1, Some(report.id())));
    assert_eq!((found.place.file(), found.place.line()), (file!(), line));
    println!("held for {:?}: {}", found.held, found.place);
    Ok(())
}
