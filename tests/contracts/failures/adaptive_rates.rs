//! How adaptive rates go wrong: by refusals that count too often, and by time and requests
//! that say nothing.

use std::time::Duration;

use tollgate::adaptive::AdaptiveRate;
use tollgate::{Clock, ErrorKind, ManualClock, Semaphore, all};

const MS: Duration = Duration::from_millis(1);

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
