//! Tests cancellation by tokens, deadlines and tasks.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::stream::{self, FusedStream};
use futures::{StreamExt, TryStreamExt};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tollgate::{ErrorKind, Semaphore, all};
use tollgate_io::stream::LimitStreamExt;

use super::{Jobs, Polled, settle};
use crate::support::scripted::Script;
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
    // The work is dropped although the future still exists.
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

// Drops the adapter, or a wait for its next result.

#[test]
fn an_adapter_that_is_dropped_gives_all_permits_back_and_leaves_the_queue() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(3));
    let mut results = jobs.limited(jobs.source(1..=9), &slots);
    results.assert_pending();
    assert_eq!(
        (slots.available_permits(), slots.snapshot().waiting),
        (0, 1)
    );
    let mut behind = Waiter::parked(slots.acquire());
    jobs.log.take();
    drop(results);
    let mut dropped = jobs.log.take();
    dropped.sort();
    assert_eq!(dropped, ["drop 1", "drop 2", "drop 3", "drop 4"]);
    drop(behind.granted());
    assert_at_rest(&slots, 3);

    let each = jobs
        .source(1..=9)
        .for_each_limited(&slots, |item| jobs.silent_work(item));
    drop(Waiter::parked(each));
    assert_at_rest(&slots, 3);
}

#[test]
fn it_leaves_the_queue_before_its_permits_come_back() {
    let jobs = Jobs::default();
    let throttle = jobs.log.part("t");
    let futures = jobs.source([1]).map(|item| jobs.work(item));
    let mut results = Polled::new(futures.buffer_limited(throttle.clone()));
    results.assert_pending();
    throttle.now(Script::Wait);
    jobs.supply([2]);
    results.assert_pending();
    jobs.log.take();
    drop(results);
    let log = jobs.log.take();
    let at = |event: &str| log.iter().position(|logged| logged == event).unwrap();
    // The work is also dropped before its permit.
    assert!(
        at("leave t") < at("drop t0") && at("drop 1") < at("drop t0"),
        "{log:?}"
    );
}

/// The wait is dropped like the losing branch of a `select!`.
#[test]
fn a_wait_for_the_next_result_that_is_dropped_loses_nothing() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(2));
    let futures = jobs.whole(0..20).map(|item| jobs.work(item));
    let mut results = Box::pin(futures.buffer_limited(&slots));
    let mut yielded = Vec::new();
    for item in 0..20 {
        // The wait is dropped without a poll, and after a poll that had to wait.
        drop(results.next());
        drop(Waiter::parked(results.next()));
        // The wait is dropped when a result is ready.
        jobs.finish(item);
        drop(results.next());
        yielded.push(Waiter::new(results.next()).output().unwrap().unwrap());
    }
    assert_eq!(yielded, (0..20).collect::<Vec<_>>());
    assert_eq!(Waiter::new(results.next()).output(), None);
    assert_at_rest(&slots, 2);
}

// The throttle refuses: no more items are taken, running work finishes, and then the error is yielded.

#[test]
fn what_runs_is_finished_and_yielded_before_the_error() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(2));
    let mut results = jobs.limited(jobs.source(1..=9), &slots);
    results.assert_pending();
    jobs.log.take();
    let seen = results.wakes();
    slots.close();
    assert_eq!(results.wakes(), seen + 1);
    results.assert_pending();
    // The refused item is dropped at once, and no other item follows it.
    assert_eq!(jobs.log.take(), ["drop 3"]);
    let polls = jobs.source_polls();
    assert!(!results.stream.is_terminated());

    jobs.finish(2);
    assert_eq!(results.next(), Some(Ok(2)));
    results.assert_pending();
    assert!(!results.stream.is_terminated());
    jobs.finish(1);
    assert_eq!(results.next(), Some(Ok(1)));
    assert!(!results.stream.is_terminated());
    assert_eq!(kind(results.next().unwrap()), ErrorKind::Closed);
    assert!(results.stream.is_terminated());
    for _ in 0..3 {
        assert_eq!(results.next(), None);
        assert!(results.stream.is_terminated());
    }
    assert_eq!(jobs.source_polls(), polls);
    assert_eq!(slots.available_permits(), 2);
}

#[test]
fn with_nothing_running_the_error_comes_at_once_and_once() {
    let jobs = Jobs::default();
    let throttle = jobs.log.part("t");
    throttle.now(Script::Refuse(ErrorKind::QueueFull));
    let futures = jobs.source(1..=3).map(|item| jobs.work(item));
    let mut results = Polled::new(futures.buffer_limited(throttle.clone()));
    assert_eq!(kind(results.next().unwrap()), ErrorKind::QueueFull);
    let events = ["take 1", "make 1", "enter t", "refuse t", "drop 1"];
    assert_eq!(jobs.log.take(), events);
    // The stream stays ended even if the throttle would admit again.
    throttle.now(Script::Admit);
    assert_eq!(results.next(), None);
    assert!(jobs.log.take().is_empty());
}

