//! Acquiring: every verb, what each refuses, and what a refusal leaves behind.

use std::ops::Deref;
use std::sync::Arc;

use tollgate::{AcquireError, ErrorKind, Permit, Semaphore};

use crate::support::{Waiter, assert_at_rest, poll_once};

/// Asks for so many by every verb, one after the other. The count of each permit, which was taken
/// out of the semaphore, or why it was refused.
fn by_every_verb(semaphore: &Arc<Semaphore>, permits: u32) -> Vec<Result<usize, AcquireError>> {
    fn count<S: Deref<Target = Semaphore>>(
        permit: Permit<S>,
        free: usize,
        of: &Semaphore,
    ) -> usize {
        assert_eq!(of.available_permits(), free - permit.count());
        permit.count()
    }
    let (shared, free) = (|| Arc::clone(semaphore), semaphore.available_permits());
    macro_rules! counts {
        ($($asked:expr),+ $(,)?) => {
            vec![$($asked.map(|permit| count(permit, free, semaphore))),+]
        };
    }
    let mut results = counts![
        semaphore.try_acquire_many(permits),
        shared().cost_owned(permits).try_acquire(),
        Waiter::new(semaphore.acquire_many(permits)).output(),
        Waiter::new(shared().cost_owned(permits).acquire()).output(),
        semaphore.acquire_many(permits).wait(),
        shared().cost_owned(permits).acquire().wait(),
    ];
    if permits == 1 {
        results.extend(counts![
            semaphore.try_acquire(),
            shared().try_acquire_owned(),
            Waiter::new(semaphore.acquire()).output(),
            Waiter::new(shared().acquire_owned()).output(),
            semaphore.acquire().wait(),
            shared().acquire_owned().wait(),
        ]);
    }
    assert_eq!(semaphore.available_permits(), free);
    assert_eq!(Arc::strong_count(semaphore), 1);
    results
}

#[test]
fn every_verb_takes_what_it_says_and_dropping_gives_it_back() {
    let semaphore = Arc::new(Semaphore::new(8));
    for permits in [0, 1, 3, 8] {
        for taken in by_every_verb(&semaphore, permits) {
            assert_eq!(taken.unwrap(), permits as usize);
        }
    }
    assert_at_rest(&semaphore, 8);
}

#[test]
fn every_verb_refuses_more_than_the_limit_at_once() {
    let semaphore = Arc::new(Semaphore::new(2));
    let refuses = || {
        for permits in [3, u32::MAX] {
            for refused in by_every_verb(&semaphore, permits) {
                assert_eq!(refused, Err(AcquireError::exceeds_capacity(2)));
                assert_eq!(refused.unwrap_err().capacity(), Some(2));
            }
        }
    };
    refuses();
    // Also when nothing is free, and when somebody waits.
    let held = semaphore.try_acquire_many(2).unwrap();
    let waiting = Waiter::parked(semaphore.acquire());
    refuses();
    assert_eq!(semaphore.snapshot().waiting, 1);
    drop((waiting, held));
    assert_at_rest(&semaphore, 2);
}

#[test]
fn every_verb_is_refused_after_close_although_permits_are_free() {
    let semaphore = Arc::new(Semaphore::new(8));
    assert!(!semaphore.is_closed());
    semaphore.close();
    assert!(semaphore.is_closed());
    for permits in [0, 1, 8, 9] {
        for refused in by_every_verb(&semaphore, permits) {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Closed);
        }
    }
    assert_at_rest(&semaphore, 8);
}

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
