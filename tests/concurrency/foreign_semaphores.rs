//! Semaphores of other crates as throttles of this crate, and ours that is a channel.
//!
//! Their common properties are checked in `contracts/conformance/`; sequences of calls, a limit of 0, and
//! added and forgotten permits are rows of `model/scenarios.rs`. Here: waits of ours and theirs in one queue,
//! and properties of single types.

/// The observable state of both.
#[cfg(any(feature = "tokio", feature = "async-lock"))]
macro_rules! of_both {
    ($semaphore:ty, $borrowed:literal, $owned:literal) => {
        #[test]
        fn ours_and_its_own_wait_in_one_queue() {
            let semaphore = <$semaphore>::new(1);
            let held = (&semaphore).try_enter().unwrap();
            let mut ours = Waiter::parked((&semaphore).enter());
            let mut its_own = Waiter::parked(semaphore.acquire());
            let mut last = Waiter::parked((&semaphore).enter());
            drop(held);
            assert!(ours.wakes() > 0 && its_own.wakes() == 0 && last.wakes() == 0);
            drop(ours.granted());
            let permit = its_own.output();
            drop(its_own);
            assert_eq!(kind((&semaphore).try_enter()), ErrorKind::NoPermits);
            drop(permit);
            drop(last.granted());
            drop((&semaphore).try_enter().unwrap());
        }

        #[test]
        fn debug_names_the_waits() {
            let semaphore = std::sync::Arc::new(<$semaphore>::new(1));
            assert_eq!(format!("{:?}", (&*semaphore).enter()), $borrowed);
            assert_eq!(format!("{:?}", semaphore.enter()), $owned);
        }
    };
}

/// async-lock's semaphore.
#[cfg(feature = "async-lock")]
mod async_lock {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, mpsc};
    use std::task::Poll;
    use std::thread;

    use async_lock::Semaphore;
    use tollgate::{ErrorKind, Throttle, TryThrottle};

    use crate::support::foreign::{panic_message, panics_when_woken};
    use crate::support::{Waiter, kind};

    of_both!(Semaphore, "EnterForeign { .. }", "EnterForeign { .. }");

    /// Returns how many permits can be taken; unlike `available_permits`, by taking them.
    fn to_be_had(semaphore: &Semaphore) -> usize {
        std::iter::from_fn(|| semaphore.try_acquire())
            .collect::<Vec<_>>()
            .len()
    }

    /// A waiter is overtaken and runs while two permits come back: it finds one of them, and its
    /// notification about the other must pass to the next waiter, which sleeps otherwise.
    #[test]
    fn two_that_come_back_while_an_overtaken_one_runs_let_two_in() {
        let (runs, to_run) = mpsc::sync_channel(1);
        let (ran, done) = mpsc::sync_channel(1);
        let together = AtomicUsize::new(0);
        let meet = || {
            together.fetch_add(1, Ordering::SeqCst);
            for spins in 0.. {
                if together.load(Ordering::SeqCst).is_multiple_of(2) {
                    break;
                }
                // Most often the other one is about to come.
                match spins {
                    0..1_000 => std::hint::spin_loop(),
                    _ => thread::yield_now(),
                }
            }
        };
        thread::scope(|scope| {
            let runs = runs;
            scope.spawn(move || {
                for mut waiter in to_run {
                    let waiter: &mut Waiter<_> = &mut waiter;
                    meet();
                    let entered: Poll<Result<_, _>> = waiter.poll();
                    ran.send(entered).unwrap();
                }
            });
            for _ in 0..20_000 {
                let semaphore = Arc::new(Semaphore::new(3));
                let mut held: Vec<_> = (0..3).map(|_| semaphore.try_enter().unwrap()).collect();
                let overtaken = Waiter::parked(semaphore.enter());
                let mut next = Waiter::parked(semaphore.enter());
                held.pop();
                let newcomer = semaphore.try_enter().unwrap();
                runs.send(overtaken).unwrap();
                meet();
                drop(held);
                let entered = done.recv().unwrap();
                // Both permits came back, so by now every waiter can finish if it is woken.
                if entered.is_ready() {
                    assert!(next.wakes() > 0, "a permit is free, and somebody sleeps");
                    drop(next.granted());
                }
                drop((entered, newcomer));
            }
        });
    }

    /// The test leaks the wait whose waker panicked: async-lock has lost count of it, which an overflow
    /// check finds in its drop.
    #[test]
    fn a_waker_that_panics_goes_on_unwinding() {
        let semaphore = Semaphore::new(1);
        let held = (&semaphore).try_enter().unwrap();
        let mut panics = Waiter::new((&semaphore).enter());
        assert!(panics.poll_with(&panics_when_woken()).is_pending());
        std::mem::forget(panics.into_future());
        let message = panic_message(|| drop(held));
        assert_eq!(message.as_deref(), Some("a waker that panics on purpose"));
        assert_eq!(to_be_had(&semaphore), 1);
    }
}

