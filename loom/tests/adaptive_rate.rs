//! Models the adaptive rate with two or three threads, on a manual clock.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use tollgate::throttle::{Inspect, LimitStatus};
use tollgate::time::ManualClock;
use tollgate::{Clock, ErrorKind, Quota};
use tollgate_adaptive::{AdaptiveRate, RatePermit};
use tollgate_loom::*;

/// Returns a rate of 100 per second, with a burst of two.
fn rate() -> (Arc<AdaptiveRate>, ManualClock) {
    let clock = Clock::manual();
    let rate = AdaptiveRate::new().initial_rate(100.0).burst(2);
    (Arc::new(rate.clock(&clock)), clock)
}

fn permit(rate: &Arc<AdaptiveRate>) -> RatePermit<Arc<AdaptiveRate>> {
    Arc::clone(rate).try_acquire_owned().unwrap()
}

/// Asserts that the quota of the limiter is the found rate, in whole nanoseconds.
fn assert_applied(rate: &AdaptiveRate) {
    rate.inspect(None, &mut |_, status| {
        let LimitStatus::Rate { quota, .. } = status else {
            panic!("{status:?}");
        };
        let interval = Duration::from_nanos((1e9 / rate.rate()).round() as u64);
        assert_eq!(quota, Quota::new(1, interval).burst(2));
    });
}

model!(throttled_by_two_at_once_cuts_once, 2, || {
    let (rate, _clock) = rate();
    let (first, second) = (permit(&rate), permit(&rate));
    let other = spawn(move || second.throttled(None));
    first.throttled(None);
    join_all([other]);
    let snapshot = rate.snapshot();
    assert_eq!((snapshot.refusals, snapshot.cuts), (2, 1));
    assert_eq!(snapshot.rate, 85.0);
    assert_applied(&rate);
});

model!(throttled_as_growth_is_due_leaves_the_last_rate, 2, || {
    let (rate, clock) = rate();
    let first = permit(&rate);
    for _ in 0..4 {
        clock.advance(Duration::from_millis(10));
        drop(permit(&rate));
    }
    // Four calls after the first step, the next step is due, and the next call makes it.
    clock.advance(Duration::from_millis(10));
    let admitted = with(&rate, |rate| drop(rate.try_acquire()));
    first.throttled(None);
    join_all([admitted]);
    assert_eq!(rate.snapshot().cuts, 1);
    assert_applied(&rate);
});

model!(throttled_beside_a_joiner_leaves_nobody_asleep, 2, || {
    let (rate, clock) = rate();
    let (first, second) = (permit(&rate), permit(&rate));
    drop(second);
    let joining = joining(Arc::clone(&rate).acquire_owned());
    first.throttled(Some(SECOND));
    let waiter = joining.join().unwrap().expect_err("it waits");
    clock.advance(SECOND);
    assert_eq!(waiter.wakes(), 1);
    drop(waiter.output().unwrap());
    assert_applied(&rate);
});

model!(throttled_while_it_closes_ends_closed, 2, || {
    let (rate, _clock) = rate();
    let first = permit(&rate);
    let closes = with(&rate, |rate| rate.close());
    first.throttled(None);
    join_all([closes]);
    assert_eq!(rate.rate(), 85.0);
    assert_eq!(kind(rate.try_acquire()), Some(ErrorKind::Closed));
    assert_applied(&rate);
});

model!(drop_of_permits_by_two_threads_counts_both, 2, || {
    let (rate, _clock) = rate();
    let (first, second) = (permit(&rate), permit(&rate));
    let other = dropping(second);
    drop(first);
    join_all([other]);
    assert_eq!(rate.snapshot().succeeded, 2);
});
