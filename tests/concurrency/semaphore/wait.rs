//! Waiting by blocking a thread.

use std::sync::{Arc, mpsc};
use std::thread;

use tollgate::{ErrorKind, Semaphore};

use crate::support::{Waiter, assert_at_rest, kind};

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
