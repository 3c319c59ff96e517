//! Closing: nobody is let in any more, nobody is left waiting, and every item is dropped once.

use std::sync::{Arc, Mutex, Weak};

use tollgate::{ErrorKind, Pool};

use crate::support::Waiter;

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