/// tokio's semaphore.
#[cfg(feature = "tokio")]
mod tokio {
    use std::sync::Arc;

    use tokio::sync::Semaphore;
    use tollgate::{ErrorKind, Throttle, TryThrottle};

    use crate::support::foreign::{panic_message, panics_when_woken};
    use crate::support::{Waiter, kind};

    of_both!(Semaphore, "EnterForeign { .. }", "EnterForeign { .. }");

    #[test]
    fn one_of_its_own_that_asks_for_many_is_not_overtaken() {
        let semaphore = Arc::new(Semaphore::new(3));
        let mut held = semaphore.try_acquire_many(3).unwrap();
        let mut many = Waiter::parked(semaphore.acquire_many(3));
        let mut behind = Waiter::parked((&*semaphore).enter());
        let mut owned_behind = Waiter::parked(semaphore.enter());
        for _ in 0..2 {
            drop(held.split(1));
            // The returned permit is reserved for the head.
            assert_eq!(kind((&*semaphore).try_enter()), ErrorKind::NoPermits);
            assert_eq!(kind(semaphore.try_enter()), ErrorKind::NoPermits);
            let mut newcomer = Waiter::parked((&*semaphore).enter());
            assert!(newcomer.is_pending() && behind.is_pending() && owned_behind.is_pending());
            assert!(many.is_pending());
        }
        drop(held);
        let three = many.output().unwrap();
        assert!(behind.is_pending());
        drop(three);
        drop((behind.granted(), owned_behind.granted()));
        assert_eq!(semaphore.available_permits(), 3);
    }

    #[test]
    fn a_waker_that_panics_goes_on_unwinding_and_loses_nothing() {
        let semaphore = Semaphore::new(1);
        let held = (&semaphore).try_enter().unwrap();
        let mut panics = Waiter::new((&semaphore).enter());
        assert!(panics.poll_with(&panics_when_woken()).is_pending());
        let mut next = Waiter::parked((&semaphore).enter());
        let message = panic_message(|| drop(held));
        assert_eq!(message.as_deref(), Some("a waker that panics on purpose"));
        drop(panics.granted());
        drop(next.granted());
        assert_eq!(semaphore.available_permits(), 1);
    }

    /// A blocked thread drives no runtime, so it must not wait for a budget that only the runtime
    /// renews.
    #[::tokio::test]
    async fn a_task_without_budget_can_block_for_a_permit() {
        let semaphore = Semaphore::new(1);
        let held = (&semaphore).try_enter().unwrap();
        let mut enter = Box::pin((&semaphore).enter());
        assert!(futures::poll!(&mut enter).is_pending());
        drop(held);
        let other = Semaphore::new(1);
        while futures::poll!(Box::pin(other.acquire())).is_ready() {}
        assert!(futures::executor::block_on(enter).is_ok());
    }
}

/// A waiter that had been woken for a slot before a close is refused, and no slot is lost, in both
/// directions of the channel.
#[cfg(feature = "channel")]
#[test]
fn channel_that_is_closed_refuses_a_waiter_that_was_woken() {
    use tollgate::{ChannelSemaphore, ErrorKind};

    use crate::support::Waiter;

    for make in [ChannelSemaphore::new, ChannelSemaphore::reversed] {
        let semaphore = make(2);
        let held = [(); 2].map(|()| semaphore.try_acquire().unwrap());
        let mut woken = Waiter::parked(semaphore.acquire());
        let [back, held] = held;
        drop(back);
        assert!(woken.wakes() > 0);
        semaphore.close();
        assert_eq!(woken.refused(), ErrorKind::Closed);
        assert_eq!(semaphore.snapshot().available, 1);
        drop(held);
        assert_eq!(semaphore.snapshot().available, 2);
    }
}
