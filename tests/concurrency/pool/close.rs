//! Closing: nobody is let in any more, nobody is left waiting, and every item is dropped once.

use std::sync::{Arc, Mutex, Weak};

use tollgate::{ErrorKind, Pool};

use super::tracked::{made_to_order, ready_made};
use crate::support::Waiter;

#[test]
fn close_drops_idle_items_at_once_and_held_ones_with_their_permits() {
    let (pool, tally) = ready_made(4);
    let borrowed = pool.try_acquire().unwrap();
    let owned = Arc::clone(&pool).try_acquire_owned().unwrap();
    assert!(!pool.is_closed());
    pool.close();
    assert!(pool.is_closed());
    let snapshot = pool.snapshot();
    assert_eq!(
        (snapshot.in_use, snapshot.limit, tally.dropped()),
        (2, 4, 2)
    );
    assert_eq!((borrowed.number, owned.number), (0, 1));
    drop(borrowed);
    assert_eq!((pool.snapshot().in_use, tally.dropped()), (1, 3));
    pool.close();
    drop(owned);
    assert_eq!((pool.snapshot().in_use, tally.dropped()), (0, 4));
    drop(pool);
    assert_eq!(tally.dropped(), 4);
}

/// Nobody is let in after the close, not even a waiter that had been woken for an item before.
#[test]
fn close_refuses_a_waiter_that_was_woken_and_has_not_run() {
    for (pool, tally) in [ready_made(2), made_to_order(2)] {
        let held = [pool.try_acquire().unwrap(), pool.try_acquire().unwrap()];
        let mut borrowed = Waiter::parked(pool.acquire());
        let mut owned = Waiter::parked(Arc::clone(&pool).acquire_owned());
        drop(held);
        assert!(borrowed.wakes() > 0 && owned.wakes() > 0);
        pool.close();
        assert_eq!(tally.dropped(), 2);
        assert_eq!(borrowed.refused(), ErrorKind::Closed);
        assert_eq!(owned.refused(), ErrorKind::Closed);
        assert_eq!(tally.made(), 2);
    }
}

/// An item may do anything when it is dropped: no lock is held.
#[test]
fn an_item_that_is_dropped_by_close_may_use_the_pool() {
    struct Caller {
        pool: Arc<Mutex<Weak<Pool<Self>>>>,
        seen: Arc<Mutex<Vec<ErrorKind>>>,
    }

    impl Drop for Caller {
        fn drop(&mut self) {
            let pool = self.pool.lock().unwrap().upgrade();
            let pool = pool.expect("it is being closed");
            let refused = pool.try_acquire().err().unwrap().kind();
            self.seen.lock().unwrap().push(refused);
            pool.close();
        }
    }

    let (way, seen) = (Arc::<Mutex<Weak<_>>>::default(), Arc::default());
    let caller = || Caller {
        pool: Arc::clone(&way),
        seen: Arc::clone(&seen),
    };
    let pool = Arc::new(Pool::new([caller(), caller(), caller()]));
    *way.lock().unwrap() = Arc::downgrade(&pool);
    let held = pool.try_acquire().ok().unwrap();
    pool.close();
    assert_eq!(*seen.lock().unwrap(), [ErrorKind::Closed; 2]);
    drop(held);
    assert_eq!(*seen.lock().unwrap(), [ErrorKind::Closed; 3]);
}

/// What the first item that is dropped does.
type Once = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Calls back when it is dropped.
struct Calls(Once);

impl Drop for Calls {
    fn drop(&mut self) {
        let call = self.0.lock().unwrap().take();
        if let Some(call) = call {
            call();
        }
    }
}

/// Between the close and the drop of the last idle item somebody who had been woken for it can find
/// it, and is not let in.
#[test]
fn a_waiter_that_runs_in_the_midst_of_close_is_refused() {
    for owned in [false, true] {
        let once = Once::default();
        let pool = Arc::new(Pool::new([(); 2].map(|()| Calls(Arc::clone(&once)))));
        let held = [pool.try_acquire(), pool.try_acquire()].map(|item| item.ok().unwrap());
        let (woken_first, mut woken) = (
            Waiter::parked(Arc::clone(&pool).acquire_owned()),
            Waiter::parked(Arc::clone(&pool).acquire_owned()),
        );
        drop(held);
        assert!(woken_first.wakes() > 0 && woken.wakes() > 0);
        let seen = Arc::<Mutex<Vec<ErrorKind>>>::default();
        let run = {
            let (pool, seen) = (Arc::downgrade(&pool), Arc::clone(&seen));
            move || {
                let pool = pool.upgrade().expect("it is being closed");
                let refused = if owned {
                    woken.output().err()
                } else {
                    Waiter::new(pool.acquire()).output().err()
                };
                seen.lock()
                    .unwrap()
                    .extend(refused.map(|error| error.kind()));
            }
        };
        *once.lock().unwrap() = Some(Box::new(run));
        pool.close();
        assert_eq!(*seen.lock().unwrap(), [ErrorKind::Closed]);
    }
}
