//! The one timer of a queue, on each kind of clock: an earlier due tick arms it again, and it fires
//! without effect when the head is due later.
//!
//! Each case lists the times, in milliseconds, at which its waiters were charged.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::future::join_all;
use tollgate::rate::{Charge, QuotaChange};
use tollgate::{AcquireError, Clock, Quota, RateLimiter};

use crate::support::{Counter, Waiter};
use crate::{SECOND, block_on, ends, millis};

/// One per 10 ms.
const QUOTA: Quota = Quota::per_second(100);

/// Returns a limiter whose whole burst is owed, and the charge for it.
fn owed(clock: &Clock, quota: Quota) -> (RateLimiter, Charge) {
    let limiter = RateLimiter::new(quota).clock(clock);
    let charge = limiter.try_acquire_many(quota.max_burst()).unwrap();
    (limiter, charge)
}

/// Joins a waiter that is due `due` milliseconds after `since`. On system time the waiter may already
/// come later than that: then it is charged, and has not come before its time.
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

/// Returns how long after the first it was charged, in milliseconds.
fn after(first: &Charge, charge: &Charge) -> u128 {
    charge.at().saturating_since(first.at()).as_millis()
}

async fn newcomer_due_before_the_timer_of_one_that_left(clock: Clock) -> Vec<u128> {
    let (limiter, first) = owed(&clock, QUOTA.burst(5));
    drop(joined(limiter.acquire_many(5), &first, 50));
    let charge = limiter.acquire().await.unwrap();
    vec![after(&first, &charge)]
}

async fn next_due_earlier_when_the_head_leaves(clock: Clock) -> Vec<u128> {
    let (limiter, first) = owed(&clock, QUOTA.burst(5));
    let head = joined(limiter.acquire_many(5), &first, 50);
    let next = async { limiter.acquire().await.unwrap() };
    let last = async { limiter.acquire().await.unwrap() };
    let leaves = async { drop(head) };
    let (next, last, ()) = futures::join!(next, last, leaves);
    vec![after(&first, &next), after(&first, &last)]
}

async fn refund_makes_the_head_due_earlier(clock: Clock) -> Vec<u128> {
    let (limiter, first) = owed(&clock, QUOTA.burst(5));
    let tick = first.at();
    let head = async { limiter.acquire_many(5).await.unwrap() };
    let (charge, ()) = futures::join!(head, async { limiter.settle(first, 2) });
    vec![charge.at().saturating_since(tick).as_millis()]
}

/// Returns the charge times of callers that were queued before a change.
async fn queued(
    count: usize,
    clock: Clock,
    quota: Quota,
    change: impl FnOnce(&RateLimiter),
) -> Vec<u128> {
    let (limiter, first) = owed(&clock, quota);
    let queued = join_all((0..count).map(|_| limiter.acquire()));
    let (charges, ()) = futures::join!(queued, async { change(&limiter) });
    let charges = charges.into_iter().map(Result::unwrap);
    charges.map(|charge| after(&first, &charge)).collect()
}

async fn faster_quota_makes_the_head_due_earlier(clock: Clock) -> Vec<u128> {
    queued(2, clock, Quota::per_hour(1), |limiter| {
        limiter.set_quota(QUOTA);
    })
    .await
}

async fn slower_quota_makes_the_head_due_later(clock: Clock) -> Vec<u128> {
    let slower = Quota::new(1, millis(30));
    let change = |limiter: &RateLimiter| limiter.set_quota_with(slower, QuotaChange::KeepSpent);
    queued(1, clock, QUOTA, change).await
}

async fn quota_from_fast_to_slow_and_back(clock: Clock) -> Vec<u128> {
    let back = Quota::new(1, millis(20));
    let quotas = [Quota::per_hour(1), Quota::per_day(1), back];
    let change = |limiter: &RateLimiter| {
        for quota in quotas {
            limiter.set_quota(quota);
        }
    };
    queued(1, clock, QUOTA, change).await
}

async fn charge_makes_the_head_due_later(clock: Clock) -> Vec<u128> {
    queued(1, clock, QUOTA, |limiter| {
        limiter.charge(3);
    })
    .await
}

async fn timer_of_one_that_left_hinders_nobody(clock: Clock) -> Vec<u128> {
    let (limiter, first) = owed(&clock, QUOTA);
    drop(joined(limiter.acquire(), &first, 10));
    limiter.charge(1);
    // It joins while the timer of the waiter that left fires.
    let charge = limiter.acquire().await.unwrap();
    drop(joined(limiter.acquire(), &charge, 10));
    let last = limiter.acquire().await.unwrap();
    vec![after(&first, &charge), after(&first, &last)]
}

async fn leaked_reservation_is_passed_by_the_timer_alone(clock: Clock) -> Vec<u128> {
    let (limiter, first) = owed(&clock, QUOTA);
    std::mem::forget(limiter.reserve().unwrap());
    std::mem::forget(limiter.reserve().unwrap());
    let charge = limiter.acquire().await.unwrap();
    vec![after(&first, &charge)]
}

/// Runs a case in manual time: a millisecond at a time, whenever nothing can progress.
fn on_manual_time(run: Case) -> Vec<u128> {
    let clock = Clock::manual();
    let mut future = run(Clock::from(&clock));
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
fn on_tokio_time(run: Case) -> Vec<u128> {
    crate::support::paused_runtime().block_on(async {
        let ended = tokio::time::timeout(86_400 * SECOND, run(Clock::tokio())).await;
        ended.expect("it is not stranded")
    })
}

type Case = fn(Clock) -> Pin<Box<dyn Future<Output = Vec<u128>>>>;

/// Cases, and the charge times of the waiters that each granted.
macro_rules! cases {
    ($($case:ident => $charged:expr;)+) => {
        &[$((|clock| Box::pin($case(clock)), &$charged)),+]
    };
}

const CASES: &[(Case, &[u128])] = cases! {
    newcomer_due_before_the_timer_of_one_that_left => [10];
    next_due_earlier_when_the_head_leaves => [10, 20];
    refund_makes_the_head_due_earlier => [20];
    faster_quota_makes_the_head_due_earlier => [10, 20];
    slower_quota_makes_the_head_due_later => [30];
    quota_from_fast_to_slow_and_back => [20];
    charge_makes_the_head_due_later => [40];
    timer_of_one_that_left_hinders_nobody => [20, 30];
    leaked_reservation_is_passed_by_the_timer_alone => [30];
};

#[test]
fn timer_is_exact_on_manual_time() {
    for (case, &(run, expected)) in CASES.iter().enumerate() {
        assert_eq!(on_manual_time(run), expected, "case {case}");
    }
}

#[cfg(feature = "tokio")]
#[test]
fn timer_is_exact_on_tokio_time() {
    for (case, &(run, expected)) in CASES.iter().enumerate() {
        assert_eq!(on_tokio_time(run), expected, "case {case}");
    }
}

/// Each wait ends, and not earlier, apart from a late beginning.
#[test]
fn timer_of_the_machine_strands_nobody() {
    for &(run, expected) in CASES {
        let charged = ends(move || block_on(run(Clock::system())));
        assert_eq!(charged.len(), expected.len());
    }
}

#[test]
fn limiter_dropped_while_its_timer_is_armed_wakes_nobody() {
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
