//! A throttle of one's own, code that does not know which one it has, and semaphores with a cost.

use std::future::{Future, Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tollgate::{
    AcquireError, BoxThrottle, ErrorKind, Semaphore, Throttle, TryThrottle, Waiting, all,
};

use crate::support::{Waiter, assert_at_rest, kind};

/// Does its job when it is let in.
async fn throttled<T: Throttle, R>(
    throttle: &T,
    job: impl Future<Output = R>,
) -> Result<R, AcquireError> {
    let _permit = throttle.enter().await?;
    Ok(job.await)
}

/// How often one is let in without leaving, at most.
fn capacity<T: TryThrottle>(throttle: &T, at_most: usize) -> usize {
    let permits: Vec<_> = (0..at_most)
        .map_while(|_| throttle.try_enter().ok())
        .collect();
    let count = permits.len();
    permits
        .into_iter()
        .for_each(|permit| throttle.rollback(permit));
    count
}

#[test]
fn generic_code_runs_with_all_of_them() {
    let semaphore = Arc::new(Semaphore::new(1));
    let budget = Budget::new(100);
    macro_rules! check {
        ($throttle:expr) => {
            assert_eq!(Waiter::new(throttled(&$throttle, async { 7 })).granted(), 7);
        };
    }
    check!(&*semaphore);
    check!(Arc::clone(&semaphore));
    check!(semaphore.cost(1));
    check!(Arc::clone(&semaphore).cost_owned(1));
    check!(Some(&*semaphore));
    check!(None::<&Semaphore>);
    check!(all((&*semaphore, budget.clone())));
    check!(BoxThrottle::new(Arc::clone(&semaphore)));
    check!(budget.clone());
    check!(BoxThrottle::new(budget.clone()));
    assert_eq!(budget.left(), 97);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn rollback_gives_back_what_a_drop_does_not() {
    let semaphore = Semaphore::new(3);
    let budget = Budget::new(5);
    for _ in 0..2 {
        assert_eq!(capacity(&&semaphore, 10), 3);
        assert_eq!(capacity(&budget, 10), 5);
        assert_eq!(capacity(&all((&semaphore, budget.clone())), 10), 3);
        assert_eq!(capacity(&all((budget.clone(), budget.clone())), 10), 2);
        assert_eq!(capacity(&Some(budget.clone()), 10), 5);
        assert_eq!(capacity(&None::<Budget>, 10), 10);
    }
    assert_eq!(budget.left(), 5);
    assert_at_rest(&semaphore, 3);
}

#[test]
fn its_error_comes_out_as_it_is_but_for_the_part() {
    let (semaphore, budget) = (Semaphore::new(1), Budget::new(0));
    let own = budget.try_enter().unwrap_err();
    assert_eq!((own.kind(), own.part()), (ErrorKind::RateLimited, None));
    let refused = all((&semaphore, budget.clone())).try_acquire().unwrap_err();
    assert_eq!(
        (refused.kind(), refused.part()),
        (ErrorKind::RateLimited, Some(1))
    );
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(1)));
    assert_eq!(
        kind(BoxThrottle::new(budget).acquire().wait()),
        ErrorKind::RateLimited
    );
    assert_at_rest(&semaphore, 1);
}

/// A wait of a type that is not known has no `timeout` of its own.
#[test]
fn a_deadline_can_be_added_in_generic_code() {
    fn soon<T: Throttle>(throttle: &T) -> Result<T::Permit, AcquireError> {
        throttle.enter().timeout(Duration::ZERO).wait()
    }
    let semaphore = Semaphore::new(1);
    let _held = semaphore.try_acquire().unwrap();
    assert_eq!(kind(soon(&&semaphore)), ErrorKind::TimedOut);
    assert_eq!(soon(&Budget::new(1)).unwrap(), Charged(1));
}

