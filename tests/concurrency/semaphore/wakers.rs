//! Wakers are foreign code: they are called and dropped outside of the lock, and may do there what
//! they like.
//!
//! What calls back from here would lock up if it ran under the lock. A waker's `clone` cannot
//! call back without unsafe code, so that part of the promise is for the reader of the source.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use tollgate::Waiting;

use tollgate::{AcquireOwned, OwnedPermit, Semaphore};

use crate::support::foreign::{calls_when_dropped, calls_when_woken};
use crate::support::{Counter, Waiter, assert_at_rest};

/// A semaphore of 3 that is held, and wakers that call it back.
struct Scene {
    semaphore: Arc<Semaphore>,
    calls: Arc<AtomicUsize>,
}

impl Scene {
    fn new() -> (Self, OwnedPermit) {
        let semaphore = Arc::new(Semaphore::new(3));
        let held = Arc::clone(&semaphore).try_acquire_many_owned(3).unwrap();
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
            let seen = (semaphore.waiting(), semaphore.available_permits());
            assert!(!format!("{semaphore:?} {seen:?}").is_empty());
            calls.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A waiter whose waker calls back when it is woken.
    fn heard<F: Future>(&self, future: F) -> Waiter<F> {
        parked_with(future, &calls_when_woken(self.callback()))
    }

    /// A waiter that has the only clone of a waker, which calls back when it is dropped.
    fn mourned<F: Future>(&self, future: F) -> Waiter<F> {
        parked_with(future, &calls_when_dropped(self.callback()))
    }

    #[track_caller]
    fn assert_calls(&self, expected: usize) {
        assert_eq!(self.calls.load(Ordering::SeqCst), expected);
    }
}

fn parked_with<F: Future>(future: F, waker: &Waker) -> Waiter<F> {
    let mut waiter = Waiter::new(future);
    assert!(waiter.poll_with(waker).is_pending());
    waiter
}

#[test]
fn a_release_wakes_outside_of_the_lock() {
    let (scene, mut held) = Scene::new();
    let mut one = scene.heard(scene.semaphore.acquire());
    let mut two = scene.heard(scene.semaphore.acquire_many(2));
    drop(held.split(1));
    scene.assert_calls(1);
    drop(held);
    scene.assert_calls(2);
    drop((one.granted(), two.granted()));
    assert_at_rest(&scene.semaphore, 3);
}

#[test]
fn growing_wakes_outside_of_the_lock() {
    let (scene, held) = Scene::new();
    let mut one = scene.heard(scene.semaphore.acquire());
    let mut two = scene.heard(scene.semaphore.acquire());
    scene.semaphore.add_permits(1);
    scene.assert_calls(1);
    scene.semaphore.set_permits(5);
    scene.assert_calls(2);
    drop((held, one.granted(), two.granted()));
    assert_at_rest(&scene.semaphore, 5);
}

#[test]
fn shrinking_and_forgetting_wake_outside_of_the_lock() {
    let (scene, mut held) = Scene::new();
    let mut three = scene.heard(scene.semaphore.acquire_many(3));
    let mut two = scene.heard(scene.semaphore.acquire_many(2));
    scene.semaphore.set_permits(2);
    scene.assert_calls(1);
    held.split(1).unwrap().forget();
    scene.assert_calls(2);
    assert!(three.output().is_err());
    assert!(two.output().is_err());
    drop(held);
    assert_at_rest(&scene.semaphore, 1);
}

#[test]
fn the_close_wakes_outside_of_the_lock() {
    let (scene, held) = Scene::new();
    let mut line: Vec<_> = (0..40)
        .map(|_| scene.heard(scene.semaphore.acquire()))
        .collect();
    scene.semaphore.close();
    scene.assert_calls(40);
    assert!(line.iter_mut().all(|waiter| waiter.output().is_err()));
    drop(held);
    assert_at_rest(&scene.semaphore, 3);
}

#[test]
fn a_head_that_leaves_wakes_outside_of_the_lock() {
    let (scene, mut held) = Scene::new();
    let large = Waiter::parked(scene.semaphore.acquire_many(3));
    let mut small = scene.heard(scene.semaphore.acquire());
    drop(held.split(1));
    scene.assert_calls(0);
    drop(large);
    scene.assert_calls(1);
    drop((small.granted(), held));
    assert_at_rest(&scene.semaphore, 3);
}

#[test]
fn a_grant_that_is_passed_on_wakes_outside_of_the_lock() {
    let (scene, held) = Scene::new();
    let granted = Waiter::parked(scene.semaphore.acquire_many(3));
    let mut next = scene.heard(scene.semaphore.acquire());
    drop(held);
    scene.assert_calls(0);
    drop(granted);
    scene.assert_calls(1);
    drop(next.granted());
    assert_at_rest(&scene.semaphore, 3);
}

#[test]
fn idleness_wakes_outside_of_the_lock() {
    let (scene, held) = Scene::new();
    let mut idle = scene.heard(scene.semaphore.wait_idle());
    drop(held);
    scene.assert_calls(1);
    idle.output();
    assert_at_rest(&scene.semaphore, 3);
}

#[test]
fn leaving_drops_the_waker_outside_of_the_lock() {
    let (scene, held) = Scene::new();
    let head = scene.mourned(scene.semaphore.acquire());
    let middle = scene.mourned(scene.semaphore.acquire());
    let idle = scene.mourned(scene.semaphore.wait_idle());
    let last = scene.mourned(scene.semaphore.acquire());
    scene.assert_calls(0);
    drop(middle);
    scene.assert_calls(1);
    drop(head);
    scene.assert_calls(2);
    drop(idle);
    scene.assert_calls(3);
    drop(last);
    scene.assert_calls(4);
    drop(held);
    assert_at_rest(&scene.semaphore, 3);
}

#[test]
fn another_waker_displaces_the_old_one_outside_of_the_lock() {
    let (scene, held) = Scene::new();
    let mut waiter = scene.mourned(scene.semaphore.acquire());
    let mut idle = scene.mourned(scene.semaphore.wait_idle());
    assert!(waiter.is_pending());
    scene.assert_calls(1);
    assert!(idle.is_pending());
    scene.assert_calls(2);
    drop(held);
    drop(waiter.granted());
    idle.output();
    assert_at_rest(&scene.semaphore, 3);
}

#[test]
fn being_served_drops_the_waker_outside_of_the_lock() {
    let (scene, held) = Scene::new();
    let mut waiter = scene.mourned(scene.semaphore.acquire());
    let mut idle = scene.mourned(scene.semaphore.wait_idle());
    drop(held);
    scene.assert_calls(1);
    drop(waiter.granted());
    scene.assert_calls(2);
    idle.output();
    assert_at_rest(&scene.semaphore, 3);
}

#[test]
fn being_refused_by_the_close_drops_the_waker_outside_of_the_lock() {
    let (scene, held) = Scene::new();
    let mut waiter = scene.mourned(scene.semaphore.acquire());
    scene.semaphore.close();
    scene.assert_calls(1);
    assert!(waiter.output().is_err());
    drop(held);
}

#[test]
fn no_waker_is_kept_longer_than_its_wait() {
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut served = parked_with(semaphore.acquire(), &waker);
    let left = parked_with(semaphore.acquire(), &waker);
    let idle = parked_with(semaphore.wait_idle(), &waker);
    drop(left);
    drop(held);
    drop(served.granted());
    drop(waker);
    assert_eq!(counter.count(), 2);
    assert_eq!(Arc::strong_count(&counter), 1);
    drop(idle);
}

#[test]
fn a_waiter_that_is_polled_with_another_waker_wakes_that_one() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let (old, new) = (Arc::new(Counter::default()), Arc::new(Counter::default()));
    let mut waiter = parked_with(semaphore.acquire(), &Waker::from(Arc::clone(&old)));
    let mut idle = parked_with(semaphore.wait_idle(), &Waker::from(Arc::clone(&old)));
    let waker = Waker::from(Arc::clone(&new));
    assert!(waiter.poll_with(&waker).is_pending());
    assert!(idle.poll_with(&waker).is_pending());
    drop(held);
    drop(waiter.granted());
    idle.output();
    assert_eq!((old.count(), new.count()), (0, 2));
}

