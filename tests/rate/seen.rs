//! What is read of a limiter and of its refusals: texts, and the random delay on top of the time to come
//! again.

use std::sync::Arc;
use std::time::Duration;

use tollgate::throttle::Weighted;
use tollgate::{Algorithm, Clock, ErrorKind, Quota, RateLimiter};

use crate::setup::{TEN, assert_due, at, limiter, ms, spent};
use crate::support::{Waiter, poll_once};

#[test]
fn debug_shows_the_quota_the_queue_and_the_cost() {
    let (clock, limiter) = limiter(TEN.burst(7));
    let charge = format!("{:?}", limiter.try_acquire_many(7).unwrap());
    assert!(charge.contains("cost: 7"), "{charge}");
    let mut reserved = limiter.reserve().unwrap();
    let reservation = format!("{reserved:?}");
    assert!(reservation.contains("cost: 1") && reservation.contains("waiting: true"));
    let text = format!("{limiter:?}");
    assert!(
        text.contains("10/s") && text.contains("waiting: 1"),
        "{text}"
    );
    clock.advance(ms(100));
    assert!(poll_once(&mut reserved).is_ready());
    assert!(format!("{reserved:?}").contains("waiting: false"));
    limiter.close();
    assert!(format!("{limiter:?}").contains("closed: true"));
    let unlimited = RateLimiter::new(Quota::UNLIMITED);
    assert!(format!("{unlimited:?}").contains("unlimited"));
    let handle = &unlimited;
    let most = (handle.max_units(), handle.chunk_units());
    assert_eq!(most, (u64::MAX, u64::MAX));
}

#[test]
fn acquire_owned_and_a_reservation_outlive_their_limiter() {
    let (clock, limiter) = spent(TEN);
    let shared = Arc::new(limiter);
    let mut waiter = Waiter::parked(Arc::clone(&shared).acquire_owned());
    let reservation = shared.reserve().unwrap();
    drop(shared);
    assert_due(&clock, &mut waiter, ms(100));
    clock.advance(ms(100));
    assert_eq!(at(&Waiter::new(reservation).granted()), ms(200));
}

#[test]
fn check_of_an_unlimited_quota_refuses_algorithms_that_count() {
    let gcra = Algorithm::Gcra;
    for algorithm in Algorithm::all().iter().filter(|it| **it != gcra) {
        let refused = algorithm.check(Quota::UNLIMITED).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "batches, windows and logs cannot be unlimited, but the quota is unlimited"
        );
    }
    assert_eq!(Algorithm::Gcra.check(Quota::UNLIMITED), Ok(()));
    assert_eq!(Algorithm::Gcra.batch(Quota::UNLIMITED), Quota::UNLIMITED);
    let limiter = RateLimiter::new(Quota::UNLIMITED).algorithm(Algorithm::Gcra);
    assert!(limiter.quota().is_unlimited());
}

const RULES: [Algorithm; 4] = [
    Algorithm::Gcra,
    Algorithm::TokenBucket,
    Algorithm::SlidingWindow,
    Algorithm::SlidingLog,
];

/// Ten a second, and all are taken.
fn jittery(algorithm: Algorithm, jitter: Duration) -> (tollgate::ManualClock, RateLimiter) {
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
        let (clock, limiter) = jittery(algorithm, ms(50));
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
        let (_clock, limiter) = jittery(algorithm, Duration::MAX);
        let exact = limiter.peek().retry_after;
        for _ in 0..100 {
            let error = limiter.try_acquire().unwrap_err();
            assert!(error.retry_after().unwrap() >= exact);
        }
    }
}
