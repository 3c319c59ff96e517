//! Limiters on a manual clock, and repeated assertions about them.

use std::future::Future;
use std::time::Duration;
use tollgate::wait::Waiting;

use tollgate::rate::Charge;
use tollgate::time::ManualClock;
use tollgate::{AcquireError, Clock, Quota, RateLimiter, Throttle};

use crate::support::Waiter;

/// The resolution of the clock.
pub(crate) const TICK: Duration = Duration::from_nanos(1);

/// One per 100 ms.
pub(crate) const TEN: Quota = Quota::per_second(10);

/// One per 10 ms, and up to fifty at once.
pub(crate) const FIFTY: Quota = Quota::per_second(100).burst(50);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) fn limiter(quota: Quota) -> (ManualClock, RateLimiter) {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(quota).clock(&clock);
    (clock, limiter)
}

/// Returns a limiter whose whole burst has been taken.
pub(crate) fn spent(quota: Quota) -> (ManualClock, RateLimiter) {
    let (clock, limiter) = limiter(quota);
    limiter.try_acquire_many(quota.max_burst()).unwrap();
    (clock, limiter)
}

/// Returns a waiter for each of these costs, queued in this order.
pub(crate) fn queue<'a>(
    limiter: &'a RateLimiter,
    costs: &[u64],
) -> Vec<Waiter<Waiting<<&'a RateLimiter as Throttle>::Enter>>> {
    let costs = costs.iter();
    costs
        .map(|cost| Waiter::parked(limiter.acquire_many(*cost)))
        .collect()
}

/// Returns the time of a charge, since the clock began.
pub(crate) fn at(charge: &Charge) -> Duration {
    Duration::from_nanos(charge.at().as_nanos())
}

/// Returns the charge times of the granted waiters.
#[track_caller]
pub(crate) fn charged<F>(waiters: &mut [Waiter<F>]) -> Vec<Duration>
where
    F: Future<Output = Result<Charge, AcquireError>>,
{
    let waiters = waiters.iter_mut();
    waiters.map(|waiter| at(&waiter.granted())).collect()
}

/// Asserts that it is granted after this time, not a tick earlier, and is woken once for it.
#[track_caller]
pub(crate) fn assert_due<F>(clock: &ManualClock, waiter: &mut Waiter<F>, after: Duration) -> Charge
where
    F: Future<Output = Result<Charge, AcquireError>>,
{
    clock.advance(after - TICK);
    assert!(waiter.is_pending(), "granted too early");
    assert_eq!(waiter.wakes(), 0);
    clock.advance(TICK);
    assert_eq!(waiter.wakes(), 1, "not woken when it was due");
    let charge = waiter.granted();
    assert_eq!(charge.at(), clock.now());
    charge
}