#[test]
fn another_waker_is_not_a_new_place_in_line() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut first = Waiter::parked(semaphore.acquire());
    let mut second = Waiter::parked(semaphore.acquire());
    let counter = Arc::new(Counter::default());
    assert!(
        first
            .poll_with(&Waker::from(Arc::clone(&counter)))
            .is_pending()
    );
    assert_eq!(semaphore.waiting(), 2);
    drop(held);
    assert_eq!((counter.count(), second.wakes()), (1, 0));
    drop(first.granted());
    drop(second.granted());
}

/// As an executor does that runs a task on the spot when it is woken.
#[test]
fn a_waker_may_poll_the_future_that_it_wakes() {
    let (scene, held) = Scene::new();
    let task: Arc<Mutex<Option<Waiting<AcquireOwned>>>> = Arc::default();
    let permit: Arc<Mutex<Option<OwnedPermit>>> = Arc::default();
    let waker = calls_when_woken({
        let (task, permit) = (Arc::clone(&task), Arc::clone(&permit));
        move || {
            let mut future = task.lock().unwrap().take().expect("woken once");
            let mut context = Context::from_waker(Waker::noop());
            match Pin::new(&mut future).poll(&mut context) {
                Poll::Ready(granted) => *permit.lock().unwrap() = granted.ok(),
                Poll::Pending => panic!("woken for nothing"),
            }
        }
    });
    let mut future = Arc::clone(&scene.semaphore).acquire_owned();
    let mut context = Context::from_waker(&waker);
    assert!(Pin::new(&mut future).poll(&mut context).is_pending());
    *task.lock().unwrap() = Some(future);
    drop(held);
    assert_eq!(permit.lock().unwrap().take().unwrap().count(), 1);
    assert_at_rest(&scene.semaphore, 3);
}

