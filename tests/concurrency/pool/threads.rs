//! Items on threads: each is held by one at a time, and none is lost or made up.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use tollgate::{ErrorKind, Pool};

use super::{made_to_order, ready_made};
use crate::support::Waiter;
use crate::support::random::Random;

const SIZE: usize = 3;
const THREADS: u64 = 5;

/// An item that notices a second holder.
struct Exclusive {
    held: AtomicBool,
    /// Only its holder changes it.
    uses: usize,
}

#[test]
fn an_item_has_one_holder_at_a_time() {
    let items = (0..SIZE).map(|_| Exclusive {
        held: AtomicBool::new(false),
        uses: 0,
    });
    let pool = Arc::new(Pool::new(items));
    let total = AtomicUsize::new(0);
    let hold = |item: &mut Exclusive| {
        assert!(!item.held.swap(true, Ordering::Relaxed), "held twice");
        item.uses += 1;
        thread::yield_now();
        assert!(item.held.swap(false, Ordering::Relaxed));
        total.fetch_add(1, Ordering::Relaxed);
    };
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let (pool, hold) = (&pool, &hold);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                for _ in 0..400 {
                    match random.below(5) {
                        0 => {
                            if let Ok(mut permit) = pool.try_acquire() {
                                hold(&mut permit);
                            }
                        }
                        1 => drop(Waiter::new(pool.acquire()).poll()),
                        2 => drop(Waiter::new(Arc::clone(pool).acquire_owned()).poll()),
                        3 => {
                            let owned = Arc::clone(pool).acquire_owned().wait();
                            hold(&mut owned.ok().unwrap());
                        }
                        _ => hold(&mut pool.acquire().wait().ok().unwrap()),
                    }
                }
            });
        }
    });
    assert_eq!(
        (pool.snapshot().available, Arc::strong_count(&pool)),
        (SIZE as u64, 1)
    );
    let permits: Vec<_> = (0..SIZE)
        .map(|_| pool.try_acquire().ok().unwrap())
        .collect();
    let uses: usize = permits.iter().map(|permit| permit.uses).sum();
    assert_eq!(uses, total.into_inner());
}

#[test]
fn nobody_ever_sees_an_item_that_saw_a_panic() {
    let (pool, tally) = made_to_order(SIZE);
    let panics = AtomicUsize::new(0);
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let (pool, panics) = (&pool, &panics);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                for _ in 0..40 {
                    let mut permit = pool.acquire().wait().unwrap();
                    assert!(!permit.spoilt);
                    if random.below(3) > 0 {
                        continue;
                    }
                    panics.fetch_add(1, Ordering::Relaxed);
                    let panicked = catch_unwind(AssertUnwindSafe(move || {
                        permit.spoilt = true;
                        panic!("a holder that panics on purpose");
                    }));
                    assert!(panicked.is_err());
                }
            });
        }
    });
    let panics = panics.into_inner();
    assert!(panics > 0);
    assert_eq!(
        (pool.snapshot().available, tally.dropped()),
        (SIZE as u64, panics)
    );
    assert!(tally.made() <= SIZE + panics);
    pool.close();
    assert_eq!(tally.dropped(), tally.made());
}

#[test]
fn close_among_threads_drops_each_item_once_and_ends_every_wait() {
    for round in 0..100 {
        let (pool, tally) = if round % 2 == 0 {
            ready_made(SIZE)
        } else {
            made_to_order(SIZE)
        };
        let entered = AtomicUsize::new(0);
        thread::scope(|scope| {
            for seed in 0..THREADS {
                let (pool, entered) = (&pool, &entered);
                scope.spawn(move || {
                    let mut random = Random::new(round * THREADS + seed);
                    loop {
                        let refused = match random.below(3) {
                            0 => pool.try_acquire().err(),
                            1 => pool.acquire().wait().err(),
                            _ => Arc::clone(pool).acquire_owned().wait().err(),
                        };
                        match refused.map(|error| error.kind()) {
                            None => drop(entered.fetch_add(1, Ordering::Relaxed)),
                            Some(ErrorKind::NoPermits) => thread::yield_now(),
                            Some(kind) => return assert_eq!(kind, ErrorKind::Closed),
                        }
                    }
                });
            }
            while entered.load(Ordering::Relaxed) < 5 {
                thread::yield_now();
            }
            pool.close();
            assert!(pool.try_acquire().is_err());
        });
        // All of them, although the pool itself is still there.
        assert_eq!((pool.snapshot().in_use, tally.dropped()), (0, tally.made()));
        assert_eq!(Arc::strong_count(&pool), 1);
    }
}
