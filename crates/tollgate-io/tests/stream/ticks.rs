//! Tests a rate limiter as a stream.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FusedStream;
use tollgate::{Charge, Clock, ErrorKind, LeakyBucket, ManualClock, Quota, RateLimiter, Throttle};
use tollgate_io::stream::{ThrottleStreamExt, Ticks};

use super::Polled;
use crate::support::{Waiter, kind};

const TICK: Duration = Duration::from_nanos(1);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn limiter(quota: Quota) -> (ManualClock, RateLimiter) {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(quota).clock(&clock);
    (clock, limiter)
}

fn at(charge: Option<Charge>) -> Duration {
    Duration::from_nanos(charge.expect("it goes on").at().as_nanos())
}

/// Asserts that the stream yields after this time, not a tick earlier, and is woken once for it.
#[track_caller]
fn assert_due<T: Throttle<Permit = Charge>>(
    clock: &ManualClock,
    ticks: &mut Polled<Ticks<T>>,
    after: Duration,
) {
    let woken = ticks.wakes();
    assert!(ticks.poll().is_pending());
    clock.advance(after - TICK);
    assert!(ticks.poll().is_pending(), "too early");
    assert_eq!(ticks.wakes(), woken);
    clock.advance(TICK);
    assert_eq!(ticks.wakes(), woken + 1, "not woken when it was due");
    assert_eq!(at(ticks.next()).as_nanos(), clock.now().as_nanos().into());
}

#[test]
fn it_yields_at_the_rate_to_the_tick() {
    let (clock, limiter) = limiter(Quota::per_second(10));
    let mut ticks = Polled::new(limiter.ticks());
    assert_eq!(at(ticks.next()), ms(0));
    for _ in 0..20 {
        assert_due(&clock, &mut ticks, ms(100));
    }
}

#[test]
fn a_burst_is_yielded_at_once_and_missed_ticks_only_as_a_burst() {
    let (clock, limiter) = limiter(Quota::per_second(100).burst(3));
    let mut ticks = Polled::new(limiter.ticks());
    for _ in 0..2 {
        let now = Duration::from_nanos(clock.now().as_nanos());
        for _ in 0..3 {
            assert_eq!(at(ticks.next()), now);
        }
        assert_due(&clock, &mut ticks, ms(10));
        // The reader pauses for a long time.
        clock.advance(ms(5000));
    }
}

/// Three streams that always wait for their next tick, and another caller between them, go in arrival order.
#[test]
fn streams_and_others_take_turns() {
    let (clock, limiter) = limiter(Quota::per_second(10));
    limiter.try_acquire().unwrap();
    let mut streams = [(); 3].map(|()| Polled::new(limiter.ticks()));
    for stream in &mut streams {
        stream.assert_pending();
    }
    let mut other = Waiter::parked(limiter.acquire());
    for round in 0..5 {
        for which in 0..3 {
            clock.advance(ms(100));
            assert_eq!(
                at(streams[which].next()),
                Duration::from_nanos(clock.now().as_nanos())
            );
            for stream in &mut streams {
                stream.assert_pending();
            }
        }
        if round == 0 {
            clock.advance(ms(100));
            other.granted();
        }
    }
}

#[test]
fn closing_ends_it_also_while_it_waits() {
    let (_clock, limiter) = limiter(Quota::per_second(10));
    let mut waits = Polled::new(limiter.ticks());
    let mut comes_late = Polled::new(limiter.ticks());
    waits.next();
    waits.assert_pending();
    assert!(!waits.stream.is_terminated());
    assert_eq!(waits.stream.refused(), None);
    limiter.close();
    assert_eq!(waits.wakes(), 1);
    for stream in [&mut waits, &mut comes_late] {
        for _ in 0..3 {
            assert!(stream.next().is_none());
            assert!(stream.stream.is_terminated());
        }
        let refused = stream.stream.refused().expect("it has ended");
        assert_eq!(refused.kind(), ErrorKind::Closed);
    }
}

#[test]
fn a_full_queue_ends_it_and_it_says_so() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(10))
        .max_waiters(1)
        .clock(&clock);
    let mut ticks = Polled::new(limiter.ticks());
    ticks.next();
    let _other = Waiter::parked(limiter.acquire());
    assert!(ticks.next().is_none());
    let refused = ticks.stream.refused().expect("it has ended");
    assert_eq!(refused.kind(), ErrorKind::QueueFull);
    assert_eq!(refused.retry_after(), Some(ms(100)));
    // The stream is fused, so it stays ended even when there is room again.
    clock.advance(ms(1000));
    assert!(ticks.next().is_none());
}

