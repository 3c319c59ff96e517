//! Any throttle will do.

use std::cell::Cell;
use std::sync::Arc;

use futures::{StreamExt, stream};
use tollgate::{BoxThrottle, ErrorKind, Semaphore, Throttle, all};
use tollgate_io::stream::LimitStreamExt;

use super::jobs::{Jobs, Polled};
use crate::support::{assert_at_rest, yield_now};

/// Runs through a stream, and says how many worked at once, at most.
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

/// A stream without an end, of futures without a wait.
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

/// What never ends does not keep what runs from being yielded.
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
    // In turns, as they stand in the queue.
    one.assert_pending();
    assert_eq!(other.wakes(), 1);
    other.assert_pending();
    let log = jobs.log.take();
    assert!(log.contains(&"run 2".to_owned()) && log.contains(&"run 5".to_owned()));
    drop((one, other));
    assert_at_rest(&slots, 2);
}
