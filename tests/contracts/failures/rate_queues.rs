//! How the queues of rate limiters go wrong.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tollgate::{Clock, ErrorKind, LeakyBucket, ManualClock, Quota, RateLimiter, Semaphore, all};

use crate::support::{Waiter, assert_at_rest, kind};

/// With nothing left.
fn spent(quota: Quota) -> (ManualClock, RateLimiter) {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(quota).clock(&clock);
    limiter.try_acquire_many(quota.max_burst()).unwrap();
    (clock, limiter)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Out of order: 429 of 780 pairs of waiters; many small ones starve a large one.
///
/// Seen in governor, whose waiters check and sleep.
#[test]
fn out_of_order_and_small_ones_that_starve_a_large_one() {
    let (clock, limiter) = spent(Quota::per_second(1000).burst(50));
    let mut waiters: Vec<_> = (0..40)
        .map(|number| Waiter::parked(limiter.acquire_many(1 + number % 7)))
        .collect();
    clock.advance(Duration::from_secs(1));
    let ticks: Vec<_> = waiters
        .iter_mut()
        .map(|waiter| waiter.granted().at())
        .collect();
    assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]));

    // Eight loops of ones that come again and again, and try besides, beside a fifty.
    let (clock, limiter) = spent(Quota::per_second(1000).burst(50));
    let mut small: Vec<_> = (0..8).map(|_| Waiter::parked(limiter.acquire())).collect();
    let mut large = Waiter::parked(limiter.acquire_many(50));
    for waited in 1..=58 {
        assert!(large.is_pending());
        clock.advance(millis(1));
        assert!(limiter.try_acquire().is_err());
        for waiter in &mut small {
            if waiter.wakes() > 0 {
                waiter.granted();
                *waiter = Waiter::parked(limiter.acquire());
            }
        }
        assert_eq!(large.wakes(), usize::from(waited == 58));
    }
    assert_eq!(large.granted().at().as_nanos(), 58_000_000);
}

/// A large head is cancelled and the small ones behind it are not woken.
///
/// Seen in embassy-rs/embassy#6964.
#[test]
fn large_head_of_a_rate_is_cancelled() {
    let (clock, limiter) = spent(Quota::per_second(10).burst(10));
    let large = Waiter::parked(limiter.acquire_many(10));
    let mut small: Vec<_> = (0..3).map(|_| Waiter::parked(limiter.acquire())).collect();
    clock.advance(millis(250));
    drop(large);
    // Two were due at once, and the third is in half an interval.
    let woken: Vec<_> = small.iter().map(Waiter::wakes).collect();
    assert_eq!(woken, [1, 1, 0]);
    clock.advance(millis(50));
    for waiter in &mut small {
        waiter.granted();
    }
}

/// Four of five are cancelled, and the fifth waits as long as before.
///
/// Seen in throttle-net: at 10/s the fifth went after 502 ms.
#[test]
fn cancelled_waiters_are_waited_for() {
    let (clock, limiter) = spent(Quota::per_second(10));
    let mut waiters: Vec<_> = (0..5).map(|_| Waiter::parked(limiter.acquire())).collect();
    clock.advance(millis(1));
    let mut fifth = waiters.pop().unwrap();
    drop(waiters);
    clock.advance(millis(99) - Duration::from_nanos(1));
    assert!(fifth.is_pending());
    clock.advance(Duration::from_nanos(1));
    assert_eq!(fifth.granted().at().as_nanos(), 100_000_000);

    // And in a bucket, whatever the order in which they give up.
    let clock = Clock::manual();
    let bucket = LeakyBucket::new(Quota::per_second(10), 5).clock(&clock);
    bucket.try_acquire().unwrap();
    let mut waiters: Vec<_> = (0..5).map(|_| Waiter::parked(bucket.acquire())).collect();
    let mut fifth = waiters.pop().unwrap();
    while let Some(waiter) = waiters.pop() {
        drop(waiter);
    }
    clock.advance(millis(100));
    assert_eq!(fifth.granted().at().as_nanos(), 100_000_000);
}

/// A waiter that is not polled wedges everybody; a stored but never polled acquire blocks the queue.
///
/// Seen in leaky-bucket, where one of those who wait sleeps for all, and in tokio-rs/tokio#6450.
#[test]
fn unpolled_waiter_wedges_everybody() {
    let (clock, limiter) = spent(Quota::per_second(10));
    // Polled once and put aside, leaked, and never polled at all.
    let aside = Waiter::parked(limiter.acquire());
    std::mem::forget(Waiter::parked(limiter.acquire()).into_future());
    let _stored: Vec<_> = (0..10).map(|_| limiter.acquire()).collect();
    let mut polled = Waiter::parked(limiter.acquire());
    clock.advance(millis(299));
    assert!(polled.is_pending());
    clock.advance(millis(1));
    assert_eq!(polled.granted().at().as_nanos(), 300_000_000);
    assert_eq!(aside.wakes(), 1);
}

/// A try takes the place of the one who drives the queue, and wedges it for ever.
///
/// Seen in udoprog/leaky-bucket#39, with `fair(false)`.
#[test]
fn try_beside_waiters_wedges_the_queue() {
    let (clock, limiter) = spent(Quota::per_second(10));
    let mut waiters: Vec<_> = (0..20).map(|_| Waiter::parked(limiter.acquire())).collect();
    for waiter in &mut waiters {
        // Just before somebody is due, and just when it is.
        for part in [millis(99), millis(1)] {
            assert_eq!(kind(limiter.try_acquire()), ErrorKind::RateLimited);
            clock.advance(part);
            assert_eq!(kind(limiter.try_acquire()), ErrorKind::RateLimited);
        }
        waiter.granted();
    }
    clock.advance(millis(100));
    limiter.try_acquire().unwrap();
}

