//! The leaky bucket: the queue of a limiter without a burst, with a bound. What a limiter does is
//! tested there.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{
    Clock, ErrorKind, LeakyBucket, ManualClock, MissedTickBehavior, Quota, Semaphore, all,
};

use crate::setup::{TEN, TICK, assert_due, at, ms};
use crate::support::foreign::calls_when_woken;
use crate::support::{Waiter, kind};

fn bucket(capacity: usize) -> (ManualClock, LeakyBucket) {
    let clock = Clock::manual();
    let bucket = LeakyBucket::new(TEN, capacity).clock(&clock);
    (clock, bucket)
}

#[track_caller]
fn assert_full(bucket: &LeakyBucket, retry_after: Duration) {
    let error = Waiter::new(bucket.acquire()).output().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QueueFull);
    assert_eq!(error.retry_after(), Some(retry_after));
}

/// The first after idling goes at once and alone, the others in order and evenly spaced; a full
/// bucket refuses, and says when the next is released. A place that is given up is the next one's.
#[test]
fn acquire_is_released_in_order_and_evenly_spaced() {
    let (clock, bucket) = bucket(3);
    for idle in [ms(0), ms(1000), Duration::from_secs(3600 * 24 * 365)] {
        clock.advance(idle);
        let first = Waiter::new(bucket.acquire()).granted();
        assert_eq!(first.at(), clock.now());
        let mut queue: Vec<_> = (0..3).map(|_| Waiter::parked(bucket.acquire())).collect();
        assert_full(&bucket, ms(100));
        clock.advance(ms(99));
        assert_full(&bucket, ms(1));
        assert_due(&clock, &mut queue.remove(0), ms(1));
        queue.push(Waiter::parked(bucket.acquire()));
        assert_full(&bucket, ms(100));
        drop(queue.remove(0));
        for waiter in &mut queue {
            assert_due(&clock, waiter, ms(100));
        }
        assert_eq!(bucket.snapshot().waiting, 0);
        clock.advance(ms(100));
    }
}

#[test]
fn capacity_of_nothing_lets_nobody_wait() {
    let (clock, bucket) = bucket(0);
    Waiter::new(bucket.acquire()).granted();
    assert_full(&bucket, ms(100));
    clock.advance(ms(100));
    Waiter::new(bucket.acquire()).granted();
}

/// A try does not pass the queue; what is given back is the next one's.
#[test]
fn try_acquire_behind_a_queue_says_when_it_is_empty() {
    let (clock, bucket) = bucket(5);
    let charge = bucket.try_acquire().unwrap();
    let after = || bucket.try_acquire().unwrap_err().retry_after();
    assert_eq!(after(), Some(ms(100)));
    let mut queue: Vec<_> = (0..3).map(|_| Waiter::parked(bucket.acquire())).collect();
    assert_eq!(after(), Some(ms(400)));
    bucket.refund(charge);
    assert_eq!(at(&queue[0].granted()), ms(0));
    assert_eq!(after(), Some(ms(300)));
    clock.advance(ms(300) - TICK);
    assert_eq!(after(), Some(TICK));
    clock.advance(TICK);
    bucket.try_acquire().unwrap();
}

#[test]
fn set_rate_holds_at_once_for_the_queue() {
    let (clock, bucket) = bucket(5);
    bucket.try_acquire().unwrap();
    let mut queue: Vec<_> = (0..3).map(|_| Waiter::parked(bucket.acquire())).collect();
    clock.advance(ms(50));
    // Half a slot is over, and half a slot is to come.
    bucket.set_rate(Quota::per_second(1000));
    assert_eq!(bucket.rate(), Quota::per_second(1000));
    assert_due(&clock, &mut queue[0], Duration::from_micros(500));
    bucket.set_rate(Quota::per_hour(1));
    assert_due(&clock, &mut queue[1], Duration::from_secs(3600));
    clock.advance(Duration::from_secs(1800));
    bucket.set_rate(TEN);
    assert_due(&clock, &mut queue[2], ms(50));
}

