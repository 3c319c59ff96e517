//! Each promise where it is tight.

use std::time::Duration;

use tollgate::{Algorithm, Clock, Quota, RateLimiter};

use crate::audit::fullest;
use crate::setup::ms;

/// After so long, so many are asked for, one at a time; so many go, and the next may come after this
/// time.
type Step = (Duration, usize, usize, Duration);

/// As many as there are.
const ALL: usize = 1000;

#[track_caller]
fn check(algorithm: Algorithm, quota: Quota, steps: &[Step]) {
    let clock = Clock::manual();
    clock.advance(ms(100_000));
    let limiter = RateLimiter::new(quota).algorithm(algorithm).clock(&clock);
    for (step, (pause, asked, taken, after)) in steps.iter().enumerate() {
        clock.advance(*pause);
        let went = (0..*asked).take_while(|_| limiter.try_acquire().is_ok());
        assert_eq!(went.count(), *taken, "step {step}");
        assert_eq!(limiter.peek().retry_after, *after, "step {step}");
    }
}

const TEN: Quota = Quota::per_second(10);

/// Each takes all that it can get, at every nanosecond from some phase of a period on.
#[test]
fn most_in_is_never_exceeded_and_in_about_a_period_reached() {
    let quota = Quota::new(10, Duration::from_nanos(100)).burst(10);
    for &algorithm in Algorithm::all() {
        let runs = (0..100).map(|phase| {
            let clock = Clock::manual();
            clock.advance(Duration::from_nanos(1000 + phase));
            let limiter = RateLimiter::new(quota).algorithm(algorithm).clock(&clock);
            let mut charges = Vec::new();
            for _ in 0..400 {
                let taken = (0..ALL).map_while(|_| limiter.try_acquire().ok());
                charges.extend(taken.map(|charge| (charge.at().as_nanos(), charge.cost())));
                clock.advance(Duration::from_nanos(1));
            }
            charges
        });
        let runs: Vec<_> = runs.collect();
        let mut reached = Vec::new();
        for nanos in [1, 25, 26, 50, 99, 100, 101, 199, 200, 201, 350] {
            let found = runs.iter().map(|charges| fullest(charges, nanos)).max();
            let found = found.expect("there are runs");
            let most = algorithm.most_in(quota, Duration::from_nanos(nanos));
            assert!(
                found <= most,
                "{algorithm}: {found} of {most} in {nanos} ns"
            );
            if found == most {
                reached.push(nanos);
            }
        }
        let tight = reached.contains(&100) || reached.contains(&101);
        assert!(tight, "{algorithm}: {reached:?}");
    }
}

#[test]
fn most_in_at_its_ends_saturates() {
    for &algorithm in Algorithm::all() {
        assert_eq!(algorithm.most_in(TEN.burst(10), Duration::ZERO), 0);
        let fast = Quota::new(1 << 28, Duration::from_nanos(1 << 28)).burst(1 << 28);
        let most = algorithm.most_in(fast, Duration::MAX);
        assert!(most > u64::MAX / 2, "{algorithm}: {most}");
    }
    let most = Algorithm::Gcra.most_in(Quota::UNLIMITED, Duration::from_nanos(2));
    assert_eq!(most, u64::MAX);
}

#[test]
fn token_bucket_is_filled_by_batches_and_keeps_the_burst() {
    let steps = [
        (ms(0), ALL, 25, ms(1000)),
        (ms(999), ALL, 0, ms(1)),
        (ms(1), ALL, 10, ms(1000)),
        (ms(1500), ALL, 10, ms(500)),
        (ms(100_000), ALL, 25, ms(500)),
    ];
    check(Algorithm::TokenBucket, TEN.burst(25), &steps);
}

#[test]
fn token_bucket_that_holds_less_than_a_batch_loses_the_rest() {
    let steps = [(ms(1000), ALL, 4, ms(1000)); 3];
    check(Algorithm::TokenBucket, TEN.burst(4), &steps);
}

/// The known weakness, which is why there are the others.
#[test]
fn fixed_window_admits_twice_as_many_around_its_edge() {
    let steps = [(ms(999), ALL, 10, ms(1)), (ms(1), ALL, 10, ms(1000))];
    check(Algorithm::FixedWindow, TEN, &steps);
}

#[test]
fn sliding_window_counts_what_is_left_of_the_window_before() {
    let steps = [
        // Then it is all in the window before, a whole period long.
        (ms(999), ALL, 10, ms(101)),
        (ms(1), ALL, 0, ms(100)),
        (ms(500), ALL, 5, ms(100)),
        // Five are in the window before.
        (ms(500), ALL, 5, ms(200)),
    ];
    check(Algorithm::SlidingWindow, TEN, &steps);
}

/// The estimate takes those before for evenly spread, so if they are not it may be too many,
/// though never twice as many.
#[test]
fn sliding_window_may_admit_nearly_twice_as_many_in_a_period() {
    let tick = Duration::from_nanos(1);
    let steps = [
        (ms(1000) - tick, ALL, 10, ms(100) + tick),
        (ms(1000) - tick, ALL, 9, 2 * tick),
    ];
    check(Algorithm::SlidingWindow, TEN, &steps);
}

#[test]
fn sliding_log_gives_each_back_after_a_period() {
    let mut steps = vec![(ms(100), 1, 1, ms(0)); 5];
    steps.push((ms(100), ALL, 5, ms(500)));
    steps.push((ms(500), ALL, 1, ms(100)));
    steps.extend([(ms(100), ALL, 1, ms(100)); 4]);
    steps.push((ms(100), ALL, 5, ms(500)));
    check(Algorithm::SlidingLog, TEN, &steps);
}

/// Two in each 250 ms: any second touches five of them.
#[test]
fn sub_interval_has_no_more_than_the_count_in_any_period() {
    let mut steps = vec![(ms(249), ALL, 2, ms(1)), (ms(1), ALL, 2, ms(250))];
    steps.extend([(ms(250), ALL, 2, ms(250)); 3]);
    check(Algorithm::SubInterval { parts: 4 }, TEN, &steps);
}
