//! Decisions, waiters, refunds and `close` beside a pause.

use super::*;
use tollgate::Algorithm;

#[test]
fn try_acquire_beside_a_pause_is_before_it_or_refused() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_second(1000).burst(3));
        let tries = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || [limiter.try_acquire().is_ok(), limiter.try_acquire().is_ok()])
        };
        limiter.pause_for(HOUR);
        assert!(limiter.try_acquire().is_err());
        let [first, second] = tries.join().unwrap();
        assert!(first || !second, "admitted during the pause");
        // Whatever was admitted before, one call is at the end.
        assert_eq!(limiter.peek().retry_after, HOUR);
        clock.advance(HOUR);
        limiter.try_acquire().unwrap();
        assert_eq!(limiter.peek().retry_after, Duration::from_millis(1));
    });
}

/// Both find that it is over, and one of them allows decisions without the lock again.
#[test]
fn try_acquire_twice_at_the_end_of_a_pause_admits_one() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_second(1000).burst(3));
        limiter.pause_for(HOUR);
        clock.advance(HOUR);
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.try_acquire().is_ok())
        };
        let admitted = limiter.try_acquire().is_ok();
        assert_ne!(admitted, other.join().unwrap());
    });
}

/// The pause rewrites the ring of a log, while others claim slots of it.
#[test]
fn try_acquire_of_a_log_beside_a_pause_is_before_it_or_refused() {
    model(|| {
        let clock = Clock::manual();
        clock.advance(HOUR);
        let log = RateLimiter::new(Quota::per_second(2)).algorithm(Algorithm::SlidingLog);
        let limiter = Arc::new(log.clock(&clock));
        assert_eq!(limiter.snapshot().waiting, 0);
        let tries = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || [limiter.try_acquire().is_ok(), limiter.try_acquire().is_ok()])
        };
        limiter.pause_for(HOUR);
        assert!(limiter.try_acquire().is_err());
        let [first, second] = tries.join().unwrap();
        assert!(first || !second, "admitted during the pause");
        clock.advance(HOUR);
        limiter.try_acquire().unwrap();
        assert_eq!(limiter.peek().retry_after, SECOND / 2);
    });
}

#[test]
fn acquire_beside_a_pause_is_charged_before_it_or_at_its_end() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_second(1000).burst(3));
        let joiner = join(&limiter, 1);
        let start = clock.now();
        limiter.pause_for(HOUR);
        let joined = joiner.join().unwrap();
        let waited = joined.is_err();
        clock.advance(HOUR);
        let at = charge_of(joined).at().saturating_since(start);
        assert_eq!(at, if waited { HOUR } else { Duration::ZERO });
        // It has the one token that is there at the end.
        assert_eq!(limiter.try_acquire().is_err(), waited);
    });
}

#[test]
fn acquire_dropped_beside_a_pause_leaves_the_end_to_the_next() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_second(1000).burst(3));
        limiter.try_acquire_many(3).unwrap();
        let first = Waiter::new(&limiter, 1).queued();
        let second = Waiter::new(&limiter, 1).queued();
        let start = clock.now();
        let leaves = thread::spawn(move || drop(first));
        limiter.pause_for(HOUR);
        leaves.join().unwrap();
        clock.advance(HOUR);
        let at = second.output().unwrap().at().saturating_since(start);
        assert_eq!((at, limiter.snapshot().waiting), (HOUR, 0));
        assert!(limiter.try_acquire().is_err());
    });
}

#[test]
fn close_beside_a_pause_reaches_waiters_and_tries() {
    model(|| {
        let (limiter, _clock) = limiter(Quota::per_hour(1));
        limiter.try_acquire().unwrap();
        let waiter = Waiter::new(&limiter, 1).queued();
        let closes = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.close())
        };
        limiter.pause_for(HOUR);
        closes.join().unwrap();
        assert_eq!(waiter.output().unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(limiter.try_acquire().unwrap_err().kind(), ErrorKind::Closed);
    });
}

/// It gives back before the pause, which spends that, or gives back nothing.
#[test]
fn refund_beside_a_pause_makes_nothing_due_earlier() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_second(1000).burst(3));
        let charge = limiter.try_acquire_many(3).unwrap();
        let refunds = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.refund(charge))
        };
        limiter.pause_for(HOUR);
        refunds.join().unwrap();
        assert_eq!(limiter.peek().retry_after, HOUR);
        clock.advance(HOUR);
        limiter.try_acquire().unwrap();
        assert_eq!(limiter.peek().retry_after, Duration::from_millis(1));
    });
}
