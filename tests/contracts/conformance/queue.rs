//! Checks of manually polled waits: the order and the time of wakes and grants.

use std::task::Poll;

use tollgate::fair::FairQueue;
use tollgate::{ErrorKind, Throttle, TryThrottle};

use super::subject::{AnyPermit, Subject, Wait, assert_at_rest, assert_no_room, fill, parked};
use super::throttles;
use crate::support::{Waiter, kind};

pub(crate) fn an_entry_is_ready_while_there_is_room(subject: &Subject) {
    let throttle = subject.with_limit(3);
    let permits: Vec<_> = (0..3)
        .map(|_| Waiter::new(throttle.enter()).granted())
        .collect();
    let waiting = parked(&throttle);
    drop(waiting);
    throttle.rollback_all(permits);
    assert_at_rest(&throttle, 3);
}

pub(crate) fn enter_now_while_a_try_is_admitted_admits(subject: &Subject) {
    let throttle = subject.with_limit(3);
    let mut permits = Vec::new();
    while let Ok(tried) = throttle.try_enter() {
        throttle.rollback(tried);
        permits.push(throttle.enter_now().expect("a try was admitted"));
    }
    assert_eq!(permits.len(), 3);
    assert!(throttle.enter_now().is_none());
    assert!((&&throttle).enter_now().is_none());
    throttle.rollback(permits.remove(0));
    permits.push((&&throttle).enter_now().expect("there is room"));
    throttle.rollback_all(permits);
    assert_at_rest(&throttle, 3);
}

pub(crate) fn acquire_in_a_fair_queue_without_room_to_wait_admits_while_there_is_room(
    subject: &Subject,
) {
    let throttle = subject.with_limit(3);
    let class = FairQueue::new(throttle.clone()).max_waiters(0).class("a");
    let permits: Vec<_> = (0..3)
        .map(|_| Waiter::new(class.acquire()).granted())
        .collect();
    let refused = Waiter::new(class.acquire()).refused();
    assert_eq!(refused, ErrorKind::QueueFull);
    for permit in permits {
        class.rollback(permit);
    }
    drop(class);
    assert_at_rest(&throttle, 3);
}

pub(crate) fn making_an_entry_takes_nothing(subject: &Subject) {
    let throttle = subject.with_limit(1);
    let entries: Vec<_> = (0..3).map(|_| throttle.enter()).collect();
    assert_at_rest(&throttle, 1);
    drop(entries);
    assert_at_rest(&throttle, 1);
}

pub(crate) fn a_waiter_is_woken_when_there_is_room(subject: &Subject) {
    let throttle = subject.with_limit(2);
    let mut permits = fill(&throttle, 2);
    let mut waiting = parked(&throttle);
    assert_eq!(waiting.wakes(), 0);
    throttle.rollback(permits.remove(0));
    assert!(waiting.wakes() > 0);
    permits.push(waiting.granted());
    assert_no_room(throttle.try_enter());
    throttle.rollback_all(permits);
    assert_at_rest(&throttle, 2);
}

pub(crate) fn a_waiter_that_gives_up_holds_nobody_back(subject: &Subject) {
    let (throttle, permit) = subject.held();
    let mut waiters: Vec<_> = (0..5).map(|_| parked(&throttle)).collect();
    // The first one, one in the middle, and the last one.
    for gives_up in [4, 2, 0] {
        drop(waiters.remove(gives_up));
    }
    throttle.rollback(permit);
    for waiting in &mut waiters {
        throttle.rollback(waiting.granted());
    }
    assert_at_rest(&throttle, 1);
}

pub(crate) fn granted_then_dropped_is_passed_on(subject: &Subject) {
    let (throttle, permit) = subject.held();
    let woken = parked(&throttle);
    let mut next = parked(&throttle);
    throttle.rollback(permit);
    assert!(woken.wakes() > 0);
    drop(woken);
    assert!(next.wakes() > 0);
    throttle.rollback(next.granted());
    // And without a waiter to pass it on to.
    let permit = throttle.try_enter().unwrap();
    let woken = parked(&throttle);
    throttle.rollback(permit);
    drop(woken);
    assert_at_rest(&throttle, 1);
}

pub(crate) fn never_polled_holds_nobody_back(subject: &Subject) {
    let (throttle, permit) = subject.held();
    let stored: Vec<_> = (0..5).map(|_| Waiter::new(throttle.enter())).collect();
    let mut waiting = parked(&throttle);
    throttle.rollback(permit);
    throttle.rollback(waiting.granted());
    for mut entry in stored {
        throttle.rollback(entry.granted());
    }
    assert_at_rest(&throttle, 1);
}

pub(crate) fn not_polled_and_then_dropped_holds_nobody_back(subject: &Subject) {
    let (throttle, permit) = subject.held();
    let aside = parked(&throttle);
    let mut behind = parked(&throttle);
    throttle.rollback(permit);
    // Where overtaking is possible, it may be let in at once.
    let permit = match behind.poll() {
        Poll::Ready(entered) => entered.unwrap(),
        Poll::Pending => {
            drop(aside);
            behind.granted()
        }
    };
    throttle.rollback(permit);
    drop(behind);
    assert_at_rest(&throttle, 1);
}

