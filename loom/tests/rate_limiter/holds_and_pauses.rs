//! Models decisions, waiters, refunds, time and `close` with concurrent holds and pauses, with the word and with the
//! log. Also models the first followed answer of a server, which ends all decisions without the lock, and later ones.

use super::*;

// Tests holds.

const BOTH: [Algorithm; 2] = [Algorithm::Gcra, Algorithm::SlidingLog];

/// There is room for both at every moment: a charge that becomes a hold is never missing, and never
/// counted twice.
/// With three preemptions this model takes minutes.
#[test]
fn hold_beside_a_try_that_fits_refuses_and_loses_nothing() {
    check_each(2, BOTH, |algorithm| {
        let (limiter, _clock) = by(algorithm, Quota::per_hour(3).burst(3));
        let other = with(&limiter, |limiter| limiter.try_acquire().unwrap());
        let hold = limiter.hold(limiter.try_acquire_many(2).unwrap());
        let _charge = other.join().unwrap();
        assert!(limiter.try_acquire().is_err());
        hold.settle(1);
        assert_eq!(limiter.snapshot().available, 1);
    });
}

#[test]
fn settle_beside_tries_admits_them_only_after_it() {
    check_each(3, BOTH, |algorithm| {
        let (limiter, _clock) = by(algorithm, Quota::per_hour(2).burst(2));
        let hold = limiter.hold(limiter.try_acquire_many(2).unwrap());
        let tries = with(&limiter, admits_twice);
        hold.settle(1);
        let admitted = tries.join().unwrap().iter().filter(|it| **it).count();
        assert!(admitted <= 1);
        assert_eq!(limiter.snapshot().available, 1 - admitted as u64);
    });
}

#[test]
fn settle_and_a_joiner_do_not_miss_each_other() {
    check_each(3, BOTH, |algorithm| {
        let (limiter, _clock) = by(algorithm, Quota::per_hour(3).burst(3));
        let hold = limiter.hold(limiter.try_acquire_many(3).unwrap());
        let joiner = join(&limiter, 2);
        hold.settle(1);
        // No time has passed.
        charge_of(joiner.join().unwrap());
        let snapshot = limiter.snapshot();
        assert_eq!((snapshot.available, snapshot.waiting), (0, 0));
    });
}

/// Time pays off the used amount, whenever it passes, and whichever of the two is settled first.
#[test]
fn settle_of_two_holds_beside_passing_time_counts_what_was_used() {
    check_each(3, BOTH, |algorithm| {
        let (limiter, clock) = by(algorithm, Quota::per_second(4).burst(4));
        let hold = limiter.hold(limiter.try_acquire_many(2).unwrap());
        let other = limiter.hold(limiter.try_acquire_many(2).unwrap());
        let settles = spawn(move || other.settle(1));
        clock.advance(SECOND);
        hold.settle(2);
        join_all([settles]);
        assert_eq!(limiter.snapshot().available, 4);
        limiter.try_acquire_many(4).unwrap();
        assert!(limiter.try_acquire().is_err());
    });
}

model!(drop_of_a_hold_as_a_waiter_leaves_admits_the_next, || {
    let (limiter, _clock) = by(Algorithm::Gcra, Quota::per_hour(4).burst(4));
    let hold = limiter.hold(limiter.try_acquire_many(3).unwrap());
    let [first, second] = [4, 1].map(|cost| queued(&limiter, cost));
    let leaves = dropping(first);
    drop(hold);
    join_all([leaves]);
    second.output().unwrap();
    assert_eq!(limiter.snapshot().available, 0);
});

// A change of the ledger beside a waiter that leaves and a close: the waiter has left, or has got its charge and gives it
// back, or was refused; whatever comes first, nobody waits and nobody is admitted afterwards.
model!(
    settle_beside_a_leaving_waiter_and_a_close_leaves_nobody,
    || {
        let (limiter, _clock) = by(Algorithm::Gcra, Quota::per_hour(3).burst(3));
        let hold = limiter.hold(limiter.try_acquire_many(3).unwrap());
        let leaves = dropping(queued(&limiter, 2));
        let closes = with(&limiter, |limiter| limiter.close());
        hold.settle(1);
        join_all([leaves, closes]);
        assert_eq!(kind(limiter.try_acquire()), Some(ErrorKind::Closed));
        let snapshot = limiter.snapshot();
        assert_eq!((snapshot.in_use, snapshot.waiting), (1, 0));
    }
);

// Tests pauses.

/// Returns a quota of a thousand per second, with a burst of three.
fn three_at_once() -> Quota {
    Quota::per_second(1000).burst(3)
}

const MILLISECOND: Duration = Duration::from_millis(1);

