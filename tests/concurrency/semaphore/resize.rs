//! The limit changes while permits are out and callers wait: exactly, both ways.

use tollgate::{ErrorKind, Semaphore};

use crate::support::{Waiter, assert_at_rest, kind};

#[test]
fn growing_admits_those_who_now_fit() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut line: Vec<_> = (0..4)
        .map(|_| Waiter::parked(semaphore.acquire()))
        .collect();
    semaphore.set_permits(3);
    let permits: Vec<_> = line[..2].iter_mut().map(Waiter::granted).collect();
    assert!(line[2..].iter_mut().all(Waiter::is_pending));
    assert_eq!((semaphore.permits(), semaphore.available_permits()), (3, 0));
    drop((held, permits));
    drop(line);
    assert_at_rest(&semaphore, 3);
}

#[test]
fn adding_admits_those_who_now_fit() {
    let semaphore = Semaphore::new(1);
    let held = semaphore.try_acquire().unwrap();
    let mut two = Waiter::parked(semaphore.acquire());
    let mut three = Waiter::parked(semaphore.acquire());
    semaphore.add_permits(0);
    assert!(two.is_pending());
    semaphore.add_permits(1);
    let two = two.granted();
    assert!(three.is_pending());
    semaphore.add_permits(1);
    drop((held, two, three.granted()));
    assert_at_rest(&semaphore, 3);
}

#[test]
fn growing_an_idle_semaphore_frees_the_difference() {
    let semaphore = Semaphore::new(1);
    semaphore.set_permits(4);
    assert_eq!(semaphore.available_permits(), 4);
    semaphore.add_permits(2);
    assert_eq!(semaphore.available_permits(), 6);
    assert_at_rest(&semaphore, 6);
}

#[test]
fn shrinking_takes_free_permits_at_once() {
    let semaphore = Semaphore::new(5);
    let held = semaphore.try_acquire_many(2).unwrap();
    semaphore.set_permits(3);
    assert_eq!((semaphore.permits(), semaphore.available_permits()), (3, 1));
    drop(held);
    assert_at_rest(&semaphore, 3);
}

#[test]
fn shrinking_below_what_is_held_leaves_a_debt_that_releases_pay_off() {
    let semaphore = Semaphore::new(5);
    let mut held = semaphore.try_acquire_many(5).unwrap();
    semaphore.set_permits(2);
    assert_eq!((semaphore.permits(), semaphore.available_permits()), (2, 0));
    for _ in 0..3 {
        drop(held.split(1));
        assert_eq!(semaphore.available_permits(), 0);
        assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
    }
    drop(held.split(1));
    assert_eq!(semaphore.available_permits(), 1);
    drop(held);
    assert_at_rest(&semaphore, 2);
}

#[test]
fn nobody_in_line_is_admitted_before_the_debt_is_paid() {
    let semaphore = Semaphore::new(4);
    let mut held = semaphore.try_acquire_many(4).unwrap();
    let mut waiter = Waiter::parked(semaphore.acquire());
    semaphore.set_permits(1);
    for _ in 0..3 {
        drop(held.split(1));
        assert!(waiter.is_pending());
    }
    drop(held);
    drop(waiter.granted());
    assert_at_rest(&semaphore, 1);
}

#[test]
fn growing_pays_a_debt_off_before_it_admits() {
    let semaphore = Semaphore::new(4);
    let held = semaphore.try_acquire_many(4).unwrap();
    semaphore.set_permits(1);
    let mut waiter = Waiter::parked(semaphore.acquire());
    semaphore.set_permits(4);
    assert!(waiter.is_pending());
    semaphore.add_permits(1);
    drop(waiter.granted());
    drop(held);
    assert_at_rest(&semaphore, 5);
}

#[test]
fn up_and_down_again_changes_nothing() {
    let semaphore = Semaphore::new(3);
    let held = semaphore.try_acquire_many(2).unwrap();
    for limit in [7, 0, 1, 100, 2, 3] {
        semaphore.set_permits(limit);
        assert_eq!(semaphore.permits(), limit);
        assert_eq!(semaphore.available_permits(), limit.saturating_sub(2));
    }
    drop(held);
    assert_at_rest(&semaphore, 3);
}

