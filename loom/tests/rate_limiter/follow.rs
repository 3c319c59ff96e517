//! The first answer of a server that is followed, which ends all decisions without the lock, and later ones.

use super::*;
use tollgate::Algorithm;

/// The charge of the try counts beside what the server says of the first call, wherever it comes.
#[test]
fn follow_beside_a_try_admits_no_more_than_is_left() {
    model(|| {
        let (limiter, _clock) = limiter(Quota::per_hour(3).burst(3));
        let charge = limiter.try_acquire().unwrap();
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.try_acquire().is_ok())
        };
        // Others have used the other two.
        limiter.follow(&charge, 3, HOUR);
        other.join().unwrap();
        assert!(limiter.try_acquire().is_err());
    });
}

#[test]
fn follow_and_a_joiner_do_not_miss_each_other() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_second(1).burst(2));
        let charge = limiter.try_acquire().unwrap();
        let joiner = join(&limiter, 1);
        limiter.follow(&charge, 2, SECOND);
        let joined = joiner.join().unwrap();
        clock.advance(2 * SECOND);
        charge_of(joined);
        assert_eq!(limiter.snapshot().waiting, 0);
    });
}

/// A waiter goes when what is of others is over, whether it has joined before the answer or after it.
#[test]
fn end_of_what_is_of_others_beside_a_joiner_admits_it() {
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingLog] {
        model(move || {
            let clock = Clock::manual();
            clock.advance(HOUR);
            let limiter = RateLimiter::new(Quota::per_second(2).burst(2)).algorithm(algorithm);
            let limiter = Arc::new(limiter.clock(&clock));
            let charge = limiter.try_acquire().unwrap();
            limiter.follow(&charge, 2, SECOND);
            let joiner = join(&limiter, 1);
            clock.advance(SECOND);
            charge_of(joiner.join().unwrap());
            assert_eq!(limiter.snapshot().waiting, 0);
        });
    }
}

#[test]
fn follow_beside_a_refund_of_a_later_charge_counts_it_once() {
    model(|| {
        let (limiter, _clock) = limiter(Quota::per_hour(4).burst(4));
        limiter.follow(&limiter.try_acquire().unwrap(), 1, HOUR);
        let answered = limiter.try_acquire().unwrap();
        let refused = limiter.try_acquire().unwrap();
        let refunds = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.refund(refused))
        };
        limiter.follow(&answered, 3, HOUR);
        refunds.join().unwrap();
        assert_eq!(limiter.snapshot().available, 1);
    });
}