#[test]
fn close_releases_nobody_and_debug_and_snapshot_show_it() {
    let (clock, bucket) = bucket(2);
    bucket.try_acquire().unwrap();
    let mut queue: Vec<_> = (0..2).map(|_| Waiter::parked(bucket.acquire())).collect();
    clock.advance(ms(100));
    let snapshot = bucket.snapshot();
    assert_eq!((snapshot.available, snapshot.waiting), (0, 1));
    assert_eq!(snapshot.oldest_wait, Some(ms(100)));
    assert!(!bucket.is_closed());
    bucket.close();
    assert!(bucket.is_closed());
    // It was released before.
    assert_eq!(at(&queue[0].granted()), ms(100));
    assert_eq!(queue[1].refused(), ErrorKind::Closed);
    assert_eq!(kind(bucket.try_acquire()), ErrorKind::Closed);
    assert_eq!(Waiter::new(bucket.acquire()).refused(), ErrorKind::Closed);
    assert_eq!(bucket.snapshot().waiting, 0);
    let text = format!("{bucket:?}");
    assert!(
        text.contains("10/s") && text.contains("capacity: 2"),
        "{text}"
    );
}

#[test]
fn debug_of_a_new_bucket_fixes_no_option() {
    let bucket = LeakyBucket::new(TEN, 2);
    assert!(format!("{bucket:?}").contains("capacity: 2"));
    let clock = Clock::manual();
    bucket.clock(&clock).try_acquire().unwrap();
}

/// A waker that takes its time makes the next timer late.
#[test]
fn missed_tick_delay_keeps_any_two_as_far_apart_as_the_rate_says() {
    let clock = Clock::manual();
    let bucket = LeakyBucket::new(TEN, 9)
        .missed_tick(MissedTickBehavior::Delay)
        .clock(&clock);
    bucket.try_acquire().unwrap();
    let mut slow = Waiter::new(bucket.acquire());
    let waker = calls_when_woken({
        let clock = clock.clone();
        move || clock.advance(ms(250))
    });
    assert!(slow.poll_with(&waker).is_pending());
    let mut late = Waiter::parked(bucket.acquire());
    let mut next = Waiter::parked(bucket.acquire());
    clock.advance(ms(100));
    assert_eq!(
        (at(&slow.granted()), at(&late.granted())),
        (ms(100), ms(350))
    );
    assert_due(&clock, &mut next, ms(100));
}

#[test]
fn bucket_is_a_throttle() {
    let (clock, bucket) = bucket(2);
    let bucket = Arc::new(bucket);
    let slots = Semaphore::new(0);
    let parts = all((&*bucket, &slots));
    let waiting = Waiter::parked(parts.acquire());
    let mut next = Waiter::parked(Arc::clone(&bucket).acquire_owned());
    clock.advance(ms(40));
    // The slot of the one that gives up is the next one's.
    drop(waiting);
    assert_eq!(at(&next.granted()), ms(40));
    clock.advance(ms(100));
    let erased = tollgate::BoxThrottle::new(Arc::clone(&bucket));
    drop(Waiter::new(erased.acquire()).granted());
}

/// The use that the type is made for: a full bucket, one released each second.
#[test]
fn twenty_clients_for_twenty_seconds_are_released_one_a_second() {
    let clock = Clock::manual();
    let bucket = LeakyBucket::new(Quota::per_second(1), 10).clock(&clock);
    let mut clients: Vec<_> = (0..20).map(|_| Waiter::new(bucket.acquire())).collect();
    let (mut released, mut refused) = (Vec::new(), 0);
    for _ in 0..=2000 {
        for client in &mut clients {
            if let std::task::Poll::Ready(answer) = client.poll() {
                match answer {
                    Ok(charge) => released.push(at(&charge)),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::QueueFull);
                        refused += 1;
                    }
                }
                *client = Waiter::new(bucket.acquire());
            }
        }
        clock.advance(ms(10));
    }
    let expected: Vec<_> = (0..=20).map(Duration::from_secs).collect();
    assert_eq!(released, expected);
    assert!(refused > 2000);
}
