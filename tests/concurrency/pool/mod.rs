//! The promises of a pool. Sequences of calls are rows of [`model`]. Here: access to items, their checks, failures
//! to make them, panics, and uses of the pool while items are dropped; factories are in [`factory`].
//!
//! Its common properties are checked in `contracts/conformance/`.

use std::cell::Cell;
use std::error::Error;
use std::future::{pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use std::{fmt, io};

use tollgate::{AcquireError, ErrorKind, Pool, all};

use crate::support::Waiter;
use crate::support::foreign::{calls_when_woken, panic_message};

mod factory;
mod model;

/// The counts of made and dropped items.
#[derive(Default)]
pub(crate) struct Tally {
    made: AtomicUsize,
    dropped: AtomicUsize,
}

impl Tally {
    pub(crate) fn made(&self) -> usize {
        self.made.load(Ordering::SeqCst)
    }

    pub(crate) fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }

    /// Makes the next item; items are numbered from 0.
    pub(crate) fn make(self: &Arc<Self>) -> Item {
        Item {
            number: self.made.fetch_add(1, Ordering::SeqCst),
            uses: 0,
            spoilt: false,
            tally: Arc::clone(self),
        }
    }
}

/// An item, neither `Clone` nor `Default`.
pub(crate) struct Item {
    pub(crate) number: usize,
    pub(crate) uses: usize,
    /// Set by a holder that is about to panic.
    pub(crate) spoilt: bool,
    tally: Arc<Tally>,
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Item {}", self.number)
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        self.tally.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// Returns a pool of this many vacancies.
pub(crate) fn made_to_order(size: usize) -> (Arc<Pool<Item>>, Arc<Tally>) {
    let tally = Arc::<Tally>::default();
    let pool = Pool::with_factory(size, {
        let tally = Arc::clone(&tally);
        move || tally.make()
    });
    (Arc::new(pool), tally)
}

#[test]
fn a_permit_is_its_item() {
    let pool = Pool::new([String::from("one")]);
    let mut permit = pool.try_acquire().unwrap();
    assert_eq!(*permit, "one");
    assert_eq!(permit.len(), 3);
    permit.push_str(" more");
    drop(permit);
    // The next holder sees the changes of the last one.
    let pool = Arc::new(pool);
    let mut owned = Arc::clone(&pool).try_acquire_owned().unwrap();
    assert_eq!(*owned, "one more");
    owned.push_str(" and more");
    assert!(std::ptr::eq(owned.pool(), &*pool));
    drop(owned);
    let permit = pool.try_acquire().unwrap();
    assert!(std::ptr::eq(permit.pool(), &*pool));
    assert_eq!(*permit, "one more and more");
}

/// Neither `Clone`, `Default` and `Debug`, nor `Send` and `Sync`.
struct Unwieldy(Rc<Cell<usize>>);

#[test]
#[allow(clippy::arc_with_non_send_sync, reason = "that is what is tried")]
fn items_need_no_traits() {
    let count = Rc::new(Cell::new(0));
    let pool = Arc::new(Pool::new([Unwieldy(Rc::clone(&count))]));
    let held = pool.try_acquire().ok().unwrap();
    let mut waiter = Waiter::parked(pool.acquire());
    held.0.set(held.0.get() + 1);
    drop(held);
    let Ok(permit) = waiter.output() else {
        panic!("refused");
    };
    permit.0.set(permit.0.get() + 1);
    drop((permit, waiter));
    // Without `Send` an owned permit is possible, but no wait for it.
    let owned = Arc::clone(&pool).try_acquire_owned().ok().unwrap();
    owned.0.set(owned.0.get() + 1);
    drop((owned, pool));
    assert_eq!((count.get(), Rc::strong_count(&count)), (3, 1));
}

#[test]
fn items_may_borrow() {
    let words = [String::from("one"), String::from("another")];
    let pool = Pool::new(words.iter().map(String::as_str));
    assert_eq!(*pool.try_acquire().unwrap(), "one");
    let made = Pool::with_factory(1, || "a literal");
    assert_eq!(*made.try_acquire().unwrap(), "a literal");
}

#[test]
fn debug_shows_what_can_be_observed() {
    let pool = Pool::new([7, 8]);
    let permit = pool.try_acquire().unwrap();
    let text = format!("{pool:?}");
    assert_eq!(text, "Pool { size: 2, available: 1, closed: false, .. }");
    let expected = format!("Permit {{ item: 7, pool: {text} }}");
    assert_eq!(format!("{permit:?}"), expected);
    assert_eq!(
        format!("{:?}", pool.acquire()),
        "Acquire { permits: 1, queued: false, .. }"
    );
    pool.close();
    let closed = "Pool { size: 2, available: 1, closed: true, .. }";
    assert_eq!(format!("{pool:?}"), closed);
}

#[test]
fn a_permit_that_outlives_a_panic_keeps_its_item() {
    let (pool, tally) = made_to_order(1);
    let mut permit = pool.try_acquire().unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        permit.uses += 1;
        panic!("while the item is only borrowed");
    }));
    assert!(panicked.is_err());
    drop(permit);
    assert_eq!(pool.try_acquire().unwrap().uses, 1);
    assert_eq!(tally.dropped(), 0);
}

