//! How adaptive limits go wrong: by permits that a change of the limit loses or makes, and by calls that
//! they learn the wrong thing from; adaptive rates by refusals that count too often, and by time and
//! requests that say nothing. Which of the rules themselves run away is what the simulator shows.

use std::time::Duration;

use tollgate::adaptive::{
    AdaptiveRate, AdaptiveSemaphore, Controller, Gradient, SampleWindow, Target,
};
use tollgate::{Clock, ErrorKind, ManualClock, Semaphore, all};

use crate::support::Waiter;

const MS: Duration = Duration::from_millis(1);

/// Goes through these limits, in windows of one sample, and then stays.
struct Through(&'static [f64], usize);

impl Controller for Through {
    fn initial(&self) -> Target {
        let (limit, samples) = (self.0[0], 1);
        Target { limit, samples }
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        self.1 += 1;
        let limit = self.0.get(self.1).copied();
        let limit = limit.unwrap_or(window.limit());
        Target { limit, samples: 1 }
    }
}

fn through(limits: &'static [f64]) -> (AdaptiveSemaphore, ManualClock) {
    let clock = Clock::manual();
    let semaphore = AdaptiveSemaphore::new(Through(limits, 0)).clock(&clock);
    (semaphore, clock)
}

/// A shrink below what is held is forgotten when the limit grows again, or is paid by a waiter that
/// was cancelled: more are admitted than the limit.
///
/// Seen in tower-resilience#363 and #365.
#[test]
fn shrink_below_what_is_held_then_growth() {
    let (semaphore, _) = through(&[4.0, 1.0, 2.0]);
    let mut held: Vec<_> = (0..4).map(|_| semaphore.try_acquire().unwrap()).collect();
    // The only measured one.
    drop(held.swap_remove(0));
    let permits = semaphore.snapshot().permits;
    assert_eq!((permits.limit, permits.in_use), (1, 3));
    drop(Waiter::parked(semaphore.acquire()));
    let mut waiter = Waiter::parked(semaphore.acquire());
    drop(held.pop());
    assert!(waiter.is_pending());
    drop(held.pop());
    assert!(waiter.is_pending());
    drop(held.pop());
    // The first call that began under the limit of 1 ends its window.
    drop(waiter.granted());
    assert_eq!(semaphore.snapshot().permits.limit, 2);
    let both = [(); 2].map(|()| semaphore.try_acquire().unwrap());
    assert!(semaphore.try_acquire().is_err());
    drop(both);
    assert_eq!(semaphore.snapshot().permits.in_use, 0);
}

/// A grant that was dropped before its caller received it counts as a call of no latency at all.
#[test]
fn grant_that_was_never_received_is_no_sample() {
    let (semaphore, clock) = through(&[1.0, 9.0]);
    let held = semaphore.try_acquire().unwrap();
    let granted = Waiter::parked(semaphore.acquire());
    held.ignore();
    assert_eq!(granted.wakes(), 1);
    clock.advance(MS);
    drop(granted);
    let snapshot = semaphore.snapshot();
    assert_eq!((snapshot.windows, snapshot.permits.in_use), (0, 0));
}

/// One call that hangs, or a permit that is leaked, keeps the limit from ever changing again.
///
/// A window that waits for each of its calls does that; ours has half as many places more.
#[test]
fn leaked_permit_does_not_freeze_the_limit() {
    struct Doubling;
    impl Controller for Doubling {
        fn initial(&self) -> Target {
            let (limit, samples) = (8.0, 64);
            Target { limit, samples }
        }
        fn update(&mut self, window: &SampleWindow) -> Target {
            let (limit, samples) = (window.limit() * 2.0, 64);
            Target { limit, samples }
        }
    }
    let semaphore = AdaptiveSemaphore::new(Doubling).clock(Clock::manual());
    for limit in [8, 16, 32] {
        assert_eq!(semaphore.snapshot().permits.limit, limit);
        (0..4).for_each(|_| std::mem::forget(semaphore.try_acquire()));
        (0..64).for_each(|_| drop(semaphore.try_acquire()));
    }
}

/// A few calls that stay open for hours, such as event streams, fill a window that does not end
/// without them.
#[test]
fn streams_that_stay_open_do_not_freeze_the_limit() {
    let clock = Clock::manual();
    let semaphore = AdaptiveSemaphore::new(Gradient::default()).clock(&clock);
    let _streams: Vec<_> = (0..13).map(|_| semaphore.try_acquire()).collect();
    (0..96).for_each(|_| semaphore.try_acquire().unwrap().overloaded());
    assert_eq!(semaphore.snapshot().permits.limit, 16);
    // And one, in the smallest window.
    let (semaphore, _) = through(&[5.0, 6.0]);
    let _stream = semaphore.try_acquire();
    drop(semaphore.try_acquire());
    assert_eq!(semaphore.snapshot().permits.limit, 6);
}

/// Refusals and cache hits are fast, so that they look like a backend with nothing to do, and the
/// limit grows while the backend fails.
#[test]
fn fast_failures_are_no_latencies() {
    let (semaphore, _) = through(&[5.0, 6.0]);
    semaphore.try_acquire().unwrap().ignore();
    assert_eq!(semaphore.snapshot().window.samples(), 0);
    semaphore.try_acquire().unwrap().overloaded();
    assert_eq!(semaphore.snapshot().windows, 1);
    let (semaphore, _) = through(&[5.0]);
    semaphore.try_acquire().unwrap().overloaded();
    assert_eq!(semaphore.snapshot().window.min_latency(), None);
}

fn starting_at(rate: f64) -> (ManualClock, AdaptiveRate) {
    let clock = Clock::manual();
    let rate = AdaptiveRate::new()
        .initial_rate(rate)
        .burst(100)
        .clock(&clock);
    (clock, rate)
}

/// Each refusal of one overload cuts the rate again: a hundred of them leave nothing of it.
///
/// Seen in botocore's adaptive retry mode, which cuts to 0.7 at each.
#[test]
fn each_refusal_of_one_overload_cuts() {
    let (clock, rate) = starting_at(1_000.0);
    let permits: Vec<_> = (0..100).map(|_| rate.try_acquire().unwrap()).collect();
    for permit in permits {
        clock.advance(MS);
        permit.throttled(None);
    }
    assert_eq!((rate.rate(), rate.snapshot().refusals), (850.0, 100));
}

/// The rate grows with the time since the last refusal, used or not, and a client that was idle for
/// an hour begins with a flood.
///
/// Seen in botocore's adaptive retry mode, which bounds it by twice the measured rate.
#[test]
fn idle_time_raises_the_rate() {
    let (clock, rate) = starting_at(1_000.0);
    rate.try_acquire().unwrap().throttled(None);
    for _ in 0..10 {
        clock.advance(Duration::from_secs(3_600));
        drop(rate.try_acquire().unwrap());
    }
    assert_eq!(rate.rate(), 850.0);
}

/// What is sent counts as what the server accepts, so the rate stays above that of a server that has
/// become slower.
///
/// Seen in botocore's adaptive retry mode, whose measured rate includes refused requests.
#[test]
fn refused_requests_count_as_accepted() {
    let (clock, rate) = starting_at(1_000.0);
    rate.try_acquire().unwrap().throttled(None);
    // Only every fourth succeeds.
    for n in 0..400 {
        clock.advance(MS);
        let Ok(permit) = rate.try_acquire() else {
            continue;
        };
        match n % 4 {
            0 => drop(permit),
            _ => permit.throttled(None),
        }
    }
    assert!(rate.rate() < 300.0, "{}", rate.rate());
}

/// A refusal pauses the client for an hour, then the shorter `Retry-After` of a late answer ends that.
#[test]
fn late_answer_shortens_the_pause() {
    let (clock, rate) = starting_at(1_000.0);
    let late = rate.try_acquire().unwrap();
    let hour = Duration::from_secs(3_600);
    rate.try_acquire().unwrap().throttled(Some(hour));
    late.throttled(Some(MS));
    clock.advance(hour - MS);
    let refused = rate.try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), Some(MS));
}

