//! Permits and requests that share the semaphore.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tollgate::{CondvarSemaphore, ErrorKind};

use super::{assert_at_rest, blocked};
use crate::support::kind;

#[test]
fn a_permit_moves_to_another_thread() {
    let semaphore = Arc::new(CondvarSemaphore::new(2));
    let permits = [
        Arc::clone(&semaphore).acquire_owned().wait().unwrap(),
        Arc::clone(&semaphore).try_acquire_owned().unwrap(),
    ];
    assert!(std::ptr::eq(permits[0].semaphore(), &*semaphore));
    let shared = || Arc::clone(&semaphore);
    assert_eq!(kind(shared().try_acquire_owned()), ErrorKind::NoPermits);
    thread::spawn(move || drop(permits)).join().unwrap();
    assert_eq!(Arc::strong_count(&semaphore), 1);
    assert_at_rest(&semaphore);
}

#[test]
fn a_request_moves_to_another_thread_and_waits_there() {
    let semaphore = Arc::new(CondvarSemaphore::new(1));
    let held = Arc::clone(&semaphore).try_acquire_owned().unwrap();
    let request = Arc::clone(&semaphore).acquire_owned();
    let waiting = thread::spawn(move || request.wait());
    blocked(&semaphore, 1);
    drop(held);
    drop(waiting.join().unwrap().unwrap());
    assert_at_rest(&semaphore);
}

#[test]
fn the_semaphore_lives_as_long_as_its_last_permit() {
    let semaphore = Arc::new(CondvarSemaphore::new(1));
    let weak = Arc::downgrade(&semaphore);
    let permit = semaphore.try_acquire_owned().unwrap();
    assert_eq!(permit.semaphore().available_permits(), 0);
    drop(permit);
    assert!(weak.upgrade().is_none());
}

#[test]
fn who_is_refused_keeps_nothing() {
    let semaphore = Arc::new(CondvarSemaphore::new(1));
    let shared = || Arc::clone(&semaphore);
    let held = semaphore.try_acquire().unwrap();
    let soon = Duration::from_micros(1);
    let refusals = [
        kind(shared().try_acquire_owned()),
        kind(shared().acquire_owned().timeout(Duration::ZERO).wait()),
        kind(shared().acquire_owned().timeout(soon).wait()),
    ];
    assert_eq!(refusals[0], ErrorKind::NoPermits);
    assert_eq!(refusals[1..], [ErrorKind::TimedOut; 2]);
    drop(shared().acquire_owned());
    assert_eq!(Arc::strong_count(&semaphore), 1);
    drop(held);
    semaphore.close();
    assert_eq!(kind(shared().try_acquire_owned()), ErrorKind::Closed);
    assert_eq!(kind(shared().acquire_owned().wait()), ErrorKind::Closed);
    assert_eq!(Arc::strong_count(&semaphore), 1);
}

#[test]
fn a_holder_that_panics_gives_its_permit_back() {
    let semaphore = Arc::new(CondvarSemaphore::new(1));
    let permit = Arc::clone(&semaphore).acquire_owned().wait().unwrap();
    let panics = thread::spawn(move || {
        let _permit = permit;
        panic!("a holder that panics on purpose");
    });
    assert!(panics.join().is_err());
    assert_eq!(Arc::strong_count(&semaphore), 1);
    assert_at_rest(&semaphore);
}

#[test]
fn debug_shows_the_semaphore() {
    let semaphore = Arc::new(CondvarSemaphore::new(1));
    let permit = Arc::clone(&semaphore).try_acquire_owned().unwrap();
    assert_eq!(format!("{permit:?}"), format!("Permit({semaphore:?})"));
    let request = semaphore.acquire_owned().timeout(Duration::from_secs(1));
    assert_eq!(format!("{request:?}"), "Acquire { timeout: Some(1s), .. }");
}
