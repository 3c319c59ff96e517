//! In another process, whose windows begin at other times.

use std::time::Duration;

use tollgate::{Algorithm, Clock, Quota, RateLimiter};

const SECOND: Duration = Duration::from_secs(1);
const QUOTA: Quota = Quota::per_second(10);

/// So many milliseconds after a window has begun.
fn limiter(algorithm: Algorithm, millis: u64) -> RateLimiter {
    let clock = Clock::manual();
    clock.advance(100 * SECOND + Duration::from_millis(millis));
    RateLimiter::new(QUOTA).algorithm(algorithm).clock(&clock)
}

/// Of six that were spent, how many are available after so many milliseconds, wherever in a window
/// that was in one process and in the other.
#[track_caller]
fn available(algorithm: Algorithm, since: u64) -> u64 {
    let places = [0, 1, 400, 999];
    let available = places.map(|millis| {
        places.map(|other| {
            let before = limiter(algorithm, millis);
            before.try_acquire_many(6).unwrap();
            let after = limiter(algorithm, other);
            after.restore(before.export(), Duration::from_millis(since));
            after.available()
        })
    });
    assert_eq!(available, [[available[0][0]; 4]; 4], "{algorithm}");
    available[0][0]
}

/// In a whole period there is the end of a window for sure; in any less there need not be.
#[test]
fn nothing_comes_back_before_a_whole_period_has_passed() {
    for algorithm in [
        Algorithm::TokenBucket,
        Algorithm::FixedWindow,
        Algorithm::SlidingLog,
        Algorithm::CompactLog,
    ] {
        assert_eq!(available(algorithm, 0), 4, "{algorithm}");
        assert_eq!(available(algorithm, 999), 4, "{algorithm}");
        assert_eq!(available(algorithm, 1000), 10, "{algorithm}");
    }
}

#[test]
fn a_sliding_window_counts_in_two_periods() {
    assert_eq!(available(Algorithm::SlidingWindow, 1999), 4);
    assert_eq!(available(Algorithm::SlidingWindow, 2000), 10);
}

/// The state of a limiter of another kind, or of another version of a configuration.
#[test]
fn of_a_quota_that_this_algorithm_cannot_have_all_is_owed() {
    let five = RateLimiter::new(Quota::per_second(5)).clock(Clock::manual());
    let nothing = five.export();
    five.try_acquire().unwrap();
    let bursts = RateLimiter::new(Quota::per_second(5).burst(2)).clock(Clock::manual());
    bursts.try_acquire().unwrap();
    for algorithm in [
        Algorithm::SubInterval { parts: 8 },
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        Algorithm::SlidingLog,
        Algorithm::CompactLog,
    ] {
        let limiter = RateLimiter::new(Quota::per_second(100))
            .algorithm(algorithm)
            .clock(Clock::manual());
        let state = match algorithm {
            Algorithm::SubInterval { .. } => five.export(),
            _ => bursts.export(),
        };
        limiter.restore(state, Duration::ZERO);
        assert_eq!(limiter.available(), 0, "{algorithm}");
        assert!(limiter.try_acquire().is_err());
    }
    let limiter = RateLimiter::new(Quota::per_second(100))
        .algorithm(Algorithm::SubInterval { parts: 8 })
        .clock(Clock::manual());
    limiter.restore(nothing, Duration::ZERO);
    assert_eq!(limiter.available(), 11);
}
