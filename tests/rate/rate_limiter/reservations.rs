//! Reservations: places in the queue that are looked at, awaited or given up.

use std::time::Duration;
use tollgate::Waiting;

use tollgate::{Clock, ErrorKind, Oversize, Quota, RateLimiter, Reservation};

use super::scene::{FIFTY, TEN, TICK, assert_due, assert_limited, at, limiter, line, ms, spent};
use crate::support::random::Random;
use crate::support::{Waiter, kind};

fn reserve(limiter: &RateLimiter, costs: &[u64]) -> Vec<Waiting<Reservation>> {
    let costs = costs.iter();
    costs
        .map(|cost| limiter.reserve_many(*cost).unwrap())
        .collect()
}

fn delays(reservations: &[Waiting<Reservation>]) -> Vec<Duration> {
    reservations
        .iter()
        .map(|reservation| reservation.delay())
        .collect()
}

#[test]
fn each_knows_when_its_turn_comes() {
    let (clock, limiter) = limiter(FIFTY);
    let reservations = reserve(&limiter, &[20, 40, 1, 50]);
    assert_eq!(delays(&reservations), [ms(0), ms(100), ms(110), ms(610)]);
    assert_eq!(limiter.waiting(), 3);
    let costs: Vec<_> = reservations
        .iter()
        .map(|reservation| reservation.cost())
        .collect();
    assert_eq!(costs, [20, 40, 1, 50]);
    clock.advance(ms(100) - TICK);
    assert_eq!(delays(&reservations)[1..3], [TICK, ms(10) + TICK]);
    clock.advance(TICK + ms(3));
    assert_eq!(delays(&reservations), [ms(0), ms(0), ms(7), ms(507)]);
}

#[test]
fn the_delay_only_shrinks_whoever_comes_and_goes() {
    let (clock, limiter) = spent(FIFTY);
    let mut random = Random::new(3);
    let mut others = line(&limiter, &[7; 20]);
    let reservation = limiter.reserve_many(30).unwrap();
    let mut last = reservation.delay();
    assert_eq!(last, ms(10 * (7 * 20 + 30)));
    while !last.is_zero() {
        match random.below(3) {
            0 if !others.is_empty() => {
                let which = random.below(others.len() as u32) as usize;
                drop(others.swap_remove(which));
            }
            1 => others.push(Waiter::parked(limiter.acquire_many(7))),
            _ => clock.advance(ms(9)),
        }
        let next = reservation.delay();
        assert!(next <= last, "{next:?} after {last:?}");
        last = next;
    }
    assert!(Waiter::new(reservation).output().is_ok());
}

#[test]
fn the_delay_grows_by_a_charge() {
    let (_clock, limiter) = spent(TEN);
    let reservation = limiter.reserve().unwrap();
    limiter.charge(3);
    assert_eq!(reservation.delay(), ms(400));
}

#[test]
fn dropped_in_any_order_they_give_back_exactly_what_they_took() {
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];
    // Some are charged at once, others wait in line, depending on what is there.
    for taken in [0, 10, 45, 50] {
        for order in orders {
            let (clock, limiter) = limiter(FIFTY);
            limiter.try_acquire_many(taken).unwrap();
            clock.advance(ms(5));
            let before = limiter.peek();
            let mut reservations = reserve(&limiter, &[20, 40, 3]).into_iter().map(Some);
            let mut reservations: [_; 3] = std::array::from_fn(|_| reservations.next().unwrap());
            for place in order {
                drop(reservations[place].take());
            }
            assert_eq!(limiter.peek(), before, "{order:?} after {taken}");
            assert_eq!(limiter.waiting(), 0);
        }
    }
}

#[test]
fn two_hundred_dropped_in_any_order_give_back_exactly_what_they_took() {
    for seed in 0..20 {
        let quota = Quota::per_second(100).burst(200);
        let (_clock, limiter) = limiter(quota);
        let before = limiter.peek();
        let mut reservations = reserve(&limiter, &[1; 200]);
        assert_eq!((limiter.available(), limiter.waiting()), (0, 0));
        let mut random = Random::new(seed);
        while !reservations.is_empty() {
            let which = random.below(reservations.len() as u32) as usize;
            drop(reservations.swap_remove(which));
        }
        assert_eq!(limiter.peek(), before, "seed {seed}");
    }
}

#[test]
fn one_that_is_dropped_later_leaves_no_trace_either() {
    let (clock, limiter) = limiter(TEN);
    let reservation = limiter.reserve().unwrap();
    clock.advance(ms(40));
    assert_limited(&limiter, 1, ms(60));
    drop(reservation);
    assert_eq!(limiter.peek().reset_after, Duration::ZERO);
    limiter.try_acquire().unwrap();
}

