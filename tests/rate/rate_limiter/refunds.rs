//! What is given back: as much of a charge as time has not paid off, in any order.

use std::time::Duration;

use tollgate::{Charge, ErrorKind, Quota, QuotaChange, RateLimiter};

use super::scene::{
    FIFTY, TEN, assert_available, assert_due, assert_limited, at, charged, limiter, line, ms, spent,
};
use crate::support::random::Random;
use crate::support::{Waiter, kind};

/// How long it would take until nothing is owed.
fn owed(limiter: &RateLimiter) -> Duration {
    limiter.peek().reset_after
}

fn charges<const N: usize>(limiter: &RateLimiter, costs: [u64; N]) -> [Option<Charge>; N] {
    costs.map(|cost| Some(limiter.try_acquire_many(cost).unwrap()))
}

#[test]
fn a_charge_given_back_at_once_leaves_no_trace() {
    let (clock, limiter) = limiter(FIFTY);
    limiter.try_acquire_many(20).unwrap();
    clock.advance(ms(33));
    let before = limiter.peek();
    let charge = limiter.try_acquire_many(30).unwrap();
    limiter.refund(charge);
    assert_eq!(limiter.peek(), before);
}

#[test]
fn a_charge_that_is_dropped_stays_charged() {
    let (_clock, limiter) = limiter(TEN);
    let _ = limiter.try_acquire().unwrap();
    assert_limited(&limiter, 1, ms(100));
}

#[test]
fn a_charge_that_is_paid_off_in_part_gives_back_the_rest() {
    let (clock, limiter) = limiter(FIFTY);
    let charge = limiter.try_acquire_many(10).unwrap();
    clock.advance(ms(64));
    limiter.refund(charge);
    assert_eq!(owed(&limiter), ms(0));
    assert_available(&limiter, 50);
}

#[test]
fn a_charge_that_is_paid_off_gives_nothing_back() {
    let (clock, limiter) = limiter(FIFTY);
    let first = limiter.try_acquire_many(10).unwrap();
    limiter.try_acquire_many(10).unwrap();
    clock.advance(ms(100));
    let before = limiter.peek();
    limiter.refund(first);
    assert_eq!(limiter.peek(), before);
    assert_eq!(before.reset_after, ms(100));
}

#[test]
fn time_pays_charges_off_in_their_order_and_each_gives_back_its_own_rest() {
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    for order in orders {
        let (clock, limiter) = limiter(FIFTY);
        let mut charges = charges(&limiter, [10, 20, 5]);
        clock.advance(ms(150));
        // The first is paid off, the second by a quarter.
        let mut rest = ms(350 - 150);
        for which in order {
            limiter.refund(charges[which].take().unwrap());
            rest -= [ms(0), ms(150), ms(50)][which];
            assert_eq!(owed(&limiter), rest, "{order:?}");
        }
    }
}

#[test]
fn a_charge_in_the_middle_makes_those_after_it_end_earlier() {
    let (clock, limiter) = limiter(FIFTY);
    let [first, second, third] = charges(&limiter, [10, 20, 5]).map(Option::unwrap);
    limiter.refund(second);
    assert_eq!(owed(&limiter), ms(150));
    // So the third is paid off from 100 to 150 ms, and the first before it.
    clock.advance(ms(120));
    limiter.refund(first);
    assert_eq!(owed(&limiter), ms(30));
    limiter.refund(third);
    assert_eq!(owed(&limiter), ms(0));
}

#[test]
fn whoever_comes_after_a_refund_is_not_given_back_by_it() {
    let (_clock, limiter) = limiter(FIFTY);
    let early = limiter.try_acquire_many(50).unwrap();
    limiter.refund(early);
    let late = limiter.try_acquire_many(50).unwrap();
    assert_limited(&limiter, 1, ms(10));
    limiter.refund(late);
    assert_available(&limiter, 50);
}

#[test]
fn two_hundred_in_any_order_give_everything_back() {
    for seed in 0..20 {
        let (_clock, limiter) = limiter(Quota::per_second(100).burst(200));
        let mut charges: Vec<_> = (0..200).map(|_| limiter.try_acquire().unwrap()).collect();
        let mut random = Random::new(seed);
        for left in (0..200).rev() {
            let which = random.below(charges.len() as u32) as usize;
            limiter.refund(charges.swap_remove(which));
            assert_eq!(owed(&limiter), ms(10 * left), "seed {seed}");
        }
    }
}

/// Only so many refunds are told apart. Those of charges that have been paid off are none of them.
#[test]
fn refunds_of_what_was_paid_off_do_not_make_later_ones_smaller() {
    let (clock, limiter) = limiter(Quota::per_second(100).burst(1025));
    for _ in 0..3000 {
        limiter.refund(limiter.try_acquire().unwrap());
        clock.advance(ms(1));
    }
    let first = limiter.try_acquire().unwrap();
    let others: Vec<_> = (0..1024).map(|_| limiter.try_acquire().unwrap()).collect();
    for charge in others {
        limiter.refund(charge);
    }
    assert_eq!(owed(&limiter), ms(10));
    limiter.refund(first);
    assert_eq!(owed(&limiter), ms(0));
}

/// In units that are nanoseconds, these are many times what fits in 64 bits.
#[test]
fn however_much_was_given_back_the_next_charge_is_given_back_in_full() {
    let (clock, limiter) = spent(FIFTY);
    let mut waiter = Waiter::parked(limiter.acquire_many(50));
    for _ in 0..100 {
        let charge = limiter.charge(u64::MAX);
        assert!(charge.cost() > 100_000_000_000);
        limiter.refund(charge);
        assert_eq!(owed(&limiter), ms(500));
    }
    let charge = assert_due(&clock, &mut waiter, ms(500));
    limiter.refund(charge);
    assert_available(&limiter, 50);
}

