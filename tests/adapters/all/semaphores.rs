//! Compositions of real semaphores: what is taken, who refused, and what comes back.

use std::sync::Arc;

use tollgate::{ErrorKind, OwnedPermit, Permit, Semaphore, Throttle, TryThrottle, all};

use crate::support::{Waiter, assert_at_rest, kind};

#[test]
fn permits_have_the_types_and_the_order_of_the_parts() {
    let (one, other) = (Semaphore::new(1), Arc::new(Semaphore::new(6)));
    let nested = all((&one, Arc::clone(&other).cost_owned(2)));
    let throttle = all((
        Arc::clone(&other),
        other.cost(3),
        None::<&Semaphore>,
        nested,
    ));
    #[allow(clippy::type_complexity, reason = "it is what is shown")]
    let permits: (
        OwnedPermit,
        Permit<&'_ Semaphore>,
        Option<Permit<&'_ Semaphore>>,
        (Permit<&'_ Semaphore>, OwnedPermit),
    ) = throttle.try_acquire().unwrap();
    let (single, three, nothing, (of_one, two)) = permits;
    assert_eq!((single.count(), three.count(), two.count()), (1, 3, 2));
    assert!(nothing.is_none());
    assert_eq!((one.available_permits(), other.available_permits()), (0, 0));
    // Each is a permit of its own.
    drop(three);
    assert_eq!((one.available_permits(), other.available_permits()), (0, 3));
    drop((single, of_one, two));
    assert_at_rest(&one, 1);
    drop(throttle);
    assert_at_rest(&other, 6);
}

#[test]
fn a_part_that_refuses_is_told_and_the_others_get_everything_back() {
    const LIMITS: [usize; 6] = [1, 2, 3, 4, 5, 6];
    for refuses in 0..LIMITS.len() {
        let [a, b, c, d, e, f] = &LIMITS.map(Semaphore::new);
        let throttle = all((a, b, c, d, e, f));
        let parts = [a, b, c, d, e, f];

        let held = parts[refuses]
            .try_acquire_many(LIMITS[refuses] as u32)
            .unwrap();
        let refused = throttle.try_acquire().unwrap_err();
        assert_eq!(
            (refused.kind(), refused.part()),
            (ErrorKind::NoPermits, Some(refuses))
        );

        let mut waiter = Waiter::parked(throttle.acquire());
        parts[refuses].close();
        assert!(waiter.wakes() > 0);
        let refused = waiter.output().unwrap_err();
        assert_eq!(
            (refused.kind(), refused.part()),
            (ErrorKind::Closed, Some(refuses))
        );
        drop(held);
        for (part, limit) in parts.into_iter().zip(LIMITS) {
            assert_at_rest(part, limit);
        }
    }
}

#[test]
fn the_part_is_that_of_the_outermost_composition() {
    let (open, closed) = (Semaphore::new(9), Semaphore::new(1));
    closed.close();
    let part = |refused: Result<(), tollgate::AcquireError>| refused.unwrap_err().part();

    let first = all((&closed, &open));
    let second = all((&open, &closed));
    assert_eq!(part(first.try_acquire().map(drop)), Some(0));
    assert_eq!(part(second.try_acquire().map(drop)), Some(1));
    // The nested one would have said 0 and 1.
    let nested = all((&open, &open, first.clone()));
    assert_eq!(part(nested.try_acquire().map(drop)), Some(2));
    assert_eq!(
        part(Waiter::new(nested.acquire()).output().map(drop)),
        Some(2)
    );
    let nested = all((second.clone(), &open));
    assert_eq!(part(nested.try_acquire().map(drop)), Some(0));
    let twice = all((&open, all((&open, second)), &open));
    assert_eq!(part(twice.try_acquire().map(drop)), Some(1));
    assert_eq!(
        part(Waiter::new(twice.acquire()).output().map(drop)),
        Some(1)
    );
    // Without a composition there is none.
    assert_eq!(part(closed.try_acquire().map(drop)), None);
    assert_at_rest(&open, 9);
}

#[test]
fn one_semaphore_can_be_two_parts() {
    let semaphore = Semaphore::new(2);
    let twice = all((&semaphore, &semaphore));
    drop(twice.try_acquire().unwrap());
    semaphore.set_permits(1);
    // It waits for itself: that is the caller's mistake, and does no harm to anybody else for good.
    let waiter = Waiter::parked(twice.acquire());
    assert_eq!(twice.try_acquire().unwrap_err().part(), Some(0));
    drop(waiter);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn costs_are_taken_in_every_part_and_one_that_is_too_large_is_refused() {
    let (slots, memory) = (Semaphore::new(2), Semaphore::new(100));
    let large = all((&slots, memory.cost(60)));
    let permits = large.try_acquire().unwrap();
    assert_eq!(
        (slots.available_permits(), memory.available_permits()),
        (1, 40)
    );
    assert_eq!(kind(large.try_acquire()), ErrorKind::NoPermits);
    let mut waiter = Waiter::parked(large.acquire());
    assert_eq!((slots.available_permits(), memory.waiting()), (0, 1));

    let too_large = all((memory.cost(101), &slots)).try_acquire().unwrap_err();
    assert_eq!(
        (too_large.kind(), too_large.part()),
        (ErrorKind::ExceedsCapacity, Some(0))
    );
    assert_eq!(too_large.capacity(), Some(100));
    drop(permits);
    let (slot, megabytes) = waiter.granted();
    assert_eq!((slot.count(), megabytes.count()), (1, 60));
    drop((slot, megabytes));
    let too_large = Waiter::new(all((&slots, memory.cost(101))).acquire()).output();
    let too_large = too_large.unwrap_err();
    assert_eq!(
        (too_large.part(), too_large.capacity()),
        (Some(1), Some(100))
    );
    assert_at_rest(&slots, 2);
    assert_at_rest(&memory, 100);
}

#[test]
fn a_full_line_of_a_later_part_refuses_and_frees_the_earlier_one() {
    let (user, everyone) = (Semaphore::new(3), Semaphore::new(1).max_waiters(1));
    let held = everyone.try_acquire().unwrap();
    let mut waiter = Waiter::parked(all((&user, &everyone)).acquire());
    let refused = Waiter::new(all((&user, &everyone)).acquire())
        .output()
        .unwrap_err();
    assert_eq!(
        (refused.kind(), refused.part()),
        (ErrorKind::QueueFull, Some(1))
    );
    assert_eq!(user.available_permits(), 2);
    drop(held);
    drop(waiter.granted());
    assert_at_rest(&user, 3);
    assert_at_rest(&everyone, 1);
}

#[test]
fn clones_share_the_parts_and_a_wait_needs_no_composition() {
    let (a, b) = (Arc::new(Semaphore::new(2)), Arc::new(Semaphore::new(2)));
    let throttle = all((Arc::clone(&a), Arc::clone(&b)));
    let clone = throttle.clone();
    let permits = (
        throttle.try_acquire().unwrap(),
        clone.try_acquire().unwrap(),
    );
    assert_eq!(kind(throttle.try_acquire()), ErrorKind::NoPermits);
    // The wait shares the parts as well.
    let mut waiter = Waiter::parked(throttle.acquire());
    drop((throttle, clone));
    drop(permits);
    drop(waiter.granted());
    drop(waiter);
    assert_eq!((Arc::strong_count(&a), Arc::strong_count(&b)), (1, 1));
    assert_at_rest(&a, 2);
    assert_at_rest(&b, 2);
}

#[test]
fn to_undo_a_composition_of_semaphores_is_to_drop_its_permits() {
    let (a, b) = (Semaphore::new(1), Semaphore::new(1));
    let throttle = all((&a, &b));
    let permits = throttle.try_enter().unwrap();
    let mut waiter = Waiter::parked(throttle.enter());
    throttle.rollback(permits);
    drop(waiter.granted());
    assert_at_rest(&a, 1);
    assert_at_rest(&b, 1);
}

#[test]
fn resizing_a_part_lets_a_composition_go_on() {
    let (a, b) = (Semaphore::new(1), Semaphore::new(0));
    let mut waiter = Waiter::parked(all((&a, &b)).acquire());
    b.set_permits(1);
    assert_eq!(waiter.wakes(), 1);
    drop(waiter.granted());
    // A shrink that makes it impossible is an answer too.
    let held = b.try_acquire().unwrap();
    b.set_permits(2);
    let mut waiter = Waiter::parked(all((&a, b.cost(2))).acquire());
    b.set_permits(1);
    let refused = waiter.output().unwrap_err();
    assert_eq!(
        (refused.kind(), refused.part()),
        (ErrorKind::ExceedsCapacity, Some(1))
    );
    drop(held);
    assert_at_rest(&a, 1);
    assert_at_rest(&b, 1);
}
