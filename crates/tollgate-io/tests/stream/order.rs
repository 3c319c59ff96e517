//! Tests the order in which items start and results are yielded.

use std::cell::Cell;
use std::sync::Arc;

use futures::stream::{self, FusedStream};
use futures::{Stream, StreamExt};
use tollgate::{BoxThrottle, ErrorKind, Semaphore, Throttle, all};
use tollgate_io::stream::LimitStreamExt;

use super::{Jobs, Polled, settle};
use crate::support::scripted::Lingers;
use crate::support::{Waiter, assert_at_rest, yield_now};

#[test]
fn items_are_started_in_order_and_one_at_most_waits_outside() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(2));
    let mut results = jobs.limited(jobs.whole(1..=5), &slots);
    assert!(jobs.log.take().is_empty());
    for _ in 0..3 {
        results.assert_pending();
    }
    let started = ["take 1", "make 1", "run 1", "take 2", "make 2", "run 2"];
    let log = jobs.log.take();
    assert_eq!(log[..6], started);
    // The third is outside: taken, and not polled.
    assert_eq!(log[6..], ["take 3", "make 3"]);
    assert_eq!(
        (slots.available_permits(), slots.snapshot().waiting),
        (0, 1)
    );

    jobs.finish(2);
    assert_eq!(results.next(), Some(Ok(2)));
    results.assert_pending();
    let log = jobs.log.take();
    assert_eq!(log, ["end 2", "drop 2", "run 3", "take 4", "make 4"]);
    jobs.finish(4);
    results.assert_pending();
    assert!(jobs.log.take().is_empty());
    assert_eq!(slots.snapshot().waiting, 1);
}

#[test]
fn work_is_made_of_an_item_when_it_has_been_let_in() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(0));
    let source = jobs.whole(1..=3);
    let each = source.for_each_limited(&slots, |item| {
        let work = jobs.work(item);
        async move { assert_eq!(work.await, item) }
    });
    let mut waiter = Waiter::parked(each);
    assert!(waiter.is_pending());
    assert_eq!(jobs.log.take(), ["take 1"]);
    slots.set_permits(1);
    assert!(waiter.is_pending());
    assert_eq!(jobs.log.take(), ["make 1", "run 1", "take 2"]);
    jobs.finish(1);
    assert!(waiter.is_pending());
    assert_eq!(
        jobs.log.take(),
        ["end 1", "drop 1", "make 2", "run 2", "take 3"]
    );
    jobs.finish(3);
    assert!(waiter.is_pending());
    jobs.finish(2);
    waiter.granted();
    let rest = [
        "end 2", "drop 2", "make 3", "run 3", "end 3", "drop 3", "no more",
    ];
    let log = jobs.log.take();
    assert_eq!(log.len(), rest.len());
    assert!(
        rest.iter()
            .all(|event| log.iter().any(|logged| logged == event))
    );
    drop(waiter);
    assert_at_rest(&slots, 1);
}

#[test]
fn results_come_in_the_order_in_which_work_is_finished() {
    for each_is_polled in [true, false] {
        let (jobs, slots) = (Jobs::default(), Semaphore::new(4));
        let mut results = jobs.limited(jobs.whole(1..=4), &slots);
        results.assert_pending();
        let mut order = Vec::new();
        for item in [3, 1, 4, 2] {
            jobs.finish(item);
            if each_is_polled {
                order.push(results.next().unwrap().unwrap());
            }
        }
        order.extend(std::iter::from_fn(|| results.next()).map(Result::unwrap));
        assert_eq!(order, [3, 1, 4, 2]);
    }
}

#[test]
fn a_permit_comes_back_before_its_result_is_yielded() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(2));
    let mut results = jobs.limited(jobs.whole(1..=2), &slots);
    results.assert_pending();
    assert_eq!(slots.available_permits(), 0);
    jobs.finish(1);
    assert_eq!(slots.available_permits(), 0);
    assert_eq!(results.next(), Some(Ok(1)));
    assert_eq!(slots.available_permits(), 1);
    jobs.finish(2);
    assert_eq!(results.next(), Some(Ok(2)));
    assert_at_rest(&slots, 2);
    assert_eq!(results.next(), None);
}

/// The permit may represent memory that the work occupies.
#[test]
fn work_that_is_done_is_dropped_before_its_permit() {
    let jobs = Jobs::default();
    let futures = jobs.whole(1..=1).map(|item| jobs.work(item));
    let mut results = Polled::new(futures.buffer_limited(jobs.log.part("t")));
    results.assert_pending();
    jobs.log.take();
    jobs.finish(1);
    assert_eq!(results.next(), Some(Ok(1)));
    assert_eq!(jobs.log.take(), ["end 1", "drop 1", "drop t0"]);
}

