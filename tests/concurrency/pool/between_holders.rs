//! What happens to items between two holders: checks, idle timeouts, failures of the factory, and the wait
//! for the return of all.

use std::error::Error;
use std::fmt;
use std::future::{pending, ready};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tollgate::{AcquireError, ErrorKind, Pool, all};

use super::tracked::{Item, Tally, made_to_order};
use crate::support::foreign::{calls_when_woken, panic_message};
use crate::support::Waiter;

const MINUTE: Duration = Duration::from_secs(60);

/// A failure with a number, which its text does not say.
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
    // One of each type and text is kept.
    assert_eq!((number(&first), number(&second)), (Some(0), Some(0)));
    assert_eq!(first, second);

    // Another type with the same text, and as a part of a composition.
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

/// A pool of one item, whose factory does not wait, and how its items fared.
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
    let (pool, tally) = checked(|item| match item.spoilt {
        true => panic!("a check that panics"),
        false => true,
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
        std::future::poll_fn(move |_| match opens.load(Ordering::SeqCst) {
            true => std::task::Poll::Ready(Ok::<_, io::Error>(7)),
            false => std::task::Poll::Pending,
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