#[test]
fn it_is_in_the_queue_while_it_waits_and_dropping_it_leaves() {
    let (clock, limiter) = limiter(Quota::per_second(10));
    let mut ticks = Polled::new(limiter.ticks());
    ticks.next();
    assert_eq!(limiter.snapshot().waiting, 0);
    ticks.assert_pending();
    assert_eq!(limiter.snapshot().waiting, 1);
    clock.advance(ms(100));
    assert_eq!(limiter.snapshot().waiting, 0);
    // A charge that was yielded can be refunded.
    limiter.refund(ticks.next().unwrap());
    ticks.next();
    ticks.assert_pending();
    let mut other = Waiter::parked(limiter.acquire());
    drop(ticks);
    assert_eq!(limiter.snapshot().waiting, 1);
    clock.advance(ms(100));
    other.granted();
}

#[test]
fn a_tick_that_was_not_read_is_yielded_next_or_given_back() {
    let (clock, limiter) = limiter(Quota::per_second(10));
    let mut ticks = Polled::new(limiter.ticks());
    ticks.next();
    ticks.assert_pending();
    clock.advance(ms(100));
    // The tick was charged when it was due, however late it is read.
    clock.advance(ms(50));
    assert_eq!(at(ticks.next()), ms(100));
    ticks.assert_pending();
    clock.advance(ms(50));
    assert_eq!(kind(limiter.try_acquire()), ErrorKind::RateLimited);
    drop(ticks);
    assert_eq!(
        Duration::from_nanos(limiter.try_acquire().unwrap().at().as_nanos()),
        ms(200)
    );
}

#[test]
fn the_wait_for_the_next_can_be_dropped_and_taken_up_again() {
    let (clock, limiter) = limiter(Quota::per_second(10));
    let mut ticks = limiter.ticks();
    Waiter::new(ticks.next()).output();
    drop(Waiter::parked(ticks.next()));
    assert_eq!(limiter.snapshot().waiting, 1);
    let mut behind = Waiter::parked(limiter.acquire());
    clock.advance(ms(100));
    assert_eq!(at(Waiter::new(ticks.next()).output()), ms(100));
    assert!(behind.is_pending());
}

#[test]
fn a_quota_that_changes_moves_the_next_tick() {
    let (clock, limiter) = limiter(Quota::per_hour(1));
    let mut ticks = Polled::new(limiter.ticks());
    ticks.next();
    ticks.assert_pending();
    limiter.set_quota(Quota::per_second(10));
    clock.advance(ms(100));
    assert_eq!(at(ticks.next()), ms(100));
    assert_due(&clock, &mut ticks, ms(100));
}

#[test]
fn a_leaky_bucket_releases_one_after_the_other() {
    let clock = Clock::manual();
    let bucket = LeakyBucket::new(Quota::per_second(10), 1).clock(&clock);
    let mut ticks = Polled::new(bucket.ticks());
    assert_eq!(at(ticks.next()), ms(0));
    for _ in 0..10 {
        assert_due(&clock, &mut ticks, ms(100));
    }
    clock.advance(ms(5000));
    ticks.next();
    assert_due(&clock, &mut ticks, ms(100));
    // The stream has the only place in the queue, so no other caller or stream can join.
    ticks.assert_pending();
    assert_eq!(
        Waiter::new(bucket.acquire()).refused(),
        ErrorKind::QueueFull
    );
    assert!(Polled::new(bucket.ticks()).next().is_none());
    bucket.close();
    assert!(ticks.next().is_none());
    assert!(ticks.stream.is_terminated());
    let refused = ticks.stream.refused().map(|error| error.kind());
    assert_eq!(refused, Some(ErrorKind::Closed));
}

#[test]
fn it_shows_why_it_has_ended() {
    let (_clock, limiter) = limiter(Quota::per_hour(1));
    let mut ticks = Polled::new(limiter.ticks());
    assert_eq!(format!("{:?}", ticks.stream), "Ticks { refused: None, .. }");
    limiter.close();
    assert!(ticks.next().is_none());
    let shown = format!("{:?}", ticks.stream);
    assert!(shown.contains("kind: Closed"), "{shown}");
}

#[test]
fn in_paused_time_each_comes_after_its_interval() {
    use tokio::time::Instant;

    crate::support::paused_runtime().block_on(async {
        let limiter = RateLimiter::new(Quota::per_second(4)).clock(Clock::tokio());
        let start = Instant::now();
        let elapsed: Vec<_> = limiter
            .ticks()
            .take(5)
            .map(|_| start.elapsed())
            .collect()
            .await;
        assert_eq!(elapsed, [ms(0), ms(250), ms(500), ms(750), ms(1000)]);
    });
}
