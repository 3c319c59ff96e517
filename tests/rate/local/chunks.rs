//! What is taken ahead, and what a call gets of it.

use std::time::Duration;

use tollgate::{Clock, ErrorKind, ManualClock, Oversize, Quota, RateLimiter};

use crate::support::kind;

pub(super) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// One each 10 ms, and up to so many at once.
pub(super) fn limiter(burst: u64) -> (ManualClock, RateLimiter) {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(100).burst(burst)).clock(&clock);
    (clock, limiter)
}

#[test]
fn nothing_is_taken_before_the_first_call() {
    let (_clock, limiter) = limiter(50);
    let local = limiter.local(32);
    assert_eq!((local.buffered(), local.batch()), (0, 32));
    assert_eq!(limiter.available(), 50);
}

#[test]
fn a_chunk_lets_as_many_through_without_the_limiter() {
    let (_clock, limiter) = limiter(50);
    let mut local = limiter.local(10);
    for round in 1..=5 {
        for left in (0..10).rev() {
            local.try_acquire().unwrap();
            assert_eq!(local.buffered(), left);
            assert_eq!(limiter.available(), 50 - 10 * round);
        }
    }
    assert_eq!(kind(local.try_acquire()), ErrorKind::RateLimited);
}

#[test]
fn a_chunk_of_one_takes_nothing_ahead() {
    let (_clock, limiter) = limiter(2);
    let mut local = limiter.local(1);
    local.try_acquire().unwrap();
    assert_eq!((local.buffered(), limiter.available()), (0, 1));
    local.try_acquire().unwrap();
    assert_eq!(kind(local.try_acquire()), ErrorKind::RateLimited);
}

#[test]
fn a_burst_below_a_chunk_is_taken_as_it_is_and_not_exceeded() {
    for chunk in [3, 32, u64::MAX] {
        for burst in 1..=3 {
            let (clock, limiter) = limiter(burst);
            let mut local = limiter.local(chunk);
            for _ in 0..burst {
                local.try_acquire().unwrap();
            }
            assert_eq!(limiter.available(), 0);
            let refused = local.try_acquire().unwrap_err();
            assert_eq!(refused.retry_after(), Some(ms(10)));
            // From then on it is one by one, and none is missed.
            for _ in 0..20 {
                clock.advance(ms(10));
                local.try_acquire().unwrap();
                assert_eq!(kind(local.try_acquire()), ErrorKind::RateLimited);
            }
        }
    }
}

/// What is there is taken in whole tokens, and the part of one that is left goes on growing.
#[test]
fn what_is_there_of_a_chunk_is_taken_at_once() {
    let (clock, limiter) = limiter(50);
    limiter.try_acquire_many(50).unwrap();
    clock.advance(ms(75));
    let mut local = limiter.local(32);
    local.try_acquire().unwrap();
    assert_eq!((local.buffered(), limiter.available()), (6, 0));
    local.try_acquire_many(6).unwrap();
    let refused = local.try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), Some(ms(5)));
    clock.advance(ms(5));
    local.try_acquire().unwrap();
}

#[test]
fn a_refusal_tells_when_the_call_itself_would_be_let_through() {
    let (clock, limiter) = limiter(50);
    let mut local = limiter.local(32);
    limiter.try_acquire_many(50).unwrap();
    for cost in [1, 7, 50] {
        let refused = local.try_acquire_many(cost).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::RateLimited);
        assert_eq!(refused.retry_after(), Some(ms(10 * cost)));
    }
    // Not a tick earlier.
    clock.advance(ms(70) - Duration::from_nanos(1));
    let refused = local.try_acquire_many(7).unwrap_err();
    assert_eq!(refused.retry_after(), Some(Duration::from_nanos(1)));
    clock.advance(Duration::from_nanos(1));
    local.try_acquire_many(7).unwrap();
}

#[test]
fn a_call_for_more_than_is_in_hand_takes_the_rest_from_the_limiter() {
    let (_clock, limiter) = limiter(50);
    let mut local = limiter.local(8);
    local.try_acquire_many(5).unwrap();
    // Three in hand and one of the next chunk.
    local.try_acquire_many(4).unwrap();
    assert_eq!((local.buffered(), limiter.available()), (7, 34));
    // More than a chunk: what is missing, and no more.
    local.try_acquire_many(20).unwrap();
    assert_eq!((local.buffered(), limiter.available()), (0, 21));
    local.try_acquire_many(21).unwrap();
    assert_eq!(limiter.available(), 0);
}

