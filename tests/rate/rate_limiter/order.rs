//! Strictly first-in first-out, whatever is asked for, and each at its tick.

use std::time::Duration;

use tollgate::{ErrorKind, Quota};

use super::scene::{
    FIFTY, TEN, TICK, assert_due, assert_limited, at, charged, limiter, line, ms, spent,
};
use crate::support::random::Random;
use crate::support::{Waiter, kind};

#[test]
fn a_one_never_passes_a_fifty_that_waits() {
    let (clock, limiter) = spent(FIFTY);
    let mut fifty = Waiter::parked(limiter.acquire_many(50));
    let mut ones = line(&limiter, &[1; 8]);
    clock.advance(ms(500) - TICK);
    // Forty-nine could be had by now.
    assert_eq!(limiter.available(), 49);
    assert!(ones.iter_mut().all(Waiter::is_pending));
    assert_due(&clock, &mut fifty, TICK);
    clock.advance(ms(80));
    let expected: Vec<_> = (1..=8).map(|n| ms(500 + 10 * n)).collect();
    assert_eq!(charged(&mut ones), expected);
}

#[test]
fn a_stream_of_ones_does_not_starve_a_fifty() {
    let (clock, limiter) = spent(FIFTY);
    let mut ones = line(&limiter, &[1; 8]);
    let mut fifty = Waiter::parked(limiter.acquire_many(50));
    let mut passed = 0;
    // Eight tasks that each ask for one again as soon as they have one.
    let charge = loop {
        clock.advance(ms(10));
        if let std::task::Poll::Ready(charge) = fifty.poll() {
            break charge.unwrap();
        }
        for one in &mut ones {
            if one.poll().is_ready() {
                passed += 1;
                *one = Waiter::parked(limiter.acquire());
            }
        }
    };
    assert_eq!((passed, at(&charge)), (8, ms(80 + 500)));
}

#[test]
fn any_costs_are_granted_in_order_each_at_its_tick() {
    let (clock, limiter) = spent(FIFTY);
    let mut random = Random::new(7);
    let costs: Vec<_> = (0..300).map(|_| u64::from(1 + random.below(50))).collect();
    let mut waiters = line(&limiter, &costs);
    assert_eq!(limiter.waiting(), 300);
    let mut asked = 0;
    let due: Vec<_> = costs
        .iter()
        .map(|cost| {
            asked += cost;
            ms(10 * asked)
        })
        .collect();
    // In one step, with nobody polled on the way.
    clock.advance(ms(10 * asked));
    assert!(waiters.iter().all(|waiter| waiter.wakes() == 1));
    assert_eq!(charged(&mut waiters), due);
    assert_eq!(limiter.waiting(), 0);
}

#[test]
fn a_try_is_refused_while_others_wait_even_if_there_is_enough() {
    let (clock, limiter) = limiter(FIFTY);
    limiter.try_acquire_many(20).unwrap();
    let mut forty = Waiter::parked(limiter.acquire_many(40));
    assert_eq!(limiter.available(), 30);
    // Forty are due in 100 ms, and this one behind them.
    assert_limited(&limiter, 1, ms(110));
    assert_limited(&limiter, 30, ms(400));
    assert_limited(&limiter, 50, ms(600));
    assert_eq!(limiter.available(), 30);
    assert_due(&clock, &mut forty, ms(100));
    clock.advance(ms(10) - TICK);
    assert_limited(&limiter, 1, TICK);
    clock.advance(TICK);
    limiter.try_acquire().unwrap();
}

