//! What the leaky bucket promises, a sentence a test, on a clock that is moved by hand.

use std::sync::Arc;
use std::time::Duration;
use tollgate::Waiting;

use crate::support::{Waiter, kind};
use tollgate::rate::Acquire;
use tollgate::{
    AcquireError, Charge, Clock, ErrorKind, LeakyBucket, ManualClock, MissedTickBehavior, Quota,
    Semaphore, all,
};

const TEN: Quota = Quota::per_second(10);
const TICK: Duration = Duration::from_nanos(1);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn bucket(capacity: usize) -> (ManualClock, LeakyBucket) {
    let clock = Clock::manual();
    let bucket = LeakyBucket::new(TEN, capacity).clock(&clock);
    (clock, bucket)
}

/// A bucket in which so many wait, behind one that was released at once.
fn filled(
    bucket: &LeakyBucket,
    waiting: usize,
) -> Vec<Waiter<Waiting<Acquire<&tollgate::RateLimiter>>>> {
    Waiter::new(bucket.acquire()).granted();
    let line = (0..waiting).map(|_| Waiter::parked(bucket.acquire()));
    line.collect()
}

fn at(charge: &Charge) -> Duration {
    Duration::from_nanos(charge.at().as_nanos())
}

#[track_caller]
fn assert_due<F>(clock: &ManualClock, waiter: &mut Waiter<F>, after: Duration)
where
    F: Future<Output = Result<Charge, AcquireError>>,
{
    clock.advance(after - TICK);
    assert!(waiter.is_pending(), "released too early");
    clock.advance(TICK);
    assert_eq!(waiter.wakes(), 1, "not woken when it was due");
    assert_eq!(waiter.granted().at(), clock.now());
}

#[track_caller]
fn assert_full(bucket: &LeakyBucket, retry_after: Duration) {
    let error = Waiter::new(bucket.acquire()).output().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QueueFull);
    assert_eq!(error.retry_after(), Some(retry_after));
}

#[test]
fn they_are_released_in_order_and_evenly_spaced() {
    let (clock, bucket) = bucket(50);
    let mut line = filled(&bucket, 50);
    for waiter in &mut line {
        assert_due(&clock, waiter, ms(100));
    }
    assert_eq!(bucket.waiting(), 0);
}

#[test]
fn a_rate_without_whole_nanoseconds_is_exact_over_time() {
    let clock = Clock::manual();
    let bucket = LeakyBucket::new(Quota::per_second(3), 300).clock(&clock);
    let mut line = filled(&bucket, 300);
    clock.advance(Duration::from_secs(100));
    for (place, waiter) in (1..).zip(&mut line) {
        let exact = u64::div_ceil(place * 1_000_000_000, 3);
        assert_eq!(at(&waiter.granted()), Duration::from_nanos(exact));
    }
}

#[test]
fn the_first_after_idling_goes_at_once_and_alone() {
    for idle in [ms(100), ms(101), Duration::from_secs(3600 * 24 * 365)] {
        let (clock, bucket) = bucket(5);
        bucket.try_acquire().unwrap();
        clock.advance(idle);
        let first = Waiter::new(bucket.acquire()).granted();
        assert_eq!(first.at(), clock.now());
        let mut second = Waiter::parked(bucket.acquire());
        let mut third = Waiter::parked(bucket.acquire());
        assert_due(&clock, &mut second, ms(100));
        assert_due(&clock, &mut third, ms(100));
    }
}

#[test]
fn a_full_bucket_refuses_at_once_and_says_when_the_next_is_released() {
    let (clock, bucket) = bucket(3);
    let mut line = filled(&bucket, 3);
    assert_full(&bucket, ms(100));
    clock.advance(ms(99));
    assert_full(&bucket, ms(1));
    assert_due(&clock, &mut line[0], ms(1));
    let mut joins = Waiter::parked(bucket.acquire());
    assert_full(&bucket, ms(100));
    assert_due(&clock, &mut joins, ms(300));
    assert_eq!(bucket.waiting(), 0);
}