#[test]
fn whoever_waits_is_due_that_much_earlier() {
    let (clock, limiter) = limiter(FIFTY);
    let charge = limiter.try_acquire_many(10).unwrap();
    limiter.try_acquire_many(40).unwrap();
    let mut waiters = line(&limiter, &[5, 4, 2]);
    clock.advance(ms(30));
    limiter.refund(charge);
    // Seven were given back, and three have been paid off.
    assert_eq!(charged(&mut waiters[..2]), [ms(30); 2]);
    assert_due(&clock, &mut waiters[2], ms(10));
}

#[test]
fn a_refund_is_charged_to_the_waiter_at_the_tick_of_the_refund() {
    let (clock, limiter) = limiter(TEN);
    let charge = limiter.try_acquire().unwrap();
    let mut waiter = Waiter::parked(limiter.acquire());
    let mut next = Waiter::parked(limiter.acquire());
    clock.advance(ms(60));
    limiter.refund(charge);
    assert_eq!(at(&waiter.granted()), ms(60));
    assert_due(&clock, &mut next, ms(100));
}

#[test]
fn what_a_waiter_was_charged_can_be_given_back() {
    let (clock, limiter) = spent(TEN);
    let mut first = Waiter::parked(limiter.acquire());
    let mut second = Waiter::parked(limiter.acquire());
    clock.advance(ms(110));
    limiter.refund(first.granted());
    assert_eq!(at(&second.granted()), ms(110));
    assert_limited(&limiter, 1, ms(100));
}

#[test]
fn a_charge_of_an_earlier_quota_is_not_given_back() {
    for carry in [QuotaChange::Proportional, QuotaChange::KeepSpent] {
        let (_clock, limiter) = limiter(FIFTY);
        let charge = limiter.try_acquire_many(40).unwrap();
        limiter.set_quota_with(Quota::per_second(100).burst(60), carry);
        limiter.charge(10);
        let before = limiter.peek();
        limiter.refund(charge);
        assert_eq!(limiter.peek(), before, "{carry:?}");
    }
}

/// The same for a charge that was made in line, and was not collected before the quota changed.
#[test]
fn a_waiter_granted_under_an_earlier_quota_gives_nothing_back_when_it_leaves() {
    let (clock, limiter) = spent(TEN);
    let granted = Waiter::parked(limiter.acquire());
    clock.advance(ms(100));
    assert_eq!(granted.wakes(), 1);
    limiter.set_quota_with(TEN.burst(2), QuotaChange::KeepSpent);
    limiter.try_acquire().unwrap();
    drop(granted);
    // Otherwise another one would be admitted at the same tick.
    assert_limited(&limiter, 1, ms(100));
}

#[test]
fn a_waiter_granted_under_an_earlier_quota_cannot_be_refunded() {
    let (clock, limiter) = spent(TEN);
    let mut granted = Waiter::parked(limiter.acquire());
    clock.advance(ms(100));
    limiter.set_quota_with(TEN.burst(2), QuotaChange::KeepSpent);
    limiter.try_acquire().unwrap();
    limiter.refund(granted.granted());
    assert_limited(&limiter, 1, ms(100));
}

#[test]
fn a_refund_of_a_closed_limiter_admits_nobody() {
    let (_clock, limiter) = limiter(TEN);
    let charge = limiter.try_acquire().unwrap();
    limiter.close();
    limiter.refund(charge);
    assert_eq!(owed(&limiter), ms(0));
    assert_eq!(kind(limiter.try_acquire()), ErrorKind::Closed);
}

#[test]
fn settling_for_less_gives_the_difference_back() {
    let (clock, limiter) = limiter(FIFTY);
    let charge = limiter.try_acquire_many(30).unwrap();
    limiter.settle(charge, 12);
    assert_eq!(owed(&limiter), ms(120));
    let charge = limiter.try_acquire_many(38).unwrap();
    clock.advance(ms(300));
    // Of thirty-eight eighteen have been paid off, so it cannot cost less than that.
    limiter.settle(charge, 25);
    assert_eq!(owed(&limiter), ms(70));
    let charge = limiter.try_acquire_many(10).unwrap();
    clock.advance(ms(130));
    limiter.settle(charge, 2);
    assert_eq!(owed(&limiter), ms(0));
}

#[test]
fn settling_for_more_charges_the_difference() {
    let (_clock, limiter) = limiter(FIFTY);
    let charge = limiter.try_acquire_many(30).unwrap();
    let mut waiter = Waiter::parked(limiter.acquire_many(21));
    limiter.settle(charge, 90);
    assert_eq!(owed(&limiter), ms(900));
    assert!(waiter.is_pending());
    assert_limited(&limiter, 1, ms(10 * (90 + 21 + 1 - 50)));
}

#[test]
fn settling_for_the_same_changes_nothing() {
    let (clock, limiter) = limiter(FIFTY);
    let charge = limiter.try_acquire_many(30).unwrap();
    clock.advance(ms(10));
    let before = limiter.peek();
    limiter.settle(charge, 30);
    assert_eq!(limiter.peek(), before);
}

#[test]
fn settling_for_nothing_is_a_refund() {
    let (clock, limiter) = limiter(FIFTY);
    let charge = limiter.try_acquire_many(30).unwrap();
    clock.advance(ms(10));
    limiter.settle(charge, 0);
    assert_available(&limiter, 50);
}
