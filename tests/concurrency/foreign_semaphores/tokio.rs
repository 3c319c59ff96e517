//! tokio's semaphore.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tollgate::{ErrorKind, Throttle, TryThrottle, all};

use crate::support::foreign::{panic_message, panics_when_woken};
use crate::support::{Waiter, kind};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_closed_one_refuses_newcomers_and_waiters() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = semaphore.try_enter().unwrap();
    assert_eq!(kind(semaphore.try_enter()), ErrorKind::NoPermits);
    assert_eq!(kind((&*semaphore).try_enter()), ErrorKind::NoPermits);
    let mut borrowed = Waiter::parked((&*semaphore).enter());
    let mut owned = Waiter::parked(semaphore.enter());
    let early = semaphore.enter();
    semaphore.close();
    assert!(borrowed.wakes() > 0 && owned.wakes() > 0);
    let refusals = [
        borrowed.refused(),
        owned.refused(),
        Waiter::new(early).refused(),
        Waiter::new((&*semaphore).enter()).refused(),
        Waiter::new(semaphore.enter()).refused(),
        kind((&*semaphore).try_enter()),
        kind(semaphore.try_enter()),
    ];
    assert_eq!(refusals, [ErrorKind::Closed; 7]);
    drop(held);
    assert_eq!(semaphore.available_permits(), 1);
}

