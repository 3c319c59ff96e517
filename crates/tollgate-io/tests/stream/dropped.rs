//! Dropping the adapter, or a wait for its next result.

use futures::StreamExt;
use tollgate::Semaphore;
use tollgate_io::stream::LimitStreamExt;

use super::jobs::{Jobs, Polled};
use crate::support::scripted::Script;
use crate::support::{Waiter, assert_at_rest};

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
fn one_that_was_never_polled_has_taken_nothing() {
    let jobs = Jobs::default();
    let futures = jobs.source(1..=9).map(|item| jobs.work(item));
    drop(futures.buffer_limited(jobs.log.part("t")));
    assert!(jobs.log.take().is_empty());
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
    // And the work is gone by then.
    assert!(
        at("leave t") < at("drop t0") && at("drop 1") < at("drop t0"),
        "{log:?}"
    );
}

/// As the losing branch of a `select!` is.
#[test]
fn a_wait_for_the_next_result_that_is_dropped_loses_nothing() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(2));
    let futures = jobs.whole(0..20).map(|item| jobs.work(item));
    let mut results = Box::pin(futures.buffer_limited(&slots));
    let mut yielded = Vec::new();
    for item in 0..20 {
        // Dropped without a poll, and after a poll that had to wait.
        drop(results.next());
        drop(Waiter::parked(results.next()));
        // Dropped when there is something to tell.
        jobs.finish(item);
        drop(results.next());
        yielded.push(Waiter::new(results.next()).output().unwrap().unwrap());
    }
    assert_eq!(yielded, (0..20).collect::<Vec<_>>());
    assert_eq!(Waiter::new(results.next()).output(), None);
    assert_at_rest(&slots, 2);
}