#[test]
fn the_wait_for_the_throttle_is_over_before_work_is_made() {
    let jobs = Jobs::default();
    let work = |item| jobs.silent_work(item);
    let each = jobs
        .whole(1..=1)
        .for_each_limited(Lingers::admits(&jobs.log), work);
    settle(&mut Waiter::new(each));
    assert_eq!(jobs.log.take()[..4], ["take 1", "over", "make 1", "run 1"]);

    let each = jobs
        .whole(2..=2)
        .for_each_limited(Lingers::refuses(&jobs.log), work);
    let mut each = Waiter::new(each);
    assert_eq!(each.refused(), ErrorKind::Closed);
    assert_eq!(jobs.log.take(), ["take 2", "over"]);
}

#[test]
fn nothing_is_taken_while_nobody_polls() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(2));
    let mut results = jobs.limited(jobs.whole(1..=9), &slots);
    results.assert_pending();
    jobs.log.take();
    let polls = jobs.source_polls();
    for item in 1..=9 {
        jobs.finish(item);
    }
    assert!(jobs.log.take().is_empty());
    assert_eq!(jobs.source_polls(), polls);
    // Each poll yields one result, and takes only as many items as there is room for.
    for yielded in 1..=9 {
        assert!(matches!(results.next(), Some(Ok(_))));
        let taken = jobs.source_polls() - polls;
        assert!(taken <= yielded, "{taken} were taken, {yielded} yielded");
    }
    assert_eq!(results.next(), None);
}

/// Its wait is granted like any other in the queue, and it keeps the permit until it is polled.
#[test]
fn the_item_that_waits_can_be_admitted_while_nobody_polls() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(1));
    let mut results = jobs.limited(jobs.whole(1..=3), &slots);
    results.assert_pending();
    let mut other = Waiter::parked(slots.acquire());
    jobs.finish(1);
    assert_eq!(results.next(), Some(Ok(1)));
    // The second item has the permit, but its work has not begun.
    assert_eq!(
        (slots.available_permits(), slots.snapshot().waiting),
        (0, 1)
    );
    assert!(!jobs.log.take().contains(&"run 2".to_owned()));
    assert!(other.is_pending());
    jobs.finish(2);
    assert_eq!(results.next(), Some(Ok(2)));
    drop(other.granted());
    drop(results);
    assert_at_rest(&slots, 1);
}

#[test]
fn an_empty_stream_ends_at_once_and_asks_for_nothing() {
    let jobs = Jobs::default();
    let throttle = jobs.log.part("t");
    let mut results = Polled::new(stream::empty::<super::Work>().buffer_limited(throttle.clone()));
    assert_eq!(results.next(), None);
    assert_eq!(results.next(), None);
    let mut each = Waiter::new(stream::empty().for_each_limited(throttle, |item| {
        let _: () = item;
        async {}
    }));
    each.granted();
    assert!(jobs.log.take().is_empty());
}

#[test]
fn it_is_terminated_when_all_has_been_yielded() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(2));
    let mut results = jobs.limited(jobs.source(1..=2), &slots);
    assert!(!results.stream.is_terminated());
    results.assert_pending();
    jobs.finish(1);
    assert_eq!(results.next(), Some(Ok(1)));
    assert!(!results.stream.is_terminated());
    jobs.end();
    results.assert_pending();
    assert!(!results.stream.is_terminated());
    jobs.finish(2);
    assert_eq!(results.next(), Some(Ok(2)));
    assert_eq!(results.next(), None);
    assert!(results.stream.is_terminated());
    // The adapter stays ended, and does not poll its stream again.
    let polls = jobs.source_polls();
    assert_eq!(results.next(), None);
    assert_eq!(jobs.source_polls(), polls);
    assert!(results.stream.is_terminated());
}

/// As for any stream, the bounds are those of the number of remaining items.
#[test]
fn its_size_is_bounded_by_what_comes() {
    let slots = Semaphore::new(2);
    let mut results = Polled::new(
        stream::iter(0..5)
            .map(std::future::ready)
            .buffer_limited(&slots),
    );
    for left in (0..=5).rev() {
        let (least, most) = results.stream.size_hint();
        assert!(least <= left && most.is_none_or(|most| most >= left));
        assert_eq!(results.next().is_some(), left > 0);
    }
}

#[test]
fn debug_shows_how_many_run() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(2));
    let mut results = jobs.limited(jobs.whole(1..=5), &slots);
    assert_eq!(
        format!("{:?}", results.stream),
        "BufferLimited { running: 0, .. }"
    );
    results.assert_pending();
    assert_eq!(
        format!("{:?}", results.stream),
        "BufferLimited { running: 2, .. }"
    );
    let each = stream::iter(0..1).for_each_limited(&slots, |_| async {});
    assert_eq!(format!("{each:?}"), "ForEachLimited { running: 0, .. }");
}

// Any throttle can limit a stream.

