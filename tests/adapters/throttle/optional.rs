//! `Option`: `None` lets everybody in. What is `Some` is a subject of `contracts/conformance/`.

use std::sync::Arc;

use tollgate::{ErrorKind, Semaphore, Throttle, TryThrottle, all};

use crate::support::scripted::{Log, Script, Scripted};
use crate::support::{Waiter, assert_at_rest};

#[test]
fn none_lets_everybody_in_at_once() {
    let nothing: Option<&Semaphore> = None;
    for _ in 0..1000 {
        let mut waiter = Waiter::new(nothing.enter());
        assert!(waiter.granted().is_none());
        assert_eq!(waiter.wakes(), 0);
        assert!(nothing.try_enter().unwrap().is_none());
    }
    nothing.rollback(None);
    let zero = std::time::Duration::ZERO;
    assert!(nothing.enter().timeout(zero).wait().unwrap().is_none());
}

#[test]
fn rollback_reaches_the_throttle_with_its_permit() {
    let log = Log::default();
    let throttle = Some(log.part("a"));
    let permits = [throttle.try_enter().unwrap(), throttle.try_enter().unwrap()];
    log.take();
    for permit in permits {
        throttle.rollback(permit);
    }
    assert_eq!(log.take(), ["undo a0", "undo a1"]);
    // There is nothing to undo, and no harm in it.
    throttle.rollback(None);
    assert!(log.take().is_empty());
}

/// As when a configuration has changed between two calls, and both have the same type.
#[test]
fn none_drops_the_permit_of_some() {
    let log = Log::default();
    let permit = Some(log.part("a")).try_enter().unwrap();
    log.take();
    None::<Scripted>.rollback(permit);
    assert_eq!(log.take(), ["drop a0"]);
}

#[test]
fn a_part_of_a_composition_may_be_missing() {
    let semaphore = Arc::new(Semaphore::new(1));
    for quota in [None, Some(Arc::clone(&semaphore))] {
        let slots = Semaphore::new(2);
        let throttle = all((quota.clone(), &slots));
        let (of_quota, slot) = throttle.try_acquire().unwrap();
        assert_eq!(of_quota.is_some(), quota.is_some());
        match &quota {
            None => drop(throttle.try_acquire().unwrap()),
            Some(_) => {
                let refused = throttle.try_acquire().unwrap_err();
                assert_eq!(
                    (refused.kind(), refused.part()),
                    (ErrorKind::NoPermits, Some(0))
                );
            }
        }
        drop((of_quota, slot));
        assert_at_rest(&slots, 2);
    }
    assert_at_rest(&semaphore, 1);
}

#[test]
fn options_nest_and_can_be_waited_for() {
    let log = Log::default();
    let part = log.part("a");
    part.now(Script::Wait);
    let throttle = Some(Some(part.clone()));
    let mut waiter = Waiter::parked(throttle.enter());
    part.now(Script::Admit);
    assert_eq!(waiter.wakes(), 1);
    let permit = waiter.granted();
    assert_eq!(permit.as_ref().unwrap().as_ref().unwrap().name(), "a0");
    throttle.rollback(permit);
    assert_eq!(log.take(), ["enter a", "in a0", "undo a0"]);
}
