//! The semaphore by hand: futures that are not polled, owned permits, large numbers, and threads that block.
//! Sequences of calls are rows of `model/scenarios.rs`; the other ends of waits are in `timeout.rs`.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use tollgate::{CondvarSemaphore, ErrorKind, Pool, Semaphore};

use crate::support::foreign::{calls_when_woken, panics_when_woken, throws_a_bomb_when_woken};
use crate::support::{Waiter, assert_at_rest, kind};

#[test]
fn a_wait_for_idleness_that_is_over_can_be_waited_for_again() {
    let semaphore = Semaphore::new(1);
    assert!(format!("{:?}", semaphore.wait_idle()).contains("WaitIdle"));
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

#[test]
fn wait_comes_back_at_once_when_there_is_nothing_to_wait_for() {
    let semaphore = Semaphore::new(2);
    semaphore.wait_idle().wait();
    let refused = semaphore.acquire_many(3).wait();
    assert_eq!(kind(refused), ErrorKind::ExceedsCapacity);
    assert_at_rest(&semaphore, 2);
}

#[test]
fn a_blocked_thread_waits_for_idleness() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            semaphore.wait_idle().wait();
            semaphore.available_permits()
        });
        thread::yield_now();
        drop(held);
        assert_eq!(waiting.join().unwrap(), 1);
    });
}

/// Any code may `unpark` a thread; `park` may even return for no reason.
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
    while semaphore.snapshot().waiting == 0 {
        thread::yield_now();
    }
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
    // One permit of more than a `u32` can count holds them.
    let mut permit = semaphore.try_acquire_many(MOST as u64).unwrap();
    let mut waited = Waiter::new(semaphore.acquire_many(MOST as u64));
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

// Wakers are foreign code, and may do anything when they are called. Every row of `model/scenarios.rs`
// tests that they are called and dropped outside of the lock, and `contracts/conformance/wakers.rs` tests
// the wakes of any throttle; here, the wakers of one batch affect each other.

fn parked_with<F: Future>(future: F, waker: &Waker) -> Waiter<F> {
    let mut waiter = Waiter::new(future);
    assert!(waiter.poll_with(waker).is_pending());
    waiter
}

#[test]
fn a_waker_may_close_the_semaphore_in_the_midst_of_a_batch() {
    let semaphore = Arc::new(Semaphore::new(0));
    let waker = calls_when_woken({
        let semaphore = Arc::clone(&semaphore);
        move || semaphore.close()
    });
    let mut first = parked_with(semaphore.acquire(), &waker);
    let mut others = [(); 39].map(|()| Waiter::parked(semaphore.acquire()));
    semaphore.add_permits(40);
    // A waiter that was granted a permit before the close has it; no waiter is stranded.
    assert!(first.output().is_ok());
    assert!(others.iter().all(|waiter| waiter.wakes() == 1));
    let outcomes = others.each_mut().map(|waiter| waiter.output().is_ok());
    assert!(outcomes.is_sorted_by(|before, after| before >= after));
    assert_at_rest(&semaphore, 40);
}

#[test]
fn a_waker_may_shrink_the_semaphore_in_the_midst_of_a_batch() {
    let semaphore = Arc::new(Semaphore::new(0));
    let waker = calls_when_woken({
        let semaphore = Arc::clone(&semaphore);
        move || semaphore.set_permits(1)
    });
    let mut first = parked_with(semaphore.acquire(), &waker);
    let mut others = [(); 39].map(|()| Waiter::parked(semaphore.acquire()));
    semaphore.add_permits(40);
    let mut permits = vec![first.granted()];
    for waiter in &mut others {
        if let Poll::Ready(permit) = waiter.poll() {
            permits.push(permit.unwrap());
        } else {
            permits.clear();
            permits.push(waiter.granted());
        }
    }
    permits.clear();
    assert_at_rest(&semaphore, 1);
}

