//! A throttle of a type that is erased, beyond what `contracts/conformance/` checks of one.

use std::sync::Arc;

use tollgate::{BoxThrottle, ErrorKind, Semaphore, Throttle, all};

use crate::support::scripted::{Log, Script};
use crate::support::{Waiter, assert_at_rest};

#[test]
fn rollback_reaches_the_throttle_with_its_permit() {
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
