//! Wakers that panic: all others are granted and woken at their tick, and nothing is poisoned.

use tollgate::ErrorKind;

use crate::setup::{FIFTY, TEN, assert_due, assert_limited, at, charged, ms, queue, spent};
use crate::support::foreign::{panics_when_woken, throws_a_bomb_when_woken};
use crate::support::{Waiter, kind};

/// One after the other, and forty at one tick: which wakers of them panic.
#[test]
fn waker_that_panics_leaves_the_others_granted_and_woken() {
    for (count, each, at_once) in [(30, 3, false), (40, 2, true)] {
        let (clock, limiter) = spent(FIFTY);
        let large = Waiter::parked(limiter.acquire_many(50));
        let mut waiters: Vec<_> = (0..count)
            .map(|name| {
                let mut waiter = Waiter::new(limiter.acquire());
                match name % each {
                    0 => assert!(waiter.poll_with(&panics_when_woken()).is_pending()),
                    _ => assert!(waiter.is_pending()),
                }
                waiter
            })
            .collect();
        let ticks: Vec<_> = if at_once {
            clock.advance(ms(450));
            drop(large);
            vec![ms(450); count]
        } else {
            drop(large);
            clock.advance(ms(3000));
            (1..=count as u64).map(|n| ms(10 * n)).collect()
        };
        for (name, waiter) in waiters.iter().enumerate() {
            assert_eq!(waiter.wakes(), usize::from(name % each != 0));
        }
        assert_eq!(charged(&mut waiters), ticks);
    }
}

/// Not out of the timer, a refund, a head that leaves, another quota, or the close.
#[test]
fn panic_of_a_waker_goes_no_further() {
    let (clock, limiter) = spent(TEN);
    let panicking = || {
        let mut waiter = Waiter::new(limiter.acquire());
        assert!(waiter.poll_with(&panics_when_woken()).is_pending());
        waiter
    };
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
fn panic_of_a_waker_and_of_its_payload_poisons_nothing() {
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
    let mut waiters = queue(&limiter, &[1, 1]);
    assert_eq!(limiter.snapshot().waiting, 2);
    limiter.set_quota(FIFTY);
    limiter.close();
    assert_eq!(waiters[0].refused(), ErrorKind::Closed);
    assert_eq!(kind(limiter.try_acquire()), ErrorKind::Closed);
}
