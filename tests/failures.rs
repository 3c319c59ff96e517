//! How throttles fail elsewhere, and do not here: a test for each row of the table of failures
//! that concerns semaphores.
//!
//! The rows on rates, keys and clocks belong to types that are not there yet.

mod support;

use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};

use tollgate::{ErrorKind, Semaphore};

use support::foreign::{calls_when_dropped, calls_when_woken, panics_when_woken};
use support::{Counter, Waiter, assert_at_rest, kind, poll_once};

/// Granted, then dropped: the permit is lost instead of passed on.
///
/// Seen in python/asyncio#270, awslabs/shuttle#167.
#[test]
fn granted_then_dropped() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let granted = Waiter::parked(semaphore.acquire());
    let granted_next = Waiter::parked(semaphore.acquire());
    let mut last = Waiter::parked(semaphore.acquire());
    drop(held);
    // Each has been granted, and has not run since, when it is dropped.
    assert_eq!(granted.wakes(), 1);
    drop(granted);
    assert_eq!(granted_next.wakes(), 1);
    drop(granted_next);
    drop(last.granted());
    // And with nobody to pass it on to.
    let held = semaphore.try_acquire().unwrap();
    let granted = Waiter::parked(semaphore.acquire());
    drop(held);
    drop(granted);
    assert_at_rest(&semaphore, 1);
}

/// A large head is cancelled and the small ones behind it are not woken.
///
/// Seen in embassy-rs/embassy#6964.
#[test]
fn large_head_cancelled() {
    let semaphore = Semaphore::new(10);
    let mut held = semaphore.try_acquire_many(10).unwrap();
    let large = Waiter::parked(semaphore.acquire_many(8));
    let small: Vec<_> = (0..3)
        .map(|_| Waiter::parked(semaphore.acquire_many(2)))
        .collect();
    // Enough for all the small ones, and not for the large one.
    drop(held.split(7));
    assert!(small.iter().all(|waiter| waiter.wakes() == 0));
    drop(large);
    // No further release is needed.
    assert!(small.iter().all(|waiter| waiter.wakes() == 1));
    assert_eq!(semaphore.available_permits(), 1);
    drop((small, held));
    assert_at_rest(&semaphore, 10);
}

/// Two releases coalesce into one notification.
///
/// Seen in smol-rs/async-lock#18, rustfs/rustfs#4498.
#[test]
fn two_releases_coalesce() {
    let semaphore = Semaphore::new(2);
    let (one, two) = (
        semaphore.try_acquire().unwrap(),
        semaphore.try_acquire().unwrap(),
    );
    let mut first = Waiter::parked(semaphore.acquire());
    let mut second = Waiter::parked(semaphore.acquire());
    drop(one);
    drop(two);
    // Before anybody has run: two releases, two who know of it.
    assert_eq!((first.wakes(), second.wakes()), (1, 1));
    let permit = second.granted();
    drop((first.granted(), permit));

    // The completed future of the first is kept, which must not keep the next one from being woken.
    let held = semaphore.try_acquire_many(2).unwrap();
    let mut third = Waiter::parked(semaphore.acquire_many(2));
    let mut fourth = Waiter::parked(semaphore.acquire_many(2));
    drop(held);
    drop(third.granted());
    assert_eq!(fourth.wakes(), 1);
    drop(fourth.granted());
    drop((first, second, third, fourth));
    assert_at_rest(&semaphore, 2);
}

/// Cancelled nodes leak; a cancel credits twice.
///
/// Seen in Astro36/qp#3, redisson/redisson#7206.
#[test]
fn cancelled_nodes_leak_and_cancel_credits_twice() {
    let semaphore = Semaphore::new(2).max_waiters(8);
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let held = semaphore.try_acquire_many(2).unwrap();
    for _ in 0..100 {
        // As many as there is room for: had one leaked, there would be none for the next round.
        let mut line: Vec<_> = (0..8)
            .map(|_| semaphore.acquire())
            .map(Waiter::new)
            .collect();
        for waiter in &mut line {
            assert!(waiter.poll_with(&waker).is_pending());
        }
        assert_eq!(semaphore.waiting(), 8);
        drop(line);
        assert_eq!((semaphore.waiting(), semaphore.available_permits()), (0, 0));
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
}

/// A permit is lost when its holder panics; it is freed while `spawn_blocking` still runs.
///
/// Seen in anza-xyz/agave#10478, xberg-io/xberg#1641.
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
}

/// A stored but never polled acquire blocks the line.
///
/// Seen in tokio-rs/tokio#6450, rust-lang/futures-rs#2387.
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
}

