//! The throttle refuses: nothing is taken any more, what runs is finished, and then it is yielded.

use std::cell::Cell;
use std::rc::Rc;

use futures::stream::FusedStream;
use futures::{StreamExt, stream};
use tollgate::{ErrorKind, Semaphore};
use tollgate_io::stream::LimitStreamExt;

use super::jobs::{Jobs, Polled, settle};
use crate::support::scripted::Script;
use crate::support::{Waiter, kind};

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
    // The refused item is dropped at once, and nobody comes after it.
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
    // Also if it would let in again.
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
    // The refused one was never made into work.
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
    // The other two are in the stream, which is still there.
    assert_eq!(Rc::strong_count(&token), 3);
    drop(each);
    assert_eq!(Rc::strong_count(&token), 1);
}

/// Nobody is refused, since nobody comes.
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
    // Of an empty stream as well.
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
