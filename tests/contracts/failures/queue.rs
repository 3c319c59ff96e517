//! What happens in the queue: whose turn it is, how long it gets, and who wakes.

use std::sync::{Arc, Mutex};
use std::task::Poll;

use tollgate::{ErrorKind, Semaphore, all};

use crate::support::foreign::{calls_when_dropped, calls_when_woken, panics_when_woken};
use crate::support::{Waiter, assert_at_rest, kind};

/// A waker is cloned, dropped or called under the lock; a waker in a batch dangles.
///
/// Seen in apache/asyncband#189, tokio-rs/tokio#2340.
#[test]
fn waker_under_the_lock_or_dangling_in_a_batch() {
    let semaphore = Arc::new(Semaphore::new(100));
    let looking = |semaphore: &Arc<Semaphore>| {
        let semaphore = Arc::clone(semaphore);
        move || assert!(semaphore.snapshot().waiting <= 100)
    };
    // Would lock up, were the lock held.
    let held = semaphore.try_acquire_many(100).unwrap();
    let mut waiters: Vec<_> = (0..100)
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
    drop(waiters.drain(..10));
    assert!(waiters[..10].iter_mut().all(Waiter::is_pending));
    drop(held);
    waiters.iter_mut().for_each(|waiter| drop(waiter.granted()));
    assert_at_rest(&semaphore, 100);

    // A waker in the midst of a batch drops a future that is in the same batch, and one panics.
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
    // And as a part of something.
    let slots = Semaphore::new(1);
    for refused in [
        all((&slots, semaphore.cost(3))).acquire().wait(),
        all((&slots, semaphore.cost(3))).try_acquire(),
    ] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ExceedsCapacity);
        assert_eq!((refused.capacity(), refused.part()), (Some(2), Some(1)));
    }
    assert_at_rest(&slots, 1);
}

/// An unbounded queue at uploads.
///
/// Seen in TraceMachina/nativelink#2730.
#[test]
fn unbounded_queue() {
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
    stream_of_uploads();
}

/// A thousand files, and one of them waits.
fn stream_of_uploads() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::support::yield_now;
    use futures::StreamExt;
    use tollgate_io::stream::LimitStreamExt;

    let (slots, opened) = (Semaphore::new(2).max_waiters(1), AtomicUsize::new(0));
    let done = AtomicUsize::new(0);
    let files = futures::stream::iter(0..1000).inspect(|_| {
        let opened = opened.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(
            opened - done.load(Ordering::Relaxed) <= 3,
            "more than one waits"
        );
    });
    let uploads = files.for_each_limited(&slots, |_| async {
        yield_now().await;
        done.fetch_add(1, Ordering::Relaxed);
    });
    futures::executor::block_on(uploads).unwrap();
    assert_eq!(done.into_inner(), 1000);
    assert_at_rest(&slots, 2);
}