pub(crate) fn polling_in_vain_changes_nothing(subject: &Subject) {
    let (throttle, permit) = subject.held();
    let mut first = parked(&throttle);
    let mut second = parked(&throttle);
    for _ in 0..10 {
        assert!(second.is_pending() && first.is_pending());
    }
    throttle.rollback(permit);
    throttle.rollback(first.granted());
    throttle.rollback(second.granted());
    assert_at_rest(&throttle, 1);
}

pub(crate) fn a_clone_shares_the_queue(subject: &Subject) {
    let throttle = subject.with_limit(1);
    let clone = throttle.clone();
    let permit = throttle.try_enter().unwrap();
    let mut waiting = parked(&clone);
    throttle.rollback(permit);
    let permit = waiting.granted();
    let mut waiting = parked(&throttle);
    clone.rollback(permit);
    throttle.rollback(waiting.granted());
    assert_at_rest(&clone, 1);
}

pub(crate) fn a_permit_that_is_dropped_wakes(subject: &Subject) {
    let (throttle, permit) = subject.held();
    let mut waiting = parked(&throttle);
    drop(permit);
    assert!(waiting.wakes() > 0);
    drop(waiting.granted());
    assert_at_rest(&throttle, 1);
}

pub(crate) fn the_first_waiter_is_woken_first(subject: &Subject) {
    let (throttle, permit) = subject.held();
    let mut waiters: Vec<_> = (0..20).map(|_| parked(&throttle)).collect();
    throttle.rollback(permit);
    let woken = |waiting: &Waiter<_>| waiting.wakes() > 0;
    assert!(woken(&waiters[0]) && !waiters[1..].iter().any(woken));
    // The next waiter takes the turn of one that gives up.
    drop(waiters.remove(0));
    assert!(woken(&waiters[0]) && !waiters[1..].iter().any(woken));
    throttle.rollback(waiters[0].granted());
    drop(waiters);
    assert_at_rest(&throttle, 1);
}

pub(crate) fn waiters_are_let_in_in_the_order_in_which_they_joined(subject: &Subject) {
    let throttle = subject.with_limit(1);
    let mut permit = throttle.try_enter().unwrap();
    let mut waiters: Vec<_> = (0..20).map(|_| parked(&throttle)).collect();
    for next in 0..waiters.len() {
        throttle.rollback(permit);
        assert!(waiters[next + 1..].iter_mut().all(Waiter::is_pending));
        permit = waiters[next].granted();
    }
    throttle.rollback(permit);
    assert_at_rest(&throttle, 1);
}

/// Takes the grant of each waiter in turn, which has been woken by then.
fn woken_and_granted(waiters: &mut [Waiter<Wait>]) -> Vec<AnyPermit> {
    let permits = waiters.iter_mut().map(|waiting| {
        assert!(waiting.wakes() > 0);
        waiting.granted()
    });
    permits.collect()
}

pub(crate) fn several_returns_let_as_many_in(subject: &Subject) {
    const CROWD: usize = 40;
    let throttle = subject.with_limit(CROWD);
    let permits = fill(&throttle, CROWD);
    let mut waiters: Vec<_> = (0..CROWD).map(|_| parked(&throttle)).collect();
    // All come back before any waiter has run.
    throttle.rollback_all(permits);
    let woken = waiters.iter().filter(|waiting| waiting.wakes() > 0).count();
    assert_eq!(woken == CROWD, subject.guarantees.wakes_each);
    // By then each in its turn has been woken, at the latest when the one before it has run.
    throttle.rollback_all(woken_and_granted(&mut waiters));
    assert_at_rest(&throttle, CROWD);
}

/// The same when the woken waiters give up instead.
pub(crate) fn several_returns_pass_waiters_by_that_give_up(subject: &Subject) {
    const CROWD: usize = 10;
    let throttle = subject.with_limit(CROWD);
    let permits = fill(&throttle, CROWD);
    let give_up: Vec<_> = (0..CROWD).map(|_| parked(&throttle)).collect();
    let mut behind: Vec<_> = (0..CROWD).map(|_| parked(&throttle)).collect();
    throttle.rollback_all(permits);
    drop(give_up);
    throttle.rollback_all(woken_and_granted(&mut behind));
    assert_at_rest(&throttle, CROWD);
}

pub(crate) fn newcomers_do_not_overtake(subject: &Subject) {
    let (throttle, permit) = subject.held();
    let mut woken = parked(&throttle);
    throttle.rollback(permit);
    assert_no_room(throttle.try_enter());
    let mut newcomer = parked(&throttle);
    let permit = woken.granted();
    assert!(newcomer.is_pending());
    throttle.rollback(permit);
    throttle.rollback(newcomer.granted());
    assert_at_rest(&throttle, 1);
}

