//! Who waits where, what is held meanwhile, and in which order two should be listed.

use tollgate::{Semaphore, all};

use crate::support::{Waiter, assert_at_rest};

#[test]
fn a_waiter_for_the_wide_scope_holds_the_narrow_one_and_not_the_reverse() {
    let (user, other_user) = (Semaphore::new(1), Semaphore::new(1));
    let (team, everyone) = (Semaphore::new(2), Semaphore::new(2));
    let held = everyone.try_acquire_many(2).unwrap();

    let mut waiter = Waiter::parked(all((&user, &team, &everyone)).acquire());
    assert_eq!((user.available_permits(), team.available_permits()), (0, 1));
    assert_eq!(
        (team.snapshot().waiting, everyone.snapshot().waiting),
        (0, 1)
    );
    // Another request of the same user waits for the user, and holds nothing of the others.
    let mut same_user = Waiter::parked(all((&user, &team, &everyone)).acquire());
    assert_eq!(
        (
            user.snapshot().waiting,
            team.available_permits(),
            everyone.snapshot().waiting
        ),
        (1, 1, 1)
    );
    let mut third = Waiter::parked(all((&other_user, &team, &everyone)).acquire());
    assert_eq!(
        (team.available_permits(), everyone.snapshot().waiting),
        (0, 2)
    );

    drop(held);
    let (permits, permits_of_third) = (waiter.granted(), third.granted());
    assert!(same_user.is_pending());
    assert_eq!(
        (team.available_permits(), everyone.available_permits()),
        (0, 0)
    );
    drop(permits);
    drop((same_user.granted(), permits_of_third));
    for (semaphore, limit) in [(&user, 1), (&other_user, 1), (&team, 2), (&everyone, 2)] {
        assert_at_rest(semaphore, limit);
    }
}

#[test]
fn uncollected_grants_go_to_the_next_waiter_of_each_part() {
    let (narrow, wide) = (Semaphore::new(2), Semaphore::new(1));
    let held = wide.try_acquire().unwrap();
    let granted = Waiter::parked(all((&narrow, &wide)).acquire());
    let mut of_wide = Waiter::parked(wide.acquire());
    let of_narrow = narrow.try_acquire().unwrap();
    let mut next_of_narrow = Waiter::parked(narrow.acquire());
    drop(held);
    assert_eq!(
        (granted.wakes(), of_wide.wakes(), next_of_narrow.wakes()),
        (1, 0, 0)
    );
    drop(granted);
    assert_eq!((of_wide.wakes(), next_of_narrow.wakes()), (1, 1));
    drop((of_wide.granted(), next_of_narrow.granted(), of_narrow));
    assert_at_rest(&narrow, 2);
    assert_at_rest(&wide, 1);
}

/// Each has what the other one waits for.
#[test]
fn two_that_list_two_semaphores_in_opposite_orders_wait_for_each_other() {
    let (a, b) = (Semaphore::new(1), Semaphore::new(1));
    let (held_a, held_b) = (a.try_acquire().unwrap(), b.try_acquire().unwrap());
    let mut one = Waiter::parked(all((&a, &b)).acquire());
    let mut other = Waiter::parked(all((&b, &a)).acquire());
    drop((held_a, held_b));
    for _ in 0..10 {
        assert!(one.is_pending() && other.is_pending());
    }
    // Nobody else has a permit, nobody can be let in, and nobody will be woken any more.
    assert_eq!((a.available_permits(), b.available_permits()), (0, 0));
    assert_eq!((a.snapshot().waiting, b.snapshot().waiting), (1, 1));
    assert_eq!((one.wakes(), other.wakes()), (1, 1));
    // One that gives up lets the other one go.
    drop(one);
    assert_eq!(other.wakes(), 2);
    drop(other.granted());
    assert_at_rest(&a, 1);
    assert_at_rest(&b, 1);
}
