//! The line: strictly first-in first-out, whatever is asked for, and safe to leave at any moment.

use tollgate::{ErrorKind, Semaphore};

use crate::support::{Waiter, assert_at_rest, kind};

#[test]
fn waiters_are_served_in_the_order_in_which_they_joined() {
    let semaphore = Semaphore::new(1);
    let mut held = semaphore.try_acquire().unwrap();
    let mut line: Vec<_> = (0..50)
        .map(|_| Waiter::parked(semaphore.acquire()))
        .collect();
    for next in 0..line.len() {
        drop(held);
        let woken: Vec<usize> = line.iter().map(Waiter::wakes).collect();
        assert_eq!(woken.iter().sum::<usize>(), next + 1);
        assert_eq!(woken[next], 1);
        assert!(line[next + 1..].iter_mut().all(Waiter::is_pending));
        held = line[next].granted();
    }
    drop(held);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn order_holds_across_costs() {
    let semaphore = Semaphore::new(5);
    let mut held = semaphore.try_acquire_many(5).unwrap();
    let mut large = Waiter::parked(semaphore.acquire_many(4));
    let mut small = Waiter::parked(semaphore.acquire());
    let mut middle = Waiter::parked(semaphore.acquire_many(3));

    drop(held.split(3));
    // Three are free, and the two behind the head would fit.
    assert_eq!(semaphore.available_permits(), 3);
    assert!(large.is_pending());
    assert_eq!((small.wakes(), middle.wakes()), (0, 0));

    drop(held.split(1));
    let large = large.granted();
    assert_eq!(small.wakes(), 0);
    drop(held);
    let small = small.granted();
    assert!(middle.is_pending());
    drop(large);
    assert_eq!(middle.granted().count(), 3);
    drop(small);
    assert_at_rest(&semaphore, 5);
}

#[test]
fn one_release_lets_everybody_go_who_fits() {
    let semaphore = Semaphore::new(6);
    let held = semaphore.try_acquire_many(6).unwrap();
    let mut line: Vec<_> = [1, 2, 3, 1]
        .map(|cost| Waiter::parked(semaphore.acquire_many(cost)))
        .into();
    drop(held);
    let permits: Vec<_> = line[..3].iter_mut().map(Waiter::granted).collect();
    assert!(line[3].is_pending());
    assert_eq!(semaphore.waiting(), 1);
    drop(permits);
    drop(line[3].granted());
    assert_at_rest(&semaphore, 6);
}

#[test]
fn nothing_is_reserved_in_part() {
    let semaphore = Semaphore::new(4);
    let mut held = semaphore.try_acquire_many(4).unwrap();
    let large = Waiter::parked(semaphore.acquire_many(4));
    for free in 1..4 {
        drop(held.split(1));
        // What has gathered for the head is still everybody's to see.
        assert_eq!(semaphore.available_permits(), free);
    }
    drop(large);
    assert_eq!(semaphore.available_permits(), 3);
    drop(semaphore.try_acquire_many(3).unwrap());
    drop(held);
    assert_at_rest(&semaphore, 4);
}

#[test]
fn newcomers_are_held_back_although_permits_are_free() {
    let semaphore = Semaphore::new(3);
    let held = semaphore.try_acquire().unwrap();
    let mut large = Waiter::parked(semaphore.acquire_many(3));
    assert_eq!(semaphore.available_permits(), 2);

    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
    let mut newcomer = Waiter::parked(semaphore.acquire());
    assert_eq!(semaphore.waiting(), 2);
    assert_eq!(semaphore.available_permits(), 2);

    drop(held);
    let large = large.granted();
    assert!(newcomer.is_pending());
    drop(large);
    drop(newcomer.granted());
    assert_at_rest(&semaphore, 3);
}

#[test]
fn a_newcomer_cannot_take_what_was_granted_to_a_woken_waiter() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut woken = Waiter::parked(semaphore.acquire());
    drop(held);
    // Granted and woken, but it has not run yet.
    assert_eq!(woken.wakes(), 1);
    assert_eq!((semaphore.waiting(), semaphore.available_permits()), (0, 0));
    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
    let mut newcomer = Waiter::parked(semaphore.acquire());
    let permit = woken.granted();
    assert!(newcomer.is_pending());
    drop(permit);
    drop(newcomer.granted());
}