/// A server, or a proxy that answers for it, asks for centuries, and the client never makes a request again.
///
/// Seen in urllib3#3743, where `Retry-After: 9999999999` reached `sleep` as it was.
#[test]
fn absurd_retry_after_stops_the_client() {
    let (clock, rate) = starting_at(1_000.0);
    for asked in [9_999_999_999, u64::MAX] {
        let permit = rate.try_acquire().unwrap();
        permit.throttled(Some(Duration::from_secs(asked)));
        clock.advance(Duration::from_secs(3_600) - MS);
        let refused = rate.try_acquire().unwrap_err();
        assert_eq!(refused.retry_after(), Some(MS));
        clock.advance(MS);
        drop(rate.try_acquire().unwrap());
        clock.advance(Duration::from_secs(1));
    }
}

/// A call that is limited in two ways gives back the rate's permit when the other limit refuses it. The
/// rate has just changed, so the time is lost: calls that are never made use up the rate.
#[test]
fn refund_is_lost_to_a_change_of_the_rate() {
    let clock = Clock::manual();
    let rate = AdaptiveRate::new().initial_rate(100.0).clock(&clock);
    let none = Semaphore::new(0);
    for _ in 0..3_000 {
        clock.advance(MS);
        if all((&rate, &none))
            .try_acquire()
            .is_err_and(|error| error.kind() == ErrorKind::NoPermits)
        {
            drop(rate.try_acquire().unwrap());
        }
    }
    assert!(rate.rate() > 400.0, "{}", rate.rate());
}