#[test]
fn a_refusal_charges_nothing_and_its_time_is_exact() {
    let quotas = [
        Quota::per_second(3),
        Quota::per_second(3).burst(3),
        Quota::per_second(700_000_000),
        Quota::new(3, Duration::from_nanos(10)),
        Quota::new(3, Duration::from_nanos(10)).burst(7),
        Quota::per_hour(7).burst(2),
        Quota::per_day(1),
    ];
    for quota in quotas {
        let (clock, limiter) = spent(quota);
        for cost in (1..=quota.max_burst()).cycle().take(20) {
            let stands = limiter.peek();
            let error = limiter.try_acquire_many(cost).unwrap_err();
            assert_eq!(limiter.peek(), stands);
            let after = error.retry_after().unwrap();
            clock.advance(after - TICK);
            assert_limited(&limiter, cost, TICK);
            clock.advance(TICK);
            limiter.try_acquire_many(cost).unwrap();
        }
    }
}

#[test]
fn after_any_pause_at_most_the_burst_goes_at_once() {
    for pause in [ms(500), ms(501), Duration::from_secs(3600 * 24 * 365)] {
        let (clock, limiter) = spent(FIFTY);
        clock.advance(pause);
        for _ in 0..50 {
            assert_eq!(limiter.try_acquire().unwrap().at(), clock.now());
        }
        assert_limited(&limiter, 1, ms(10));
    }
}

#[test]
fn a_newcomer_joins_at_the_end() {
    let (clock, limiter) = limiter(FIFTY);
    limiter.try_acquire_many(20).unwrap();
    let mut forty = Waiter::parked(limiter.acquire_many(40));
    // There are thirty, but not for this one.
    let mut one = Waiter::parked(limiter.acquire());
    assert_eq!(limiter.waiting(), 2);
    assert_due(&clock, &mut forty, ms(100));
    assert_due(&clock, &mut one, ms(10));
}

#[test]
fn many_that_are_due_at_one_tick_go_in_order() {
    let (clock, limiter) = spent(Quota::per_second(1000).burst(100));
    let first = Waiter::parked(limiter.acquire_many(100));
    let mut others = line(&limiter, &[1; 100]);
    clock.advance(ms(100) - TICK);
    // All but one are due when the first one leaves.
    drop(first);
    let gone = others.iter().filter(|waiter| waiter.wakes() == 1).count();
    assert_eq!((gone, limiter.waiting()), (99, 1));
    let expected = ms(100) - TICK;
    assert_eq!(charged(&mut others[..99]), [expected; 99]);
    assert_due(&clock, &mut others[99], TICK);
}

#[test]
fn to_ask_for_nothing_passes_the_line_and_costs_nothing() {
    let (clock, limiter) = spent(TEN);
    let mut waiter = Waiter::parked(limiter.acquire());
    let stands = limiter.peek();
    let charge = limiter.try_acquire_many(0).unwrap();
    assert_eq!((charge.cost(), charge.at()), (0, clock.now()));
    let charge = Waiter::new(limiter.acquire_many(0)).granted();
    assert_eq!(charge.cost(), 0);
    limiter.refund(charge);
    let reservation = limiter.reserve_many(0).unwrap();
    assert_eq!(reservation.delay(), Duration::ZERO);
    drop(reservation);
    limiter.charge(0);
    assert_eq!(limiter.peek_many(0).retry_after, Duration::ZERO);
    assert_eq!((limiter.peek(), limiter.waiting()), (stands, 1));
    assert_due(&clock, &mut waiter, ms(100));
}

#[test]
fn more_than_the_burst_is_refused_at_once() {
    let (_clock, limiter) = spent(FIFTY);
    let _first = Waiter::parked(limiter.acquire());
    for cost in [51, 1000, u64::MAX / 2, u64::MAX] {
        let error = limiter.try_acquire_many(cost).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ExceedsCapacity);
        assert_eq!(error.capacity(), Some(50));
        let error = Waiter::new(limiter.acquire_many(cost))
            .output()
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ExceedsCapacity);
        assert_eq!(error.capacity(), Some(50));
        let refused = kind(limiter.reserve_many(cost));
        assert_eq!(refused, ErrorKind::ExceedsCapacity);
        assert_eq!(limiter.peek_many(cost).retry_after, Duration::MAX);
    }
    assert_eq!(limiter.waiting(), 1);
}
