//! What is owned: a permit keeps its throttle, a wait keeps it until it is over, however it ends, and
//! then no more, although the future is kept.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{ErrorKind, Pool, Semaphore};

use crate::support::Waiter;

macro_rules! owned {
    ($($(#[$attribute:meta])* $name:ident: $throttle:expr;)*) => {$(
        $(#[$attribute])*
        #[test]
        fn $name() {
            let throttle = Arc::new($throttle);
            let shared = || Arc::clone(&throttle);
            let held = shared().try_acquire_owned().unwrap();
            let mut granted = Waiter::parked(shared().acquire_owned());
            let mut closed = Waiter::parked(shared().acquire_owned());
            assert_eq!(Arc::strong_count(&throttle), 4);
            let mut timed_out = Waiter::new(shared().acquire_owned().timeout(Duration::ZERO));
            assert_eq!(timed_out.refused(), ErrorKind::TimedOut);
            assert!(shared().try_acquire_owned().is_err());
            drop((shared().acquire_owned(), Waiter::parked(shared().acquire_owned())));
            #[cfg(feature = "tokio")]
            let _cancelled = {
                let token = tokio_util::sync::CancellationToken::new();
                let wait = shared().acquire_owned().cancel_on(token.clone());
                let mut cancelled = Waiter::parked(wait);
                token.cancel();
                assert_eq!(cancelled.refused(), ErrorKind::Cancelled);
                cancelled
            };
            drop(held);
            let permit = granted.granted();
            throttle.close();
            assert_eq!(closed.refused(), ErrorKind::Closed);
            assert_eq!(Arc::strong_count(&throttle), 2);
            let observer = Arc::downgrade(&throttle);
            drop(throttle);
            assert!(observer.upgrade().is_some());
            drop(permit);
            assert!(observer.upgrade().is_none());
            drop((granted, closed, timed_out));
        }
    )*};
}

owned! {
    semaphore_lives_as_long_as_its_permits_and_waits: Semaphore::new(1);
    pool_lives_as_long_as_its_permits_and_waits: Pool::new([String::new()]);
    pool_with_a_factory_lives_as_long_as_its_permits_and_waits: Pool::with_factory(1, String::new);
    #[cfg(feature = "channel")]
    channel_lives_as_long_as_its_permits_and_waits: tollgate::ChannelSemaphore::new(1);
    #[cfg(feature = "channel")]
    reversed_channel_lives_as_long_as_its_permits_and_waits: tollgate::ChannelSemaphore::reversed(1);
}
