//! The semaphores of others, as throttles of ours.

use super::subject::{Guarantees, Subject, both, subject};

#[cfg(feature = "tokio")]
pub(crate) mod of_tokio {
    use tokio::sync::Semaphore;

    use super::*;

    const GUARANTEES: Guarantees = Guarantees {
        contains_panics: false,
        ..Guarantees::ALL
    };

    both!(BorrowedTokio, SharedTokio, Semaphore, GUARANTEES, |limit| {
        Semaphore::new(limit)
    });
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
        contains_panics: false,
        wakes_outside_locks: false,
        ..Guarantees::ALL
    };

    both!(
        BorrowedAsyncLock,
        SharedAsyncLock,
        Semaphore,
        GUARANTEES,
        |limit| Semaphore::new(limit),
        |_| unreachable!("it cannot be closed")
    );
}
