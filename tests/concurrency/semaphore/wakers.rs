//! Wakers are foreign code: they are called and dropped outside of the lock, and may do there what
//! they like. Whatever wakes a waiter of any throttle is in `contracts/conformance/wakers.rs`; here is
//! what only a semaphore can do, and what wakers of one batch do to each other.
//!
//! What calls back from here would lock up if it ran under the lock. A waker's `clone` cannot
//! call back without unsafe code, so that part of the promise is for the reader of the source.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tollgate::{OwnedPermit, Semaphore, Throttle, Waiting};

use crate::support::foreign::{
    calls_when_dropped, calls_when_woken, panics_when_woken, throws_a_bomb_when_woken,
};
use crate::support::{Waiter, assert_at_rest};

/// A semaphore of 3 that is held, and wakers that call it back.
struct Callbacks {
    semaphore: Arc<Semaphore>,
    calls: Arc<AtomicUsize>,
}

impl Callbacks {
    fn new() -> (Self, OwnedPermit) {
        let semaphore = Arc::new(Semaphore::new(3));
        let held = Arc::clone(&semaphore).cost_owned(3).try_acquire().unwrap();
        let calls = Arc::default();
        (Self { semaphore, calls }, held)
    }

    /// Uses every entrance of the semaphore that takes its lock or might, and counts.
    fn callback(&self) -> impl Fn() + Send + Sync + 'static {
        let (semaphore, calls) = (Arc::clone(&self.semaphore), Arc::clone(&self.calls));
        move || {
            drop(semaphore.try_acquire());
            drop(Waiter::new(semaphore.acquire()).poll());
            let _ = Waiter::new(semaphore.wait_idle()).poll();
            semaphore.set_permits(semaphore.permits());
            semaphore.add_permits(0);
            let seen = (semaphore.snapshot().waiting, semaphore.available_permits());
            assert!(!format!("{semaphore:?} {seen:?}").is_empty());
            calls.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

fn parked_with<F: Future>(future: F, waker: &Waker) -> Waiter<F> {
    let mut waiter = Waiter::new(future);
    assert!(waiter.poll_with(waker).is_pending());
    waiter
}

/// Does something to the semaphore, all of whose permits are held, with a waiter for all of them in
/// front; what is still held.
type AcquireShared = <Arc<Semaphore> as Throttle>::Enter;
type Cause = fn(&Semaphore, OwnedPermit, Waiter<Waiting<AcquireShared>>) -> Option<OwnedPermit>;

#[test]
fn every_cause_of_a_wake_wakes_outside_of_the_lock() {
    let causes: [(&str, Cause); 8] = [
        ("release", |_, held, front| {
            drop((front, held));
            None
        }),
        ("set_permits up", |semaphore, held, front| {
            drop(front);
            semaphore.set_permits(5);
            Some(held)
        }),
        ("add_permits", |semaphore, held, front| {
            drop(front);
            semaphore.add_permits(2);
            Some(held)
        }),
        ("set_permits down", |semaphore, held, front| {
            drop(front);
            semaphore.set_permits(1);
            Some(held)
        }),
        ("forget", |_, mut held, front| {
            drop(front);
            held.split(2).unwrap().forget();
            Some(held)
        }),
        ("close", |semaphore, held, _| {
            semaphore.close();
            Some(held)
        }),
        ("a head that leaves", |_, mut held, front| {
            drop(held.split(2));
            drop(front);
            Some(held)
        }),
        ("a grant that is passed on", |_, held, front| {
            drop(held);
            drop(front);
            None
        }),
    ];
    for (name, cause) in causes {
        let (callbacks, held) = Callbacks::new();
        let front = Waiter::parked(Arc::clone(&callbacks.semaphore).cost_owned(3).acquire());
        let mut waiter = parked_with(
            callbacks.semaphore.acquire_many(2),
            &calls_when_woken(callbacks.callback()),
        );
        let mut idle = parked_with(
            callbacks.semaphore.wait_idle(),
            &calls_when_woken(callbacks.callback()),
        );
        assert_eq!(callbacks.calls(), 0, "{name}");
        let held = cause(&callbacks.semaphore, held, front);
        assert_eq!(callbacks.calls(), 1, "{name}");
        drop(waiter.output());
        drop(held);
        assert_eq!(callbacks.calls(), 2, "{name}");
        idle.output();
        assert_at_rest(&callbacks.semaphore, callbacks.semaphore.permits());
    }
}

/// The only clone of the waker is dropped by each of these, and calls back.
#[test]
fn every_end_of_a_wait_drops_the_waker_outside_of_the_lock() {
    let (callbacks, held) = Callbacks::new();
    let waker = || calls_when_dropped(callbacks.callback());
    let acquire = || parked_with(callbacks.semaphore.acquire(), &waker());
    let idle = || parked_with(callbacks.semaphore.wait_idle(), &waker());
    let (mut served, mut idle_served) = (acquire(), idle());
    let (head, middle, last) = (acquire(), acquire(), acquire());
    // A waiter that leaves, from anywhere.
    let left: [Box<dyn FnOnce() + '_>; 4] = [
        Box::new(|| drop(middle)),
        Box::new(|| drop(head)),
        Box::new(|| drop(idle())),
        Box::new(|| drop(last)),
    ];
    for (calls, leave) in (1..).zip(left) {
        leave();
        assert_eq!(callbacks.calls(), calls);
    }
    // Another waker in its place.
    let (mut other, mut idle_other) = (acquire(), idle());
    assert!(other.is_pending());
    assert_eq!(callbacks.calls(), 5);
    assert!(idle_other.is_pending());
    assert_eq!(callbacks.calls(), 6);
    // Served.
    drop(held);
    assert_eq!(callbacks.calls(), 7);
    drop((served.granted(), other.granted()));
    assert_eq!((callbacks.calls(), idle_other.wakes()), (8, 1));
    idle_served.output();
    idle_other.output();
    // Refused.
    let held = callbacks.semaphore.try_acquire_many(3).unwrap();
    let mut refused = acquire();
    callbacks.semaphore.close();
    assert_eq!(callbacks.calls(), 9);
    assert!(refused.output().is_err());
    drop(held);
    assert_at_rest(&callbacks.semaphore, 3);
}

/// As an executor does that runs a task on the spot when it is woken, or drops it.
#[test]
fn a_waker_may_poll_or_drop_the_future_that_it_wakes() {
    for drops in [false, true] {
        let (callbacks, held) = Callbacks::new();
        let task: Arc<Mutex<Option<Waiting<AcquireShared>>>> = Arc::default();
        let permit: Arc<Mutex<Option<OwnedPermit>>> = Arc::default();
        let waker = calls_when_woken({
            let (task, permit) = (Arc::clone(&task), Arc::clone(&permit));
            move || {
                let mut future = task.lock().unwrap().take().expect("woken once");
                if drops {
                    return;
                }
                let mut context = Context::from_waker(Waker::noop());
                match Pin::new(&mut future).poll(&mut context) {
                    Poll::Ready(granted) => *permit.lock().unwrap() = granted.ok(),
                    Poll::Pending => panic!("woken for nothing"),
                }
            }
        });
        let mut future = Arc::clone(&callbacks.semaphore).cost_owned(3).acquire();
        let mut context = Context::from_waker(&waker);
        assert!(Pin::new(&mut future).poll(&mut context).is_pending());
        *task.lock().unwrap() = Some(future);
        let mut next = Waiter::parked(callbacks.semaphore.acquire_many(3));
        drop(held);
        // What was granted to a future that is dropped is passed on from inside the wake.
        let collected = permit.lock().unwrap().take();
        assert_eq!(collected.is_none(), drops);
        drop(collected);
        drop(next.granted());
        assert_at_rest(&callbacks.semaphore, 3);
    }
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
    // A waiter that was granted one before the close has its permit; nobody is left waiting.
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

/// Those who wait for idleness are woken in several portions; the first one may have the permit
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

/// In more than one batch of wakers, whatever the size of a batch is. The payload of a panic is
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
        // Whether the panic of a payload goes further is left open.
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
