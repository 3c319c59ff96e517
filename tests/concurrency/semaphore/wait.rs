//! Waiting by blocking a thread.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use tollgate::{ErrorKind, Semaphore};

use crate::support::{Waiter, assert_at_rest, kind};

/// Comes back when this many wait in line, without a clock.
fn until_waiting(semaphore: &Semaphore, count: usize) {
    while semaphore.waiting() != count {
        thread::yield_now();
    }
}

#[test]
fn it_comes_back_at_once_when_there_is_nothing_to_wait_for() {
    let semaphore = Arc::new(Semaphore::new(2));
    let one = semaphore.acquire().wait().unwrap();
    let other = Arc::clone(&semaphore).acquire_owned().wait().unwrap();
    assert_eq!((one.count(), other.count()), (1, 1));
    let refused = semaphore.acquire_many(3).wait();
    assert_eq!(kind(refused), ErrorKind::ExceedsCapacity);
    drop((one, other));
    semaphore.wait_idle().wait();
    assert_at_rest(&semaphore, 2);
}

#[test]
fn a_blocked_thread_is_served_by_another() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = semaphore.try_acquire().unwrap();
    let waiting = {
        let semaphore = Arc::clone(&semaphore);
        thread::spawn(move || semaphore.acquire().wait().map(|permit| permit.count()))
    };
    until_waiting(&semaphore, 1);
    drop(held);
    assert_eq!(waiting.join().unwrap(), Ok(1));
    assert_at_rest(&semaphore, 1);
}

#[test]
fn blocked_threads_and_tasks_stand_in_one_line() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = semaphore.try_acquire().unwrap();
    let mut task = Waiter::parked(semaphore.acquire());
    let waiting = {
        let semaphore = Arc::clone(&semaphore);
        thread::spawn(move || drop(semaphore.acquire().wait().unwrap()))
    };
    until_waiting(&semaphore, 2);
    let mut last = Waiter::parked(semaphore.acquire());
    drop(held);
    let permit = task.granted();
    assert_eq!(semaphore.waiting(), 2);
    drop(permit);
    waiting.join().unwrap();
    drop(last.granted());
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_blocked_thread_is_told_of_the_close() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = semaphore.try_acquire().unwrap();
    let waiting = {
        let semaphore = Arc::clone(&semaphore);
        thread::spawn(move || semaphore.acquire().wait().map(drop))
    };
    until_waiting(&semaphore, 1);
    semaphore.close();
    assert_eq!(kind(waiting.join().unwrap()), ErrorKind::Closed);
    drop(held);
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

/// A stray `unpark` is anybody's right; `park` may even come back for no reason.
#[test]
fn a_stray_unpark_ends_no_wait() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = semaphore.try_acquire().unwrap();
    let waiting = {
        let semaphore = Arc::clone(&semaphore);
        thread::spawn(move || {
            thread::current().unpark();
            drop(semaphore.acquire().wait().unwrap());
        })
    };
    until_waiting(&semaphore, 1);
    for _ in 0..100 {
        waiting.thread().unpark();
        thread::yield_now();
    }
    assert_eq!(semaphore.waiting(), 1);
    assert!(!waiting.is_finished());
    drop(held);
    waiting.join().unwrap();
    assert_at_rest(&semaphore, 1);
}

/// What a thread was woken for in one wait must not be mistaken for the next.
#[test]
fn one_thread_waits_many_times() {
    let semaphore = Arc::new(Semaphore::new(1));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || {
                for _ in 0..500 {
                    drop(semaphore.acquire().wait().unwrap());
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_at_rest(&semaphore, 1);
}

#[test]
fn an_owned_wait_moves_into_a_thread() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = semaphore.try_acquire().unwrap();
    let wait = Arc::clone(&semaphore).acquire_owned();
    let waiting = thread::spawn(move || wait.wait().unwrap());
    until_waiting(&semaphore, 1);
    drop(held);
    drop(waiting.join().unwrap());
    assert_at_rest(&semaphore, 1);
}