/// Whether it is let in or refused is up to tokio; the permit is not lost.
#[test]
fn closed_between_the_grant_and_the_poll_loses_nothing() {
    let semaphore = Semaphore::new(1);
    let held = (&semaphore).try_enter().unwrap();
    let mut granted = Waiter::parked((&semaphore).enter());
    drop(held);
    semaphore.close();
    let entered = granted.output();
    assert!(matches!(&entered, Err(error) if error.kind() == ErrorKind::Closed) || entered.is_ok());
    drop(entered);
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn ours_and_its_own_wait_in_one_line() {
    let semaphore = Semaphore::new(1);
    let mut permit = semaphore.try_acquire().unwrap();
    let mut ours = Waiter::parked((&semaphore).enter());
    let mut its_own = Waiter::parked(semaphore.acquire());
    let mut last = Waiter::parked((&semaphore).enter());
    drop(permit);
    assert!(its_own.is_pending() && last.is_pending());
    assert_eq!(kind((&semaphore).try_enter()), ErrorKind::NoPermits);
    permit = ours.granted();
    drop(permit);
    assert!(last.is_pending());
    permit = its_own.output().unwrap();
    drop(permit);
    drop(last.granted());
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn one_of_its_own_that_asks_for_many_is_not_overtaken() {
    let semaphore = Arc::new(Semaphore::new(3));
    let mut held = semaphore.try_acquire_many(3).unwrap();
    let mut many = Waiter::parked(semaphore.acquire_many(3));
    let mut behind = Waiter::parked((&*semaphore).enter());
    let mut owned_behind = Waiter::parked(semaphore.enter());
    for _ in 0..2 {
        drop(held.split(1));
        // What has come back is kept for the one in front.
        assert_eq!(kind((&*semaphore).try_enter()), ErrorKind::NoPermits);
        assert_eq!(kind(semaphore.try_enter()), ErrorKind::NoPermits);
        let mut newcomer = Waiter::parked((&*semaphore).enter());
        assert!(newcomer.is_pending() && behind.is_pending() && owned_behind.is_pending());
        assert!(many.is_pending());
    }
    drop(held);
    let three = many.output().unwrap();
    assert!(behind.is_pending());
    drop(three);
    drop((behind.granted(), owned_behind.granted()));
    assert_eq!(semaphore.available_permits(), 3);
}

#[test]
fn what_a_dropped_wait_had_goes_to_the_next_whoever_it_is() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = semaphore.try_enter().unwrap();
    let ours = Waiter::parked(semaphore.enter());
    let its_own = Waiter::parked(semaphore.acquire());
    let cancelled = CancellationToken::new();
    let cancel = semaphore.enter().cancel_on(&cancelled);
    let mut cancel = Waiter::parked(cancel);
    let mut last = Waiter::parked((&*semaphore).enter());
    drop(held);
    assert!(ours.wakes() > 0);
    drop(ours);
    assert!(its_own.wakes() > 0);
    drop(its_own);
    assert!(cancel.wakes() > 0);
    cancelled.cancel();
    assert_eq!(cancel.refused(), ErrorKind::Cancelled);
    assert!(last.wakes() > 0);
    drop(last.granted());
    assert_eq!(semaphore.available_permits(), 1);
    drop(cancel);
    assert_eq!(Arc::strong_count(&semaphore), 1);
}

#[test]
fn a_cancelled_token_takes_nothing() {
    let semaphore = Arc::new(Semaphore::new(1));
    let token = CancellationToken::new();
    token.cancel();
    let borrowed = || (&*semaphore).enter();
    let refusals = [
        Waiter::new(borrowed().cancel_on(&token)).refused(),
        Waiter::new(semaphore.enter().cancel_on(token.clone())).refused(),
        Waiter::new(borrowed().cancel_on(&token)).refused(),
        Waiter::new(borrowed().timeout(SECOND).cancel_on(&token)).refused(),
        kind(semaphore.enter().cancel_on(&token).timeout(SECOND).wait()),
    ];
    assert_eq!(refusals, [ErrorKind::Cancelled; 5]);
    assert_eq!(semaphore.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_wait_after_exactly_its_duration() {
    let semaphore = Arc::new(Semaphore::new(1));
    let held = semaphore.try_enter().unwrap();
    let begun = Instant::now();
    let borrowed = (&*semaphore).enter().timeout(SECOND).await;
    assert_eq!(kind(borrowed), ErrorKind::TimedOut);
    let owned = semaphore.enter().timeout(SECOND).await;
    assert_eq!(kind(owned), ErrorKind::TimedOut);
    assert_eq!(begun.elapsed(), 2 * SECOND);
    drop(held);
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn a_limit_of_zero_waits_until_it_is_raised() {
    let semaphore = Semaphore::new(0);
    assert_eq!(kind((&semaphore).try_enter()), ErrorKind::NoPermits);
    let mut waiter = Waiter::parked((&semaphore).enter());
    let mut next = Waiter::parked((&semaphore).enter());
    semaphore.add_permits(1);
    let permit = waiter.granted();
    assert!(next.is_pending());
    // And lowered again, by what comes back.
    permit.forget();
    assert!(next.is_pending());
    semaphore.add_permits(2);
    drop(next.granted());
    assert_eq!(semaphore.forget_permits(1), 1);
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn in_a_composition_everything_is_given_back() {
    let theirs = Arc::new(Semaphore::new(1));
    let ours = Arc::new(tollgate::Semaphore::new(1));
    for theirs_first in [true, false] {
        let held = ours.try_enter().unwrap();
        if theirs_first {
            let both = all((Arc::clone(&theirs), Arc::clone(&ours)));
            let mut refused = Waiter::new(both.acquire().timeout(Duration::ZERO));
            assert_eq!(refused.refused(), ErrorKind::TimedOut);
            assert_eq!(theirs.available_permits(), 1);
            let waiting = Waiter::parked(both.acquire());
            assert_eq!(theirs.available_permits(), 0);
            drop(held);
            drop(waiting);
            drop(Waiter::new(both.acquire()).granted());
        } else {
            let both = all((&*ours, &*theirs));
            let waiting = Waiter::parked(both.acquire());
            assert_eq!(theirs.available_permits(), 1);
            drop((waiting, held));
            drop(both.try_acquire().unwrap());
        }
        assert_eq!(theirs.available_permits(), 1);
        assert_eq!(ours.available_permits(), 1);
    }
    theirs.close();
    let refused = all((ours.clone(), theirs)).try_acquire().unwrap_err();
    assert_eq!(
        (refused.kind(), refused.part()),
        (ErrorKind::Closed, Some(1))
    );
    assert_eq!(ours.available_permits(), 1);
}

#[test]
fn a_wait_that_is_polled_again_panics_and_takes_nothing() {
    let semaphore = Arc::new(Semaphore::new(1));
    let expected = Some("polled again after it was ready");
    let mut borrowed = Waiter::new((&*semaphore).enter());
    let held = borrowed.granted();
    let again = panic_message(|| borrowed.poll().is_ready());
    assert_eq!(again.as_deref(), expected);
    let mut owned = Waiter::parked(semaphore.enter());
    drop(held);
    drop(owned.granted());
    let again = panic_message(|| owned.poll().is_ready());
    assert_eq!(again.as_deref(), expected);
    semaphore.close();
    let mut refused = Waiter::new(semaphore.enter());
    assert_eq!(refused.refused(), ErrorKind::Closed);
    let again = panic_message(|| refused.poll().is_ready());
    assert_eq!(again.as_deref(), expected);
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn a_waker_that_panics_goes_on_unwinding_and_loses_nothing() {
    let semaphore = Semaphore::new(1);
    let held = (&semaphore).try_enter().unwrap();
    let mut panics = Waiter::new((&semaphore).enter());
    assert!(panics.poll_with(&panics_when_woken()).is_pending());
    let mut next = Waiter::parked((&semaphore).enter());
    let message = panic_message(|| drop(held));
    assert_eq!(message.as_deref(), Some("a waker that panics on purpose"));
    drop(panics.granted());
    drop(next.granted());
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn waits_have_a_debug_representation() {
    let semaphore = Arc::new(Semaphore::new(1));
    assert_eq!(format!("{:?}", (&*semaphore).enter()), "EnterTokio { .. }");
    assert_eq!(format!("{:?}", semaphore.enter()), "EnterTokioOwned { .. }");
}

#[test]
fn ours_and_its_own_on_threads_never_exceed_the_limit() {
    const LIMIT: usize = 2;
    let semaphore = Arc::new(Semaphore::new(LIMIT));
    let inside = AtomicUsize::new(0);
    let stay = || {
        let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(now <= LIMIT, "too many are inside");
        thread::yield_now();
        inside.fetch_sub(1, Ordering::SeqCst);
    };
    thread::scope(|scope| {
        for number in 0..4 {
            let (semaphore, stay) = (&semaphore, &stay);
            scope.spawn(move || {
                for _ in 0..300 {
                    match number {
                        0 => {
                            let _permit = (&**semaphore).enter().wait().unwrap();
                            stay();
                        }
                        1 => {
                            let _permit = semaphore.enter().wait().unwrap();
                            stay();
                        }
                        2 => {
                            let acquire = semaphore.acquire();
                            let _permit = futures::executor::block_on(acquire).unwrap();
                            stay();
                        }
                        // Is granted now and then while it leaves.
                        _ => drop(Waiter::new(semaphore.enter()).poll()),
                    }
                }
            });
        }
    });
    assert_eq!(semaphore.available_permits(), LIMIT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_are_let_in_one_by_one() {
    let semaphore = Arc::new(Semaphore::new(1));
    let inside = Arc::<AtomicUsize>::default();
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let (semaphore, inside) = (Arc::clone(&semaphore), Arc::clone(&inside));
            tokio::spawn(async move {
                let _permit = semaphore.enter().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(semaphore.available_permits(), 1);
}

/// A thread that blocks drives no runtime, so it must not wait for a budget that only the runtime
/// renews.
#[::tokio::test]
async fn a_task_without_budget_can_block_for_a_permit() {
    let semaphore = Semaphore::new(1);
    let held = (&semaphore).try_enter().unwrap();
    let mut enter = Box::pin((&semaphore).enter());
    assert!(futures::poll!(&mut enter).is_pending());
    drop(held);
    let other = Semaphore::new(1);
    while futures::poll!(Box::pin(other.acquire())).is_ready() {}
    assert!(futures::executor::block_on(enter).is_ok());
}
