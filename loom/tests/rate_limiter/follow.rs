//! The first answer of a server that is followed, which ends all decisions without the lock, and later ones.

use super::*;

// The charge of the try counts beside what the server says of the first call, wherever it comes.
model!(follow_beside_a_try_admits_no_more_than_is_left, || {
    let (limiter, _clock, charge) = charged(Quota::per_hour(3).burst(3), 1);
    let other = with(&limiter, admits);
    // Others have used the other two.
    limiter.follow(&charge, 3, HOUR);
    join_all([other]);
    assert!(limiter.try_acquire().is_err());
});

model!(follow_and_a_joiner_do_not_miss_each_other, || {
    let (limiter, clock, charge) = charged(secondly(2), 1);
    let joiner = join(&limiter, 1);
    limiter.follow(&charge, 2, SECOND);
    let joined = joiner.join().unwrap();
    clock.advance(2 * SECOND);
    served(&limiter, joined);
});

/// A waiter goes when what is of others is over, whether it has joined before the answer or after it.
#[test]
fn end_of_what_is_of_others_beside_a_joiner_admits_it() {
    check_each(
        3,
        [Algorithm::FixedWindow, Algorithm::SlidingLog],
        |algorithm| {
            let (limiter, clock) = by(algorithm, Quota::per_second(2).burst(2));
            let charge = limiter.try_acquire().unwrap();
            limiter.follow(&charge, 2, SECOND);
            let joiner = join(&limiter, 1);
            clock.advance(SECOND);
            served(&limiter, joiner.join().unwrap());
        },
    );
}

model!(follow_beside_a_refund_of_a_later_charge_counts_once, || {
    let (limiter, _clock) = limiter(Quota::per_hour(4).burst(4));
    limiter.follow(&limiter.try_acquire().unwrap(), 1, HOUR);
    let answered = limiter.try_acquire().unwrap();
    let refused = limiter.try_acquire().unwrap();
    let refunds = with(&limiter, |limiter| limiter.refund(refused));
    limiter.follow(&answered, 3, HOUR);
    join_all([refunds]);
    assert_eq!(limiter.snapshot().available, 1);
});
