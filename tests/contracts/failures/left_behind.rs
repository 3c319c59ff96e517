//! What those who leave, fail or never come leave behind.

use std::sync::{Arc, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use tollgate::{CondvarSemaphore, ErrorKind, Semaphore};

use crate::support::{Counter, Waiter, assert_at_rest, kind, poll_once};

/// Cancelled nodes leak; a cancel credits twice.
///
/// Seen in Astro36/qp#3, redisson/redisson#7206. Of every throttle, `no_waker_is_kept` and
/// `random_entries_and_exits_lose_nothing`.
#[test]
fn cancelled_nodes_leak_and_cancel_credits_twice() {
    let semaphore = Semaphore::new(2).max_waiters(8);
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let held = semaphore.try_acquire_many(2).unwrap();
    for _ in 0..100 {
        // As many as there is room for: had one leaked, there would be none for the next round.
        let mut waiters: Vec<_> = (0..8)
            .map(|_| semaphore.acquire())
            .map(Waiter::new)
            .collect();
        for waiter in &mut waiters {
            assert!(waiter.poll_with(&waker).is_pending());
        }
        assert_eq!(semaphore.snapshot().waiting, 8);
        drop(waiters);
        assert_eq!(
            (semaphore.snapshot().waiting, semaphore.available_permits()),
            (0, 0)
        );
    }
    drop(waker);
    assert_eq!(Arc::strong_count(&counter), 1);

    // Cancelled after the grant: the permit comes back once, by the grant, and not by the place too.
    let granted = Waiter::parked(semaphore.acquire_many(2));
    drop(held);
    drop(granted);
    assert_at_rest(&semaphore, 2);
    // Refused, and then dropped: there is nothing to come back.
    let held = semaphore.try_acquire_many(2).unwrap();
    let refused = Waiter::parked(semaphore.acquire_many(2));
    semaphore.set_permits(1);
    drop(refused);
    drop(held);
    assert_at_rest(&semaphore, 1);

    // Threads that give up.
    let semaphore = CondvarSemaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let soon = Duration::from_micros(100);
                let refused = semaphore.acquire().timeout(soon).wait();
                assert_eq!(kind(refused), ErrorKind::TimedOut);
            });
        }
    });
    assert_eq!(
        (semaphore.snapshot().waiting, semaphore.snapshot().available),
        (0, 0)
    );
    drop(held);
    assert_eq!(semaphore.snapshot().available, 1);
}

/// A permit is lost when its holder panics; it is freed while `spawn_blocking` still runs.
///
/// Seen in anza-xyz/agave#10478, xberg-io/xberg#1641. Of every throttle,
/// `a_holder_that_panics_makes_room`.
#[tokio::test]
async fn holder_panics_or_is_dropped_while_its_work_still_runs() {
    let semaphore = Arc::new(Semaphore::new(1));
    let shared = || Arc::clone(&semaphore);

    let permit = shared().acquire_owned().await.unwrap();
    let task = tokio::spawn(async move {
        let _permit = permit;
        panic!("a holder that panics on purpose");
    });
    let mut waiter = Waiter::parked(semaphore.acquire());
    assert!(task.await.unwrap_err().is_panic());
    drop(waiter.granted());
    assert_at_rest(&semaphore, 1);

    let permit = shared().acquire_owned().await.unwrap();
    let (finish, until_finish) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    let caller = tokio::spawn(async move {
        let work = tokio::task::spawn_blocking(move || {
            // The work owns the permit, not the one who waits for the work.
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
    // Nobody waits for the work any more, and it still runs: so it still counts.
    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
    finish.send(()).unwrap();
    ended.recv().unwrap();
    assert_at_rest(&semaphore, 1);

    let semaphore = CondvarSemaphore::new(1);
    thread::scope(|scope| {
        let panics = scope.spawn(|| {
            let _permit = semaphore.acquire().wait().unwrap();
            panic!("a holder that panics on purpose");
        });
        assert!(panics.join().is_err());
    });
    drop(semaphore.try_acquire().unwrap());
}

/// A stored but never polled acquire blocks the queue.
///
/// Seen in tokio-rs/tokio#6450, rust-lang/futures-rs#2387. Of every throttle,
/// `never_polled_holds_nobody_back`.
#[test]
fn stored_but_never_polled() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    // As in a buffer of futures, or in a branch of a `select!` that is not looked at.
    let mut stored: Vec<_> = (0..10).map(|_| semaphore.acquire()).collect();
    let mut polled = Waiter::parked(semaphore.acquire());
    drop(held);
    drop(polled.granted());
    drop(semaphore.try_acquire().unwrap());
    // They are as good as new when their time comes.
    for acquire in &mut stored {
        assert!(matches!(poll_once(acquire), Poll::Ready(Ok(_))));
    }
    assert_at_rest(&semaphore, 1);
    work_that_asks_again();
}

/// In the second, what comes after a buffer of futures asks for permits which futures in the buffer
/// have, or stand in the queue for, and nobody polls these meanwhile. What is done for each is polled
/// together.
fn work_that_asks_again() {
    use crate::support::yield_now;
    use tollgate_io::stream::LimitStreamExt;

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
