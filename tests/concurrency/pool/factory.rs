//! Items that are made when they are needed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tollgate::{Clock, Pool};

use super::tracked::{Item, Tally};
use crate::support::foreign::panic_message;
use crate::support::Waiter;

#[test]
fn an_item_is_made_by_the_thread_that_needs_it() {
    let makers = Arc::new(Mutex::new(Vec::new()));
    let pool = Pool::with_factory(2, {
        let makers = Arc::clone(&makers);
        move || makers.lock().unwrap().push(thread::current().id())
    });
    let here = pool.try_acquire().unwrap();
    let there = thread::scope(|scope| {
        let other = scope.spawn(|| {
            let _permit = pool.acquire().wait().unwrap();
            thread::current().id()
        });
        other.join().unwrap()
    });
    drop(here);
    assert_eq!(*makers.lock().unwrap(), [thread::current().id(), there]);
}

/// A pool whose factory panics as long as the flag says so.
struct Panicking {
    pool: Arc<Pool<Item>>,
    tally: Arc<Tally>,
    panics: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
}

impl Panicking {
    fn new(size: usize) -> Self {
        let tally = Arc::<Tally>::default();
        let panics = Arc::new(AtomicBool::new(true));
        let calls = Arc::<AtomicUsize>::default();
        let make = {
            let (tally, panics, calls) = (tally.clone(), panics.clone(), calls.clone());
            move || {
                calls.fetch_add(1, Ordering::SeqCst);
                assert!(!panics.load(Ordering::SeqCst), "out of items");
                tally.make()
            }
        };
        let pool = Arc::new(Pool::with_factory(size, make));
        Self {
            pool,
            tally,
            panics,
            calls,
        }
    }

    fn shared(&self) -> Arc<Pool<Item>> {
        Arc::clone(&self.pool)
    }
}

#[track_caller]
fn out_of_items<R>(run: impl FnOnce() -> R) {
    assert_eq!(panic_message(run).as_deref(), Some("out of items"));
}

#[test]
fn a_factory_that_panics_leaves_the_vacancy_to_the_next() {
    let panicking = Panicking::new(1);
    let mut waiter = Waiter::new(panicking.pool.acquire());
    let mut owned_waiter = Waiter::new(panicking.shared().acquire_owned());
    let calls: [&mut dyn FnMut(); 4] = [
        &mut || drop(panicking.pool.try_acquire()),
        &mut || drop(panicking.shared().try_acquire_owned()),
        &mut || drop(waiter.poll()),
        &mut || drop(owned_waiter.poll()),
    ];
    for call in calls {
        out_of_items(call);
        assert_eq!(panicking.pool.snapshot().available, 1);
    }
    assert_eq!(panicking.calls.load(Ordering::SeqCst), 4);
    // Those two waits are over, and do not keep the pool.
    for message in [
        panic_message(|| waiter.poll().is_ready()),
        panic_message(|| owned_waiter.poll().is_ready()),
    ] {
        assert_eq!(message.as_deref(), Some("polled again after it was ready"));
    }
    assert_eq!(Arc::strong_count(&panicking.pool), 1);
    panicking.panics.store(false, Ordering::SeqCst);
    assert_eq!(panicking.pool.try_acquire().unwrap().number, 0);
    assert_eq!((panicking.tally.made(), panicking.tally.dropped()), (1, 0));
}

/// The item of a holder that panics is spoilt, so a vacancy comes back.
#[test]
fn a_factory_that_panics_in_a_wait_wakes_the_next_one() {
    let panicking = Panicking::new(1);
    panicking.panics.store(false, Ordering::SeqCst);
    let (mut borrowed, mut owned, mut last) = (
        Waiter::new(panicking.pool.acquire()),
        Waiter::new(panicking.shared().acquire_owned()),
        Waiter::new(panicking.pool.acquire()),
    );
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _permit = panicking.pool.try_acquire().unwrap();
        assert!(borrowed.is_pending() && owned.is_pending() && last.is_pending());
        panic!("a holder that panics on purpose");
    }));
    assert!(panicked.is_err());
    panicking.panics.store(true, Ordering::SeqCst);
    assert!(borrowed.wakes() > 0);
    out_of_items(|| borrowed.poll());
    assert!(owned.wakes() > 0);
    out_of_items(|| owned.poll());
    assert!(last.wakes() > 0);
    panicking.panics.store(false, Ordering::SeqCst);
    assert_eq!(last.granted().number, 1);
    assert_eq!(
        (
            panicking.pool.snapshot().available,
            panicking.tally.dropped()
        ),
        (1, 1)
    );
}

/// No lock is held while an item is made.
#[test]
fn a_factory_may_use_the_pool() {
    let pool = Arc::new_cyclic(|weak: &std::sync::Weak<Pool<u64>>| {
        let weak = weak.clone();
        Pool::with_factory(3, move || {
            let pool = weak.upgrade().expect("it is in use");
            let left = pool.snapshot().available;
            // Makes all the others first, each by the one before it.
            if left > 0 {
                drop(pool.try_acquire().unwrap());
            }
            left
        })
    });
    let permit = pool.try_acquire().unwrap();
    assert_eq!((*permit, pool.snapshot().available), (2, 2));
    drop(permit);
    let permits: Vec<_> = (0..3).map(|_| pool.try_acquire().unwrap()).collect();
    let made: Vec<_> = permits.iter().map(|permit| **permit).collect();
    assert_eq!(made, [0, 1, 2]);
}

#[test]
fn idle_timeout_of_items_that_were_added_before_counts_from_the_first_return() {
    let clock = Clock::manual();
    let pool = Pool::with_factory(1, || 0);
    pool.add(1);
    pool.add(2);
    let pool = pool.idle_timeout(Duration::from_secs(10)).clock(&clock);
    let one = pool.try_acquire().unwrap();
    assert_eq!(*one, 1);
    drop(one);
    clock.advance(Duration::from_secs(9));
    let two = pool.try_acquire().unwrap();
    assert_eq!(*two, 2);
    drop(two);
    clock.advance(Duration::from_secs(5));
    // The first was idle for 14 s, the second for 5 s.
    assert_eq!(*pool.try_acquire().unwrap(), 2);
}
