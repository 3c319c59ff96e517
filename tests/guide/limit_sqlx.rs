#![expect(dead_code, reason = "`main` is for readers")]

include!("../../src/guide/programs/limit_sqlx.rs");

use std::cell::Cell;

use tokio::time::{Instant, sleep};
use tollgate::ErrorKind;

fn reports(reports_in_a_minute: u64) -> Reports {
    let rate = RateLimiter::new(Quota::per_minute(reports_in_a_minute).burst(5));
    Reports {
        slots: Semaphore::new(2),
        rate,
    }
}

/// The pool of a database has ten connections. Reports hold two, and only while they run.
#[tokio::test(start_paused = true)]
async fn run_of_reports_leaves_connections_to_others() {
    let (reports, connections) = (reports(30), Semaphore::new(10));
    let (fewest, begun) = (Cell::new(10), Instant::now());
    let queries = (0..8).map(|_| {
        reports.run(async {
            let _connection = connections.acquire().await;
            fewest.set(fewest.get().min(connections.available_permits()));
            sleep(Duration::from_secs(1)).await;
        })
    });
    futures::future::try_join_all(queries).await.unwrap();
    assert_eq!(fewest.get(), 8);
    // The sixth is due after two seconds, the seventh after four, the eighth after six.
    assert_eq!(begun.elapsed(), Duration::from_secs(6 + 1));
}

#[tokio::test(start_paused = true)]
async fn run_of_a_report_that_would_wait_too_long_does_not_query() {
    let reports = reports(1);
    for _ in 0..5 {
        reports.run(async {}).await.unwrap();
    }
    let refused = reports.run(async { panic!("the query runs") }).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::TimedOut);
}
