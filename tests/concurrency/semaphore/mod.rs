//! The semaphore by hand: futures that are not polled, what is owned, large numbers, and threads that block.
//! Sequences of calls are rows of `model/scenarios.rs`; waits that end otherwise are in `timeout/`.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tollgate::{ErrorKind, Pool, Semaphore};

use crate::support::{Waiter, assert_at_rest, kind, poll_once};

mod wakers;

#[test]
fn a_future_joins_at_its_first_poll_and_takes_nothing_before() {
    let semaphore = Semaphore::new(1);
    let (made_first, idle) = (semaphore.acquire(), semaphore.wait_idle());
    std::mem::forget(semaphore.acquire());
    assert_at_rest(&semaphore, 1);
    let held = semaphore.try_acquire().unwrap();
    let mut polled_first = Waiter::parked(semaphore.acquire());
    let mut made_first = Waiter::parked(made_first);
    assert_eq!(semaphore.snapshot().waiting, 2);
    drop((held, idle));
    assert_eq!((polled_first.wakes(), made_first.wakes()), (1, 0));
    drop(polled_first.granted());
    drop(made_first.granted());
    // One that is admitted at its first poll never joins.
    let mut admitted = semaphore.acquire();
    assert!(poll_once(&mut admitted).is_ready());
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_wait_for_idleness_that_is_over_can_be_waited_for_again() {
    let semaphore = Semaphore::new(1);
    let mut idle = Waiter::new(semaphore.wait_idle());
    idle.output();
    let held = semaphore.try_acquire().unwrap();
    assert!(idle.is_pending());
    drop(held);
    idle.output();
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_static_needs_no_initialisation() {
    static SHARED: Semaphore = Semaphore::new(1).max_waiters(1);
    let permit = SHARED.try_acquire().unwrap();
    let mut waiting = Waiter::parked(SHARED.acquire());
    let refused = Waiter::new(SHARED.acquire()).refused();
    assert_eq!(refused, ErrorKind::QueueFull);
    drop(permit);
    drop(waiting.granted());
    assert_at_rest(&SHARED, 1);
}

/// Comes back when this many wait, without a clock.
fn until_waiting(semaphore: &Semaphore, count: usize) {
    while semaphore.snapshot().waiting != count {
        thread::yield_now();
    }
}

#[test]
fn wait_comes_back_at_once_when_there_is_nothing_to_wait_for() {
    let semaphore = Semaphore::new(2);
    semaphore.wait_idle().wait();
    let refused = semaphore.acquire_many(3).wait();
    assert_eq!(kind(refused), ErrorKind::ExceedsCapacity);
    assert_at_rest(&semaphore, 2);
}

#[test]
fn blocked_threads_and_tasks_wait_in_one_queue() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut task = Waiter::parked(semaphore.acquire());
    thread::scope(|scope| {
        let waiting = scope.spawn(|| semaphore.acquire().wait().map(|permit| permit.count()));
        until_waiting(&semaphore, 2);
        let mut last = Waiter::parked(semaphore.acquire());
        drop(held);
        let permit = task.granted();
        assert_eq!(semaphore.snapshot().waiting, 2);
        drop(permit);
        assert_eq!(waiting.join().unwrap(), Ok(1));
        drop(last.granted());
    });
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_blocked_thread_waits_for_idleness() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = Arc::clone(&semaphore).try_acquire_owned().unwrap();
    let (about_to_wait, begun) = mpsc::channel();
    let waiting = {
        let semaphore = Arc::clone(&semaphore);
        thread::spawn(move || {
            about_to_wait.send(()).unwrap();
            semaphore.wait_idle().wait();
            semaphore.available_permits()
        })
    };
    begun.recv().unwrap();
    drop(held);
    assert_eq!(waiting.join().unwrap(), 1);
}

/// Anybody may `unpark` a thread; `park` may even come back for no reason.
#[test]
fn a_stray_unpark_ends_no_wait() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = semaphore.try_acquire().unwrap();
    // An owned wait moves into a thread.
    let wait = Arc::clone(&semaphore).acquire_owned();
    let waiting = thread::spawn(move || {
        thread::current().unpark();
        drop(wait.wait().unwrap());
    });
    until_waiting(&semaphore, 1);
    for _ in 0..100 {
        waiting.thread().unpark();
        thread::yield_now();
    }
    assert_eq!(semaphore.snapshot().waiting, 1);
    assert!(!waiting.is_finished());
    drop(held);
    waiting.join().unwrap();
    assert_at_rest(&semaphore, 1);
}

const MAX: usize = Semaphore::MAX_PERMITS;
const MOST: usize = u32::MAX as usize;