/// A newcomer's permit can be missing only to the waiter that it was meant for.
pub(crate) fn a_waiter_that_was_overtaken_is_let_in_later(subject: &Subject) {
    let throttle = subject.with_limit(2);
    let mut permits = fill(&throttle, 2);
    let mut overtaken = parked(&throttle);
    throttle.rollback(permits.remove(0));
    let overtakes = throttle.try_enter();
    assert_eq!(overtakes.is_err(), subject.guarantees.no_overtaking);
    if let Ok(permit) = overtakes {
        assert!(overtaken.is_pending());
        let seen = overtaken.wakes();
        throttle.rollback(permits.remove(0));
        assert!(overtaken.wakes() > seen);
        permits.push(permit);
    }
    permits.push(overtaken.granted());
    assert_no_room(throttle.try_enter());
    throttle.rollback_all(permits);
    assert_at_rest(&throttle, 2);
}

pub(crate) fn closing_refuses_everybody(subject: &Subject) {
    let throttle = subject.with_limit(2);
    let permits = fill(&throttle, 2);
    let mut waiters: Vec<_> = (0..20).map(|_| parked(&throttle)).collect();
    let made_before = throttle.enter();
    throttle.close();
    for waiting in &mut waiters {
        assert!(waiting.wakes() > 0);
        assert_eq!(waiting.refused(), ErrorKind::Closed);
    }
    throttle.rollback_all(permits);
    assert_eq!(kind(throttle.try_enter()), ErrorKind::Closed);
    assert_eq!(Waiter::new(made_before).refused(), ErrorKind::Closed);
    assert_eq!(Waiter::new(throttle.enter()).refused(), ErrorKind::Closed);
}

/// A waiter that had been woken for a permit either has it or is refused; no waiter is stranded.
pub(crate) fn closing_after_a_return_leaves_nobody_waiting(subject: &Subject) {
    let throttle = subject.with_limit(2);
    let mut permits = fill(&throttle, 2);
    let mut waiters: Vec<_> = (0..5).map(|_| parked(&throttle)).collect();
    throttle.rollback(permits.remove(0));
    throttle.close();
    let mut entered = 0;
    for waiting in &mut waiters {
        assert!(waiting.wakes() > 0);
        let Poll::Ready(output) = waiting.poll() else {
            panic!("still waiting");
        };
        match output {
            Ok(permit) => {
                entered += 1;
                throttle.rollback(permit);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Closed),
        }
    }
    // Only through a grant before the close.
    assert!(entered <= 1);
    throttle.rollback(permits.remove(0));
    assert_eq!(kind(throttle.try_enter()), ErrorKind::Closed);
}

/// Lets ten wait for one circulating permit. Each is polled when it has been woken, like on an
/// executor, in the order of arrival. Returns the admitted waiters in order.
fn order_without_newcomers(subject: &Subject) -> Vec<usize> {
    let (throttle, permit) = subject.held();
    let mut permit = Some(permit);
    let mut waiters: Vec<_> = (0..10).map(|name| (name, parked(&throttle), 0)).collect();
    let mut order = Vec::new();
    while !waiters.is_empty() {
        drop(permit.take());
        waiters.retain_mut(|(name, waiter, seen)| {
            if waiter.wakes() == *seen {
                return true;
            }
            *seen = waiter.wakes();
            let Poll::Ready(entered) = waiter.poll() else {
                return true;
            };
            assert!(permit.is_none(), "two are inside");
            permit = entered.ok();
            order.push(*name);
            false
        });
    }
    order
}

#[test]
fn the_order_of_semaphores_and_pools_is_strict() {
    let is_strict = |subjects: Vec<Subject>| order_without_newcomers(&subjects[0]).is_sorted();
    assert!(is_strict(throttles::borrowed_semaphore::subjects()));
    assert!(is_strict(throttles::borrowed_pool::subjects()));
    #[cfg(feature = "tokio")]
    assert!(is_strict(throttles::borrowed_tokio::subjects()));
}

/// Even if nobody overtakes. An admitted waiter wakes the next one as well, which finds no permit
/// and then waits again behind all others.
#[cfg(any(feature = "channel", feature = "async-lock"))]
#[test]
fn the_order_of_channels_and_of_async_lock_is_rough() {
    let assert_rough = |subjects: Vec<Subject>| {
        let mut order = order_without_newcomers(&subjects[0]);
        assert_eq!(order[0], 0);
        assert!(!order.is_sorted());
        order.sort();
        assert_eq!(order, Vec::from_iter(0..10));
    };
    #[cfg(feature = "channel")]
    assert_rough(throttles::borrowed_channel_semaphore::subjects());
    #[cfg(feature = "channel")]
    assert_rough(throttles::reversed_channel_semaphore::subjects());
    #[cfg(feature = "async-lock")]
    assert_rough(throttles::borrowed_async_lock::subjects());
}