/// The same, with a future that is dropped instead: its grant is passed on from inside the wake.
#[test]
fn a_waker_may_drop_the_future_that_it_wakes() {
    let (scene, held) = Scene::new();
    let task: Arc<Mutex<Option<Waiting<AcquireOwned>>>> = Arc::default();
    let waker = calls_when_woken({
        let task = Arc::clone(&task);
        move || drop(task.lock().unwrap().take())
    });
    let mut future = Arc::clone(&scene.semaphore).acquire_many_owned(3);
    let mut context = Context::from_waker(&waker);
    assert!(Pin::new(&mut future).poll(&mut context).is_pending());
    *task.lock().unwrap() = Some(future);
    let mut next = Waiter::parked(scene.semaphore.acquire_many(3));
    drop(held);
    drop(next.granted());
    assert_at_rest(&scene.semaphore, 3);
}

#[test]
fn a_waker_may_close_the_semaphore_in_the_midst_of_a_batch() {
    let semaphore = Arc::new(Semaphore::new(0));
    let waker = calls_when_woken({
        let semaphore = Arc::clone(&semaphore);
        move || semaphore.close()
    });
    let mut first = parked_with(semaphore.acquire(), &waker);
    let mut line: Vec<_> = (0..39)
        .map(|_| Waiter::parked(semaphore.acquire()))
        .collect();
    semaphore.add_permits(40);
    // Whoever was granted before the close has its permit; nobody is left waiting.
    assert!(first.output().is_ok());
    let outcomes: Vec<_> = line
        .iter_mut()
        .map(|waiter| waiter.output().is_ok())
        .collect();
    assert!(outcomes.is_sorted_by(|before, after| before >= after));
    assert!(line.iter().all(|waiter| waiter.wakes() == 1));
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
    let mut line: Vec<_> = (0..39)
        .map(|_| Waiter::parked(semaphore.acquire()))
        .collect();
    semaphore.add_permits(40);
    let mut permits = vec![first.granted()];
    for waiter in &mut line {
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
