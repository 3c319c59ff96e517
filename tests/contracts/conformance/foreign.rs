//! The semaphores of others, as throttles of ours.

use std::sync::Arc;

use super::subject::{Guarantees, Subject};

#[cfg(feature = "tokio")]
pub(crate) mod of_tokio {
    use tokio::sync::Semaphore;

    use super::*;

    pub(crate) struct BorrowedTokio;

    impl Subject for BorrowedTokio {
        type Throttle = &'static Semaphore;

        const GUARANTEES: Guarantees = Guarantees::ALL;

        fn with_limit(limit: usize) -> Self::Throttle {
            Box::leak(Box::new(Semaphore::new(limit)))
        }

        fn close(throttle: &Self::Throttle) {
            throttle.close();
        }
    }

    pub(crate) struct SharedTokio;

    impl Subject for SharedTokio {
        type Throttle = Arc<Semaphore>;

        const GUARANTEES: Guarantees = Guarantees::ALL;

        fn with_limit(limit: usize) -> Self::Throttle {
            Arc::new(Semaphore::new(limit))
        }

        fn close(throttle: &Self::Throttle) {
            throttle.close();
        }
    }
}

#[cfg(feature = "async-lock")]
pub(crate) mod of_async_lock {
    use async_lock::Semaphore;

    use super::*;

    const GUARANTEES: Guarantees = Guarantees {
        order: false,
        no_overtaking: false,
        wakes_each: false,
        closes: false,
        ..Guarantees::ALL
    };

    pub(crate) struct BorrowedAsyncLock;

    impl Subject for BorrowedAsyncLock {
        type Throttle = &'static Semaphore;

        const GUARANTEES: Guarantees = GUARANTEES;

        fn with_limit(limit: usize) -> Self::Throttle {
            Box::leak(Box::new(Semaphore::new(limit)))
        }

        fn close(_: &Self::Throttle) {
            unreachable!("it cannot be closed");
        }
    }

    pub(crate) struct SharedAsyncLock;

    impl Subject for SharedAsyncLock {
        type Throttle = Arc<Semaphore>;

        const GUARANTEES: Guarantees = GUARANTEES;

        fn with_limit(limit: usize) -> Self::Throttle {
            Arc::new(Semaphore::new(limit))
        }

        fn close(_: &Self::Throttle) {
            unreachable!("it cannot be closed");
        }
    }
}
