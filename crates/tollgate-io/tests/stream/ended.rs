//! Tokens, deadlines and tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tollgate::{ErrorKind, Semaphore, all};
use tollgate_io::stream::LimitStreamExt;

use super::jobs::{Jobs, settle};
use crate::support::{Waiter, assert_at_rest, kind};

const SHORT: Duration = Duration::from_millis(240);

#[test]
fn a_token_ends_it_and_drops_what_runs() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(2));
    let token = CancellationToken::new();
    let each = jobs
        .source(1..=9)
        .for_each_limited(&slots, |item| jobs.silent_work(item));
    let mut each = Waiter::new(each.cancel_on(&token));
    settle(&mut each);
    let seen = each.wakes();
    jobs.log.take();
    token.cancel();
    assert_eq!(each.wakes(), seen + 1);
    assert_eq!(each.refused(), ErrorKind::Cancelled);
    // Though the future is still there.
    let mut log = jobs.log.take();
    log.sort();
    assert_eq!(log, ["drop 1", "drop 2"]);
    assert_at_rest(&slots, 2);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_for_the_whole_stream() {
    let slots = Semaphore::new(2);
    let done = AtomicUsize::new(0);
    let job = |_| async {
        sleep(SHORT / 2).await;
        done.fetch_add(1, Ordering::SeqCst);
    };
    let begun = Instant::now();
    stream::iter(0..4)
        .for_each_limited(&slots, job)
        .timeout(2 * SHORT)
        .await
        .unwrap();
    assert_eq!((begun.elapsed(), done.load(Ordering::SeqCst)), (SHORT, 4));

    let begun = Instant::now();
    let refused = stream::iter(0..100)
        .for_each_limited(&slots, job)
        .timeout(SHORT + SHORT / 4)
        .await;
    assert_eq!(kind(refused), ErrorKind::TimedOut);
    assert_eq!(
        (begun.elapsed(), done.load(Ordering::SeqCst)),
        (SHORT + SHORT / 4, 8)
    );
    assert_at_rest(&slots, 2);
}

#[tokio::test(start_paused = true)]
async fn results_come_as_they_are_ready() {
    let slots = Semaphore::new(3);
    let begun = Instant::now();
    let results: Vec<_> = stream::iter([4, 1, 2, 1_u32])
        .map(|units| async move {
            sleep(units * SHORT).await;
            units
        })
        .buffer_limited(&slots)
        .map_ok(|units| (units, begun.elapsed() / 240))
        .try_collect()
        .await
        .unwrap();
    let at = Duration::from_millis;
    assert_eq!(results, [(1, at(1)), (2, at(2)), (1, at(2)), (4, at(4))]);
    assert_at_rest(&slots, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_can_be_spawned_and_never_exceeds_the_limits() {
    let (slots, everyone) = (Arc::new(Semaphore::new(3)), Arc::new(Semaphore::new(4)));
    let inside = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let throttle = all((Arc::clone(&slots), Arc::clone(&everyone)));
            let inside = Arc::clone(&inside);
            let each = stream::iter(0..50).for_each_limited(throttle, move |_| {
                let inside = Arc::clone(&inside);
                async move {
                    assert!(
                        inside.fetch_add(1, Ordering::SeqCst) < 3,
                        "too many are inside"
                    );
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            });
            tokio::spawn(each)
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let results = stream::iter(0..50)
        .map(std::future::ready)
        .buffer_limited(Arc::clone(&slots));
    let collected: Vec<_> = tokio::spawn(results.try_collect()).await.unwrap().unwrap();
    assert_eq!(collected, (0..50).collect::<Vec<_>>());
    assert_at_rest(&slots, 3);
    assert_at_rest(&everyone, 4);
}
