//! Compositions of real semaphores: the types of permits, and what is taken.

use std::sync::Arc;

use tollgate::{ErrorKind, OwnedPermit, Permit, Semaphore, all};

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
    assert_eq!(
        (slots.available_permits(), memory.snapshot().waiting),
        (0, 1)
    );

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
