//! The one alarm of a line: it is moved when somebody is due earlier, and goes off for nothing when
//! somebody is due later. On each kind of clock.
//!
//! Each case says after how many milliseconds whom it let go was charged.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate::{AcquireError, Charge, Clock, ErrorKind, Quota, QuotaChange, RateLimiter};

use super::super::{SECOND, block_on, ends, millis};
use crate::support::{Counter, Waiter};

/// One in 10 ms.
const QUOTA: Quota = Quota::per_second(100);

/// A limiter to which its whole burst is owed, and the charge for it.
fn owed(clock: &Clock, quota: Quota) -> (RateLimiter, Charge) {
    let limiter = RateLimiter::new(quota).clock(clock);
    let charge = limiter.try_acquire_many(quota.max_burst()).unwrap();
    (limiter, charge)
}

/// Somebody in line, who is `due` so many milliseconds after `since`. On the time of the machine it may
/// be that late already when it comes: then it is charged, and has not come before its time.
fn joined<F>(wait: F, since: &Charge, due: u64) -> Waiter<F>
where
    F: Future<Output = Result<Charge, AcquireError>>,
{
    let mut waiter = Waiter::new(wait);
    if let Poll::Ready(result) = waiter.poll() {
        // What is promised is exact to one nanosecond, the resolution of the clock.
        let after = result.unwrap().at().saturating_since(since.at());
        assert!(after + Duration::from_nanos(1) >= millis(due), "{after:?}");
    }
    waiter
}

/// How long after that it was charged, in milliseconds.
fn after(first: &Charge, charge: &Charge) -> u128 {
    charge.at().saturating_since(first.at()).as_millis()
}

async fn a_newcomer_is_due_before_the_alarm_of_one_who_left(clock: Clock) -> Vec<u128> {
    let (limiter, first) = owed(&clock, QUOTA.burst(5));
    drop(joined(limiter.acquire_many(5), &first, 50));
    let charge = limiter.acquire().await.unwrap();
    vec![after(&first, &charge)]
}

async fn the_next_is_due_earlier_when_the_head_leaves(clock: Clock) -> Vec<u128> {
    let (limiter, first) = owed(&clock, QUOTA.burst(5));
    let head = joined(limiter.acquire_many(5), &first, 50);
    let next = async { limiter.acquire().await.unwrap() };
    let last = async { limiter.acquire().await.unwrap() };
    let leaves = async { drop(head) };
    let (next, last, ()) = futures::join!(next, last, leaves);
    vec![after(&first, &next), after(&first, &last)]
}

async fn a_refund_makes_the_head_due_earlier(clock: Clock) -> Vec<u128> {
    let (limiter, first) = owed(&clock, QUOTA.burst(5));
    let tick = first.at();
    let head = async { limiter.acquire_many(5).await.unwrap() };
    let (charge, ()) = futures::join!(head, async { limiter.settle(first, 2) });
    vec![charge.at().saturating_since(tick).as_millis()]
}

async fn a_faster_quota_makes_the_head_due_earlier(clock: Clock) -> Vec<u128> {
    let (limiter, first) = owed(&clock, Quota::per_hour(1));
    let head = async { limiter.acquire().await.unwrap() };
    let next = async { limiter.acquire().await.unwrap() };
    let (head, next, ()) = futures::join!(head, next, async { limiter.set_quota(QUOTA) });
    vec![after(&first, &head), after(&first, &next)]
}

async fn a_slower_quota_makes_the_head_due_later(clock: Clock) -> Vec<u128> {
    let (limiter, first) = owed(&clock, QUOTA);
    let head = async { limiter.acquire().await.unwrap() };
    let slower =
        async { limiter.set_quota_with(Quota::new(1, millis(30)), QuotaChange::KeepSpent) };
    let (head, ()) = futures::join!(head, slower);
    vec![after(&first, &head)]
}

async fn a_quota_goes_from_fast_to_slow_and_back(clock: Clock) -> Vec<u128> {
    let (limiter, first) = owed(&clock, QUOTA);
    let head = async { limiter.acquire().await.unwrap() };
    let changes = async {
        for quota in [
            Quota::per_hour(1),
            Quota::per_day(1),
            Quota::new(1, millis(20)),
        ] {
            limiter.set_quota(quota);
        }
    };
    let (head, ()) = futures::join!(head, changes);
    vec![after(&first, &head)]
}

async fn a_charge_makes_the_head_due_later(clock: Clock) -> Vec<u128> {
    let (limiter, first) = owed(&clock, QUOTA);
    let head = async { limiter.acquire().await.unwrap() };
    let (head, _) = futures::join!(head, async { limiter.charge(3) });
    vec![after(&first, &head)]
}

async fn an_alarm_that_nobody_waits_for_any_more_hinders_nobody(clock: Clock) -> Vec<u128> {
    let (limiter, first) = owed(&clock, QUOTA);
    drop(joined(limiter.acquire(), &first, 10));
    limiter.charge(1);
    // In line when the alarm of the one who left goes off.
    let charge = limiter.acquire().await.unwrap();
    drop(joined(limiter.acquire(), &charge, 10));
    let last = limiter.acquire().await.unwrap();
    vec![after(&first, &charge), after(&first, &last)]
}