/// Runs through a stream, and returns the maximum number of items that ran at once.
fn most_at_once<T: Throttle>(throttle: T) -> usize {
    let (inside, most) = (Cell::new(0), Cell::new(0));
    let each = stream::iter(0..20).for_each_limited(throttle, |_| async {
        inside.set(inside.get() + 1);
        most.set(most.get().max(inside.get()));
        for _ in 0..100 {
            yield_now().await;
        }
        inside.set(inside.get() - 1);
    });
    futures::executor::block_on(each).expect("it is open");
    assert_eq!(inside.get(), 0);
    most.get()
}

#[test]
fn each_kind_lets_in_as_many_as_it_should() {
    let semaphore = Arc::new(Semaphore::new(6));
    let narrow = Semaphore::new(2);
    assert_eq!(most_at_once(&*semaphore), 6);
    assert_eq!(most_at_once(Arc::clone(&semaphore)), 6);
    assert_eq!(most_at_once(semaphore.cost(2)), 3);
    assert_eq!(most_at_once(Some(&*semaphore)), 6);
    assert_eq!(most_at_once(None::<&Semaphore>), 20);
    assert_eq!(most_at_once(all((&narrow, &*semaphore))), 2);
    assert_eq!(most_at_once(all((&*semaphore, semaphore.cost(1)))), 3);
    assert_eq!(most_at_once(BoxThrottle::new(Arc::clone(&semaphore))), 6);
    assert_eq!(most_at_once(&tollgate::Pool::new([(); 4])), 4);
    assert_eq!(most_at_once(&tollgate::ChannelSemaphore::new(4)), 4);
    assert_eq!(most_at_once(&tokio::sync::Semaphore::new(4)), 4);
    assert_eq!(most_at_once(&async_lock::Semaphore::new(4)), 4);
    assert_at_rest(&semaphore, 6);
    assert_at_rest(&narrow, 2);
}

/// The stream is endless, and its futures never wait.
#[test]
fn what_never_ends_and_never_waits_is_yielded_one_by_one() {
    let endless = || stream::iter(0..).map(std::future::ready);
    let mut results = Polled::new(endless().buffer_limited(None::<&Semaphore>));
    for item in 0..1000 {
        assert_eq!(results.next(), Some(Ok(item)));
    }
    let slots = Semaphore::new(3);
    let mut results = Polled::new(endless().buffer_limited(&slots));
    for item in 0..1000 {
        assert_eq!(results.next(), Some(Ok(item)));
        assert_eq!(slots.available_permits(), 3);
    }
}

/// An endless stream does not keep running work from being yielded.
#[test]
fn an_endless_stream_does_not_starve_what_runs() {
    let jobs = Jobs::default();
    let slots = Semaphore::new(2);
    let futures = stream::iter(0..).map(|item| {
        let work = jobs.work(0);
        async move {
            if item == 0 {
                work.await;
            }
            item
        }
    });
    let mut results = Polled::new(futures.buffer_limited(&slots));
    assert_eq!(results.next(), Some(Ok(1)));
    jobs.finish(0);
    let yielded: Vec<_> = (0..2).map(|_| results.next().unwrap().unwrap()).collect();
    assert!(yielded.contains(&0), "{yielded:?}");
}

#[test]
fn parts_of_a_composition_come_back_when_one_refuses() {
    let (jobs, narrow, wide) = (Jobs::default(), Semaphore::new(3), Semaphore::new(2));
    let futures = jobs.source(1..=9).map(|item| jobs.work(item));
    let mut results = Polled::new(futures.buffer_limited(all((&narrow, &wide))));
    results.assert_pending();
    assert_eq!(
        (narrow.available_permits(), wide.snapshot().waiting),
        (0, 1)
    );
    wide.close();
    results.assert_pending();
    assert_eq!(narrow.available_permits(), 1);
    jobs.finish(1);
    jobs.finish(2);
    assert!(results.next().is_some() && results.next().is_some());
    let error = results.next().unwrap().unwrap_err();
    assert_eq!((error.kind(), error.part()), (ErrorKind::Closed, Some(1)));
    assert_eq!(results.next(), None);
    assert_at_rest(&narrow, 3);
}

#[test]
fn two_streams_can_share_a_throttle() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(2));
    let futures = |items| stream::iter(items).map(|item| jobs.work(item));
    let mut one = Polled::new(futures(0..5).buffer_limited(&slots));
    let mut other = Polled::new(futures(5..10).buffer_limited(&slots));
    one.assert_pending();
    other.assert_pending();
    assert_eq!(slots.snapshot().waiting, 2);
    jobs.finish(0);
    assert_eq!(one.next(), Some(Ok(0)));
    jobs.finish(1);
    assert_eq!(one.next(), Some(Ok(1)));
    // The two adapters alternate, in the order of the queue.
    one.assert_pending();
    assert_eq!(other.wakes(), 1);
    other.assert_pending();
    let log = jobs.log.take();
    assert!(log.contains(&"run 2".to_owned()) && log.contains(&"run 5".to_owned()));
    drop((one, other));
    assert_at_rest(&slots, 2);
}
