//! A quota that changes all the time.

use std::time::Duration;

use tollgate::{Algorithm, Clock, Quota, RateLimiter};

const ALL: [Algorithm; 6] = [
    Algorithm::Gcra,
    Algorithm::TokenBucket,
    Algorithm::FixedWindow,
    Algorithm::SlidingWindow,
    Algorithm::SlidingLog,
    Algorithm::SubInterval { parts: 4 },
];

fn quota(algorithm: Algorithm, count: u64) -> Quota {
    let quota = Quota::per_second(count);
    match algorithm {
        Algorithm::Gcra => quota.burst(count),
        _ => quota,
    }
}

/// To say what is so already changes nothing.
#[test]
fn the_same_quota_again_and_again_is_no_change() {
    for algorithm in ALL {
        for millis in [10, 100, 400, 900, 1000, 1100] {
            let clock = Clock::manual();
            let limiter = RateLimiter::new(quota(algorithm, 50))
                .algorithm(algorithm)
                .clock(&clock);
            let other = RateLimiter::new(quota(algorithm, 50))
                .algorithm(algorithm)
                .clock(&clock);
            let most = limiter.available();
            limiter.try_acquire_many(most / 2).unwrap();
            other.try_acquire_many(most / 2).unwrap();
            for _ in 0..3000 / millis {
                limiter.set_quota(quota(algorithm, 50));
                assert_eq!(limiter.peek(), other.peek(), "{algorithm}");
                clock.advance(Duration::from_millis(millis));
            }
            assert_eq!(limiter.available(), most, "{algorithm}, {millis}");
        }
    }
}

/// Not even what can be given back.
#[test]
fn the_same_quota_again_leaves_charges_to_be_given_back() {
    for algorithm in ALL {
        let limiter = RateLimiter::new(quota(algorithm, 50))
            .algorithm(algorithm)
            .clock(Clock::manual());
        let most = limiter.available();
        let charge = limiter.try_acquire_many(most / 2).unwrap();
        limiter.set_quota(quota(algorithm, 50));
        limiter.refund(charge);
        assert_eq!(limiter.available(), most, "{algorithm}");
    }
}

#[test]
fn the_same_rate_in_other_words_is_the_same_quota() {
    let limiter = RateLimiter::new(Quota::per_second(1).burst(3)).clock(Clock::manual());
    let charge = limiter.try_acquire_many(2).unwrap();
    limiter.set_quota(Quota::per_minute(60).burst(3));
    assert_eq!(limiter.quota(), Quota::per_minute(60).burst(3));
    limiter.refund(charge);
    assert_eq!(limiter.available(), 3);
}

/// Whoever asks for a tenth of it gets that, however often it moves.
#[test]
fn a_quota_that_goes_back_and_forth_goes_on_to_admit() {
    for algorithm in ALL {
        let clock = Clock::manual();
        let limiter = RateLimiter::new(quota(algorithm, 50))
            .algorithm(algorithm)
            .clock(&clock);
        for round in 0..6000_u64 {
            if round % 20 == 0 {
                assert!(limiter.try_acquire().is_ok(), "{algorithm}, {round}");
            }
            limiter.set_quota(quota(algorithm, 50 + round % 2));
            clock.advance(Duration::from_millis(10));
        }
    }
}

/// What was spent and paid off comes back, also if the quota changes meanwhile.
#[test]
fn all_comes_back_though_the_quota_goes_back_and_forth() {
    for algorithm in ALL {
        let clock = Clock::manual();
        let limiter = RateLimiter::new(quota(algorithm, 50))
            .algorithm(algorithm)
            .clock(&clock);
        let most = limiter.available();
        limiter.try_acquire_many(most).unwrap();
        for round in 0..220_u64 {
            limiter.set_quota(quota(algorithm, 51 - round % 2));
            clock.advance(Duration::from_millis(10));
        }
        assert_eq!(limiter.quota(), quota(algorithm, 50));
        assert_eq!(limiter.available(), most, "{algorithm}");
    }
}

