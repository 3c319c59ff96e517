//! The semaphores of others as throttles of this crate, and ours that is a channel.
//!
//! What they have in common with every throttle is in `contracts/conformance/`. Here is how ours and
//! theirs wait in one queue, and what is true of one of them alone.

/// What is to be seen of both.
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
        fn a_limit_of_zero_waits_until_it_is_raised() {
            let semaphore = <$semaphore>::new(0);
            assert_eq!(kind((&semaphore).try_enter()), ErrorKind::NoPermits);
            let mut waiters = [(); 3].map(|()| Waiter::parked((&semaphore).enter()));
            semaphore.add_permits(2);
            let permits = [waiters[0].granted(), waiters[1].granted()];
            assert!(waiters[2].is_pending());
            // And lowered again, by what comes back.
            permits.into_iter().for_each(|permit| permit.forget());
            assert!(waiters[2].is_pending());
            semaphore.add_permits(1);
            drop(waiters[2].granted());
            let one = (&semaphore).try_enter().unwrap();
            assert!((&semaphore).try_enter().is_err());
            drop(one);
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

    /// How many permits can be had; unlike `available_permits`, by taking them.
    fn to_be_had(semaphore: &Semaphore) -> usize {
        std::iter::from_fn(|| semaphore.try_acquire())
            .collect::<Vec<_>>()
            .len()
    }

    /// A waiter is overtaken and runs while two permits come back: it finds one of them, and its
    /// notification of the other one must go on to the next in the queue, which sleeps otherwise.
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
                // Both permits came back, so by now nobody has to wait, if only it is woken.
                if entered.is_ready() {
                    assert!(next.wakes() > 0, "a permit is free, and somebody sleeps");
                    drop(next.granted());
                }
                drop((entered, newcomer));
            }
        });
    }

    /// The wait whose waker panicked is leaked: async-lock has lost count of it, which an overflow check
    /// finds in its drop.
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

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
            // What has come back is kept for the one in front.
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

    #[test]
    fn ours_and_its_own_on_threads_never_exceed_the_limit() {
        const LIMIT: usize = 2;
        let semaphore = Arc::new(Semaphore::new(LIMIT));
        let inside = AtomicUsize::new(0);
        let stay = || {
            let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
            assert!(now <= LIMIT, "too many are inside");
            thread::yield_now();
            inside.fetch_sub(1, Ordering::SeqCst);
        };
        thread::scope(|scope| {
            for number in 0..4 {
                let (semaphore, stay) = (&semaphore, &stay);
                scope.spawn(move || {
                    for _ in 0..300 {
                        match number {
                            0 => {
                                let _permit = (&**semaphore).enter().wait().unwrap();
                                stay();
                            }
                            1 => {
                                let _permit = semaphore.enter().wait().unwrap();
                                stay();
                            }
                            2 => {
                                let acquire = semaphore.acquire();
                                let _permit = futures::executor::block_on(acquire).unwrap();
                                stay();
                            }
                            // Is granted now and then while it leaves.
                            _ => drop(Waiter::new(semaphore.enter()).poll()),
                        }
                    }
                });
            }
        });
        assert_eq!(semaphore.available_permits(), LIMIT);
    }

    /// A thread that blocks drives no runtime, so it must not wait for a budget that only the runtime
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

/// What only a semaphore of a channel promises, in both directions of the channel.
///
/// What it has in common with every throttle is in `contracts/conformance/`.
#[cfg(feature = "channel")]
mod channel_semaphore {
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
}
