//! Work that panics, and making of work that panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::{StreamExt, stream};
use tollgate::Semaphore;
use tollgate_io::stream::LimitStreamExt;

use super::jobs::{Jobs, Polled};
use crate::support::{Waiter, assert_at_rest};

/// Runs what panics on purpose.
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
    // The others are not disturbed, if one goes on.
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
