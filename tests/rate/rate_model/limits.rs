//! At the ends of what can be counted, and what is kept for those who look late.

use std::time::Duration;

use tollgate::{Clock, ErrorKind, MissedTickBehavior, Oversize, Quota, RateLimiter};

use crate::support::{Waiter, kind};

/// Nothing that was charged under the old quota is given back under the new one: its units are
/// others, and what it took was carried over.
#[test]
fn granted_before_a_change_and_dropped_after_it_mints_nothing() {
    for collects in [false, true] {
        let clock = Clock::manual();
        let limiter = RateLimiter::new(Quota::per_second(1)).clock(&clock);
        limiter.try_acquire().unwrap();
        let mut granted = Waiter::parked(limiter.acquire());
        clock.advance(Duration::from_secs(1));
        assert_eq!(granted.wakes(), 1);

        limiter.set_quota(Quota::per_hour(1));
        if collects {
            limiter.refund(granted.granted());
        }
        drop(granted);
        assert_eq!(limiter.peek().retry_after, Duration::from_secs(3600));
    }
}

/// The decision says how the limiter stood just after the charge, whatever has been given back
/// since.
#[test]
fn a_late_look_shows_how_it_stood_then() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(1).burst(10)).clock(&clock);
    limiter.try_acquire_many(10).unwrap();
    let mut granted = Waiter::parked(limiter.acquire());
    clock.advance(Duration::from_secs(1));
    clock.advance(Duration::from_secs(3));
    let later = limiter.try_acquire_many(3).unwrap();
    limiter.refund(later);
    let decision = limiter.decision(&granted.granted());
    assert_eq!((decision.limit, decision.remaining), (10, 0));
    assert_eq!(decision.reset_after, Duration::from_secs(10));
}

/// So does its cost: what was charged and given back meanwhile was not taken from it.
#[test]
fn a_late_look_shows_what_was_charged() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(1).burst(5))
        .oversize(Oversize::Overdraft)
        .clock(&clock);
    limiter.try_acquire().unwrap();
    let mut large = Waiter::parked(limiter.acquire_many(20));
    clock.advance(Duration::from_secs(1));
    let later = limiter.charge(3);
    limiter.refund(later);
    assert_eq!(large.granted().cost(), 20);
}

/// What is owed saturates, and then less was added than was asked for.
#[test]
fn a_charge_beyond_counting_gives_back_only_what_it_took() {
    let limiter = RateLimiter::new(Quota::per_second(10).burst(10)).clock(Clock::manual());
    limiter.try_acquire_many(10).unwrap();
    let endless = limiter.charge(u64::MAX);
    assert_eq!(limiter.available(), 0);
    limiter.refund(endless);
    assert_eq!(
        kind(limiter.try_acquire()),
        ErrorKind::RateLimited,
        "the ten were not given back"
    );
}

#[test]
fn the_second_charge_beyond_counting_took_nothing() {
    let limiter = RateLimiter::new(Quota::per_second(10).burst(10)).clock(Clock::manual());
    limiter.charge(u64::MAX);
    let before = limiter.peek_many(10).reset_after;
    let nothing = limiter.charge(1000);
    limiter.refund(nothing);
    assert_eq!(limiter.peek_many(10).reset_after, before);
}

/// Whoever joins a line of no places is told when it would be admitted, as a try is, and not to
/// come again at once.
#[test]
fn without_a_line_one_is_told_when_to_come_again() {
    let limiter = RateLimiter::new(Quota::per_second(1).burst(5))
        .max_waiters(0)
        .clock(Clock::manual());
    limiter.try_acquire_many(2).unwrap();
    let refused = limiter.acquire_many(5).wait().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::QueueFull);
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(2)));
}