#[test]
fn one_that_is_dropped_lets_the_next_one_go_at_once() {
    let (clock, limiter) = spent(TEN);
    let reservations = reserve(&limiter, &[1, 1]);
    let mut waiter = Waiter::parked(limiter.acquire());
    drop(reservations);
    assert_due(&clock, &mut waiter, ms(100));
}

#[test]
fn one_that_was_charged_in_line_and_is_dropped_gives_back_the_rest() {
    let (clock, limiter) = spent(TEN);
    let reservation = limiter.reserve().unwrap();
    let mut next = Waiter::parked(limiter.acquire());
    clock.advance(ms(120));
    assert_eq!(reservation.delay(), Duration::ZERO);
    assert!(next.is_pending());
    drop(reservation);
    assert_eq!((next.wakes(), at(&next.granted())), (1, ms(120)));
}

#[test]
fn one_may_be_awaited() {
    let (clock, limiter) = spent(FIFTY);
    let reservation = limiter.reserve_many(3).unwrap();
    let mut behind = Waiter::parked(limiter.acquire());
    let mut reserved = Waiter::parked(reservation);
    assert_eq!(limiter.waiting(), 2);
    assert_eq!(assert_due(&clock, &mut reserved, ms(30)).cost(), 3);
    assert_due(&clock, &mut behind, ms(10));
}

#[test]
fn one_that_was_charged_at_once_is_ready_with_that_charge() {
    let (clock, limiter) = limiter(FIFTY);
    let reservation = limiter.reserve_many(3).unwrap();
    clock.advance(ms(20));
    let charge = Waiter::new(reservation).granted();
    assert_eq!((charge.cost(), at(&charge)), (3, ms(0)));
    // And it is not given back when the future goes.
    assert_eq!(limiter.peek().reset_after, ms(10));
    limiter.refund(charge);
    assert_eq!(limiter.peek().reset_after, ms(0));
}

#[test]
fn one_that_is_first_looked_at_after_its_turn_was_charged_at_its_turn() {
    let (clock, limiter) = spent(TEN);
    let reservation = limiter.reserve().unwrap();
    clock.advance(ms(1000));
    let charge = Waiter::new(reservation).granted();
    assert_eq!(at(&charge), ms(100));
}

#[test]
fn a_bounded_line_bounds_reservations_too() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(TEN).max_waiters(1).clock(&clock);
    let _charged = limiter.reserve().unwrap();
    let waiting = limiter.reserve().unwrap();
    clock.advance(ms(30));
    let error = limiter.reserve().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QueueFull);
    assert_eq!(error.retry_after(), Some(ms(70)));
    drop(waiting);
    let waiting = limiter.reserve().unwrap();
    // One that is leaked waits until its turn comes.
    std::mem::forget(waiting);
    assert_eq!(kind(limiter.reserve()), ErrorKind::QueueFull);
    clock.advance(ms(70));
    assert_eq!(limiter.reserve().unwrap().delay(), ms(100));
}

#[test]
fn one_that_is_larger_than_the_burst_waits_until_nothing_is_owed() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(FIFTY)
        .oversize(Oversize::Overdraft)
        .clock(&clock);
    limiter.try_acquire_many(4).unwrap();
    let reservations = reserve(&limiter, &[100, 1]);
    assert_eq!(delays(&reservations), [ms(40), ms(40 + 510)]);
    clock.advance(ms(40));
    assert_eq!(delays(&reservations), [ms(0), ms(510)]);
}

#[test]
fn one_in_the_line_of_a_limiter_that_closes_is_refused() {
    let (_clock, limiter) = spent(TEN);
    let reservation = limiter.reserve().unwrap();
    limiter.close();
    assert_eq!(Waiter::new(reservation).refused(), ErrorKind::Closed);
    assert_eq!(kind(limiter.reserve()), ErrorKind::Closed);
}

#[test]
fn one_shows_what_it_is() {
    let (_clock, limiter) = spent(TEN);
    let text = format!("{:?}", limiter.reserve().unwrap());
    assert!(
        text.contains("cost: 1") && text.contains("waiting: true"),
        "{text}"
    );
}

#[test]
fn one_that_does_not_fit_a_timeout_says_how_long_it_would_take() {
    let (_clock, limiter) = spent(TEN);
    let reservation = limiter.reserve().unwrap();
    let refused = Waiter::new(reservation.timeout(ms(99)))
        .output()
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TimedOut);
    assert_eq!(refused.retry_after(), Some(ms(100)));
    assert_eq!(limiter.waiting(), 0);
}

#[test]
fn delay_of_one_that_is_never_due_is_the_longest_duration() {
    let (_clock, limiter) = limiter(TEN);
    limiter.charge(u64::MAX);
    let reservation = limiter.reserve().unwrap();
    assert_eq!(reservation.delay(), Duration::MAX);
    let refused = limiter.try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), Some(Duration::MAX));
    assert_eq!(limiter.peek().retry_after, Duration::MAX);
}