#[test]
fn the_largest_limit_can_be_reached_and_left_with_everything_out() {
    let max = Semaphore::MAX_PERMITS;
    let semaphore = Semaphore::new(0);
    semaphore.add_permits(max);
    semaphore.add_permits(0);
    assert_eq!(semaphore.available_permits(), max);
    let held = semaphore.try_acquire_many(u32::MAX).unwrap();
    semaphore.set_permits(0);
    assert_eq!(semaphore.available_permits(), 0);
    semaphore.set_permits(max);
    assert_eq!(semaphore.available_permits(), max - u32::MAX as usize);
    semaphore.set_permits(1);
    drop(held);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn zero_is_a_pause_and_anything_else_resumes() {
    let semaphore = Semaphore::new(2);
    semaphore.set_permits(0);
    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
    let mut one = Waiter::parked(semaphore.acquire());
    let mut two = Waiter::parked(semaphore.acquire_many(2));
    assert_eq!(semaphore.waiting(), 2);
    semaphore.set_permits(2);
    let permit = one.granted();
    assert!(two.is_pending());
    drop(permit);
    drop(two.granted());
    assert_at_rest(&semaphore, 2);
}

#[test]
fn permits_that_come_back_during_a_pause_admit_nobody() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.try_acquire_many(2).unwrap();
    semaphore.set_permits(0);
    let mut waiter = Waiter::parked(semaphore.acquire());
    drop(held);
    assert!(waiter.is_pending());
    assert_eq!(semaphore.available_permits(), 0);
    semaphore.set_permits(1);
    drop(waiter.granted());
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_semaphore_may_start_paused() {
    let semaphore = Semaphore::new(0);
    let mut waiter = Waiter::parked(semaphore.acquire());
    semaphore.add_permits(1);
    drop(waiter.granted());
    assert_at_rest(&semaphore, 1);
}

#[test]
fn more_than_the_limit_waits_while_paused() {
    let semaphore = Semaphore::new(1);
    semaphore.set_permits(0);
    assert_eq!(kind(semaphore.try_acquire_many(9)), ErrorKind::NoPermits);
    let mut nine = Waiter::parked(semaphore.acquire_many(9));
    let mut ten = Waiter::parked(semaphore.acquire_many(10));
    assert_eq!(semaphore.waiting(), 2);
    // Raising the limit refuses nobody; lowering it does.
    semaphore.set_permits(8);
    assert!(nine.is_pending() && ten.is_pending());
    semaphore.set_permits(9);
    drop(nine.granted());
    assert!(ten.is_pending());
    semaphore.set_permits(0);
    semaphore.set_permits(9);
    assert!(ten.is_pending());
    semaphore.set_permits(8);
    let refusal = ten.output().unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::ExceedsCapacity);
    assert_eq!(refusal.capacity(), Some(8));
    assert_at_rest(&semaphore, 8);
}

#[test]
fn a_waiter_that_a_shrink_made_impossible_is_refused_when_it_is_at_the_head() {
    let semaphore = Semaphore::new(3);
    let held = semaphore.try_acquire_many(3).unwrap();
    let mut large = Waiter::parked(semaphore.acquire_many(3));
    semaphore.set_permits(2);
    assert_eq!(large.wakes(), 1);
    let refusal = large.output().unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::ExceedsCapacity);
    assert_eq!(refusal.capacity(), Some(2));
    drop(held);
    assert_at_rest(&semaphore, 2);
}

#[test]
fn a_waiter_that_a_shrink_made_impossible_is_not_refused_before_its_turn() {
    let semaphore = Semaphore::new(3);
    let held = semaphore.try_acquire_many(3).unwrap();
    let mut head = Waiter::parked(semaphore.acquire());
    let mut large = Waiter::parked(semaphore.acquire_many(3));
    semaphore.set_permits(2);
    assert!(large.is_pending());
    assert_eq!((large.wakes(), semaphore.waiting()), (0, 2));

    drop(held);
    drop(head.granted());
    assert_eq!(large.refused(), ErrorKind::ExceedsCapacity);
    assert_at_rest(&semaphore, 2);
}

#[test]
fn a_waiter_that_was_impossible_only_for_a_while_is_served() {
    let semaphore = Semaphore::new(3);
    let held = semaphore.try_acquire_many(3).unwrap();
    let mut head = Waiter::parked(semaphore.acquire());
    let mut large = Waiter::parked(semaphore.acquire_many(3));
    semaphore.set_permits(2);
    semaphore.set_permits(3);
    drop(held);
    drop(head.granted());
    drop(large.granted());
    assert_at_rest(&semaphore, 3);
}