#[test]
fn a_place_that_is_given_up_is_taken_by_the_next_one_at_once() {
    for left in 0..4 {
        let (clock, bucket) = bucket(4);
        let mut line = filled(&bucket, 4);
        clock.advance(ms(50));
        drop(line.remove(left));
        assert_due(&clock, &mut line[0], ms(50));
        assert_due(&clock, &mut line[1], ms(100));
        assert_due(&clock, &mut line[2], ms(100));
    }
}

#[cfg(feature = "tokio")]
#[test]
fn a_place_is_given_up_by_a_token() {
    let token = tokio_util::sync::CancellationToken::new();
    let (clock, bucket) = bucket(3);
    let bucket = Arc::new(bucket);
    Waiter::new(bucket.acquire()).granted();
    let mut borrowed = Waiter::parked(bucket.acquire().cancel_on(&token));
    let owned = Arc::clone(&bucket).acquire_owned().cancel_on(token.clone());
    let mut owned = Waiter::parked(owned);
    let mut next = Waiter::parked(bucket.acquire());
    token.cancel();
    assert_eq!(borrowed.refused(), ErrorKind::Cancelled);
    assert_eq!(owned.refused(), ErrorKind::Cancelled);
    assert_due(&clock, &mut next, ms(100));
}

#[test]
fn a_newcomer_may_join_when_somebody_has_left_a_full_bucket() {
    for left in 0..3 {
        let (clock, bucket) = bucket(3);
        let mut line = filled(&bucket, 3);
        assert_full(&bucket, ms(100));
        drop(line.remove(left));
        line.push(Waiter::parked(bucket.acquire()));
        assert_eq!(bucket.waiting(), 3);
        assert_full(&bucket, ms(100));
        for waiter in &mut line {
            assert_due(&clock, waiter, ms(100));
        }
    }
}

#[test]
fn one_that_was_released_and_leaves_gives_its_slot_to_the_next() {
    let (clock, bucket) = bucket(3);
    let mut line = filled(&bucket, 2);
    clock.advance(ms(130));
    assert_eq!((line[0].wakes(), line[1].wakes()), (1, 0));
    drop(line.remove(0));
    assert_eq!(at(&line[0].granted()), ms(130));
}

#[test]
fn a_slot_that_is_given_back_is_the_next_ones() {
    let (clock, bucket) = bucket(3);
    let charge = bucket.try_acquire().unwrap();
    let mut waiter = Waiter::parked(bucket.acquire());
    clock.advance(ms(40));
    bucket.refund(charge);
    assert_eq!(at(&waiter.granted()), ms(40));
    let mut next = Waiter::parked(bucket.acquire());
    assert_due(&clock, &mut next, ms(100));
}

#[test]
fn a_capacity_of_nothing_lets_nobody_wait() {
    let (clock, bucket) = bucket(0);
    Waiter::new(bucket.acquire()).granted();
    assert_full(&bucket, ms(100));
    clock.advance(ms(100));
    Waiter::new(bucket.acquire()).granted();
}

#[test]
fn a_try_does_not_pass_the_queue_and_is_told_when_it_is_empty() {
    let (clock, bucket) = bucket(5);
    bucket.try_acquire().unwrap();
    let error = bucket.try_acquire().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RateLimited);
    assert_eq!(error.retry_after(), Some(ms(100)));
    let mut line: Vec<_> = (0..2).map(|_| Waiter::parked(bucket.acquire())).collect();
    let error = bucket.try_acquire().unwrap_err();
    assert_eq!(error.retry_after(), Some(ms(300)));
    clock.advance(ms(300) - TICK);
    assert_eq!(bucket.try_acquire().unwrap_err().retry_after(), Some(TICK));
    clock.advance(TICK);
    bucket.try_acquire().unwrap();
    for waiter in &mut line {
        waiter.granted();
    }
}