/// An unbounded queue.
///
/// Seen in TraceMachina/nativelink#2730.
#[test]
fn unbounded_queue_of_a_rate() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(1).burst(2))
        .max_waiters(3)
        .clock(&clock);
    let mut uploads: Vec<_> = (0..20).map(|_| Waiter::new(limiter.acquire())).collect();
    let mut counts = [0; 3];
    for upload in &mut uploads {
        counts[match upload.poll() {
            Poll::Ready(Ok(_)) => 0,
            Poll::Pending => 1,
            Poll::Ready(Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::QueueFull);
                // When the head of the queue goes.
                assert_eq!(error.retry_after(), Some(Duration::from_secs(1)));
                2
            }
        }] += 1;
    }
    assert_eq!(counts, [2, 3, 15]);
    assert_eq!(limiter.snapshot().waiting, 3);
    clock.advance(Duration::from_secs(1));
    // There is room for one then, as was said.
    let mut room = Waiter::parked(limiter.acquire());
    let mut none = Waiter::new(limiter.acquire());
    assert_eq!(none.refused(), ErrorKind::QueueFull);
    assert!(room.is_pending());
}

/// A request larger than the limit blocks for ever, or passes unlimited.
///
/// Seen in amazon-mq/rabbitmq-stream-s3#208, rclone.
#[test]
fn request_larger_than_the_burst() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(10).burst(5)).clock(&clock);
    let mut large = Waiter::new(limiter.acquire_many(6));
    assert_eq!(large.refused(), ErrorKind::ExceedsCapacity);
    assert_eq!(
        kind(limiter.try_acquire_many(6)),
        ErrorKind::ExceedsCapacity
    );
    assert_eq!(kind(limiter.reserve_many(6)), ErrorKind::ExceedsCapacity);
    assert_eq!(limiter.snapshot().available, 5, "it was charged nothing");
    // When it was not larger at the time that it joined.
    limiter.try_acquire_many(5).unwrap();
    let mut large = Waiter::parked(limiter.acquire_many(5));
    let mut behind = Waiter::parked(limiter.acquire());
    limiter.set_quota(Quota::per_second(10).burst(4));
    assert_eq!(large.refused(), ErrorKind::ExceedsCapacity);
    clock.advance(millis(100));
    behind.granted();

    // Or it is let in alone, and paid off before anybody else is.
    let limiter = RateLimiter::new(Quota::per_second(10).burst(5))
        .oversize(tollgate::Oversize::Overdraft)
        .clock(&clock);
    limiter.try_acquire().unwrap();
    let mut large = Waiter::parked(limiter.acquire_many(20));
    let mut behind = Waiter::parked(limiter.acquire());
    clock.advance(millis(99));
    assert!(large.is_pending());
    clock.advance(millis(1));
    large.granted();
    clock.advance(millis(1599));
    assert!(behind.is_pending());
    clock.advance(millis(1));
    behind.granted();
}

/// A chain leaks what it took before the refusal.
///
/// Seen in BaseIntelligence/bounty-challenge#4191, and with tokens in dotnet/runtime#113314.
#[test]
fn chain_of_rates_leaks_what_it_took() {
    let clock = Clock::manual();
    let rate = |burst| Arc::new(RateLimiter::new(Quota::per_second(1).burst(burst)).clock(&clock));
    let (slots, wide, narrow) = (Arc::new(Semaphore::new(5)), rate(10), rate(1));
    let chain = all((Arc::clone(&slots), Arc::clone(&wide), Arc::clone(&narrow)));
    drop(chain.try_acquire().unwrap());
    assert_eq!(
        (wide.snapshot().available, narrow.snapshot().available),
        (9, 0)
    );
    for _ in 0..100 {
        let refused = chain.try_acquire().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::RateLimited);
        assert_eq!(refused.part(), Some(2));
        assert_eq!(wide.snapshot().available, 9);
    }
    // The same for those who wait and give up, before they are charged and after it.
    for _ in 0..100 {
        drop(Waiter::parked(chain.acquire()));
        assert_eq!(
            (wide.snapshot().available, narrow.snapshot().waiting),
            (9, 0)
        );
    }
    let waiter = Waiter::parked(chain.acquire());
    clock.advance(Duration::from_secs(1));
    assert_eq!(waiter.wakes(), 1);
    drop(waiter);
    assert_eq!(
        (wide.snapshot().available, narrow.snapshot().available),
        (10, 1)
    );
    narrow.close();
    assert_eq!(kind(chain.try_acquire()), ErrorKind::Closed);
    assert_eq!(wide.snapshot().available, 10);
    assert_at_rest(&slots, 5);
}

/// A reservation that is cancelled does not give back everything.
///
/// Seen in golang/go#56924, #69419.
#[test]
fn reservation_cancelled_gives_back_only_a_part() {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(10).burst(5)).clock(&clock);
    let first = limiter.reserve_many(3).unwrap();
    let second = limiter.reserve_many(2).unwrap();
    let third = limiter.reserve_many(4).unwrap();
    let fourth = limiter.reserve_many(1).unwrap();
    assert_eq!(third.delay(), millis(400));
    assert_eq!(fourth.delay(), millis(500));
    // The first though others have reserved since, one in the middle of the queue, then the rest.
    drop(first);
    assert_eq!((third.delay(), fourth.delay()), (millis(100), millis(200)));
    drop(third);
    assert_eq!(fourth.delay(), Duration::ZERO);
    drop(second);
    assert_eq!(limiter.snapshot().available, 4);
    drop(fourth);
    assert_eq!(limiter.snapshot().available, 5);
}