#[test]
fn the_future_finishes_what_runs_before_its_error() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(2));
    let made = Cell::new(0);
    let each = jobs.source(1..=9).for_each_limited(&slots, |item| {
        made.set(made.get() + 1);
        jobs.silent_work(item)
    });
    let mut each = Waiter::parked(each);
    slots.close();
    settle(&mut each);
    jobs.finish(1);
    settle(&mut each);
    let seen = each.wakes();
    jobs.finish(2);
    assert_eq!(each.wakes(), seen + 1);
    assert_eq!(each.refused(), ErrorKind::Closed);
    // No work was created for the refused item.
    assert_eq!(made.get(), 2);
    assert_eq!(slots.available_permits(), 2);
}

#[test]
fn an_item_that_is_refused_is_dropped_at_once() {
    let slots = Semaphore::new(1);
    let _held = slots.try_acquire().unwrap();
    let token = Rc::new(());
    let items: Vec<_> = (0..3).map(|_| Rc::clone(&token)).collect();
    let each = stream::iter(items).for_each_limited(&slots, |_| async { unreachable!() });
    let mut each = Waiter::parked(each);
    assert_eq!(Rc::strong_count(&token), 4);
    slots.close();
    assert_eq!(each.refused(), ErrorKind::Closed);
    // The other two are in the stream, which still exists.
    assert_eq!(Rc::strong_count(&token), 3);
    drop(each);
    assert_eq!(Rc::strong_count(&token), 1);
}

/// No item is refused, because none arrives.
#[test]
fn closing_when_all_have_been_started_is_no_error() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(2));
    let mut results = jobs.limited(jobs.whole(1..=2), &slots);
    results.assert_pending();
    slots.close();
    jobs.finish(1);
    jobs.finish(2);
    assert_eq!(results.next(), Some(Ok(1)));
    assert_eq!(results.next(), Some(Ok(2)));
    assert_eq!(results.next(), None);
    // The same holds for an empty stream.
    let mut each = Waiter::new(stream::empty().for_each_limited(&slots, |()| async {}));
    each.granted();
}

#[test]
fn closing_while_the_stream_has_nothing_refuses_the_next_item() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(1));
    let mut results = jobs.limited(jobs.source([]), &slots);
    results.assert_pending();
    slots.close();
    results.assert_pending();
    assert!(!results.stream.is_terminated());
    jobs.supply([1]);
    assert_eq!(kind(results.next().unwrap()), ErrorKind::Closed);
    assert_eq!(results.next(), None);
}

// Tests panics of work and of the closure that creates it.

/// Runs a closure that panics on purpose.
#[track_caller]
fn panics<R>(run: impl FnOnce() -> R) {
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err(), "no panic");
}

#[test]
fn work_that_panics_gives_its_permit_back_and_the_rest_goes_on() {
    let slots = Semaphore::new(2);
    let futures = stream::iter(0..6).map(|item| async move {
        assert_ne!(item, 2, "on purpose");
        item
    });
    let mut results = Polled::new(futures.buffer_limited(&slots));
    let mut yielded = Vec::new();
    yielded.push(results.next());
    yielded.push(results.next());
    panics(|| results.poll());
    assert_eq!(slots.available_permits(), 2);
    yielded.extend((0..3).map(|_| results.next()));
    assert_eq!(yielded, [0, 1, 3, 4, 5].map(|item| Some(Ok(item))));
    assert_eq!(results.next(), None);
    assert_at_rest(&slots, 2);
}

#[test]
fn making_work_that_panics_gives_the_permit_back() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(3));
    let each = jobs.whole(1..=3).for_each_limited(&slots, |item| {
        assert_ne!(item, 2, "on purpose");
        jobs.silent_work(item)
    });
    let mut each = Waiter::new(each);
    panics(|| each.poll());
    assert_eq!(slots.available_permits(), 2);
    // The other items are not affected if the adapter continues.
    assert!(each.is_pending());
    jobs.finish(1);
    jobs.finish(3);
    each.granted();
    drop(each);
    assert_at_rest(&slots, 3);
}

#[test]
fn all_comes_back_when_a_panic_drops_the_adapter() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(2));
    let each = jobs.whole(1..=3).for_each_limited(&slots, |item| {
        let work = jobs.work(item);
        async move { assert_ne!(work.await, 2, "on purpose") }
    });
    let mut each = Waiter::parked(each);
    jobs.finish(2);
    panics(move || each.poll());
    assert_at_rest(&slots, 2);
}
