//! What is a throttle because another one is: a reference, an `Arc`, an `Option` and a box of one. What holds for
//! each of them is a subject of `contracts/conformance/`.

use std::fmt::Debug;
use std::sync::Arc;

use tollgate::{BoxThrottle, ErrorKind, Semaphore, Throttle, TryThrottle, all};

use crate::support::scripted::{Log, Script, Scripted};
use crate::support::{Waiter, assert_at_rest};

/// Enters by trying and by waiting, and undoes and drops what it got.
fn go_through<T: TryThrottle<Permit: Debug>>(throttle: T) {
    throttle.rollback(throttle.try_enter().unwrap());
    let mut waiter = Waiter::new(throttle.enter());
    throttle.rollback(waiter.granted());
    drop(throttle.try_enter());
    drop(Waiter::new(throttle.clone().enter()));
}

/// The permits of one throttle are numbered from its first to its last.
fn without_numbers(events: Vec<String>) -> Vec<String> {
    let events = events.iter();
    events
        .map(|event| event.trim_end_matches(char::is_numeric).to_owned())
        .collect()
}

#[test]
fn everything_reaches_the_throttle() {
    let log = Log::default();
    let throttle = log.part("a");
    go_through(throttle.clone());
    let expected = without_numbers(log.take());
    go_through(&throttle);
    assert_eq!(without_numbers(log.take()), expected);
    go_through(Arc::new(throttle.clone()));
    assert_eq!(without_numbers(log.take()), expected);
    let lent = &Arc::new(&throttle);
    go_through(lent);
    assert_eq!(without_numbers(log.take()), expected);
    go_through(&lent);
    assert_eq!(without_numbers(log.take()), expected);
}

#[test]
fn a_shared_semaphore_can_be_lent() {
    let semaphore = Arc::new(Semaphore::new(4));
    go_through(&semaphore);
    go_through(all((&semaphore, &*semaphore, Arc::clone(&semaphore))));
    let both = all((&semaphore, semaphore.cost(2)));
    go_through(&both);
    go_through(Arc::new(Some(&semaphore)));
    assert_eq!(Arc::strong_count(&semaphore), 1);
    assert_at_rest(&semaphore, 4);
}

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
fn rollback_of_some_reaches_the_throttle_with_its_permit() {
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

#[test]
fn rollback_of_a_box_reaches_the_throttle_with_its_permit() {
    let log = Log::default();
    let throttle = BoxThrottle::new(BoxThrottle::new(log.part("a")));
    let permits = [(); 3].map(|()| Waiter::new(throttle.enter()).granted());
    log.take();
    let [first, second, third] = permits;
    throttle.rollback(second);
    throttle.clone().rollback(third);
    drop(first);
    assert_eq!(log.take(), ["undo a1", "undo a2", "drop a0"]);
}

/// The permit inside has another type, so there is no throttle to give it to.
#[test]
fn a_permit_of_another_throttle_is_dropped() {
    let log = Log::default();
    let semaphore = Arc::new(Semaphore::new(1));
    let (scripted, other) = (
        BoxThrottle::new(log.part("a")),
        BoxThrottle::new(Arc::clone(&semaphore)),
    );
    let (permit, of_other) = (
        Waiter::new(scripted.enter()).granted(),
        Waiter::new(other.enter()).granted(),
    );
    log.take();
    other.rollback(permit);
    assert_eq!(log.take(), ["drop a0"]);
    scripted.rollback(of_other);
    assert!(log.take().is_empty());
    assert_at_rest(&semaphore, 1);
    // Both are as before.
    drop(Waiter::new(other.enter()).granted());
    scripted.rollback(Waiter::new(scripted.enter()).granted());
    assert_eq!(log.take(), ["enter a", "in a1", "undo a1"]);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn refusals_are_those_of_the_throttle() {
    let semaphore = Arc::new(Semaphore::new(1));
    let large = BoxThrottle::new(Arc::clone(&semaphore).cost_owned(2));
    let refused = Waiter::new(large.acquire()).output().unwrap_err();
    assert_eq!(
        (refused.kind(), refused.capacity()),
        (ErrorKind::ExceedsCapacity, Some(1))
    );
    let throttle = BoxThrottle::new(all((
        Arc::clone(&semaphore),
        Arc::clone(&semaphore).cost_owned(2),
    )));
    let refused = Waiter::new(throttle.acquire()).output().unwrap_err();
    assert_eq!((refused.part(), refused.capacity()), (Some(1), Some(1)));
    semaphore.close();
    let refused = Waiter::new(throttle.acquire()).output().unwrap_err();
    assert_eq!(
        (refused.kind(), refused.part()),
        (ErrorKind::Closed, Some(0))
    );
    assert_at_rest(&semaphore, 1);
}

#[test]
fn in_a_composition_and_around_one() {
    let log = Log::default();
    let [a, b, c] = ["a", "b", "c"].map(|name| log.part(name));
    let inside = BoxThrottle::new(all((
        BoxThrottle::new(a),
        BoxThrottle::new(all((b, c.clone()))),
    )));
    inside.rollback(Waiter::new(inside.enter()).granted());
    let entered = ["try a", "in a0", "try b", "in b0", "try c", "in c0"];
    let events = log.take();
    assert_eq!(events[..6], entered);
    assert_eq!(events[6..], ["undo c0", "undo b0", "undo a0"]);

    c.now(Script::Refuse(ErrorKind::QueueFull));
    let refused = Waiter::new(inside.enter()).output().unwrap_err();
    assert_eq!(
        (refused.kind(), refused.part()),
        (ErrorKind::QueueFull, Some(1))
    );
    let events = log.take();
    assert_eq!(
        events[events.len() - 3..],
        ["refuse c", "undo b2", "undo a1"]
    );
}

#[test]
fn it_can_be_shared_and_its_waits_spawned() {
    fn is_shareable<T: Clone + Send + Sync + 'static>(_: &T) {}
    fn can_be_spawned<T: Send + Unpin + 'static>(_: &T) {}
    let throttle = BoxThrottle::new(Arc::new(Semaphore::new(1)));
    is_shareable(&throttle);
    can_be_spawned(&throttle.acquire());
    can_be_spawned(&Waiter::new(throttle.acquire()).granted());
    assert_eq!(format!("{throttle:?}"), "BoxThrottle { .. }");
}
