//! What the end of a permit does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tollgate::adaptive::AdaptiveRate;
use tollgate::throttle::{Inspect, LimitStatus};
use tollgate::{Clock, ErrorKind, Quota, Semaphore, all};

use super::starting_at;
use crate::setup::ms;
use crate::support::{Waiter, kind};

#[test]
fn drop_of_a_permit_counts_a_success() {
    let (_clock, rate) = starting_at(10.0);
    drop(rate.try_acquire().unwrap());
    let snapshot = rate.snapshot();
    assert_eq!((snapshot.succeeded, snapshot.refusals), (1, 0));
    assert_eq!(snapshot.rate, 10.0);
}

#[test]
fn ignore_of_a_permit_counts_nothing() {
    let (_clock, rate) = starting_at(10.0);
    rate.try_acquire().unwrap().ignore();
    let snapshot = rate.snapshot();
    assert_eq!((snapshot.succeeded, snapshot.refusals), (0, 0));
    // Its time is not given back.
    assert_eq!(kind(rate.try_acquire()), ErrorKind::RateLimited);
}

#[test]
fn drop_of_a_permit_by_a_panic_counts_nothing() {
    let (_clock, rate) = starting_at(10.0);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _permit = rate.try_acquire().unwrap();
        panic!("the request failed");
    }));
    assert!(panicked.is_err());
    assert_eq!(rate.snapshot().succeeded, 0);
}

#[test]
fn refund_of_a_permit_gives_its_time_back() {
    let (_clock, rate) = starting_at(10.0);
    rate.try_acquire().unwrap().refund();
    let permit = rate.try_acquire().unwrap();
    assert_eq!(rate.snapshot().succeeded, 0);
    permit.throttled(None);
}

#[test]
fn refund_while_the_rate_grows_gives_the_time_back() {
    let (clock, rate) = starting_at(100.0);
    for _ in 0..3_000 {
        clock.advance(ms(1));
        if let Ok(permit) = rate.try_acquire() {
            permit.refund();
            drop(rate.try_acquire().unwrap());
        }
    }
    assert!(rate.rate() > 400.0, "{}", rate.rate());
}

#[test]
fn refund_of_a_waiter_while_the_rate_grows_gives_the_time_back() {
    let (clock, rate) = starting_at(100.0);
    for _ in 0..3_000 {
        let mut waiter = Waiter::new(rate.acquire());
        let permit = loop {
            match waiter.poll() {
                Poll::Ready(permit) => break permit.unwrap(),
                Poll::Pending => clock.advance(ms(1)),
            }
        };
        permit.refund();
        drop(rate.try_acquire().unwrap());
        if rate.rate() > 400.0 {
            return;
        }
    }
    panic!("{}", rate.rate());
}

#[test]
fn all_that_is_refused_later_refunds() {
    let (_clock, rate) = starting_at(10.0);
    let none = Semaphore::new(0);
    assert_eq!(
        kind(all((&rate, &none)).try_acquire()),
        ErrorKind::NoPermits
    );
    let permit = rate.try_acquire().unwrap();
    assert_eq!(rate.snapshot().succeeded, 0);
    permit.ignore();
}

#[test]
fn throttled_cuts_once_for_requests_of_one_overload() {
    let (clock, rate) = starting_at(100.0);
    let permits = [(); 3].map(|()| {
        let permit = rate.try_acquire().unwrap();
        clock.advance(ms(10));
        permit
    });
    for permit in permits {
        permit.throttled(None);
    }
    let snapshot = rate.snapshot();
    assert_eq!((snapshot.refusals, snapshot.cuts), (3, 1));
    assert_eq!(snapshot.rate, 85.0);
}

#[test]
fn throttled_after_a_sample_cuts_again() {
    let (clock, rate) = starting_at(100.0);
    rate.try_acquire().unwrap().throttled(None);
    clock.advance(ms(99));
    rate.try_acquire().unwrap().throttled(None);
    assert_eq!(rate.snapshot().cuts, 1);
    clock.advance(ms(12));
    rate.try_acquire().unwrap().throttled(None);
    assert_eq!(rate.snapshot().cuts, 2);
}

#[test]
fn throttled_makes_waiters_due_by_the_lower_rate() {
    let (clock, rate) = starting_at(10.0);
    let permit = rate.try_acquire().unwrap();
    let mut waiter = Waiter::parked(rate.acquire());
    permit.throttled(None);
    // 8.5 per second.
    clock.advance(Duration::from_nanos(117_647_058));
    assert!(waiter.is_pending());
    clock.advance(Duration::from_nanos(1));
    assert_eq!(waiter.wakes(), 1);
    drop(waiter.granted());
}

