//! At the ends of what can be counted, and what else a limiter can do, by these rules.

use std::task::Poll;
use std::time::Duration;

use tollgate::{Algorithm, AlgorithmError, Clock, ErrorKind, Oversize, Quota, RateLimiter};

use crate::rate_model::LAST_TICK;
use crate::support::{Waiter, kind, poll_once};

const ALL: [Algorithm; 2] = [Algorithm::SlidingLog, Algorithm::SlidingWindow];

fn nanos(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

#[test]
fn one_in_a_nanosecond_is_one_in_each() {
    let algorithm = Algorithm::SlidingLog;
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::new(1, nanos(1)))
        .algorithm(algorithm)
        .clock(&clock);
    for _ in 0..100 {
        limiter.try_acquire().unwrap();
        let refused = limiter.try_acquire().unwrap_err();
        assert_eq!(refused.retry_after(), Some(nanos(1)));
        clock.advance(nanos(1));
    }
}

#[test]
fn a_log_goes_on_at_the_last_instant_that_a_clock_can_tell() {
    let algorithm = Algorithm::SlidingLog;
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::new(1, nanos(1 << 40)))
        .algorithm(algorithm)
        .clock(&clock);
    clock.advance(nanos(LAST_TICK));
    let charge = limiter.try_acquire().unwrap();
    limiter.refund(charge);
    clock.advance(nanos(u64::MAX - LAST_TICK));
    limiter.try_acquire().unwrap();
    assert_eq!(kind(limiter.try_acquire()), ErrorKind::RateLimited);
}

/// The one of the window before counts as one until the end, so every other window has none.
#[test]
fn a_window_for_one_lets_one_in_every_other_time() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::new(1, nanos(7)))
        .algorithm(Algorithm::SlidingWindow)
        .clock(&clock);
    for _ in 0..5 {
        limiter.try_acquire().unwrap();
        let refused = limiter.try_acquire().unwrap_err();
        assert_eq!(refused.retry_after(), Some(nanos(14)));
        clock.advance(nanos(13));
        assert_eq!(limiter.available(), 0);
        clock.advance(nanos(1));
    }
}

#[test]
fn the_longest_period_is_never_over() {
    for algorithm in ALL {
        let clock = Clock::manual();
        let limiter = RateLimiter::new(Quota::new(64, nanos(1 << 58)))
            .algorithm(algorithm)
            .clock(&clock);
        let charge = limiter.try_acquire_many(63).unwrap();
        clock.advance(nanos(LAST_TICK));
        limiter.try_acquire().unwrap();
        let refused = limiter.try_acquire().unwrap_err();
        assert!(refused.retry_after() > Some(nanos(u64::MAX / 2)));
        limiter.refund(charge);
        assert_eq!(limiter.available(), 63);
        clock.advance(Duration::MAX);
        assert_eq!(limiter.available(), 63);
    }
}

#[test]
fn the_largest_costs_are_refused_or_never_paid_off_and_can_be_given_back() {
    for algorithm in ALL {
        let quota = Quota::per_second(3);
        let limiter = || {
            RateLimiter::new(quota)
                .algorithm(algorithm)
                .clock(Clock::manual())
        };
        let strict = limiter();
        assert_eq!(
            kind(strict.try_acquire_many(u64::MAX)),
            ErrorKind::ExceedsCapacity
        );
        strict.try_acquire().unwrap();
        let charge = strict.charge(u64::MAX);
        assert!(charge.cost() > 10);
        assert_eq!(strict.available(), 0);
        assert!(strict.peek().retry_after > nanos(LAST_TICK / 2));
        strict.charge(u64::MAX);
        let later = strict.charge(1);
        assert_eq!(later.cost(), 0);
        let again = limiter();
        again.try_acquire().unwrap();
        again.refund(again.charge(u64::MAX));
        assert_eq!(again.available(), 2);

        let debts = limiter().oversize(Oversize::Overdraft);
        let charge = debts.try_acquire_many(u64::MAX).unwrap();
        assert_eq!(kind(debts.try_acquire()), ErrorKind::RateLimited);
        debts.refund(charge);
        assert_eq!(debts.available(), 3);
    }
}

#[test]
fn nothing_costs_nothing_and_fails_only_when_it_is_closed() {
    for algorithm in ALL {
        let limiter = RateLimiter::new(Quota::per_second(3))
            .algorithm(algorithm)
            .clock(Clock::manual());
        limiter.try_acquire_many(3).unwrap();
        let nothing = limiter.try_acquire_many(0).unwrap();
        assert_eq!(nothing.cost(), 0);
        limiter.refund(nothing);
        limiter.charge(0);
        assert_eq!(limiter.available(), 0);
        limiter.close();
        assert_eq!(kind(limiter.try_acquire_many(0)), ErrorKind::Closed);
        assert_eq!(kind(limiter.try_acquire()), ErrorKind::Closed);
    }
}

/// A million places: what takes the lock goes through them, a few times.
#[test]
fn a_million_places() {
    for algorithm in ALL {
        let clock = Clock::manual();
        let most = 1 << 20;
        let limiter = RateLimiter::new(Quota::per_hour(most))
            .algorithm(algorithm)
            .clock(&clock);
        let first = limiter.try_acquire_many(most - 5).unwrap();
        clock.advance(Duration::from_secs(1800));
        for _ in 0..5 {
            limiter.try_acquire().unwrap();
        }
        assert_eq!(kind(limiter.try_acquire()), ErrorKind::RateLimited);
        limiter.refund(first);
        assert_eq!(limiter.available(), most - 5);
        limiter.charge(2 * most);
        limiter.set_quota(Quota::per_hour(most + 1));
        assert_eq!(limiter.available(), 0);
    }
}

