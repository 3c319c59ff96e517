//! Acquiring: the eight verbs, what each refuses, and what a refusal leaves behind.

use std::error::Error;
use std::sync::Arc;

use tollgate::{ErrorKind, Semaphore};

use crate::support::{Waiter, assert_at_rest, kind, poll_once};

static SHARED: Semaphore = Semaphore::new(2);
static BOUNDED: Semaphore = Semaphore::new(1).max_waiters(1);

#[test]
fn every_verb_takes_what_it_says_and_dropping_gives_it_back() {
    let semaphore = Arc::new(Semaphore::new(8));
    let shared = || Arc::clone(&semaphore);
    let free = || semaphore.available_permits();

    let permit = semaphore.try_acquire().unwrap();
    assert_eq!((permit.count(), free()), (1, 7));
    drop(permit);
    let permit = semaphore.try_acquire_many(3).unwrap();
    assert_eq!((permit.count(), free()), (3, 5));
    drop(permit);
    let permit = shared().try_acquire_owned().unwrap();
    assert_eq!((permit.count(), free()), (1, 7));
    drop(permit);
    let permit = shared().try_acquire_many_owned(8).unwrap();
    assert_eq!((permit.count(), free()), (8, 0));
    drop(permit);

    let permit = Waiter::new(semaphore.acquire()).granted();
    assert_eq!((permit.count(), free()), (1, 7));
    drop(permit);
    let permit = Waiter::new(semaphore.acquire_many(3)).granted();
    assert_eq!((permit.count(), free()), (3, 5));
    drop(permit);
    let permit = Waiter::new(shared().acquire_owned()).granted();
    assert_eq!((permit.count(), free()), (1, 7));
    drop(permit);
    let permit = Waiter::new(shared().acquire_many_owned(8)).granted();
    assert_eq!((permit.count(), free()), (8, 0));
    drop(permit);

    assert_at_rest(&semaphore, 8);
}

#[test]
fn every_waiting_verb_is_served_from_the_line() {
    let semaphore = Arc::new(Semaphore::new(4));
    let shared = || Arc::clone(&semaphore);
    let all = semaphore.try_acquire_many(4).unwrap();
    let mut one = Waiter::parked(semaphore.acquire());
    let mut two = Waiter::parked(semaphore.acquire_many(2));
    let mut owned = Waiter::parked(shared().acquire_owned());
    let mut owned_three = Waiter::parked(shared().acquire_many_owned(3));

    drop(all);
    let (one, two, owned) = (one.granted(), two.granted(), owned.granted());
    assert_eq!((one.count(), two.count(), owned.count()), (1, 2, 1));
    assert!(owned_three.is_pending());

    drop((one, two));
    assert_eq!(owned_three.granted().count(), 3);
    drop(owned);
    assert_at_rest(&semaphore, 4);
}