#[test]
fn a_call_that_is_refused_leaves_what_is_in_hand() {
    let (clock, limiter) = limiter(50);
    let mut local = limiter.local(8);
    local.try_acquire().unwrap();
    limiter.try_acquire_many(42).unwrap();
    // Seven in hand, so what is missing is three.
    let refused = local.try_acquire_many(10).unwrap_err();
    assert_eq!(refused.retry_after(), Some(ms(30)));
    assert_eq!(local.buffered(), 7);
    clock.advance(ms(30));
    local.try_acquire_many(10).unwrap();
    assert_eq!((local.buffered(), limiter.available()), (0, 0));
}

#[test]
fn to_ask_for_nothing_takes_nothing_and_fails_only_if_it_is_closed() {
    let (_clock, limiter) = limiter(50);
    let mut local = limiter.local(8);
    local.try_acquire_many(0).unwrap();
    assert_eq!((local.buffered(), limiter.available()), (0, 50));
    local.try_acquire().unwrap();
    local.try_acquire_many(0).unwrap();
    limiter.try_acquire_many(42).unwrap();
    local.try_acquire_many(0).unwrap();
    assert_eq!((local.buffered(), limiter.available()), (7, 0));
    limiter.close();
    assert_eq!(kind(local.try_acquire_many(0)), ErrorKind::Closed);
}

/// Also with enough of it in hand that the rest would fit: what can never be had does not depend on
/// what was left of something else.
#[test]
fn more_than_the_burst_is_refused_whatever_is_in_hand() {
    let (_clock, limiter) = limiter(50);
    let mut local = limiter.local(32);
    for _ in 0..2 {
        for cost in [51, 82, u64::MAX] {
            let refused = local.try_acquire_many(cost).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ExceedsCapacity);
            assert_eq!(refused.capacity(), Some(50));
        }
        local.try_acquire().unwrap();
    }
    assert_eq!((local.buffered(), limiter.available()), (30, 18));
}

#[test]
fn more_than_the_burst_may_leave_a_debt_and_leaves_what_is_in_hand() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(100).burst(50))
        .oversize(Oversize::Overdraft)
        .clock(&clock);
    let mut local = limiter.local(8);
    local.try_acquire().unwrap();
    let refused = local.try_acquire_many(60).unwrap_err();
    assert_eq!(refused.retry_after(), Some(ms(80)));
    clock.advance(ms(80));
    local.try_acquire_many(60).unwrap();
    assert_eq!(limiter.peek().retry_after, ms(110));
    local.try_acquire_many(7).unwrap();
    // Beyond the burst is owed, so it is not to be had by a chunk either.
    let refused = local.try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), Some(ms(110)));
}

/// A quota of which a token is no whole number of nanoseconds.
#[test]
fn chunks_of_an_odd_quota_are_exact() {
    let clock = Clock::manual();
    let quota = Quota::new(3, Duration::from_nanos(10)).burst(7);
    let limiter = RateLimiter::new(quota).clock(&clock);
    let mut local = limiter.local(4);
    let (mut through, mut passed) = (0, 0);
    while passed < 3000 {
        while local.try_acquire().is_ok() {
            through += 1;
        }
        clock.advance(Duration::from_nanos(1));
        passed += 1;
    }
    assert_eq!(through, 7 + 2999 * 3 / 10);
}

#[test]
fn a_refusal_of_a_limiter_with_jitter_is_longer_by_that() {
    let limiter = RateLimiter::new(Quota::per_second(100))
        .jitter(ms(5))
        .clock(Clock::manual());
    let mut local = limiter.local(4);
    local.try_acquire().unwrap();
    let mut told = |_| local.try_acquire().unwrap_err().retry_after().unwrap();
    let told: Vec<_> = (0..100).map(&mut told).collect();
    assert!(told.iter().all(|after| (ms(10)..=ms(15)).contains(after)));
    assert!(told.iter().any(|after| *after > ms(10)));
}
