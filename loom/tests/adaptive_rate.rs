//! The adaptive rate with two or three threads, under every interleaving within the bound of
//! [`model`], on a manual clock.

#![cfg(tollgate_loom)]
// The threads of a model are not threads: loom asks for no `Send`.
#![allow(clippy::arc_with_non_send_sync)]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use loom::thread;
use tollgate::adaptive::{AdaptiveRate, RatePermit};
use tollgate::throttle::{Inspect, LimitStatus};
use tollgate::{Clock, ErrorKind, ManualClock, Quota};

/// Every interleaving with at most two preemptions, or as many as `LOOM_MAX_PREEMPTIONS` says.
/// Switches where a thread waits or ends are not counted.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(2);
    builder.check(run);
}

/// 100 per second, and two at once.
fn rate() -> (Arc<AdaptiveRate>, ManualClock) {
    let clock = Clock::manual();
    let rate = AdaptiveRate::new()
        .initial_rate(100.0)
        .burst(2)
        .clock(&clock);
    (Arc::new(rate), clock)
}

fn permit(rate: &Arc<AdaptiveRate>) -> RatePermit<Arc<AdaptiveRate>> {
    Arc::clone(rate).try_acquire_owned().unwrap()
}

/// The quota of the limiter is the rate that was found, in whole nanoseconds.
fn assert_applied(rate: &Arc<AdaptiveRate>) {
    rate.inspect(None, &mut |_, status| {
        let LimitStatus::Rate { quota, .. } = status else {
            panic!("{status:?}");
        };
        let interval = Duration::from_nanos((1e9 / rate.rate()).round() as u64);
        assert_eq!(quota, Quota::new(1, interval).burst(2));
    });
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn throttled_by_two_at_once_cuts_once() {
    model(|| {
        let (rate, _clock) = rate();
        let (first, second) = (permit(&rate), permit(&rate));
        let other = thread::spawn(move || second.throttled(None));
        first.throttled(None);
        other.join().unwrap();
        let snapshot = rate.snapshot();
        assert_eq!((snapshot.refusals, snapshot.cuts), (2, 1));
        assert_eq!(snapshot.rate, 85.0);
        assert_applied(&rate);
    });
}

#[test]
fn throttled_while_a_step_of_growth_is_due_leaves_the_last_rate_in_force() {
    model(|| {
        let (rate, clock) = rate();
        let first = permit(&rate);
        for _ in 0..4 {
            clock.advance(Duration::from_millis(10));
            drop(permit(&rate));
        }
        // Four calls after the first step, the next one is due, and the next call makes it.
        clock.advance(Duration::from_millis(10));
        let other = Arc::clone(&rate);
        let admitted = thread::spawn(move || drop(other.try_acquire()));
        first.throttled(None);
        admitted.join().unwrap();
        assert_eq!(rate.snapshot().cuts, 1);
        assert_applied(&rate);
    });
}

#[test]
fn throttled_while_another_joins_the_queue_leaves_nobody_asleep() {
    model(|| {
        let (rate, clock) = rate();
        let (first, second) = (permit(&rate), permit(&rate));
        drop(second);
        let joiner = Arc::clone(&rate);
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let joins = thread::spawn(move || {
            let mut waits = joiner.acquire_owned();
            let polled = Pin::new(&mut waits).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
            (waits, waker)
        });
        first.throttled(Some(Duration::from_secs(1)));
        let (mut waits, waker) = joins.join().unwrap();
        clock.advance(Duration::from_secs(1));
        assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
        let polled = Pin::new(&mut waits).poll(&mut Context::from_waker(&waker));
        assert!(matches!(polled, Poll::Ready(Ok(_))));
        assert_applied(&rate);
    });
}

#[test]
fn throttled_while_it_closes_ends_closed() {
    model(|| {
        let (rate, _clock) = rate();
        let first = permit(&rate);
        let closer = Arc::clone(&rate);
        let closes = thread::spawn(move || closer.close());
        first.throttled(None);
        closes.join().unwrap();
        assert_eq!(rate.rate(), 85.0);
        assert_eq!(rate.try_acquire().unwrap_err().kind(), ErrorKind::Closed);
        assert_applied(&rate);
    });
}

#[test]
fn drop_of_permits_by_two_threads_counts_both() {
    model(|| {
        let (rate, _clock) = rate();
        let (first, second) = (permit(&rate), permit(&rate));
        let other = thread::spawn(move || drop(second));
        drop(first);
        other.join().unwrap();
        assert_eq!(rate.snapshot().succeeded, 2);
    });
}