#[test]
fn one_that_became_impossible_lets_those_behind_it_go() {
    let semaphore = Semaphore::new(4);
    let held = semaphore.try_acquire_many(2).unwrap();
    let mut large = Waiter::parked(semaphore.acquire_many(4));
    let mut small = Waiter::parked(semaphore.acquire());
    semaphore.set_permits(3);
    assert_eq!(large.refused(), ErrorKind::ExceedsCapacity);
    drop(small.granted());
    drop(held);
    assert_at_rest(&semaphore, 3);
}

#[test]
fn a_grant_that_was_made_before_a_shrink_is_still_received() {
    let semaphore = Semaphore::new(3);
    let held = semaphore.try_acquire_many(3).unwrap();
    let mut waiter = Waiter::parked(semaphore.acquire_many(3));
    drop(held);
    semaphore.set_permits(1);
    let permit = waiter.granted();
    assert_eq!(permit.count(), 3);
    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::NoPermits);
    drop(permit);
    assert_at_rest(&semaphore, 1);
}

#[test]
fn a_grant_that_is_passed_on_after_a_shrink_pays_the_debt_first() {
    let semaphore = Semaphore::new(2);
    let held = semaphore.try_acquire_many(2).unwrap();
    let granted = Waiter::parked(semaphore.acquire_many(2));
    let mut one = Waiter::parked(semaphore.acquire());
    let mut two = Waiter::parked(semaphore.acquire());
    drop(held);
    semaphore.set_permits(1);
    drop(granted);
    let permit = one.granted();
    assert!(two.is_pending());
    drop(permit);
    drop(two.granted());
    assert_at_rest(&semaphore, 1);
}

#[test]
fn resizing_after_the_close_admits_nobody() {
    let semaphore = Semaphore::new(1);
    semaphore.close();
    semaphore.set_permits(3);
    semaphore.add_permits(1);
    assert_eq!(kind(semaphore.try_acquire()), ErrorKind::Closed);
    assert_at_rest(&semaphore, 4);
}

/// tokio's way to wait for n others.
#[test]
fn add_permits_one_by_one_never_refuses_who_waits_for_all_of_them() {
    for (start, lowered) in [(0, 0), (3, 0), (3, 1)] {
        let semaphore = Semaphore::new(start);
        if lowered != start {
            semaphore.set_permits(lowered);
        }
        semaphore.set_permits(0);
        let mut all = Waiter::parked(semaphore.acquire_many(3));
        for added in 1..=3 {
            assert!(all.is_pending(), "{start} {lowered} {added}");
            semaphore.add_permits(1);
        }
        assert_eq!(all.granted().count(), 3);
    }
}

/// The one behind the head is made impossible, and possible again, before its turn comes.
#[test]
fn raise_after_a_lowering_makes_a_waiter_possible_again() {
    let semaphore = Semaphore::new(6);
    let held = semaphore.try_acquire_many(6).unwrap();
    let mut head = Waiter::parked(semaphore.acquire());
    let mut four = Waiter::parked(semaphore.acquire_many(4));
    semaphore.set_permits(3);
    semaphore.set_permits(5);
    semaphore.set_permits(0);
    semaphore.set_permits(3);
    drop(held);
    drop(head.granted());
    assert!(four.is_pending(), "only a lowering refuses");
    semaphore.set_permits(4);
    drop(four.granted());
    assert_at_rest(&semaphore, 4);
}

#[test]
fn forget_permits_takes_what_is_free_and_no_more() {
    let semaphore = Semaphore::new(5);
    let held = semaphore.try_acquire_many(3).unwrap();
    let mut waiter = Waiter::parked(semaphore.acquire_many(4));
    assert_eq!(semaphore.forget_permits(1), 1);
    assert!(waiter.is_pending(), "there are 4 still");
    assert_eq!(semaphore.forget_permits(9), 1);
    assert_eq!(semaphore.forget_permits(9), 0);
    assert_eq!(waiter.refused(), ErrorKind::ExceedsCapacity);
    assert_eq!((semaphore.permits(), semaphore.available_permits()), (3, 0));
    drop(held);
    assert_at_rest(&semaphore, 3);
}
