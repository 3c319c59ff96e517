//! A random delay on top of the time to come again, by every algorithm.

use std::time::Duration;

use tollgate::{Algorithm, Clock, ErrorKind, Quota, RateLimiter};

use crate::setup::ms;
use crate::support::Waiter;

const RULES: [Algorithm; 4] = [
    Algorithm::Gcra,
    Algorithm::TokenBucket,
    Algorithm::SlidingWindow,
    Algorithm::SlidingLog,
];

/// Ten a second, and all are taken.
fn limiter(algorithm: Algorithm, jitter: Duration) -> (tollgate::ManualClock, RateLimiter) {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(10).burst(10))
        .algorithm(algorithm)
        .jitter(jitter)
        .max_waiters(1)
        .clock(&clock);
    limiter.try_acquire_many(10).unwrap();
    (clock, limiter)
}

/// It is added to what a try, a local handle and a full queue say; not to what is observed, nor to the
/// tick at which a waiter is granted. It is different each time, and from all of its range.
#[test]
fn jitter_is_added_to_refusals_and_to_nothing_else() {
    for algorithm in RULES {
        let (clock, limiter) = limiter(algorithm, ms(50));
        let exact = limiter.peek().retry_after;
        let mut local = limiter.local(4);
        let mut delays: Vec<_> = (0..200)
            .map(|_| limiter.try_acquire().unwrap_err())
            .chain((0..200).map(|_| local.try_acquire().unwrap_err()))
            .collect();
        assert_eq!(limiter.peek().retry_after, exact);
        let mut waiter = Waiter::parked(limiter.acquire());
        delays.extend((0..200).map(|_| {
            let full = Waiter::new(limiter.acquire()).output().unwrap_err();
            assert_eq!(full.kind(), ErrorKind::QueueFull);
            full
        }));
        let delays: Vec<_> = (delays.iter())
            .map(|error| error.retry_after().unwrap())
            .collect();
        for delays in delays.chunks(200) {
            let (low, high) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
            assert!(*low >= exact && *high <= exact + ms(50), "{algorithm}");
            // Of 200 none in a fifth at either end: once in 10^19 runs.
            assert!(
                *low < exact + ms(10) && *high > exact + ms(40),
                "{algorithm}"
            );
        }
        clock.advance(exact - Duration::from_nanos(1));
        assert!(waiter.is_pending(), "{algorithm}");
        clock.advance(Duration::from_nanos(1));
        waiter.granted();
    }
}

#[test]
fn jitter_without_end_does_not_overflow() {
    for algorithm in RULES {
        let (_clock, limiter) = limiter(algorithm, Duration::MAX);
        let exact = limiter.peek().retry_after;
        for _ in 0..100 {
            let error = limiter.try_acquire().unwrap_err();
            assert!(error.retry_after().unwrap() >= exact);
        }
    }
}
