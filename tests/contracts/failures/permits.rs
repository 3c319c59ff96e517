//! Failures of permits and their queues through foreign code and other work.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tollgate::fair::FairQueue;
use tollgate::{Clock, ErrorKind, Semaphore};
use tollgate_adaptive::AdaptiveSemaphore;
use tollgate_io::stream::LimitStreamExt;

use crate::fixed::Fixed;
use crate::support::foreign::{calls_when_woken, panics_when_woken};
use crate::support::{Waiter, assert_at_rest, kind, yield_now};

/// A waker in a batch dangles, because the one before it drops its future.
///
/// Seen in apache/asyncband#189, tokio-rs/tokio#2340. Every throttle passes
/// `a_waker_may_use_the_throttle` and `a_waker_that_panics_loses_nothing`.
#[test]
fn waker_dangles_in_a_batch() {
    let semaphore = Arc::new(Semaphore::new(100));
    let held = semaphore.try_acquire_many(100).unwrap();
    let victim = Arc::new(Mutex::new(None));
    let dropping = {
        let victim = Arc::clone(&victim);
        calls_when_woken(move || drop(victim.lock().unwrap().take()))
    };
    let mut waiters: Vec<_> = (0..30)
        .map(|_| Waiter::new(Arc::clone(&semaphore).acquire_owned()))
        .collect();
    for (name, waiter) in waiters.iter_mut().enumerate() {
        let pending = match name {
            3 => waiter.poll_with(&dropping),
            4 => waiter.poll_with(&panics_when_woken()),
            _ => waiter.poll(),
        };
        assert!(pending.is_pending());
    }
    *victim.lock().unwrap() = Some(waiters.remove(5));
    drop(held);
    assert!(victim.lock().unwrap().is_none());
    for waiter in &mut waiters {
        drop(waiter.granted());
    }
    assert_at_rest(&semaphore, 100);
}

/// A permit is freed while `spawn_blocking` still runs.
///
/// Seen in xberg-io/xberg#1641.
#[tokio::test]
async fn holder_is_dropped_while_its_work_still_runs() {
    let semaphore = Arc::new(Semaphore::new(1));
    let permit = Arc::clone(&semaphore).acquire_owned().await.unwrap();
    let (finish, until_finish) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    let caller = tokio::spawn(async move {
        let work = tokio::task::spawn_blocking(move || {
            // The work owns the permit, not the caller that waits for the work.
            let permit = permit;
            begin.send(()).unwrap();
            until_finish.recv().unwrap();
            drop(permit);
            end.send(()).unwrap();
        });
        work.await.unwrap();
    });
    while begun.try_recv().is_err() {
        tokio::task::yield_now().await;
    }
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    // Nobody waits for the work any more, but it still runs, so it still counts.
    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
    finish.send(()).unwrap();
    ended.recv().unwrap();
    assert_at_rest(&semaphore, 1);
}

/// A stage after a buffer of futures asks for permits that futures in the buffer hold or wait for,
/// while nobody polls these futures. The work for each item is polled together.
///
/// Seen in rust-lang/futures-rs#2387.
#[test]
fn work_of_a_buffer_asks_again() {
    let (slots, connections) = (Semaphore::new(3), Semaphore::new(1));
    let ask = || async {
        let _connection = connections.acquire().await.unwrap();
        yield_now().await;
    };
    let each = futures::stream::iter(0..20).for_each_limited(&slots, |_| async {
        ask().await;
        ask().await;
    });
    futures::executor::block_on(each).unwrap();
    assert_at_rest(&slots, 3);
    assert_at_rest(&connections, 1);
}

/// A large request at the head gives up, and nobody wakes the small ones behind it.
///
/// Seen in embassy-rs/embassy#6964, unslothai/unsloth#9415.
#[test]
fn cancelled_large_head_leaves_small_ones_asleep() {
    let queue = FairQueue::new(Arc::new(Semaphore::new(2)));
    let permit = queue.class(1).try_acquire().unwrap();
    let large = Waiter::parked(queue.class(2).acquire_many(2));
    let mut small = Waiter::parked(queue.class(2).acquire());
    drop(large);
    assert_eq!(small.wakes(), 1);
    drop((small.granted(), permit));
    assert_at_rest(queue.throttle(), 2);
}

/// A grant that was dropped before its caller received it counts as a call without latency.
#[test]
fn grant_that_was_never_received_is_no_sample() {
    let clock = Clock::manual();
    let semaphore = AdaptiveSemaphore::new(Fixed(1.0)).clock(&clock);
    let held = semaphore.try_acquire().unwrap();
    let granted = Waiter::parked(semaphore.acquire());
    held.ignore();
    assert_eq!(granted.wakes(), 1);
    clock.advance(Duration::from_millis(1));
    drop(granted);
    let snapshot = semaphore.snapshot();
    assert_eq!((snapshot.windows, snapshot.permits.in_use), (0, 0));
}