/// An item whose destructor panics while the flag is set.
struct Fragile(Arc<AtomicBool>);

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(!self.0.load(Ordering::SeqCst), "a destructor that panics");
    }
}

#[test]
fn acquire_dropped_after_grant_and_shrink_contains_the_panic_of_the_item() {
    let panics = Arc::new(AtomicBool::new(false));
    let pool = Pool::new([(); 2].map(|()| Fragile(Arc::clone(&panics))));
    let (first, second) = (pool.try_acquire().unwrap(), pool.try_acquire().unwrap());
    let granted = Waiter::parked(pool.acquire());
    drop(first);
    pool.set_size(1);
    panics.store(true, Ordering::SeqCst);
    // It had been granted the item that is now one too many.
    drop(granted);
    panics.store(false, Ordering::SeqCst);
    assert_eq!((pool.snapshot().limit, pool.snapshot().available), (1, 0));
    drop(second);
    assert_eq!(pool.snapshot().available, 1);
}

/// An item's drop may do anything: no lock is held.
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

/// The action of the first item that is dropped.
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

/// Between the close and the drop of the last idle item, a waiter that had been woken for the item
/// can find it, and is refused.
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

const MINUTE: Duration = Duration::from_secs(60);

/// A failure with a number, which its text leaves out.
#[derive(Debug)]
struct Refused(usize);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody answers")
    }
}

impl Error for Refused {}

#[test]
fn source_of_a_failed_factory_has_the_type_that_the_factory_gave() {
    let calls = AtomicUsize::new(0);
    let pool = Pool::<()>::with_async_factory(1, move || {
        ready(Err(Refused(calls.fetch_add(1, Ordering::SeqCst))))
    });
    let refused = || Waiter::new(pool.acquire()).output().unwrap_err();
    let (first, second) = (refused(), refused());
    assert_eq!(first.kind(), ErrorKind::Store);
    assert_eq!(first.to_string(), "the store failed: nobody answers");
    let number = |error: &AcquireError| {
        let source = error.source().and_then(|source| source.downcast_ref());
        source.map(|Refused(number)| *number)
    };
    // The pool keeps one of each type and text.
    assert_eq!((number(&first), number(&second)), (Some(0), Some(0)));
    assert_eq!(first, second);

    // Another type with the same text, inside a composition.
    let pool = Pool::<()>::with_async_factory(1, || ready(Err(io::Error::other(Refused(7)))));
    let error = Waiter::new(all((&pool,)).acquire()).output().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the store failed: nobody answers (part 0)"
    );
    let source: &io::Error = error.source().unwrap().downcast_ref().unwrap();
    assert_eq!(source.kind(), io::ErrorKind::Other);
    assert_eq!(number(&error), None);
}

#[test]
fn acquire_error_of_a_factory_is_returned_as_it_is() {
    let refused = || AcquireError::limited(MINUTE).marked(3);
    let pool = Pool::<()>::with_async_factory(1, move || ready(Err(refused())));
    let error = Waiter::new(pool.acquire()).output().unwrap_err();
    assert_eq!(error, refused());
    assert!(error.source().is_none());
}