/// A waiter that will be refused, because it asks for more than there is now, is not waited for; but
/// until it is, a call behind it may be told a later time than it needs, never an earlier one.
#[test]
fn set_quota_to_a_smaller_burst_refuses_a_waiter_at_the_head_only() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(1).burst(10)).clock(&clock);
    limiter.try_acquire_many(10).unwrap();
    let mut first = Waiter::parked(limiter.acquire());
    let mut large = Waiter::parked(limiter.acquire_many(8));
    limiter.set_quota(Quota::per_second(1).burst(2));
    let after = || limiter.try_acquire().unwrap_err().retry_after().unwrap();
    assert_eq!(after(), Duration::from_secs(10));
    clock.advance(Duration::from_secs(1));
    first.granted();
    assert_eq!(large.refused(), ErrorKind::ExceedsCapacity);
    assert_eq!(after(), Duration::from_secs(1));
    clock.advance(Duration::from_secs(1));
    limiter.try_acquire().unwrap();
}

/// Time stands still for a limiter after nine years.
#[test]
fn after_the_last_tick_nothing_is_paid_off_and_nothing_is_minted() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(1).burst(3)).clock(&clock);
    clock.advance(Duration::from_nanos((1 << 58) - 1));
    limiter.try_acquire_many(3).unwrap();
    let mut waiter = Waiter::parked(limiter.acquire());
    clock.advance(Duration::from_secs(100 * 365 * 24 * 60 * 60));
    assert!(waiter.is_pending());
    let refused = limiter.try_acquire().unwrap_err();
    assert!(refused.retry_after() > Some(Duration::from_secs(300 * 365 * 24 * 60 * 60)));
    drop(waiter);
    assert_eq!(limiter.available(), 0);
}

/// The last tick of all means never, and a clock that was moved there rings nobody for ever.
#[test]
fn who_is_never_due_is_not_rung_at_the_last_tick_of_all() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(1)).clock(&clock);
    limiter.charge(u64::MAX);
    let mut waiter = Waiter::parked(limiter.acquire());
    clock.advance(Duration::MAX);
    assert!(waiter.is_pending());
}

/// On the last tick of all, whoever becomes due by a refund is charged like everybody else.
#[test]
fn granted_at_the_last_tick_of_all_is_granted() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(1)).clock(&clock);
    clock.advance(Duration::MAX);
    let charge = limiter.try_acquire().unwrap();
    let mut waiter = Waiter::parked(limiter.acquire());
    limiter.refund(charge);
    assert_eq!(waiter.granted().cost(), 1);
}

/// Many limiters on one clock are due at one tick, and each sets its alarm anew: one after the
/// other, and not one inside the other.
#[test]
fn many_limiters_that_are_due_at_one_tick_do_not_nest() {
    let clock = Clock::manual();
    let limiters: Vec<_> = (0..5000)
        .map(|_| RateLimiter::new(Quota::per_second(1)).clock(&clock))
        .collect();
    let mut line = Vec::new();
    for limiter in &limiters {
        limiter.try_acquire().unwrap();
        line.push(Waiter::parked(limiter.acquire()));
        line.push(Waiter::parked(limiter.acquire()));
    }
    for gone in 1..=2 {
        clock.advance(Duration::from_secs(1));
        let woken = line.iter().filter(|waiter| waiter.wakes() > 0).count();
        assert_eq!(woken, gone * limiters.len());
    }
}

/// Waiters that are charged when they go lose no fraction of a nanosecond each, if the timer is on
/// time; so a call behind them is told the exact time.
#[test]
fn try_acquire_behind_a_queue_that_delays_is_told_the_exact_time() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(700_000_000))
        .missed_tick(MissedTickBehavior::Delay)
        .clock(&clock);
    limiter.try_acquire().unwrap();
    let _queue: Vec<_> = (0..100)
        .map(|_| Waiter::parked(limiter.acquire()))
        .collect();
    let after = limiter.try_acquire().unwrap_err().retry_after().unwrap();
    assert_eq!(after, Duration::from_nanos((101_u64 * 10).div_ceil(7)));
    clock.advance(after - Duration::from_nanos(1));
    assert_eq!(limiter.waiting(), 0);
    assert_eq!(kind(limiter.try_acquire()), ErrorKind::RateLimited);
    clock.advance(Duration::from_nanos(1));
    limiter.try_acquire().unwrap();
}