#[test]
fn throttled_with_retry_after_pauses_and_then_releases_waiters_one_by_one() {
    let (clock, rate) = starting_at(10.0);
    let rate = rate.burst(5);
    let permit = rate.try_acquire().unwrap();
    let mut waits = [(); 3].map(|()| rate.acquire());
    permit.throttled(Some(Duration::from_secs(3)));
    let mut waiters = waits.each_mut().map(Waiter::parked);
    let until = rate.paused_until().unwrap();
    assert_eq!(until.as_nanos(), 3_000_000_000);
    clock.advance(ms(2_999));
    assert!(waiters.iter_mut().all(Waiter::is_pending));
    clock.advance(ms(1));
    assert_eq!(rate.snapshot().waiting, 2);
    clock.advance(ms(117));
    assert_eq!(rate.snapshot().waiting, 2);
    clock.advance(ms(1));
    assert_eq!(rate.snapshot().waiting, 1);
}

#[test]
fn throttled_with_a_retry_after_above_max_pause_pauses_for_max_pause() {
    for (max, asked, pause) in [(60, 61, 60), (60, 59, 59), (3_600, u64::MAX, 3_600)] {
        let (_clock, rate) = starting_at(10.0);
        let rate = rate.max_pause(Duration::from_secs(max));
        let permit = rate.try_acquire().unwrap();
        permit.throttled(Some(Duration::from_secs(asked)));
        let until = rate.paused_until().unwrap();
        assert_eq!(until.as_nanos(), pause * 1_000_000_000);
    }
    let (_clock, rate) = starting_at(10.0);
    let rate = rate.max_pause(Duration::ZERO);
    let permit = rate.try_acquire().unwrap();
    permit.throttled(Some(Duration::from_secs(5)));
    assert_eq!(rate.paused_until(), None);
}

#[test]
fn throttled_during_a_pause_keeps_the_longer_one() {
    let (_clock, rate) = starting_at(10.0);
    let rate = rate.burst(2);
    let permits = [rate.try_acquire().unwrap(), rate.try_acquire().unwrap()];
    let [first, second] = permits;
    first.throttled(Some(Duration::from_secs(5)));
    second.throttled(Some(Duration::from_secs(2)));
    assert_eq!(rate.paused_until().unwrap().as_nanos(), 5_000_000_000);
    assert_eq!(rate.snapshot().cuts, 1);
}

#[test]
fn close_ends_waits_and_permits_still_count() {
    let (_clock, rate) = starting_at(10.0);
    let permit = rate.try_acquire().unwrap();
    let mut waiter = Waiter::parked(rate.acquire());
    rate.close();
    assert_eq!(waiter.refused(), ErrorKind::Closed);
    assert_eq!(kind(rate.try_acquire()), ErrorKind::Closed);
    permit.throttled(Some(Duration::from_secs(1)));
    assert_eq!(rate.snapshot().refusals, 1);
    assert!(rate.is_closed());
}

#[test]
fn acquire_owned_gives_a_permit_for_a_task() {
    let rate = Arc::new(AdaptiveRate::new().clock(Clock::manual()));
    let permit = Waiter::new(Arc::clone(&rate).acquire_owned()).granted();
    std::thread::spawn(move || permit.throttled(None))
        .join()
        .unwrap();
    assert_eq!(rate.rate(), 8.5);
    let other = Arc::clone(&rate).try_acquire_owned();
    assert_eq!(kind(other), ErrorKind::RateLimited);
}

#[test]
fn max_waiters_refuses_one_too_many() {
    let rate = AdaptiveRate::new().max_waiters(1).clock(Clock::manual());
    let _permit = rate.try_acquire().unwrap();
    let _waiter = Waiter::parked(rate.acquire());
    let mut other = Waiter::new(rate.acquire());
    assert_eq!(other.refused(), ErrorKind::QueueFull);
}

#[test]
fn options_in_any_order_are_kept() {
    let clock = Clock::manual();
    let rate = AdaptiveRate::new()
        .clock(&clock)
        .initial_rate(50.0)
        .max_waiters(0)
        .burst(2)
        .limits(1.0..=20.0);
    assert_eq!(rate.rate(), 20.0);
    let rate = rate.limits(1.0..=100.0);
    assert_eq!(rate.snapshot().limits, 1.0..=100.0);
    assert_eq!(rate.rate(), 50.0);
    let _permits = [rate.try_acquire().unwrap(), rate.try_acquire().unwrap()];
    let refused = rate.try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), Some(ms(20)));
    let mut waiter = Waiter::new(rate.acquire());
    assert_eq!(waiter.refused(), ErrorKind::QueueFull);
}

#[test]
fn inspect_shows_the_quota_of_the_rate() {
    let (clock, rate) = starting_at(100.0);
    rate.try_acquire().unwrap().throttled(None);
    let mut statuses = Vec::new();
    (&rate).inspect(None, &mut |_, status| statuses.push(status));
    let [LimitStatus::Rate { quota, decision }] = statuses[..] else {
        panic!("{statuses:?}");
    };
    assert_eq!(quota, Quota::new(1, Duration::from_nanos(11_764_706)));
    assert_eq!(decision.at, clock.now());
}