#[test]
fn the_largest_limit_is_counted_exactly() {
    let semaphore = Semaphore::new(0);
    semaphore.add_permits(MAX);
    semaphore.add_permits(0);
    assert_eq!(
        (semaphore.permits(), semaphore.available_permits()),
        (MAX, MAX)
    );
    // Held by one permit of more than any one request.
    let mut permit = semaphore.try_acquire_many(u32::MAX).unwrap();
    let mut waited = Waiter::new(semaphore.acquire_many(u32::MAX));
    permit.merge(waited.granted());
    assert_eq!(permit.count(), 2 * MOST);
    assert_eq!(semaphore.available_permits(), MAX - 2 * MOST);
    drop(permit.split(MOST + 1));
    assert_eq!(
        (permit.count(), semaphore.available_permits()),
        (MOST - 1, MAX - MOST + 1)
    );
    // The limit goes down and up again while it is held.
    semaphore.set_permits(0);
    assert_eq!(semaphore.available_permits(), 0);
    semaphore.set_permits(MAX);
    assert_eq!(semaphore.available_permits(), MAX - MOST + 1);
    permit.forget();
    let rest = MAX - MOST + 1;
    assert_eq!(
        (semaphore.permits(), semaphore.available_permits()),
        (rest, rest)
    );
    semaphore.add_permits(MOST - 1);
    assert_eq!(semaphore.available_permits(), MAX);
    semaphore.set_permits(1);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_permit_knows_its_semaphore() {
    let semaphore = Arc::new(Semaphore::new(2));
    let borrowed = semaphore.try_acquire().unwrap();
    let owned = Arc::clone(&semaphore).try_acquire_owned().unwrap();
    assert!(std::ptr::eq(borrowed.semaphore(), &*semaphore));
    assert!(Arc::ptr_eq(owned.semaphore(), &semaphore));
}

#[test]
fn debug_shows_what_can_be_observed() {
    let semaphore = Arc::new(Semaphore::new(3));
    let permit = semaphore.try_acquire_many(2).unwrap();
    let waiting = Waiter::parked(semaphore.acquire_many(2));
    let shown = format!("{semaphore:?} {permit:?}");
    for part in [
        "permits: 3",
        "available_permits: 1",
        "waiting: 1",
        "closed: false",
        "count: 2",
    ] {
        assert!(shown.contains(part), "{shown} without {part}");
    }
    let future = format!("{:?}", waiting.into_future());
    assert!(future.contains("permits: 2"), "{future}");
    assert!(!format!("{:?}", semaphore.wait_idle()).is_empty());
}

macro_rules! owned {
    ($($(#[$attribute:meta])* $name:ident: $throttle:expr;)*) => {$(
        $(#[$attribute])*
        #[test]
        fn $name() {
            let throttle = Arc::new($throttle);
            let shared = || Arc::clone(&throttle);
            let held = shared().try_acquire_owned().unwrap();
            let mut granted = Waiter::parked(shared().acquire_owned());
            let mut closed = Waiter::parked(shared().acquire_owned());
            assert_eq!(Arc::strong_count(&throttle), 4);
            let mut timed_out = Waiter::new(shared().acquire_owned().timeout(Duration::ZERO));
            assert_eq!(timed_out.refused(), ErrorKind::TimedOut);
            assert!(shared().try_acquire_owned().is_err());
            drop((shared().acquire_owned(), Waiter::parked(shared().acquire_owned())));
            #[cfg(feature = "tokio")]
            let _cancelled = {
                let token = tokio_util::sync::CancellationToken::new();
                let wait = shared().acquire_owned().cancel_on(token.clone());
                let mut cancelled = Waiter::parked(wait);
                token.cancel();
                assert_eq!(cancelled.refused(), ErrorKind::Cancelled);
                cancelled
            };
            drop(held);
            let permit = granted.granted();
            throttle.close();
            assert_eq!(closed.refused(), ErrorKind::Closed);
            assert_eq!(Arc::strong_count(&throttle), 2);
            let observer = Arc::downgrade(&throttle);
            drop(throttle);
            assert!(observer.upgrade().is_some());
            drop(permit);
            assert!(observer.upgrade().is_none());
            drop((granted, closed, timed_out));
        }
    )*};
}

owned! {
    semaphore_lives_as_long_as_its_permits_and_waits: Semaphore::new(1);
    pool_lives_as_long_as_its_permits_and_waits: Pool::new([String::new()]);
    pool_with_a_factory_lives_as_long_as_its_permits_and_waits: Pool::with_factory(1, String::new);
    #[cfg(feature = "channel")]
    channel_lives_as_long_as_its_permits_and_waits: tollgate::ChannelSemaphore::new(1);
    #[cfg(feature = "channel")]
    reversed_channel_lives_as_long_as_its_permits_and_waits: tollgate::ChannelSemaphore::reversed(1);
}