/// Returns a pool of one item, whose factory does not wait, and the counts of its items.
fn checked(passes: impl Fn(&Item) -> bool + Send + Sync + 'static) -> (Pool<Item>, Arc<Tally>) {
    let tally = Arc::<Tally>::default();
    let made = Arc::clone(&tally);
    let pool = Pool::with_async_factory(1, move || ready(Ok::<_, io::Error>(made.make())));
    let check = move |item: Item| ready(Some(item).filter(|item| passes(item)));
    (pool.check_on_take(check), tally)
}

#[test]
fn drop_of_a_wait_during_a_check_drops_the_item_and_passes_the_place_on() {
    let hangs = Arc::new(AtomicBool::new(true));
    let hanging = Arc::clone(&hangs);
    let tally = Arc::<Tally>::default();
    let made = Arc::clone(&tally);
    let pool = Pool::with_factory(1, move || made.make()).check_on_take(move |item: Item| {
        let hangs = hanging.load(Ordering::SeqCst);
        async move {
            if hangs {
                pending::<()>().await;
            }
            Some(item)
        }
    });
    drop(Waiter::new(pool.acquire()).granted());
    let checking = Waiter::parked(pool.acquire());
    let mut next = Waiter::parked(pool.acquire());
    drop(checking);
    assert_eq!((tally.dropped(), next.wakes()), (1, 1));
    assert_eq!(next.granted().number, 1);
    hangs.store(false, Ordering::SeqCst);
    assert_eq!(Waiter::new(pool.acquire()).granted().number, 1);
}

#[test]
fn check_on_take_that_panics_gives_the_place_back() {
    let (pool, tally) = checked(|item| {
        if item.spoilt {
            panic!("a check that panics")
        } else {
            true
        }
    });
    Waiter::new(pool.acquire()).granted().spoilt = true;
    let mut waiter = Waiter::new(pool.acquire());
    let message = panic_message(|| drop(waiter.poll()));
    assert_eq!(message.as_deref(), Some("a check that panics"));
    assert_eq!((pool.snapshot().available, tally.dropped()), (1, 1));
    assert_eq!(Waiter::new(pool.acquire()).granted().number, 1);
}

#[test]
fn wait_idle_of_many_ends_although_the_waker_of_one_takes_an_item() {
    let pool: &'static Pool<i32> = Box::leak(Box::new(Pool::new([7])));
    let item = pool.try_acquire().unwrap();
    let mut first = Waiter::new(pool.wait_idle());
    let taken = Arc::new(Mutex::new(None));
    let takes = Arc::clone(&taken);
    let waker = calls_when_woken(move || *takes.lock().unwrap() = pool.try_acquire().ok());
    assert!(first.poll_with(&waker).is_pending());
    let mut others: Vec<_> = (0..100).map(|_| Waiter::parked(pool.wait_idle())).collect();
    drop(item);
    assert!(taken.lock().unwrap().is_some());
    others.iter_mut().for_each(Waiter::output);
}

#[test]
fn wait_idle_of_a_closed_pool_waits_for_holders_and_for_items_that_are_made() {
    let open = Arc::new(AtomicBool::new(false));
    let opens = Arc::clone(&open);
    let pool = Pool::with_async_factory(2, move || {
        let opens = Arc::clone(&opens);
        std::future::poll_fn(move |_| {
            if opens.load(Ordering::SeqCst) {
                std::task::Poll::Ready(Ok::<_, io::Error>(7))
            } else {
                std::task::Poll::Pending
            }
        })
    });
    let mut making = Waiter::parked(pool.acquire());
    let dropped = Waiter::parked(pool.acquire());
    pool.close();
    let mut idle = Waiter::parked(pool.wait_idle());
    drop(dropped);
    open.store(true, Ordering::SeqCst);
    let item = making.granted();
    assert!(idle.is_pending());
    drop(item);
    idle.output();
}

#[test]
fn wait_idle_with_grants_that_a_close_takes_back_ends() {
    let (pool, _) = made_to_order(1);
    let item = pool.try_acquire().unwrap();
    let (mut granted, mut idle) = (
        Waiter::parked(pool.acquire()),
        Waiter::parked(pool.wait_idle()),
    );
    drop(item);
    assert!(idle.is_pending());
    pool.close();
    idle.output();
    assert_eq!(granted.refused(), ErrorKind::Closed);
}