#[test]
fn a_future_joins_at_its_first_poll() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut made_first = Waiter::new(semaphore.acquire());
    let mut polled_first = Waiter::parked(semaphore.acquire());
    assert_eq!(semaphore.waiting(), 1);
    assert!(made_first.is_pending());
    assert_eq!(semaphore.waiting(), 2);

    drop(held);
    assert_eq!((polled_first.wakes(), made_first.wakes()), (1, 0));
    drop(polled_first.granted());
    drop(made_first.granted());
}

#[test]
fn never_polled_is_not_in_line() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let stored = semaphore.acquire();
    assert_eq!(semaphore.waiting(), 0);
    drop(held);
    drop(semaphore.try_acquire().unwrap());
    drop(stored);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn polling_again_does_not_move_a_waiter() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut first = Waiter::parked(semaphore.acquire());
    let mut second = Waiter::parked(semaphore.acquire());
    for _ in 0..10 {
        assert!(first.is_pending());
    }
    assert_eq!(semaphore.waiting(), 2);
    drop(held);
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    drop(first.granted());
    drop(second.granted());
}

#[test]
fn polled_and_then_put_aside_keeps_its_place_and_then_its_permit() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut aside = Waiter::parked(semaphore.acquire());
    let mut behind = Waiter::parked(semaphore.acquire());
    drop(held);
    for _ in 0..10 {
        assert!(behind.is_pending());
    }
    assert_eq!((semaphore.available_permits(), behind.wakes()), (0, 0));

    let permit = aside.granted();
    assert!(behind.is_pending());
    drop(permit);
    drop(behind.granted());
}

#[test]
fn polled_and_then_put_aside_gives_way_when_it_is_dropped() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let aside = Waiter::parked(semaphore.acquire());
    let mut behind = Waiter::parked(semaphore.acquire());
    drop(held);
    drop(aside);
    assert_eq!(behind.wakes(), 1);
    drop(behind.granted());
    assert_at_rest(&semaphore, 1);
}

#[test]
fn cancelled_head_passes_permits_on() {
    let semaphore = Semaphore::new(4);
    let held = semaphore.try_acquire_many(4).unwrap();
    let head = Waiter::parked(semaphore.acquire_many(3));
    let mut next = Waiter::parked(semaphore.acquire_many(2));
    let mut last = Waiter::parked(semaphore.acquire_many(2));
    drop(held);
    assert_eq!((head.wakes(), next.wakes(), last.wakes()), (1, 0, 0));
    drop(head);
    assert_eq!((next.wakes(), last.wakes()), (1, 1));
    drop((next.granted(), last.granted()));
    assert_at_rest(&semaphore, 4);
}

#[test]
fn a_grant_is_passed_on_along_a_line_that_leaves_one_by_one() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut line: Vec<_> = (0..40)
        .map(|_| Waiter::parked(semaphore.acquire()))
        .collect();
    drop(held);
    while line.len() > 1 {
        assert_eq!((line[0].wakes(), line[1].wakes()), (1, 0));
        drop(line.remove(0));
    }
    drop(line[0].granted());
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_large_head_that_leaves_lets_the_small_ones_go() {
    let semaphore = Semaphore::new(5);
    let held = semaphore.try_acquire_many(2).unwrap();
    let large = Waiter::parked(semaphore.acquire_many(5));
    let mut small: Vec<_> = (0..3)
        .map(|_| Waiter::parked(semaphore.acquire()))
        .collect();
    let mut one_too_many = Waiter::parked(semaphore.acquire());

    drop(large);
    assert!(small.iter().all(|waiter| waiter.wakes() == 1));
    let permits: Vec<_> = small.iter_mut().map(Waiter::granted).collect();
    assert!(one_too_many.is_pending());
    drop(held);
    drop(one_too_many.granted());
    drop(permits);
    assert_at_rest(&semaphore, 5);
}

#[test]
fn one_that_leaves_from_the_middle_disturbs_nobody() {
    let semaphore = Semaphore::new(3);
    let held = semaphore.try_acquire_many(3).unwrap();
    let mut first = Waiter::parked(semaphore.acquire_many(3));
    let second = Waiter::parked(semaphore.acquire_many(3));
    let mut third = Waiter::parked(semaphore.acquire_many(3));
    drop(second);
    assert_eq!(semaphore.waiting(), 2);
    assert_eq!((first.wakes(), third.wakes()), (0, 0));
    drop(held);
    drop(first.granted());
    drop(third.granted());
    assert_at_rest(&semaphore, 3);
}