/// A waker is cloned, dropped or called under the lock; a waker in a batch dangles.
///
/// Seen in apache/asyncband#189, tokio-rs/tokio#2340.
#[test]
fn waker_under_the_lock_or_dangling_in_a_batch() {
    let semaphore = Arc::new(Semaphore::new(100));
    let looking = |semaphore: &Arc<Semaphore>| {
        let semaphore = Arc::clone(semaphore);
        move || assert!(semaphore.waiting() <= 100)
    };
    // Would lock up, were the lock held.
    let held = semaphore.try_acquire_many(100).unwrap();
    let mut line: Vec<_> = (0..100)
        .map(|name| {
            let mut waiter = Waiter::new(semaphore.acquire());
            let waker = match name % 2 {
                0 => calls_when_woken(looking(&semaphore)),
                _ => calls_when_dropped(looking(&semaphore)),
            };
            assert!(waiter.poll_with(&waker).is_pending());
            waiter
        })
        .collect();
    // Leaving, another waker in its place, and being woken.
    drop(line.drain(..10));
    assert!(line[..10].iter_mut().all(Waiter::is_pending));
    drop(held);
    line.iter_mut().for_each(|waiter| drop(waiter.granted()));
    assert_at_rest(&semaphore, 100);

    // A waker in the midst of a batch drops a future that is in the same batch, and one panics.
    let held = semaphore.try_acquire_many(100).unwrap();
    let victim = Arc::new(Mutex::new(None));
    let dropping = {
        let victim = Arc::clone(&victim);
        calls_when_woken(move || drop(victim.lock().unwrap().take()))
    };
    let mut line: Vec<_> = (0..30)
        .map(|_| Waiter::new(Arc::clone(&semaphore).acquire_owned()))
        .collect();
    for (name, waiter) in line.iter_mut().enumerate() {
        let pending = match name {
            3 => waiter.poll_with(&dropping),
            4 => waiter.poll_with(&panics_when_woken()),
            _ => waiter.poll(),
        };
        assert!(pending.is_pending());
    }
    *victim.lock().unwrap() = Some(line.remove(5));
    drop(held);
    assert!(victim.lock().unwrap().is_none());
    for waiter in &mut line {
        drop(waiter.granted());
    }
    assert_at_rest(&semaphore, 100);
}

/// Barging starves a waiter; many small ones starve a large one.
///
/// Seen in smol-rs/async-lock#23.
#[test]
fn barging_and_small_ones_that_starve_a_large_one() {
    let semaphore = Semaphore::new(4);
    let mut small: Vec<_> = (0..4).map(|_| semaphore.try_acquire().unwrap()).collect();
    let mut large = Waiter::parked(semaphore.acquire_many(4));
    // Eager ones that come again and again, and that would fit.
    let mut eager: Vec<_> = Vec::new();
    while let Some(permit) = small.pop() {
        drop(permit);
        if !small.is_empty() {
            assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
            eager.push(Waiter::parked(semaphore.acquire()));
        }
    }
    // After exactly as many releases as it asked for, whatever has come since.
    assert_eq!(large.wakes(), 1);
    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
    let permit = large.granted();
    assert!(eager.iter_mut().all(Waiter::is_pending));
    drop(permit);
    for waiter in &mut eager {
        drop(waiter.granted());
    }
    assert_at_rest(&semaphore, 4);
}

/// A request larger than the limit blocks for ever.
///
/// Seen in amazon-mq/rabbitmq-stream-s3#208.
#[test]
fn request_larger_than_the_limit() {
    let semaphore = Semaphore::new(3);
    assert_eq!(
        kind(semaphore.acquire_many(4).wait()),
        ErrorKind::ExceedsCapacity
    );
    // Also when it was not larger at the time that it joined.
    let held = semaphore.try_acquire_many(3).unwrap();
    let mut large = Waiter::parked(semaphore.acquire_many(3));
    let mut behind = Waiter::parked(semaphore.acquire());
    semaphore.set_permits(2);
    assert_eq!(large.refused(), ErrorKind::ExceedsCapacity);
    drop(held);
    drop(behind.granted());
    assert_at_rest(&semaphore, 2);
}

/// An unbounded line at uploads.
///
/// Seen in TraceMachina/nativelink#2730.
#[test]
fn unbounded_line() {
    let semaphore = Arc::new(Semaphore::new(2).max_waiters(3));
    let uploads: Vec<_> = (0..20)
        .map(|_| {
            let mut upload = Waiter::new(Arc::clone(&semaphore).acquire_owned());
            let outcome = upload.poll();
            (upload, outcome)
        })
        .collect();
    let (mut let_in, mut waiting, mut refused) = (0, 0, 0);
    for (_, outcome) in &uploads {
        match outcome {
            Poll::Pending => waiting += 1,
            Poll::Ready(Ok(_)) => let_in += 1,
            Poll::Ready(Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::QueueFull);
                refused += 1;
            }
        }
    }
    assert_eq!((let_in, waiting, refused), (2, 3, 15));
    // Who was refused keeps nothing.
    assert_eq!(Arc::strong_count(&semaphore), 1 + 2 + 3);
    drop(uploads);
    assert_at_rest(&semaphore, 2);
}

/// The runtime that drove the timer is gone, and everyone hangs.
///
/// Seen with limiters in statics across tests.
#[cfg(feature = "tokio")]
#[test]
fn runtime_that_drove_the_timer_is_gone() {
    use std::time::Duration;

    static SHARED: Semaphore = Semaphore::new(0);
    const SHORT: Duration = Duration::from_millis(2);

    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
    };
    for _ in 0..3 {
        // Each is the first to wait, in a runtime of its own that is gone before the next comes.
        let result = runtime().block_on(SHARED.acquire().timeout(SHORT));
        assert_eq!(kind(result), ErrorKind::TimedOut);
        // Leaves a task behind in line.
        let driver = runtime();
        let task = driver.spawn(SHARED.acquire().timeout(Duration::from_secs(3600)));
        driver.block_on(async {
            while SHARED.waiting() == 0 {
                tokio::task::yield_now().await;
            }
        });
        drop(driver);
        assert!(task.is_finished());
        let result = SHARED.acquire().timeout(SHORT).wait();
        assert_eq!(kind(result), ErrorKind::TimedOut);
    }
    // A wait that began in a runtime that is gone by now ends elsewhere.
    let driver = runtime();
    let mut waiter = {
        let _inside = driver.enter();
        Waiter::parked(SHARED.acquire().timeout(SHORT))
    };
    drop(driver);
    let result = runtime().block_on(std::future::poll_fn(|context| {
        waiter.poll_with(context.waker())
    }));
    assert_eq!(kind(result), ErrorKind::TimedOut);
    assert_eq!(SHARED.waiting(), 0);
}