#[test]
fn at_the_last_tick_time_stands_still() {
    for algorithm in ALL {
        for beyond in [0, 1, 1000] {
            let clock = Clock::manual();
            let limiter = RateLimiter::new(Quota::new(3, nanos(10)))
                .algorithm(algorithm)
                .clock(&clock);
            clock.advance(nanos(LAST_TICK + beyond));
            let one = limiter.try_acquire().unwrap();
            let two = limiter.try_acquire_many(2).unwrap();
            let refused = limiter.try_acquire().unwrap_err();
            assert!(refused.retry_after() > Some(nanos(u64::MAX / 2)));
            let mut waiter = Waiter::parked(limiter.acquire());
            clock.advance(nanos(100));
            assert!(waiter.is_pending());
            limiter.refund(one);
            limiter.refund(two);
            waiter.granted();
            assert_eq!(limiter.available(), 2);
        }
    }
}

/// When the base of short times is moved on, those that are granted at that tick are charged then.
#[test]
fn a_base_that_moves_charges_nobody_earlier() {
    let period = 3_600_000_000_000;
    let algorithm = Algorithm::SlidingLog;
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::new(2, nanos(period)))
        .algorithm(algorithm)
        .clock(&clock);
    clock.advance(nanos(period / 16 * 49));
    limiter.try_acquire_many(2).unwrap();
    let due = clock.now().saturating_add(limiter.peek().retry_after);
    let mut line = [(); 2].map(|()| Waiter::parked(limiter.acquire()));
    clock.advance(nanos(2 * period));
    for waiter in &mut line {
        assert_eq!(waiter.granted().at(), due);
    }
}

/// Each of a long line is told exactly when it will be its turn, however far away that is.
#[test]
fn a_long_line_is_told_its_times() {
    for algorithm in ALL {
        for period in [100, 1 << 29, 3_600_000_000_000] {
            let clock = Clock::manual();
            let limiter = RateLimiter::new(Quota::new(2, nanos(period)))
                .algorithm(algorithm)
                .clock(&clock);
            let mut line: Vec<_> = (0..50).map(|_| limiter.reserve().unwrap()).collect();
            let due = |reservation: &tollgate::Waiting<tollgate::Reservation>| {
                clock.now().saturating_add(reservation.delay())
            };
            let told: Vec<_> = line.iter().map(due).collect();
            if algorithm != Algorithm::SlidingWindow {
                // Behind a line of ones a log tells it exactly without a place in line, too.
                let refused = limiter.try_acquire().unwrap_err();
                let next = limiter.reserve().unwrap();
                assert_eq!(refused.retry_after(), Some(next.delay()));
            }
            clock.advance(nanos(60 * period));
            for (told, reservation) in told.into_iter().zip(&mut line) {
                let charge = match poll_once(reservation) {
                    Poll::Ready(charge) => charge.unwrap(),
                    Poll::Pending => panic!("still in line"),
                };
                assert_eq!(charge.at(), told, "{algorithm}");
            }
        }
    }
}

#[test]
fn jitter_is_added() {
    for algorithm in ALL {
        let clock = Clock::manual();
        let limiter = RateLimiter::new(Quota::per_second(2))
            .algorithm(algorithm)
            .jitter(Duration::from_millis(10))
            .clock(&clock);
        limiter.try_acquire().unwrap();
        let mut waiter = Waiter::parked(limiter.acquire_many(2));
        let left = Waiter::parked(limiter.acquire());
        drop(left);
        let after = limiter.try_acquire().unwrap_err().retry_after().unwrap();
        clock.advance(Duration::from_secs(2));
        waiter.granted();
        assert!(after >= Duration::from_millis(500));
        limiter.try_acquire_many(limiter.available()).unwrap();
        let exact = limiter.peek().retry_after;
        let jittered = limiter.try_acquire().unwrap_err().retry_after().unwrap();
        assert!((exact..=exact + Duration::from_millis(10)).contains(&jittered));
    }
}

#[test]
fn quotas_that_a_log_or_a_window_cannot_have_are_told() {
    let told = |algorithm: Algorithm, quota| {
        let told: Result<(), AlgorithmError> = algorithm.check(quota);
        told.is_err()
    };
    for algorithm in ALL {
        assert!(told(algorithm, Quota::per_second(10).burst(3)));
        assert!(!told(algorithm, Quota::per_second(10).burst(10)));
        let long = Quota::per_second(1 << 28);
        assert!(!told(algorithm, long));
        let longer = Quota::per_second((1 << 28) + 1);
        assert_eq!(
            told(algorithm, longer),
            algorithm != Algorithm::SlidingWindow
        );
    }
}

/// In a second runtime a limiter starts fresh, whatever the time was in the first.
#[cfg(feature = "tokio")]
#[test]
fn in_another_runtime_it_starts_fresh() {
    use crate::support::paused_runtime;
    for algorithm in ALL {
        let limiter = RateLimiter::new(Quota::per_second(2))
            .algorithm(algorithm)
            .clock(Clock::tokio());
        for days in [100, 0] {
            let limiter = &limiter;
            paused_runtime().block_on(async move {
                tokio::time::advance(Duration::from_secs(days * 86_400)).await;
                limiter.try_acquire().unwrap();
                limiter.try_acquire().unwrap();
                let refused = limiter.try_acquire().unwrap_err();
                let after = refused.retry_after().unwrap();
                assert!(after <= Duration::from_secs(2), "{algorithm}: {after:?}");
                tokio::time::advance(after).await;
                limiter.try_acquire().unwrap();
            });
        }
    }
}
