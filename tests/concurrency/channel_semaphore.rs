//! What only a semaphore of a channel promises, in both directions of the channel.
//!
//! What it has in common with every throttle is in `contracts/conformance/`.

use std::mem;
use std::sync::Arc;

use tollgate::{ChannelSemaphore, ErrorKind};

use crate::support::{Waiter, kind};

const BOTH: [fn(usize) -> ChannelSemaphore; 2] =
    [ChannelSemaphore::new, ChannelSemaphore::reversed];

#[test]
fn every_verb_takes_one_permit() {
    for make in BOTH {
        let semaphore = Arc::new(make(4));
        let shared = || Arc::clone(&semaphore);
        let seen = || (semaphore.snapshot().available, semaphore.snapshot().limit);
        let borrowed = semaphore.try_acquire().unwrap();
        assert_eq!(seen(), (3, 4));
        let waited = Waiter::new(semaphore.acquire()).granted();
        assert_eq!(seen(), (2, 4));
        let owned = shared().try_acquire_owned().unwrap();
        assert_eq!(seen(), (1, 4));
        let owned_waited = Waiter::new(shared().acquire_owned()).granted();
        assert_eq!(seen(), (0, 4));
        assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
        assert_eq!(kind(shared().try_acquire_owned()), ErrorKind::NoPermits);
        assert!(std::ptr::eq(borrowed.semaphore(), &*semaphore));
        assert!(Arc::ptr_eq(owned.semaphore(), &semaphore));
        // It does not matter in which order they come back.
        drop((owned, waited));
        assert_eq!(seen(), (2, 4));
        drop((owned_waited, borrowed));
        assert_eq!(seen(), (4, 4));
    }
}

#[test]
fn a_leaked_permit_lowers_the_limit_by_one_and_no_more() {
    for make in BOTH {
        let semaphore = Arc::new(make(3));
        mem::forget(semaphore.try_acquire().unwrap());
        mem::forget(Arc::clone(&semaphore).try_acquire_owned().unwrap());
        assert_eq!(
            (semaphore.snapshot().available, semaphore.snapshot().limit),
            (1, 3)
        );
        for _ in 0..5 {
            let _permit = semaphore.try_acquire().unwrap();
            assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
        }
    }
}

/// Permits that are out stay valid and come back. Nobody is let in, not even a waiter that had been
/// woken for a place before, and no place is lost either.
#[test]
fn permits_come_back_after_close_and_serve_nobody() {
    for make in BOTH {
        let semaphore = Arc::new(make(4));
        let borrowed = semaphore.try_acquire().unwrap();
        let owned = Arc::clone(&semaphore).try_acquire_owned().unwrap();
        let others = [(); 2].map(|()| semaphore.try_acquire().unwrap());
        let mut woken = Waiter::parked(semaphore.acquire());
        drop(others);
        assert!(woken.wakes() > 0 && !semaphore.is_closed());
        semaphore.close();
        assert!(semaphore.is_closed());
        assert_eq!(woken.refused(), ErrorKind::Closed);
        assert_eq!(semaphore.snapshot().available, 2);
        drop(borrowed);
        assert_eq!(semaphore.snapshot().available, 3);
        drop(owned);
        assert_eq!(
            (semaphore.snapshot().available, semaphore.snapshot().limit),
            (4, 4)
        );
        assert_eq!(kind(semaphore.try_acquire()), ErrorKind::Closed);
        assert_eq!(semaphore.snapshot().available, 4);
    }
}

#[test]
fn debug_shows_what_can_be_observed() {
    for make in BOTH {
        let semaphore = make(2);
        let permit = semaphore.try_acquire().unwrap();
        let text = format!("{semaphore:?}");
        assert_eq!(
            text,
            "ChannelSemaphore { permits: 2, available_permits: 1, closed: false, .. }"
        );
        assert_eq!(
            format!("{permit:?}"),
            format!("Permit {{ count: 1, semaphore: {text} }}")
        );
        assert_eq!(format!("{:?}", semaphore.acquire()), "Acquire { .. }");
        semaphore.close();
        assert!(format!("{semaphore:?}").contains("closed: true"));
    }
}