async fn a_confirmed_reservation_is_passed_by_the_alarm_alone(clock: Clock) -> Vec<u128> {
    let (limiter, first) = owed(&clock, QUOTA);
    std::mem::forget(limiter.reserve().unwrap());
    std::mem::forget(limiter.reserve().unwrap());
    let charge = limiter.acquire().await.unwrap();
    vec![after(&first, &charge)]
}

/// By hand: a millisecond at a time, when nobody can go on.
fn on_manual_time(run: impl AsyncFnOnce(Clock) -> Vec<u128>) -> Vec<u128> {
    let clock = Clock::manual();
    let mut future = pin!(run(Clock::from(&clock)));
    let counter = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&counter));
    let mut woken = 0;
    while clock.now().as_nanos() < 1_000_000_000 {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        while counter.count() == woken && clock.now().as_nanos() < 1_000_000_000 {
            clock.advance(millis(1));
        }
        woken = counter.count();
    }
    panic!("it was stranded");
}

#[cfg(feature = "tokio")]
fn on_tokio_time(run: impl AsyncFnOnce(Clock) -> Vec<u128>) -> Vec<u128> {
    crate::support::paused_runtime().block_on(async {
        let ended = tokio::time::timeout(86_400 * SECOND, run(Clock::tokio())).await;
        ended.expect("it is not stranded")
    })
}

macro_rules! on_each_clock {
    ($($case:ident: $expected:expr;)*) => {
        mod on_manual_time {
            $(#[test] fn $case() {
                assert_eq!(super::on_manual_time(super::$case), $expected);
            })*
        }

        #[cfg(feature = "tokio")]
        mod on_tokio_time {
            $(#[test] fn $case() {
                assert_eq!(super::on_tokio_time(super::$case), $expected);
            })*
        }

        /// It ends; and not earlier, if one does not count how late it was to begin.
        mod on_the_time_of_the_machine {
            $(#[test] fn $case() {
                let run = || super::block_on(super::$case(super::Clock::system()));
                let charged: Vec<u128> = super::ends(run);
                assert_eq!(charged.len(), $expected.len());
            })*
        }
    };
}

on_each_clock! {
    a_newcomer_is_due_before_the_alarm_of_one_who_left: [10];
    the_next_is_due_earlier_when_the_head_leaves: [10, 20];
    a_refund_makes_the_head_due_earlier: [20];
    a_faster_quota_makes_the_head_due_earlier: [10, 20];
    a_slower_quota_makes_the_head_due_later: [30];
    a_quota_goes_from_fast_to_slow_and_back: [20];
    a_charge_makes_the_head_due_later: [40];
    an_alarm_that_nobody_waits_for_any_more_hinders_nobody: [20, 30];
    a_confirmed_reservation_is_passed_by_the_alarm_alone: [30];
}

#[test]
fn an_alarm_that_goes_off_for_nothing_wakes_nobody() {
    let clock = Clock::manual();
    let (limiter, _) = owed(&Clock::from(&clock), QUOTA);
    let mut waiter = Waiter::parked(limiter.acquire());
    limiter.charge(1);
    clock.advance(millis(10));
    assert_eq!((waiter.wakes(), limiter.waiting()), (0, 1));
    clock.advance(millis(10));
    assert_eq!(waiter.wakes(), 1);
    waiter.granted();
}

#[test]
fn closing_needs_no_alarm() {
    let clock = Clock::manual();
    let (limiter, _) = owed(&Clock::from(&clock), QUOTA);
    let mut waiters = [(); 20].map(|()| Waiter::parked(limiter.acquire()));
    limiter.close();
    assert!(waiters.iter().all(|waiter| waiter.wakes() == 1));
    clock.advance(SECOND);
    for waiter in &mut waiters {
        assert_eq!(waiter.wakes(), 1);
        assert_eq!(waiter.refused(), ErrorKind::Closed);
    }
}

#[test]
fn a_limiter_that_is_dropped_while_its_alarm_is_set_rings_nobody() {
    let clock = Clock::manual();
    let (limiter, _) = owed(&Clock::from(&clock), QUOTA);
    let counter = Arc::new(Counter::default());
    let weak = Arc::downgrade(&counter);
    let mut waiter = Waiter::new(limiter.acquire());
    assert!(waiter.poll_with(&Waker::from(counter)).is_pending());
    drop(waiter);
    std::mem::forget(limiter.reserve().unwrap());
    drop(limiter);
    assert_eq!(weak.strong_count(), 0);
    clock.advance(SECOND);
}

/// The limiter is gone, but not who waits.
#[test]
fn an_owned_wait_outlives_its_limiter() {
    let clock = Clock::manual();
    let (limiter, _) = owed(&Clock::from(&clock), QUOTA);
    let limiter = Arc::new(limiter);
    let mut waiters = [(); 2].map(|()| Waiter::parked(Arc::clone(&limiter).acquire_owned()));
    drop(limiter);
    clock.advance(Duration::from_millis(20));
    let ticks = waiters
        .each_mut()
        .map(|waiter| waiter.granted().at().as_nanos());
    assert_eq!(ticks, [10_000_000, 20_000_000]);
}