/// Callers that wait for idleness are woken in several batches; the first one may take the permit
/// again before the last one is woken.
#[test]
fn a_waker_may_take_the_permit_in_the_midst_of_those_who_wait_for_idleness() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = semaphore.try_acquire().unwrap();
    let taken = Arc::new(Mutex::new(None));
    let waker = calls_when_woken({
        let (semaphore, taken) = (Arc::clone(&semaphore), Arc::clone(&taken));
        move || *taken.lock().unwrap() = Arc::clone(&semaphore).try_acquire_owned().ok()
    });
    let _first = parked_with(semaphore.wait_idle(), &waker);
    let others = [(); 40].map(|()| Waiter::parked(semaphore.wait_idle()));
    drop(held);
    assert!(taken.lock().unwrap().is_some());
    assert!(others.iter().all(|idle| idle.wakes() == 1));
}

/// There is more than one batch of wakers, whatever the size of a batch. The payload of a panic is
/// foreign code too: it may panic when it is dropped.
#[test]
fn wakers_that_panic_keep_nobody_from_being_granted_and_woken() {
    const CROWD: usize = 100;
    type Panics = (fn() -> Waker, fn(usize) -> bool);
    let rows: [Panics; 3] = [
        (panics_when_woken, |name| name % 3 == 0),
        (panics_when_woken, |_| true),
        (throws_a_bomb_when_woken, |name| name == 0),
    ];
    for (waker, panics) in rows {
        let semaphore = Semaphore::new(0);
        let wait = |name| {
            if panics(name) {
                parked_with(semaphore.acquire(), &waker())
            } else {
                Waiter::parked(semaphore.acquire())
            }
        };
        let mut waiters: Vec<_> = (0..CROWD).map(wait).collect();
        // Whether the payload's panic propagates is left open.
        let added = catch_unwind(AssertUnwindSafe(|| semaphore.add_permits(CROWD)));
        let _ = added.map_err(std::mem::forget);
        assert_eq!(semaphore.snapshot().waiting, 0);
        for (name, waiter) in waiters.iter().enumerate() {
            assert_eq!(waiter.wakes(), usize::from(!panics(name)));
        }
        let permits: Vec<_> = waiters.iter_mut().map(Waiter::granted).collect();
        assert_eq!(semaphore.available_permits(), 0);
        drop(permits);
        assert_at_rest(&semaphore, CROWD);
    }
}

#[test]
fn a_waker_that_panics_for_idleness_is_contained() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut idle = parked_with(semaphore.wait_idle(), &panics_when_woken());
    let mut other = Waiter::parked(semaphore.wait_idle());
    drop(held);
    idle.output();
    other.output();
    assert_at_rest(&semaphore, 1);
}

macro_rules! permits_and_debug {
    ($($(#[$attribute:meta])* $name:ident: $semaphore:expr => $shown:literal, $wait:literal;)*) => {$(
        $(#[$attribute])*
        #[test]
        fn $name() {
            let semaphore = Arc::new($semaphore);
            let owned = Arc::clone(&semaphore).try_acquire_owned().unwrap();
            assert!(Arc::ptr_eq(owned.semaphore(), &semaphore));
            drop(owned);
            let permit = semaphore.try_acquire().unwrap();
            assert!(std::ptr::eq(permit.semaphore(), &*semaphore));
            let shown = format!("{semaphore:?}");
            assert_eq!(shown, $shown);
            let of_permit = format!("Permit {{ count: 1, semaphore: {shown} }}");
            assert_eq!(format!("{permit:?}"), of_permit);
            assert_eq!(format!("{:?}", semaphore.acquire()), $wait);
            semaphore.close();
            let closed = shown.replace("closed: false", "closed: true");
            assert_eq!(format!("{semaphore:?}"), closed);
        }
    )*};
}

permits_and_debug! {
    permit_of_a_semaphore_knows_it_and_debug_shows_what_can_be_observed: Semaphore::new(3)
        => "Semaphore { permits: 3, available_permits: 2, waiting: 0, closed: false, .. }",
        "Acquire { permits: 1, queued: false, .. }";
    permit_of_a_condvar_semaphore_knows_it_and_debug_shows_what_can_be_observed: CondvarSemaphore::new(2)
        => "CondvarSemaphore { permits: 2, available_permits: 1, waiting: 0, closed: false, .. }",
        "Acquire { timeout: None, .. }";
    #[cfg(feature = "channel")]
    permit_of_a_channel_knows_it_and_debug_shows_what_can_be_observed: tollgate::ChannelSemaphore::new(2)
        => "ChannelSemaphore { permits: 2, available_permits: 1, closed: false, .. }",
        "Acquire { .. }";
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