#[test]
fn a_future_that_was_not_polled_has_taken_nothing() {
    let semaphore = Arc::new(Semaphore::new(1));
    let borrowed = semaphore.acquire();
    let owned = Arc::clone(&semaphore).acquire_owned();
    let idle = semaphore.wait_idle();
    assert_at_rest(&semaphore, 1);
    drop((borrowed, owned, idle));
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_failed_try_changes_nothing() {
    let semaphore = Arc::new(Semaphore::new(2));
    let held = semaphore.try_acquire().unwrap();
    assert_eq!(kind(semaphore.try_acquire_many(2)), ErrorKind::NoPermits);
    assert_eq!(
        kind(Arc::clone(&semaphore).try_acquire_many_owned(2)),
        ErrorKind::NoPermits
    );
    assert_eq!(
        kind(semaphore.try_acquire_many(3)),
        ErrorKind::ExceedsCapacity
    );
    assert_eq!(semaphore.available_permits(), 1);
    assert_eq!(semaphore.waiting(), 0);
    drop(held);
    assert_at_rest(&semaphore, 2);
}

#[test]
fn more_than_the_limit_is_refused_at_once_by_every_verb() {
    let semaphore = Arc::new(Semaphore::new(2));
    let shared = || Arc::clone(&semaphore);
    // Also when nothing is free, and when somebody waits.
    let _held = semaphore.try_acquire_many(2).unwrap();
    let _parked = Waiter::parked(semaphore.acquire());
    let refusals = [
        semaphore.try_acquire_many(3).unwrap_err(),
        shared().try_acquire_many_owned(3).unwrap_err(),
        Waiter::new(semaphore.acquire_many(3)).output().unwrap_err(),
        Waiter::new(shared().acquire_many_owned(u32::MAX))
            .output()
            .unwrap_err(),
    ];
    for refusal in refusals {
        assert_eq!(refusal.kind(), ErrorKind::ExceedsCapacity);
        assert_eq!(refusal.capacity(), Some(2));
    }
    assert_eq!(semaphore.waiting(), 1);
}

#[test]
fn exactly_the_limit_can_be_had() {
    let semaphore = Semaphore::new(3);
    drop(semaphore.try_acquire_many(3).unwrap());
    let held = semaphore.try_acquire().unwrap();
    let mut all = Waiter::parked(semaphore.acquire_many(3));
    drop(held);
    assert_eq!(all.granted().count(), 3);
}

#[test]
fn a_try_is_refused_while_somebody_waits() {
    let semaphore = Semaphore::new(3);
    let _held = semaphore.try_acquire_many(2).unwrap();
    let _parked = Waiter::parked(semaphore.acquire_many(2));
    assert_eq!(semaphore.available_permits(), 1);
    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
}

#[test]
fn none_at_all_skips_the_line() {
    let semaphore = Arc::new(Semaphore::new(1).max_waiters(1));
    let shared = || Arc::clone(&semaphore);
    let _held = semaphore.try_acquire().unwrap();
    let _parked = Waiter::parked(semaphore.acquire());
    assert_eq!(semaphore.try_acquire_many(0).unwrap().count(), 0);
    assert_eq!(shared().try_acquire_many_owned(0).unwrap().count(), 0);
    let permit = Waiter::new(semaphore.acquire_many(0)).granted();
    assert_eq!(permit.count(), 0);
    let permit = Waiter::new(shared().acquire_many_owned(0)).granted();
    assert_eq!(permit.count(), 0);
    assert_eq!(semaphore.waiting(), 1);
}

#[test]
fn none_at_all_is_had_while_paused_and_in_debt() {
    let semaphore = Semaphore::new(3);
    let _held = semaphore.try_acquire_many(3).unwrap();
    semaphore.set_permits(1);
    assert!(semaphore.try_acquire_many(0).is_ok());
    semaphore.set_permits(0);
    assert!(semaphore.try_acquire_many(0).is_ok());
    assert!(Waiter::new(semaphore.acquire_many(0)).output().is_ok());
}

#[test]
fn none_at_all_fails_only_if_closed() {
    let semaphore = Semaphore::new(1);
    semaphore.close();
    assert_eq!(kind(semaphore.try_acquire_many(0)), ErrorKind::Closed);
    let refused = Waiter::new(semaphore.acquire_many(0)).refused();
    assert_eq!(refused, ErrorKind::Closed);
}

#[test]
fn a_static_needs_no_initialisation() {
    let permit = SHARED.try_acquire().unwrap();
    assert_eq!(SHARED.available_permits(), 1);
    drop(permit);
    assert_eq!(SHARED.available_permits(), 2);

    let permit = BOUNDED.try_acquire().unwrap();
    let mut parked = Waiter::parked(BOUNDED.acquire());
    assert_eq!(
        Waiter::new(BOUNDED.acquire()).refused(),
        ErrorKind::QueueFull
    );
    drop(permit);
    drop(parked.granted());
    assert_at_rest(&BOUNDED, 1);
}

#[test]
fn the_largest_limit_works_up_to_the_last_permit() {
    let semaphore = Semaphore::new(Semaphore::MAX_PERMITS);
    assert_eq!(semaphore.permits(), Semaphore::MAX_PERMITS);
    assert_eq!(semaphore.available_permits(), Semaphore::MAX_PERMITS);
    let permit = semaphore.try_acquire_many(u32::MAX).unwrap();
    let mut parked = Waiter::new(semaphore.acquire_many(u32::MAX));
    drop(parked.granted());
    assert_eq!(
        semaphore.available_permits(),
        Semaphore::MAX_PERMITS - u32::MAX as usize
    );
    drop(permit);
    assert_eq!(semaphore.available_permits(), Semaphore::MAX_PERMITS);
    assert_eq!(semaphore.waiting(), 0);
}

#[test]
fn an_owned_wait_keeps_its_semaphore_alive() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = Arc::clone(&semaphore).try_acquire_owned().unwrap();
    let mut parked = Waiter::parked(Arc::clone(&semaphore).acquire_owned());
    let observer = Arc::downgrade(&semaphore);
    drop(semaphore);

    drop(held);
    let permit = parked.granted();
    drop(parked);
    assert_eq!(observer.upgrade().unwrap().available_permits(), 0);
    drop(permit);
    assert!(observer.upgrade().is_none());
}

#[test]
fn an_owned_future_that_is_over_keeps_nothing_alive() {
    let semaphore = Arc::new(Semaphore::new(1));
    let mut granted = Waiter::new(Arc::clone(&semaphore).acquire_owned());
    drop(granted.granted());
    semaphore.close();
    let mut refused = Waiter::new(Arc::clone(&semaphore).acquire_owned());
    assert_eq!(refused.refused(), ErrorKind::Closed);
    assert_eq!(Arc::strong_count(&semaphore), 1);
}

#[test]
fn a_denial_says_what_it_knows_and_no_more() {
    let semaphore = Semaphore::new(1);
    let _held = semaphore.try_acquire().unwrap();
    let error = semaphore.try_acquire().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoPermits);
    assert_eq!(error.retry_after(), None);
    assert_eq!(error.capacity(), None);
    assert_eq!(error.part(), None);
    assert!(error.source().is_none());
    assert_eq!(error.clone(), error);
}

#[test]
fn every_denial_reads_as_one_lower_case_phrase() {
    let paused = Semaphore::new(1).max_waiters(0);
    let held = paused.try_acquire().unwrap();
    let closed = Semaphore::new(1);
    closed.close();
    let denials = [
        paused.try_acquire().unwrap_err(),
        paused.try_acquire_many(2).unwrap_err(),
        Waiter::new(paused.acquire()).output().unwrap_err(),
        closed.try_acquire().unwrap_err(),
    ];
    for denial in denials {
        let text = denial.to_string();
        assert!(text.starts_with(char::is_lowercase), "{text}");
        assert!(!text.ends_with('.'), "{text}");
    }
    drop(held);
}

#[test]
fn a_future_that_was_let_in_at_its_first_poll_never_joined() {
    let semaphore = Semaphore::new(1);
    let mut acquire = semaphore.acquire();
    let permit = poll_once(&mut acquire);
    assert!(permit.is_ready());
    assert_eq!(semaphore.waiting(), 0);
    drop(acquire);
    assert_eq!(semaphore.available_permits(), 0);
    drop(permit);
    assert_at_rest(&semaphore, 1);
}
