//! Tests kinds of throttles and of streams, the ends by tokens and deadlines, and the work of one poll.

use std::cell::{Cell, RefCell};
use std::future::{pending, ready};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use futures::{Stream, StreamExt, TryStreamExt, stream};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tollgate::throttle::{BoxThrottle, per_call};
use tollgate::{Clock, ErrorKind, Quota, RateLimiter, Semaphore, Throttle, all};
use tollgate_io::stream::LimitStreamExt;

use super::{Jobs, Polled};
use crate::support::scripted::{Lingers, Script};
use crate::support::{Counter, Waiter, assert_at_rest, kind, yield_now};

const SHORT: Duration = Duration::from_millis(240);

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
    drop(Waiter::parked(each));
    assert_eq!(jobs.log.take()[..4], ["take 1", "over", "make 1", "run 1"]);

    let each = jobs
        .whole(2..=2)
        .for_each_limited(Lingers::refuses(&jobs.log), work);
    let mut each = Waiter::new(each);
    assert_eq!(each.refused(), ErrorKind::Closed);
    assert_eq!(jobs.log.take(), ["take 2", "over"]);
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

// Ends it by tokens, deadlines and tasks.

#[test]
fn a_token_ends_it_and_drops_what_runs() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(2));
    let token = CancellationToken::new();
    let each = jobs
        .source(1..=9)
        .for_each_limited(&slots, |item| jobs.silent_work(item));
    let mut each = Waiter::parked(each.cancel_on(&token));
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
    let refused = stream::iter(0..100)
        .for_each_limited(&slots, job)
        .timeout(SHORT + SHORT / 4)
        .await;
    assert_eq!(kind(refused), ErrorKind::TimedOut);
    assert_eq!(
        (begun.elapsed(), done.load(Ordering::SeqCst)),
        (SHORT + SHORT / 4, 4)
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

#[test]
fn a_waker_that_changes_is_the_one_that_is_woken() {
    let (jobs, slots) = (Jobs::default(), Semaphore::new(1));
    let work_ends = || jobs.finish(1);
    let throttle_lets_in = || slots.set_permits(2);
    let stream_has_more = || jobs.supply([3]);
    let mut results = jobs.limited(jobs.source(1..=2), &slots);
    for happens in [&throttle_lets_in as &dyn Fn(), &stream_has_more, &work_ends] {
        let old = Arc::new(Counter::default());
        let waker = Waker::from(Arc::clone(&old));
        let polled = results
            .stream
            .as_mut()
            .poll_next(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        results.assert_pending();
        let seen = (old.count(), results.wakes());
        happens();
        assert_eq!((old.count(), results.wakes()), (seen.0, seen.1 + 1));
    }
    assert_eq!(results.next(), Some(Ok(1)));
}

// Tests the work of one poll: 64 items are started, or 64 results yielded, and then the task yields.

const MANY: usize = 1_000_000;

#[test]
fn for_each_limited_with_items_that_only_start_starts_64_in_one_poll() {
    let (slots, started) = (Semaphore::new(MANY), Cell::new(0));
    let mut run = Waiter::new(stream::iter(0..MANY).for_each_limited(&slots, |_| {
        started.set(started.get() + 1);
        pending()
    }));
    for poll in 1..=3 {
        assert!(run.poll().is_pending());
        assert_eq!(started.get(), 64 * poll);
        assert!(run.wakes() >= poll);
    }
}

#[test]
fn for_each_limited_with_items_that_are_ready_finishes_64_in_one_poll() {
    let (slots, done) = (Semaphore::new(1), Cell::new(0));
    let mut run = Waiter::new(stream::iter(0..130).for_each_limited(&slots, |_| {
        done.set(done.get() + 1);
        ready(())
    }));
    for poll in 1..=2 {
        assert!(run.poll().is_pending());
        assert_eq!(done.get(), 64 * poll);
    }
    run.granted();
    assert_eq!(done.get(), 130);
}

#[test]
fn buffer_limited_that_was_pending_starts_64_more() {
    let (slots, started) = (Semaphore::new(40), Cell::new(0));
    let items = stream::iter(0..MANY).map(|_| {
        started.set(started.get() + 1);
        pending::<()>()
    });
    let mut results = Polled::new(items.buffer_limited(&slots));
    assert!(results.poll().is_pending());
    // 40 items run, and one waits.
    assert_eq!(started.get(), 41);
    slots.set_permits(MANY);
    for poll in 1..=3 {
        assert!(results.poll().is_pending());
        assert_eq!(started.get(), 40 + 64 * poll);
        assert!(results.wakes() >= poll);
    }
}

/// A user found that a million items were started in one poll, and that a token cancelled
/// after 50 ms was noticed after 1.65 s.
#[test]
fn token_cancelled_while_items_start_ends_the_poll_after_64() {
    let (slots, started) = (Semaphore::new(MANY), Cell::new(0));
    let token = CancellationToken::new();
    let work = |_| {
        started.set(started.get() + 1);
        if started.get() == 50 {
            token.cancel();
        }
        pending()
    };
    let run = stream::iter(0..MANY).for_each_limited(&slots, work);
    let mut run = Waiter::new(run.cancel_on(&token));
    assert_eq!(run.refused(), ErrorKind::Cancelled);
    assert_eq!((started.get(), slots.available_permits()), (64, MANY));
}

#[tokio::test(start_paused = true)]
async fn for_each_limited_by_charges_the_cost_of_each_item() {
    let rate = RateLimiter::new(Quota::per_second(10).burst(10)).clock(Clock::tokio());
    let (begun, times) = (Instant::now(), RefCell::new(Vec::new()));
    let work = async |_| times.borrow_mut().push(begun.elapsed().as_millis());
    let costs = stream::iter([10_u64, 1, 0, 4, 5]);
    costs
        .for_each_limited_by(&rate, |cost| *cost, work)
        .await
        .unwrap();
    assert_eq!(*times.borrow(), [0, 100, 100, 500, 1000]);
}

#[test]
fn for_each_limited_by_of_slots_and_bytes_keeps_both() {
    let (slots, memory) = (Semaphore::new(3), Semaphore::new(10));
    let limits = all((per_call(&slots), &memory)).weighted();
    let started = RefCell::new(Vec::new());
    let work = |bytes: u64| {
        started.borrow_mut().push(bytes);
        std::future::pending()
    };
    let items = stream::iter([4, 5, 2, 1, 1]);
    let mut all = Waiter::parked(items.for_each_limited_by(limits, |bytes| *bytes, work));
    // The third does not fit into the bytes.
    assert_eq!(*started.borrow(), [4, 5]);
    memory.add_permits(1);
    assert!(all.is_pending());
    // The fourth has no slot.
    assert_eq!(*started.borrow(), [4, 5, 2]);
    drop(all);
    assert_at_rest(&slots, 3);
    assert_at_rest(&memory, 11);
}

#[test]
fn for_each_limited_by_with_an_item_above_the_limit_is_refused() {
    let memory = Semaphore::new(10);
    let items = stream::iter([3_u64, 11, 1]);
    let mut all = Waiter::new(items.for_each_limited_by(&memory, |bytes| *bytes, async |_| {}));
    assert_eq!(all.refused(), ErrorKind::ExceedsCapacity);
    drop(all);
    assert_at_rest(&memory, 10);
}