#[cfg(feature = "tokio")]
#[tokio::test]
async fn a_task_can_wait_for_any_of_them() {
    fn spawned<T>(throttle: T) -> tokio::task::JoinHandle<Result<(), AcquireError>>
    where
        T: Throttle<Enter: Send, Permit: Send> + Send + 'static,
    {
        let token = tokio_util::sync::CancellationToken::new();
        tokio::spawn(async move {
            let permit = throttle.enter().cancel_on(&token).await?;
            tokio::task::yield_now().await;
            drop(permit);
            Ok(())
        })
    }
    let semaphore = Arc::new(Semaphore::new(1));
    let budget = Budget::new(1);
    spawned(Arc::clone(&semaphore)).await.unwrap().unwrap();
    spawned(all((Arc::clone(&semaphore), budget.clone())))
        .await
        .unwrap()
        .unwrap();
    let refused = spawned(BoxThrottle::new(Some(budget))).await.unwrap();
    assert_eq!(kind(refused), ErrorKind::RateLimited);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn each_entry_asks_for_the_cost() {
    let semaphore = Arc::new(Semaphore::new(10));
    let throttle = semaphore.cost(4);
    assert_eq!(
        (throttle.cost(), Arc::clone(&semaphore).cost_owned(7).cost()),
        (4, 7)
    );
    let first = throttle.try_enter().unwrap();
    assert_eq!((first.count(), semaphore.available_permits()), (4, 6));
    let second = Waiter::new(throttle.enter()).granted();
    assert_eq!((second.count(), semaphore.available_permits()), (4, 2));
    let mut waiter = Waiter::parked(Arc::clone(&semaphore).cost_owned(3).enter());
    throttle.rollback(first);
    assert_eq!(waiter.granted().count(), 3);
    drop(second);
    assert_at_rest(&semaphore, 10);
}

#[test]
fn nothing_costs_nothing_and_never_waits() {
    let semaphore = Semaphore::new(10);
    let held = semaphore.try_acquire_many(10).unwrap();
    let waiting = Waiter::parked(semaphore.acquire());
    let throttle = semaphore.cost(0);
    assert_eq!(throttle.try_enter().unwrap().count(), 0);
    let nothing = Waiter::new(throttle.enter()).granted();
    assert_eq!(nothing.count(), 0);
    throttle.rollback(nothing);
    assert_eq!(semaphore.available_permits(), 0);
    drop((waiting, held));
    semaphore.close();
    assert_eq!(kind(throttle.try_enter()), ErrorKind::Closed);
}

#[test]
fn more_than_the_limit_is_refused_at_once() {
    let semaphore = Arc::new(Semaphore::new(10));
    let (throttle, owned) = (
        semaphore.cost(11),
        Arc::clone(&semaphore).cost_owned(u32::MAX),
    );
    let refused = [
        throttle.try_enter().unwrap_err(),
        throttle.enter().wait().unwrap_err(),
        owned.try_enter().unwrap_err(),
        owned.enter().wait().unwrap_err(),
    ];
    for refused in refused {
        assert_eq!(refused.kind(), ErrorKind::ExceedsCapacity);
        assert_eq!((refused.capacity(), refused.part()), (Some(10), None));
    }
    semaphore.set_permits(11);
    drop(throttle.try_enter().unwrap());
    assert_at_rest(&semaphore, 11);
}

#[test]
fn an_owned_cost_keeps_the_semaphore_alive() {
    let semaphore = Arc::new(Semaphore::new(2));
    let weak = Arc::downgrade(&semaphore);
    let throttle = semaphore.cost_owned(2);
    let permit = throttle.try_enter().unwrap();
    let waiter = Waiter::parked(throttle.enter());
    drop(throttle);
    drop(permit);
    assert!(weak.upgrade().is_some());
    drop(waiter);
    assert!(weak.upgrade().is_none());
}

#[test]
fn debug_shows_the_cost() {
    let semaphore = Semaphore::new(2);
    let shown = format!("{:?}", semaphore.cost(7));
    assert!(
        shown.starts_with("Cost") && shown.contains("cost: 7"),
        "{shown}"
    );
}

/// So many may be charged, for good.
#[derive(Clone)]
pub(crate) struct Budget(Arc<AtomicUsize>);

/// What was left before it was charged.
#[derive(Debug, PartialEq)]
pub(crate) struct Charged(pub(crate) usize);

impl Budget {
    pub(crate) fn new(amount: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(amount)))
    }

    pub(crate) fn left(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Throttle for Budget {
    type Permit = Charged;
    type Enter = Ready<Result<Charged, AcquireError>>;

    fn enter(&self) -> Waiting<Self::Enter> {
        Waiting::new(ready(self.try_enter()))
    }

    fn rollback(&self, _: Charged) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl TryThrottle for Budget {
    fn try_enter(&self) -> Result<Charged, AcquireError> {
        let less = |left: usize| left.checked_sub(1);
        let charged = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        charged
            .map(Charged)
            .map_err(|_| AcquireError::limited(Duration::from_secs(1)))
    }
}
