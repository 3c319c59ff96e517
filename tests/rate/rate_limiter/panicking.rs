//! Wakers that panic: everybody else is granted and woken at their tick, and nothing is poisoned.

use tollgate::ErrorKind;

use super::scene::{FIFTY, TEN, assert_due, assert_limited, at, charged, line, ms, spent};
use crate::support::foreign::{panics_when_woken, throws_a_bomb_when_woken};
use crate::support::{Waiter, kind};

#[test]
fn the_others_are_granted_at_their_ticks() {
    let (clock, limiter) = spent(TEN);
    let mut waiters: Vec<_> = (0..30)
        .map(|name| {
            let mut waiter = Waiter::new(limiter.acquire());
            match name % 3 {
                0 => assert!(waiter.poll_with(&panics_when_woken()).is_pending()),
                _ => assert!(waiter.is_pending()),
            }
            waiter
        })
        .collect();
    clock.advance(ms(3000));
    for (name, waiter) in waiters.iter().enumerate() {
        assert_eq!(waiter.wakes(), usize::from(name % 3 != 0));
    }
    let expected: Vec<_> = (1..=30).map(|n| ms(100 * n)).collect();
    assert_eq!(charged(&mut waiters), expected);
}

#[test]
fn a_crowd_that_goes_at_one_tick_is_woken_to_the_last() {
    let (clock, limiter) = spent(FIFTY);
    let large = Waiter::parked(limiter.acquire_many(50));
    let mut waiters: Vec<_> = (0..40)
        .map(|name| {
            let mut waiter = Waiter::new(limiter.acquire());
            match name % 2 {
                0 => assert!(waiter.poll_with(&panics_when_woken()).is_pending()),
                _ => assert!(waiter.is_pending()),
            }
            waiter
        })
        .collect();
    clock.advance(ms(450));
    drop(large);
    let woken = waiters.iter().filter(|waiter| waiter.wakes() == 1).count();
    assert_eq!(woken, 20);
    assert_eq!(charged(&mut waiters), [ms(450); 40]);
}

#[test]
fn the_panic_goes_no_further() {
    let (clock, limiter) = spent(TEN);
    let panicking = || {
        let mut waiter = Waiter::new(limiter.acquire());
        assert!(waiter.poll_with(&panics_when_woken()).is_pending());
        waiter
    };
    // Not out of the alarm, a refund, a leaving head, another quota, or the close.
    let mut first = panicking();
    clock.advance(ms(100));
    let charge = first.granted();
    let mut second = panicking();
    limiter.refund(charge);
    second.granted();
    let head = Waiter::parked(limiter.acquire());
    let mut third = panicking();
    clock.advance(ms(150));
    drop(head);
    third.granted();
    let mut fourth = panicking();
    limiter.set_quota_with(TEN.burst(2), tollgate::QuotaChange::KeepSpent);
    fourth.granted();
    limiter.charge(1);
    let mut fifth = panicking();
    limiter.close();
    assert_eq!(fifth.refused(), ErrorKind::Closed);
}

#[test]
fn nothing_is_poisoned() {
    let (clock, limiter) = spent(TEN);
    let mut waiter = Waiter::new(limiter.acquire());
    assert!(waiter.poll_with(&throws_a_bomb_when_woken()).is_pending());
    let mut next = Waiter::parked(limiter.acquire());
    // Whether the panic of its payload goes further is left open.
    let advance = std::panic::AssertUnwindSafe(|| clock.advance(ms(100)));
    let _ = std::panic::catch_unwind(advance).map_err(std::mem::forget);
    assert_eq!(at(&waiter.granted()), ms(100));
    assert_due(&clock, &mut next, ms(100));
    assert_limited(&limiter, 1, ms(100));
    let mut waiters = line(&limiter, &[1, 1]);
    assert_eq!(limiter.snapshot().waiting, 2);
    limiter.set_quota(FIFTY);
    limiter.close();
    assert_eq!(waiters[0].refused(), ErrorKind::Closed);
    assert_eq!(kind(limiter.try_acquire()), ErrorKind::Closed);
}