#[test]
fn the_last_one_that_leaves_opens_the_line_to_newcomers() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.try_acquire().unwrap();
    let large = Waiter::parked(semaphore.acquire_many(2));
    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
    drop(large);
    let other = semaphore.try_acquire().unwrap();
    drop((held, other));
    assert_at_rest(&semaphore, 2);
}

#[test]
fn a_place_that_was_left_is_not_taken_over_by_who_comes_next() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let first = Waiter::parked(semaphore.acquire());
    let mut second = Waiter::parked(semaphore.acquire());
    drop(first);
    // The memory of the first may serve again, its turn may not.
    let mut newcomer = Waiter::parked(semaphore.acquire());
    drop(held);
    assert_eq!((second.wakes(), newcomer.wakes()), (1, 0));
    drop(second.granted());
    drop(newcomer.granted());
}

#[test]
fn a_waiter_is_woken_once_and_only_when_its_turn_has_come() {
    let semaphore = Semaphore::new(3);
    let mut held = semaphore.try_acquire_many(3).unwrap();
    let mut waiter = Waiter::parked(semaphore.acquire_many(2));
    drop(held.split(1));
    assert_eq!(waiter.wakes(), 0);
    drop(held.split(1));
    assert_eq!(waiter.wakes(), 1);
    drop(held);
    assert_eq!(waiter.wakes(), 1);
    drop(waiter.granted());
    assert_eq!(waiter.wakes(), 1);
}

#[test]
fn a_release_between_two_polls_is_not_missed() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut waiter = Waiter::parked(semaphore.acquire());
    assert!(waiter.is_pending());
    drop(held);
    // Polled for another reason, before it got to know of its wake.
    drop(waiter.granted());
    assert_at_rest(&semaphore, 1);
}

/// A grant leaves no trace in the line, so its slot is free for others before it is collected.
#[test]
fn a_granted_waiter_is_not_mistaken_for_who_joined_after_it() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.try_acquire_many(2).unwrap();
    let mut collected = Waiter::parked(semaphore.acquire());
    let dropped = Waiter::parked(semaphore.acquire());
    drop(held);
    let mut newcomers: Vec<_> = (0..3)
        .map(|_| Waiter::parked(semaphore.acquire_many(2)))
        .collect();
    let permit = collected.granted();
    drop(dropped);
    assert_eq!(semaphore.waiting(), 3);
    assert!(newcomers.iter_mut().all(Waiter::is_pending));
    drop(permit);
    for waiter in &mut newcomers {
        drop(waiter.granted());
    }
    assert_at_rest(&semaphore, 2);
}

#[test]
fn grants_and_refusals_that_nobody_has_collected_yet_are_kept_apart() {
    let semaphore = Semaphore::new(3);
    let held = semaphore.try_acquire_many(3).unwrap();
    let mut before = Waiter::parked(semaphore.acquire());
    let mut too_large = Waiter::parked(semaphore.acquire_many(3));
    let mut after = Waiter::parked(semaphore.acquire());
    semaphore.set_permits(2);
    drop(held);
    // All three have been served. Collected from the end to the front:
    assert_eq!(semaphore.waiting(), 0);
    let after = after.granted();
    assert_eq!(too_large.refused(), ErrorKind::ExceedsCapacity);
    let before = before.granted();
    // And closed, while one grant and one refusal are open.
    let mut granted = Waiter::parked(semaphore.acquire());
    let mut closed = Waiter::parked(semaphore.acquire());
    drop(before);
    semaphore.close();
    assert_eq!(closed.refused(), ErrorKind::Closed);
    drop((granted.granted(), after));
    assert_at_rest(&semaphore, 2);
}

/// The memory of a long line is given back while some of its grants have not been collected.
#[test]
fn a_grant_outlives_the_memory_of_the_line() {
    let semaphore = Semaphore::new(2000);
    let held = semaphore.try_acquire_many(2000).unwrap();
    let mut line: Vec<_> = (0..1000)
        .map(|_| Waiter::parked(semaphore.acquire()))
        .collect();
    drop(held);
    // Short lines, one after the other, until the memory of the long one is not kept any more.
    for _ in 0..100 {
        let rest = semaphore.try_acquire_many(1000).unwrap();
        let mut short = Waiter::parked(semaphore.acquire());
        drop(rest);
        drop(short.granted());
    }
    drop(line.split_off(500));
    let permits: Vec<_> = line.iter_mut().map(Waiter::granted).collect();
    assert_eq!(semaphore.available_permits(), 1500);
    drop(permits);
    assert_at_rest(&semaphore, 2000);
}
