//! What is made of throttles, beside the same written out by hand: on one thread, with permits to
//! spare.
//!
//! By hand one semaphore is acquired after the other, and each answer goes through `black_box` by
//! itself, as it does in [`crate::ready`]; the answer of `all` is one, and goes through once.

use std::hint::black_box;
use std::sync::Arc;

use futures::executor::block_on;
use tollgate::{AcquireError, BoxThrottle, Semaphore, Throttle, all};

use crate::ready::LIMIT;

fn semaphores<const N: usize>() -> [Semaphore; N] {
    std::array::from_fn(|_| Semaphore::new(LIMIT))
}

/// `all` of two, tried.
pub fn try_all_of_two() -> impl FnMut(u64) + 'static {
    let [one, two] = semaphores();
    move |times| {
        let both = all((&one, &two));
        for _ in 0..times {
            let permits = black_box(black_box(&both).try_acquire());
            assert!(permits.is_ok(), "a permit of each is free");
        }
    }
}

/// One, and then the other.
pub fn try_two_by_hand() -> impl FnMut(u64) + 'static {
    let [one, two] = semaphores();
    move |times| {
        for _ in 0..times {
            let first = black_box(black_box(&one).try_acquire());
            assert!(first.is_ok(), "a permit is free");
            let second = black_box(black_box(&two).try_acquire());
            assert!(second.is_ok(), "a permit is free");
        }
    }
}

/// `all` of three, tried.
pub fn try_all_of_three() -> impl FnMut(u64) + 'static {
    let [one, two, three] = semaphores();
    move |times| {
        let together = all((&one, &two, &three));
        for _ in 0..times {
            let permits = black_box(black_box(&together).try_acquire());
            assert!(permits.is_ok(), "a permit of each is free");
        }
    }
}

/// One after the other.
pub fn try_three_by_hand() -> impl FnMut(u64) + 'static {
    let [one, two, three] = semaphores();
    move |times| {
        for _ in 0..times {
            let first = black_box(black_box(&one).try_acquire());
            assert!(first.is_ok(), "a permit is free");
            let second = black_box(black_box(&two).try_acquire());
            assert!(second.is_ok(), "a permit is free");
            let third = black_box(black_box(&three).try_acquire());
            assert!(third.is_ok(), "a permit is free");
        }
    }
}

/// `all` of two, awaited.
pub fn all_of_two() -> impl FnMut(u64) + 'static {
    let [one, two] = semaphores();
    move |times| {
        let both = all((&one, &two));
        block_on(async {
            for _ in 0..times {
                drop(black_box(black_box(&both).acquire().await));
            }
        });
    }
}

/// `let first = one.acquire().await?; let second = two.acquire().await?;`
pub fn two_by_hand() -> impl FnMut(u64) + 'static {
    let [one, two] = semaphores();
    move |times| {
        let done: Result<(), AcquireError> = block_on(async {
            for _ in 0..times {
                let _first = black_box(black_box(&one).acquire().await)?;
                let _second = black_box(black_box(&two).acquire().await)?;
            }
            Ok(())
        });
        done.expect("they are not closed");
    }
}

/// `all` of three, awaited.
pub fn all_of_three() -> impl FnMut(u64) + 'static {
    let [one, two, three] = semaphores();
    move |times| {
        let together = all((&one, &two, &three));
        block_on(async {
            for _ in 0..times {
                drop(black_box(black_box(&together).acquire().await));
            }
        });
    }
}

/// The same for three.
pub fn three_by_hand() -> impl FnMut(u64) + 'static {
    let [one, two, three] = semaphores();
    move |times| {
        let done: Result<(), AcquireError> = block_on(async {
            for _ in 0..times {
                let _first = black_box(black_box(&one).acquire().await)?;
                let _second = black_box(black_box(&two).acquire().await)?;
                let _third = black_box(black_box(&three).acquire().await)?;
            }
            Ok(())
        });
        done.expect("they are not closed");
    }
}

/// A throttle, entered by the trait.
pub fn enter<T: Throttle + 'static>(throttle: T) -> impl FnMut(u64) + 'static {
    move |times| {
        block_on(async {
            for _ in 0..times {
                drop(black_box(black_box(&throttle).enter().await));
            }
        });
    }
}

/// A shared semaphore, acquired by its own method: what a boxed throttle is put around.
pub fn acquire_owned() -> impl FnMut(u64) + 'static {
    let semaphore = Arc::new(Semaphore::new(LIMIT));
    move |times| {
        block_on(async {
            for _ in 0..times {
                let shared = Arc::clone(black_box(&semaphore));
                drop(black_box(shared.acquire_owned().await));
            }
        });
    }
}

/// The same behind a [`tollgate::BoxThrottle`].
pub fn enter_boxed() -> impl FnMut(u64) + 'static {
    enter(BoxThrottle::new(Arc::new(Semaphore::new(LIMIT))))
}

/// How much each entry of a [`tollgate::Cost`] asks for.
const COST: u32 = 3;

/// A weight that belongs to the throttle.
pub fn enter_with_cost() -> impl FnMut(u64) + 'static {
    enter(Arc::new(Semaphore::new(LIMIT)).cost_owned(COST))
}

/// The same weight that belongs to the call.
pub fn acquire_many() -> impl FnMut(u64) + 'static {
    let semaphore = Arc::new(Semaphore::new(LIMIT));
    move |times| {
        block_on(async {
            for _ in 0..times {
                let shared = Arc::clone(black_box(&semaphore));
                drop(black_box(shared.acquire_many(COST).await));
            }
        });
    }
}
