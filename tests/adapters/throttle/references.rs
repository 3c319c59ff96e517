//! A reference to a throttle, and an `Arc` of one, is a throttle.

use std::fmt::Debug;
use std::sync::Arc;

use tollgate::{Semaphore, TryThrottle, all};

use crate::support::scripted::Log;
use crate::support::{Waiter, assert_at_rest};

/// Enters by trying and by waiting, and undoes and drops what it got.
fn go_through<T: TryThrottle<Permit: Debug>>(throttle: T) {
    throttle.rollback(throttle.try_enter().unwrap());
    let mut waiter = Waiter::new(throttle.enter());
    throttle.rollback(waiter.granted());
    drop(throttle.try_enter());
    drop(Waiter::new(throttle.clone().enter()));
}

/// The permits of one throttle are numbered from its first to its last.
fn without_numbers(events: Vec<String>) -> Vec<String> {
    let events = events.iter();
    events
        .map(|event| event.trim_end_matches(char::is_numeric).to_owned())
        .collect()
}

#[test]
fn everything_reaches_the_throttle() {
    let log = Log::default();
    let throttle = log.part("a");
    go_through(throttle.clone());
    let expected = without_numbers(log.take());
    go_through(&throttle);
    assert_eq!(without_numbers(log.take()), expected);
    go_through(Arc::new(throttle.clone()));
    assert_eq!(without_numbers(log.take()), expected);
    let lent = &Arc::new(&throttle);
    go_through(lent);
    assert_eq!(without_numbers(log.take()), expected);
    go_through(&lent);
    assert_eq!(without_numbers(log.take()), expected);
}

#[test]
fn a_shared_semaphore_can_be_lent() {
    let semaphore = Arc::new(Semaphore::new(4));
    go_through(&semaphore);
    go_through(all((&semaphore, &*semaphore, Arc::clone(&semaphore))));
    let both = all((&semaphore, semaphore.cost(2)));
    go_through(&both);
    go_through(Arc::new(Some(&semaphore)));
    assert_eq!(Arc::strong_count(&semaphore), 1);
    assert_at_rest(&semaphore, 4);
}
