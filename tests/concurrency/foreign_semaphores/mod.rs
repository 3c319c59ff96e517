//! The semaphores of others as throttles of this crate.
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

#[cfg(feature = "async-lock")]
mod async_lock;
#[cfg(feature = "tokio")]
mod tokio;
