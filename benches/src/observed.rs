//! What an observed semaphore costs, on one thread and with permits to spare.

use std::hint::black_box;

use futures::executor::block_on;
use tollgate::Semaphore;
use tollgate_observe::{Holders, Observed, Observer};

use crate::ready::LIMIT;

/// `try_acquire` and drop, reported to an observer.
pub fn try_acquire<O: Observer + Clone + 'static>(observer: O) -> impl FnMut(u64) + 'static {
    let semaphore = Semaphore::new(LIMIT);
    move |times| {
        let observed = Observed::new(&semaphore, observer.clone());
        for _ in 0..times {
            let permit = black_box(&observed).try_acquire();
            assert!(black_box(permit).is_ok(), "a permit is free");
        }
    }
}

/// `acquire().await` and drop, reported to an observer.
pub fn acquire<O: Observer + Clone + 'static>(observer: O) -> impl FnMut(u64) + 'static {
    let semaphore = Semaphore::new(LIMIT);
    move |times| {
        let observed = Observed::new(&semaphore, observer.clone());
        block_on(async {
            for _ in 0..times {
                drop(black_box(black_box(&observed).acquire().await));
            }
        });
    }
}

/// A list of holders that lives as long as the program, so that a handle is a reference.
pub fn holders() -> &'static Holders {
    Box::leak(Box::new(Holders::new("bench")))
}
