//! Decisions, waiters, refunds and `close` beside a pause.

use super::*;

/// A thousand per second, and three at once.
fn three_at_once() -> Quota {
    Quota::per_second(1000).burst(3)
}

const MILLISECOND: Duration = Duration::from_millis(1);

model!(try_acquire_beside_a_pause_is_before_it_or_refused, || {
    let (limiter, clock) = limiter(three_at_once());
    let tries = with(&limiter, admits_twice);
    limiter.pause_for(HOUR);
    assert!(limiter.try_acquire().is_err());
    let [first, second] = tries.join().unwrap();
    assert!(first || !second, "admitted during the pause");
    // Whatever was admitted before, one call is at the end.
    assert_eq!(limiter.peek().retry_after, HOUR);
    clock.advance(HOUR);
    limiter.try_acquire().unwrap();
    assert_eq!(limiter.peek().retry_after, MILLISECOND);
});

// Both find that it is over, and one of them allows decisions without the lock again.
model!(try_acquire_twice_at_the_end_of_a_pause_admits_one, || {
    let (limiter, clock) = limiter(three_at_once());
    limiter.pause_for(HOUR);
    clock.advance(HOUR);
    let other = with(&limiter, admits);
    let admitted = limiter.try_acquire().is_ok();
    assert_ne!(admitted, other.join().unwrap());
});

// The pause rewrites the ring of a log, while others claim slots of it.
model!(try_acquire_of_a_log_is_before_a_pause_or_refused, || {
    let (limiter, clock) = by(Algorithm::SlidingLog, Quota::per_second(2));
    let tries = with(&limiter, admits_twice);
    limiter.pause_for(HOUR);
    assert!(limiter.try_acquire().is_err());
    let [first, second] = tries.join().unwrap();
    assert!(first || !second, "admitted during the pause");
    clock.advance(HOUR);
    limiter.try_acquire().unwrap();
    assert_eq!(limiter.peek().retry_after, SECOND / 2);
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
    // It has the one token that is there at the end.
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

// It gives back before the pause, which spends that, or gives back nothing.
model!(refund_beside_a_pause_makes_nothing_due_earlier, || {
    let (limiter, clock, charge) = charged(three_at_once(), 3);
    let refunds = with(&limiter, |limiter| limiter.refund(charge));
    limiter.pause_for(HOUR);
    join_all([refunds]);
    assert_eq!(limiter.peek().retry_after, HOUR);
    clock.advance(HOUR);
    limiter.try_acquire().unwrap();
    assert_eq!(limiter.peek().retry_after, MILLISECOND);
});
