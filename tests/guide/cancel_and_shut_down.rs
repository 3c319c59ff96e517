#![expect(dead_code, reason = "`main` is for readers")]

include!("../../src/guide/programs/cancel_and_shut_down.rs");

use tokio::time::Instant;
use tollgate::ErrorKind;

#[tokio::test(start_paused = true)]
async fn run_after_a_signal_drains_what_runs_and_cancels_what_waits() {
    let (slots, begun) = (Arc::new(Semaphore::new(2)), Instant::now());
    let signal = sleep(Duration::from_secs(1));
    let ends = run(Arc::clone(&slots), signal).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(5));
    assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 2);
    let errors = ends.into_iter().filter_map(Result::err);
    let cancelled = errors.filter(|error| error.kind() == ErrorKind::Cancelled);
    assert_eq!(cancelled.count(), 8);
    let refused = slots.acquire().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
}