/// Asserts that two tries beside a pause are before it or refused. Whatever was admitted before, one call is charged
/// at the end, and the next call this time later.
fn assert_pauses_tries((limiter, clock): (Limiter, ManualClock), next: Duration) {
    let tries = with(&limiter, admits_twice);
    limiter.pause_for(HOUR);
    assert!(limiter.try_acquire().is_err());
    let [first, second] = tries.join().unwrap();
    assert!(first || !second, "admitted during the pause");
    assert_eq!(limiter.peek().retry_after, Some(HOUR));
    clock.advance(HOUR);
    limiter.try_acquire().unwrap();
    assert_eq!(limiter.peek().retry_after, Some(next));
}

model!(try_acquire_beside_a_pause_is_before_it_or_refused, || {
    assert_pauses_tries(limiter(three_at_once()), MILLISECOND);
});

// Both find that the pause is over, and one of them allows decisions without the lock again.
model!(try_acquire_twice_at_the_end_of_a_pause_admits_one, || {
    let (limiter, clock) = limiter(three_at_once());
    limiter.pause_for(HOUR);
    clock.advance(HOUR);
    let other = with(&limiter, admits);
    let admitted = limiter.try_acquire().is_ok();
    assert_ne!(admitted, other.join().unwrap());
});

/// One token is there after a resume, and it is admitted once.
fn assert_resumes_for_one(algorithm: Algorithm) {
    let (limiter, _clock) = by(algorithm, Quota::per_hour(2).burst(2));
    limiter.pause_for(HOUR);
    let other = with(&limiter, admits);
    limiter.resume();
    let mine = admits(&limiter);
    assert_ne!(other.join().unwrap(), mine);
}

model!(resume_beside_a_try_admits_one, || {
    assert_resumes_for_one(Algorithm::Gcra);
});

/// With two preemptions this model takes minutes, because a resume rewrites the ring twice.
#[test]
fn resume_of_a_log_beside_a_try_admits_one() {
    check_each(1, [Algorithm::SlidingLog], assert_resumes_for_one);
}

model!(resume_and_a_joiner_do_not_miss_each_other, || {
    let (limiter, _clock) = limiter(three_at_once());
    limiter.pause_for(HOUR);
    let joiner = join(&limiter, 1);
    limiter.resume();
    // No time has passed.
    charge_of(joiner.join().unwrap());
});

// The pause rewrites the ring of a log while other threads claim slots of it. With two preemptions
// this model takes minutes.
model!(try_acquire_of_a_log_is_before_a_pause_or_refused, 1, || {
    let log = by(Algorithm::SlidingLog, Quota::per_second(2));
    assert_pauses_tries(log, SECOND / 2);
});

model!(acquire_is_charged_before_a_pause_or_at_its_end, || {
    let (limiter, clock) = limiter(three_at_once());
    let joiner = join(&limiter, 1);
    let start = clock.now();
    limiter.pause_for(HOUR);
    let joined = joiner.join().unwrap();
    let waited = joined.is_err();
    clock.advance(HOUR);
    let at = charge_of(joined).at().saturating_since(start);
    assert_eq!(at, if waited { HOUR } else { Duration::ZERO });
    // It has the one token that is available at the end.
    assert_eq!(limiter.try_acquire().is_err(), waited);
});

model!(acquire_dropped_beside_a_pause_leaves_its_end, || {
    let (limiter, clock) = spent(three_at_once());
    let [first, second] = [1, 1].map(|cost| queued(&limiter, cost));
    let start = clock.now();
    let leaves = dropping(first);
    limiter.pause_for(HOUR);
    join_all([leaves]);
    clock.advance(HOUR);
    let at = second.output().unwrap().at().saturating_since(start);
    assert_eq!((at, limiter.snapshot().waiting), (HOUR, 0));
    assert!(limiter.try_acquire().is_err());
});

model!(close_beside_a_pause_reaches_waiters_and_tries, || {
    let (limiter, _clock, waiter) = awaited(Quota::per_hour(1));
    let closes = with(&limiter, |limiter| limiter.close());
    limiter.pause_for(HOUR);
    join_all([closes]);
    assert_eq!(kind(waiter.output()), Some(ErrorKind::Closed));
    assert_eq!(kind(limiter.try_acquire()), Some(ErrorKind::Closed));
});

// It gives back before the pause, which spends the refund, or it gives back nothing.
model!(refund_beside_a_pause_makes_nothing_due_earlier, || {
    let (limiter, clock, charge) = charged(three_at_once(), 3);
    let refunds = with(&limiter, |limiter| limiter.refund(charge));
    limiter.pause_for(HOUR);
    join_all([refunds]);
    assert_eq!(limiter.peek().retry_after, Some(HOUR));
    clock.advance(HOUR);
    limiter.try_acquire().unwrap();
    assert_eq!(limiter.peek().retry_after, Some(MILLISECOND));
});

// Tests following a server.

// The charge of the try counts in addition to the server's answer to the first call, wherever it comes.
model!(follow_beside_a_try_admits_no_more_than_is_left, || {
    let (limiter, _clock, charge) = charged(Quota::per_hour(3).burst(3), 1);
    let other = with(&limiter, admits);
    // Other clients have used the other two.
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

/// A waiter is admitted when the share of other clients is over, whether it joined before or after the answer.
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
