//! Each promise where it is tight.

use std::time::Duration;

use tollgate::{Algorithm, Clock, ManualClock, Quota, RateLimiter};

const SECOND: Duration = Duration::from_secs(1);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Ten a second.
fn limiter(algorithm: Algorithm) -> (ManualClock, RateLimiter) {
    let clock = Clock::manual();
    clock.advance(100 * SECOND);
    let limiter = RateLimiter::new(Quota::per_second(10))
        .algorithm(algorithm)
        .clock(&clock);
    (clock, limiter)
}

/// Takes whatever is to be had, one at a time, and says how many that were.
fn take(limiter: &RateLimiter) -> usize {
    std::iter::from_fn(|| limiter.try_acquire().ok()).count()
}

#[track_caller]
fn assert_refused_for(limiter: &RateLimiter, after: Duration) {
    let refused = limiter.try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), Some(after));
}

#[test]
fn a_bucket_is_filled_by_batches_and_keeps_the_burst() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(10).burst(25))
        .algorithm(Algorithm::TokenBucket)
        .clock(&clock);
    assert_eq!(take(&limiter), 25);
    clock.advance(ms(999));
    assert_refused_for(&limiter, ms(1));
    clock.advance(ms(1));
    assert_eq!(take(&limiter), 10);
    clock.advance(ms(1500));
    assert_eq!(take(&limiter), 10);
    clock.advance(100 * SECOND);
    assert_eq!(take(&limiter), 25);
}

#[test]
fn of_a_bucket_that_holds_less_than_a_batch_the_rest_is_lost() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(10).burst(4))
        .algorithm(Algorithm::TokenBucket)
        .clock(&clock);
    for _ in 0..3 {
        assert_eq!(take(&limiter), 4);
        clock.advance(SECOND);
    }
}

/// The known weakness, which is why there are the others.
#[test]
fn around_the_edge_of_a_fixed_window_there_are_twice_as_many() {
    let (clock, limiter) = limiter(Algorithm::FixedWindow);
    clock.advance(ms(999));
    assert_eq!(take(&limiter), 10);
    assert_refused_for(&limiter, ms(1));
    clock.advance(ms(1));
    assert_eq!(take(&limiter), 10);
    assert_refused_for(&limiter, SECOND);
}

#[test]
fn of_the_window_before_a_sliding_window_counts_what_is_left_of_it() {
    let (clock, limiter) = limiter(Algorithm::SlidingWindow);
    clock.advance(ms(999));
    assert_eq!(take(&limiter), 10);
    // It is all in the window before, a whole period long.
    clock.advance(ms(1));
    assert_refused_for(&limiter, ms(100));
    clock.advance(ms(500));
    assert_eq!(take(&limiter), 5);
    assert_refused_for(&limiter, ms(100));
    clock.advance(ms(500));
    // Five are in the window before.
    assert_eq!(limiter.available(), 5);
}

/// The estimate takes those before for evenly spread, so if they are not it may be too many,
/// though never twice as many.
#[test]
fn a_sliding_window_may_let_nearly_twice_as_many_through_in_a_period() {
    let (clock, limiter) = limiter(Algorithm::SlidingWindow);
    clock.advance(SECOND - Duration::from_nanos(1));
    assert_eq!(take(&limiter), 10);
    // Within a nanosecond less than a period nine more.
    clock.advance(SECOND - Duration::from_nanos(1));
    assert_eq!(take(&limiter), 9);
}

#[test]
fn each_of_a_log_comes_back_after_a_period() {
    let algorithm = Algorithm::SlidingLog;
    let (clock, limiter) = limiter(algorithm);
    for _ in 0..5 {
        limiter.try_acquire().unwrap();
        clock.advance(ms(100));
    }
    assert_eq!(take(&limiter), 5);
    // For a short log a second has units of 2 ns, of which all of these are multiples.
    for after in [500, 100, 100, 100, 100] {
        assert_refused_for(&limiter, ms(after));
        clock.advance(ms(after));
        assert_eq!(take(&limiter), 1, "{algorithm}");
    }
    assert_refused_for(&limiter, ms(100));
    clock.advance(ms(100));
    assert_eq!(take(&limiter), 5, "{algorithm}");
}

#[test]
fn with_sub_intervals_no_period_has_more_than_the_count() {
    // Two in each 250 ms: any second touches five of them.
    let (clock, limiter) = limiter(Algorithm::SubInterval { parts: 4 });
    clock.advance(ms(249));
    let mut total = take(&limiter);
    for advance in [1, 250, 250, 250] {
        clock.advance(ms(advance));
        total += take(&limiter);
    }
    // From 249 to 1000 ms.
    assert_eq!(total, 10);
    assert_refused_for(&limiter, ms(250));
    assert_eq!(limiter.peek().limit, 2);
}
