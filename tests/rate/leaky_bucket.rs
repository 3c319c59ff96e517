//! The leaky bucket: the queue of a limiter without a burst, with a bound. What such a limiter does is in the
//! tables.

use std::sync::Arc;
use std::task::Poll;

use tollgate::{
    AcquireError, Charge, Clock, LeakyBucket, ManualClock, MissedTickBehavior, Quota, RateLimiter,
    Semaphore, all,
};

use crate::setup::{TEN, assert_due, at, ms};
use crate::support::Waiter;
use crate::support::foreign::calls_when_woken;
use crate::support::random::Random;

fn bucket(capacity: usize) -> (ManualClock, LeakyBucket) {
    let clock = Clock::manual();
    let bucket = LeakyBucket::new(TEN, capacity).clock(&clock);
    (clock, bucket)
}

/// What a call came to, and when.
fn came_to(answer: &Result<Charge, AcquireError>) -> Result<u64, AcquireError> {
    let charge = answer.as_ref().map_err(Clone::clone)?;
    Ok(charge.at().as_nanos())
}

#[test]
fn bucket_does_what_a_limiter_without_a_burst_does() {
    for seed in 0..40 {
        let (mut random, capacity) = (Random::new(seed), (seed % 4) as usize);
        let (clock, bucket) = bucket(capacity);
        let limiter = RateLimiter::new(TEN).max_waiters(capacity).clock(&clock);
        let (mut waiters, mut charges) = (Vec::new(), Vec::new());
        for step in 0..200 {
            let which = random.below(100) as usize;
            match random.below(20) {
                0..3 => {
                    let both = (bucket.try_acquire(), limiter.try_acquire());
                    assert_eq!(came_to(&both.0), came_to(&both.1));
                    charges.extend(both.0.ok().zip(both.1.ok()));
                }
                3..11 => waiters.push((
                    Waiter::new(bucket.acquire()),
                    Waiter::new(limiter.acquire()),
                )),
                11 if !waiters.is_empty() => drop(waiters.remove(which % waiters.len())),
                12 if !charges.is_empty() => {
                    let (ours, theirs) = charges.swap_remove(which % charges.len());
                    bucket.refund(ours);
                    limiter.refund(theirs);
                }
                13 => {
                    let rate = Quota::per_second(1 + random.next() % 20);
                    bucket.set_rate(rate);
                    limiter.set_quota(rate);
                    assert_eq!(bucket.rate(), rate);
                }
                14 if which < 10 => {
                    bucket.pause_for(ms(which as u64));
                    limiter.pause_for(ms(which as u64));
                }
                _ => clock.advance(ms(u64::from(random.below(150)))),
            }
            if step == 180 {
                bucket.close();
                limiter.close();
            }
            waiters.retain_mut(|(ours, theirs)| {
                assert_eq!(ours.wakes(), theirs.wakes());
                match (ours.poll(), theirs.poll()) {
                    (Poll::Pending, Poll::Pending) => true,
                    (Poll::Ready(ours), Poll::Ready(theirs)) => {
                        assert_eq!(came_to(&ours), came_to(&theirs));
                        charges.extend(ours.ok().zip(theirs.ok()));
                        false
                    }
                    both => panic!("{both:?}"),
                }
            });
            assert_eq!(bucket.snapshot(), limiter.snapshot());
            assert_eq!(bucket.is_closed(), limiter.is_closed());
        }
    }
}

#[test]
fn refund_of_a_charge_of_another_bucket_gives_nothing_back() {
    let clock = Clock::manual();
    let [one, other] = [(); 2].map(|()| LeakyBucket::new(Quota::per_hour(1), 0).clock(&clock));
    let charge = other.try_acquire().unwrap();
    one.try_acquire().unwrap();
    one.refund(charge);
    assert!(one.try_acquire().is_err());
}

#[test]
fn debug_of_a_new_bucket_fixes_no_option() {
    let bucket = LeakyBucket::new(TEN, 2);
    let text = format!("{bucket:?}");
    assert!(text.contains("10/s") && text.contains("capacity: 2"));
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
