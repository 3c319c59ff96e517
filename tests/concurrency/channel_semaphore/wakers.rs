//! Wakers that panic when they are called: contained, so that the channel is not broken by them.

use tollgate::{ChannelSemaphore, ErrorKind};

use crate::support::foreign::panics_when_woken;
use crate::support::{Waiter, kind};

const BOTH: [fn(usize) -> ChannelSemaphore; 2] =
    [ChannelSemaphore::new, ChannelSemaphore::reversed];

/// Serves two, one after the other.
fn assert_unbroken(semaphore: &ChannelSemaphore) {
    let held = semaphore.try_acquire().unwrap();
    let mut later = Waiter::parked(semaphore.acquire());
    assert_eq!(semaphore.available_permits(), 0);
    drop(held);
    assert!(later.wakes() > 0);
    drop(later.granted());
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn permit_dropped_with_panicking_waker_serves_those_who_come_later() {
    for make in BOTH {
        let semaphore = make(1);
        let held = semaphore.try_acquire().unwrap();
        let mut panics = Waiter::new(semaphore.acquire());
        assert!(panics.poll_with(&panics_when_woken()).is_pending());
        drop(held);
        drop(panics);
        assert_unbroken(&semaphore);
    }
}

/// A panic inside a panic would end the process if it got out of the permit's drop.
#[test]
fn holder_that_panics_with_panicking_waker_gives_its_permit_back() {
    for make in BOTH {
        let semaphore = make(1);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _permit = semaphore.try_acquire().unwrap();
            let mut panics = Waiter::new(semaphore.acquire());
            assert!(panics.poll_with(&panics_when_woken()).is_pending());
            panic!("a holder that panics on purpose");
        }));
        assert!(panicked.is_err());
        assert_unbroken(&semaphore);
    }
}

#[test]
fn close_with_panicking_waker_wakes_all() {
    for make in BOTH {
        let semaphore = make(1);
        let held = semaphore.try_acquire().unwrap();
        let mut in_front = Waiter::parked(semaphore.acquire());
        let mut panics = Waiter::new(semaphore.acquire());
        assert!(panics.poll_with(&panics_when_woken()).is_pending());
        let mut behind = [(); 3].map(|()| Waiter::parked(semaphore.acquire()));
        semaphore.close();
        assert!(in_front.wakes() > 0);
        assert!(behind.iter().all(|waiter| waiter.wakes() > 0));
        assert_eq!(in_front.refused(), ErrorKind::Closed);
        assert_eq!(panics.refused(), ErrorKind::Closed);
        assert!(
            behind
                .iter_mut()
                .all(|waiter| waiter.refused() == ErrorKind::Closed)
        );
        assert_eq!(kind(semaphore.try_acquire()), ErrorKind::Closed);
        drop(held);
    }
}

/// The end of a wait wakes the next one.
#[test]
fn wait_that_ends_with_panicking_waker_behind_it_loses_nothing() {
    for (make, gives_up) in BOTH.into_iter().zip([false, true]) {
        let semaphore = make(1);
        let held = semaphore.try_acquire().unwrap();
        let mut woken = Waiter::parked(semaphore.acquire());
        let mut panics = Waiter::new(semaphore.acquire());
        assert!(panics.poll_with(&panics_when_woken()).is_pending());
        drop(held);
        if gives_up {
            drop(woken);
        } else {
            drop(woken.granted());
        }
        drop(panics);
        assert_unbroken(&semaphore);
    }
}