#[test]
fn another_rate_holds_at_once_for_those_in_the_queue() {
    let (clock, bucket) = bucket(5);
    let mut line = filled(&bucket, 4);
    clock.advance(ms(50));
    // Half a slot is over, and half a slot is to come.
    bucket.set_rate(Quota::per_second(1000));
    assert_eq!(bucket.rate(), Quota::per_second(1000));
    assert_due(&clock, &mut line[0], Duration::from_micros(500));
    assert_due(&clock, &mut line[1], ms(1));
    bucket.set_rate(Quota::per_hour(1));
    assert_due(&clock, &mut line[2], Duration::from_secs(3600));
    clock.advance(Duration::from_secs(1800));
    bucket.set_rate(TEN);
    assert_due(&clock, &mut line[3], ms(50));
}

#[test]
fn a_closed_bucket_releases_nobody() {
    let (clock, bucket) = bucket(3);
    let mut line = filled(&bucket, 3);
    clock.advance(ms(100));
    assert!(!bucket.is_closed());
    bucket.close();
    assert!(bucket.is_closed());
    // It was released before.
    assert_eq!(at(&line[0].granted()), ms(100));
    assert_eq!(line[1].wakes(), 1);
    assert_eq!(line[1].refused(), ErrorKind::Closed);
    assert_eq!(line[2].refused(), ErrorKind::Closed);
    clock.advance(ms(1000));
    assert_eq!(kind(bucket.try_acquire()), ErrorKind::Closed);
    assert_eq!(Waiter::new(bucket.acquire()).refused(), ErrorKind::Closed);
    assert_eq!(bucket.waiting(), 0);
}

#[test]
fn a_future_that_is_not_polled_is_not_in_the_queue_and_one_that_was_holds_nobody_up() {
    let (clock, bucket) = bucket(3);
    let _unpolled = Waiter::new(bucket.acquire());
    let line = filled(&bucket, 2);
    let mut last = Waiter::parked(bucket.acquire());
    assert_eq!(bucket.waiting(), 3);
    assert_due(&clock, &mut last, ms(300));
    assert!(line.iter().all(|waiter| waiter.wakes() == 1));
}

#[test]
fn it_shows_how_it_stands() {
    let clock = Clock::manual();
    let bucket = LeakyBucket::new(TEN, 2).clock(&clock);
    let line = filled(&bucket, 2);
    assert_full(&bucket, ms(100));
    clock.advance(ms(30));
    let snapshot = bucket.snapshot();
    assert_eq!((snapshot.available, snapshot.waiting), (0, 2));
    assert_eq!(snapshot.oldest_wait, Some(ms(30)));
    drop(line);
    assert_eq!(bucket.capacity(), 2);
    let text = format!("{bucket:?}");
    assert!(
        text.contains("10/s") && text.contains("capacity: 2"),
        "{text}"
    );
}

/// A waker that takes its time makes the next alarm late.
#[test]
fn with_delay_no_two_are_closer_together_than_the_rate_says() {
    let clock = Clock::manual();
    let bucket = LeakyBucket::new(TEN, 9).missed_tick(MissedTickBehavior::Delay);
    let bucket = bucket.clock(&clock);
    bucket.try_acquire().unwrap();
    let mut slow = Waiter::new(bucket.acquire());
    let waker = crate::support::foreign::calls_when_woken({
        let clock = clock.clone();
        move || clock.advance(ms(250))
    });
    assert!(slow.poll_with(&waker).is_pending());
    let mut late = Waiter::parked(bucket.acquire());
    let mut next = Waiter::parked(bucket.acquire());
    clock.advance(ms(100));
    assert_eq!(at(&slow.granted()), ms(100));
    assert_eq!(at(&late.granted()), ms(350));
    assert_due(&clock, &mut next, ms(100));
}

#[test]
fn it_is_a_throttle() {
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
    let erased = tollgate::Throttle::boxed(Arc::clone(&bucket));
    drop(Waiter::new(erased.acquire()).granted());
}

/// The scenario that the type is made for: a full bucket, one released each second.
#[test]
fn twenty_clients_for_twenty_seconds() {
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