/// The same, if it is the period that moves. Where it is that of windows, none of them ends just
/// between two changes. In a sliding window what fades is rounded up each time.
#[test]
fn all_comes_back_though_the_period_goes_back_and_forth() {
    for algorithm in ALL {
        if algorithm == Algorithm::SlidingWindow {
            continue;
        }
        let quota = |millis| {
            let quota = Quota::new(50, Duration::from_millis(millis));
            match algorithm {
                Algorithm::Gcra => quota.burst(50),
                _ => quota,
            }
        };
        let clock = Clock::manual();
        let limiter = RateLimiter::new(quota(1000))
            .algorithm(algorithm)
            .clock(&clock);
        let most = limiter.available();
        limiter.try_acquire_many(most).unwrap();
        for round in 0..200_u64 {
            limiter.set_quota(quota(1001 - round % 2));
            clock.advance(Duration::from_millis(11));
        }
        assert_eq!(limiter.quota(), quota(1000));
        assert_eq!(limiter.available(), most, "{algorithm}");
    }
}

/// What was had at once under the old quota is paid off as soon as what is had at once under the new
/// one; but what was forced stays owed.
#[test]
fn a_much_smaller_quota_does_not_lock_out_for_what_was_had_under_the_old_one() {
    let minute = Duration::from_secs(60);
    for (algorithm, periods) in [
        (Algorithm::TokenBucket, 1),
        (Algorithm::FixedWindow, 1),
        (Algorithm::SlidingWindow, 2),
        (Algorithm::SubInterval { parts: 4 }, 1),
    ] {
        for forced in [0, 30] {
            let clock = Clock::manual();
            let limiter = RateLimiter::new(Quota::per_minute(1000))
                .algorithm(algorithm)
                .clock(&clock);
            limiter.try_acquire_many(limiter.available()).unwrap();
            limiter.charge(forced);
            limiter.set_quota(Quota::per_minute(10));
            assert_eq!(limiter.available(), 0, "{algorithm}");
            clock.advance(periods * minute);
            assert_eq!(limiter.try_acquire().is_ok(), forced == 0, "{algorithm}");
            clock.advance(4 * minute);
            assert!(limiter.try_acquire().is_ok(), "{algorithm}");
        }
    }
}

/// What is chosen after the first use is not heeded, by a change of the quota neither.
#[test]
fn a_quota_is_changed_by_the_algorithm_that_is_in_use() {
    let limiter = RateLimiter::new(Quota::per_second(10))
        .algorithm(Algorithm::SlidingLog)
        .clock(Clock::manual());
    limiter.try_acquire_many(4).unwrap();
    // One by which the quotas that follow would not do, or would carry over in proportion.
    let limiter = limiter.algorithm(Algorithm::SubInterval { parts: 9 });
    limiter.set_quota(Quota::per_second(9));
    assert_eq!(limiter.available(), 5);
    let limiter = limiter.algorithm(Algorithm::Gcra);
    limiter.set_quota(Quota::per_second(20));
    assert_eq!(limiter.available(), 16);
}

#[test]
#[should_panic(expected = "20/s burst 3")]
fn a_quota_that_does_not_fit_the_algorithm_in_use_is_refused() {
    let limiter = RateLimiter::new(Quota::per_second(10))
        .algorithm(Algorithm::SlidingLog)
        .clock(Clock::manual());
    limiter.try_acquire().unwrap();
    let limiter = limiter.algorithm(Algorithm::Gcra);
    limiter.set_quota(Quota::per_second(20).burst(3));
}

/// A log counts what it has admitted under the new quota as well.
#[test]
fn a_log_has_no_more_than_the_new_count_in_any_new_period() {
    let algorithm = Algorithm::SlidingLog;
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(20))
        .algorithm(algorithm)
        .clock(&clock);
    limiter.try_acquire_many(7).unwrap();
    limiter.set_quota(Quota::per_second(5));
    assert_eq!(limiter.available(), 0);
    limiter.set_quota(Quota::per_second(20));
    assert_eq!(limiter.available(), 13, "{algorithm}");
}
