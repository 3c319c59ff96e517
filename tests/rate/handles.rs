//! Objects made from a limiter: costs, reservations and local handles, which may outlive it, and the leaky bucket,
//! its queue without a burst. Also its outputs: texts, and the random delay on top of the retry time. The tables and
//! the [reference](crate::reference) test the calls themselves.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tollgate::rate::{Charge, LocalLimiter, MissedTickBehavior};
use tollgate::throttle::{BoxThrottle, Weighted};
use tollgate::time::ManualClock;
use tollgate::{
    AcquireError, Algorithm, Clock, ErrorKind, LeakyBucket, Quota, RateLimiter, Semaphore,
    Throttle, all,
};

use crate::setup::{FIFTY, TEN, TICK, assert_due, at, limiter, ms, spent};
use crate::support::foreign::calls_when_woken;
use crate::support::random::Random;
use crate::support::{Waiter, kind, poll_once};

#[test]
fn cost_owned_shares_the_queue_and_refunds_its_charge() {
    let (clock, limiter) = spent(FIFTY);
    let limiter = Arc::new(limiter);
    let bytes = Arc::clone(&limiter).cost_owned(20);
    assert_eq!(bytes.cost(), 20);
    let mut waiting = Waiter::parked(bytes.acquire());
    let mut borrowed = Waiter::parked(limiter.acquire_many(5));
    assert_due(&clock, &mut waiting, ms(200));
    assert_due(&clock, &mut borrowed, ms(50));
    clock.advance(ms(200));
    let charge = bytes.try_acquire().unwrap();
    bytes.rollback(charge);
    assert_eq!(limiter.snapshot().available, 20);
}

#[test]
fn debug_shows_the_quota_the_queue_and_the_cost() {
    let (clock, limiter) = limiter(TEN.burst(7));
    let charge = format!("{:?}", limiter.try_acquire_many(7).unwrap());
    assert!(charge.contains("cost: 7"), "{charge}");
    let mut reserved = limiter.reserve().unwrap();
    let reservation = format!("{reserved:?}");
    assert!(reservation.contains("cost: 1") && reservation.contains("waiting: true"));
    let text = format!("{limiter:?}");
    assert!(
        text.contains("10/s") && text.contains("waiting: 1"),
        "{text}"
    );
    clock.advance(ms(100));
    assert!(poll_once(&mut reserved).is_ready());
    assert!(format!("{reserved:?}").contains("waiting: false"));
    limiter.close();
    assert!(format!("{limiter:?}").contains("closed: true"));
    let unlimited = RateLimiter::new(Quota::UNLIMITED);
    assert!(format!("{unlimited:?}").contains("unlimited"));
    let handle = &unlimited;
    let most = (handle.max_units(), handle.chunk_units());
    assert_eq!(most, (u64::MAX, u64::MAX));
}

#[test]
fn acquire_owned_and_a_reservation_outlive_their_limiter() {
    let (clock, limiter) = spent(TEN);
    let shared = Arc::new(limiter);
    let mut waiter = Waiter::parked(Arc::clone(&shared).acquire_owned());
    let reservation = shared.reserve().unwrap();
    drop(shared);
    assert_due(&clock, &mut waiter, ms(100));
    clock.advance(ms(100));
    assert_eq!(at(&Waiter::new(reservation).granted()), ms(200));
}

const RULES: [Algorithm; 4] = [
    Algorithm::Gcra,
    Algorithm::TokenBucket,
    Algorithm::SlidingWindow,
    Algorithm::SlidingLog,
];

/// Returns a limiter of ten a second with all tokens taken.
fn jittery(algorithm: Algorithm, jitter: Duration) -> (ManualClock, RateLimiter) {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(10).burst(10))
        .algorithm(algorithm)
        .jitter(jitter)
        .max_waiters(1)
        .clock(&clock);
    limiter.try_acquire_many(10).unwrap();
    (clock, limiter)
}

/// It is added to the delay of a try, of a local handle and of a full queue; not to the delay that is
/// observed, nor to the tick at which a waiter is granted. It is different each time, and covers its
/// whole range.
#[test]
fn jitter_is_added_to_refusals_and_to_nothing_else() {
    for algorithm in RULES {
        let (clock, limiter) = jittery(algorithm, ms(50));
        let exact = limiter.peek().retry_after.unwrap();
        let mut local = limiter.local(4);
        let mut delays: Vec<_> = (0..200)
            .map(|_| limiter.try_acquire().unwrap_err())
            .chain((0..200).map(|_| local.try_acquire().unwrap_err()))
            .collect();
        assert_eq!(limiter.peek().retry_after, Some(exact));
        let mut waiter = Waiter::parked(limiter.acquire());
        delays.extend((0..200).map(|_| {
            let full = Waiter::new(limiter.acquire()).output().unwrap_err();
            assert_eq!(full.kind(), ErrorKind::QueueFull);
            full
        }));
        let delays: Vec<_> = (delays.iter())
            .map(|error| error.retry_after().unwrap())
            .collect();
        for delays in delays.chunks(200) {
            let (low, high) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
            assert!(*low >= exact && *high <= exact + ms(50), "{algorithm}");
            // That none of 200 is in a fifth at either end happens once in 10^19 runs.
            assert!(
                *low < exact + ms(10) && *high > exact + ms(40),
                "{algorithm}"
            );
        }
        clock.advance(exact - Duration::from_nanos(1));
        assert!(waiter.is_pending(), "{algorithm}");
        clock.advance(Duration::from_nanos(1));
        waiter.granted();
    }
}

#[test]
fn jitter_without_end_does_not_overflow() {
    for algorithm in RULES {
        let (_clock, limiter) = jittery(algorithm, Duration::MAX);
        let exact = limiter.peek().retry_after.unwrap();
        for _ in 0..100 {
            let error = limiter.try_acquire().unwrap_err();
            assert!(error.retry_after().unwrap() >= exact);
        }
    }
}

/// A dropped handle, even one dropped by a panic, gives the rest back; a leaked one leaves it to
/// time. The waiters get it.
#[test]
fn handle_that_goes_gives_the_rest_back() {
    type Go = fn(LocalLimiter);
    let rows: [(&str, Go, usize); 3] = [
        ("dropped", |local| drop(local), 1),
        (
            "panicked",
            |local| {
                let panicked = catch_unwind(AssertUnwindSafe(move || {
                    assert_eq!(local.buffered(), 0, "on purpose");
                }));
                assert!(panicked.is_err());
            },
            1,
        ),
        ("leaked", |local| std::mem::forget(local), 0),
    ];
    for (name, go, wakes) in rows {
        let (clock, limiter) = limiter(FIFTY);
        let mut local = limiter.local(50);
        local.try_acquire_many(20).unwrap();
        let mut waiter = Waiter::parked(limiter.acquire_many(30));
        go(local);
        assert_eq!(waiter.wakes(), wakes, "{name}");
        clock.advance(ms(300));
        waiter.granted();
    }
}

#[test]
fn handle_outlives_its_limiter_and_may_be_of_a_static() {
    static SHARED: RateLimiter = RateLimiter::new(Quota::per_hour(1).burst(10));
    let mut local = SHARED.local(4);
    local.try_acquire().unwrap();
    assert!(SHARED.try_acquire_many(7).is_err());
    assert_eq!(
        format!("{local:?}"),
        "LocalLimiter { buffered: 3, batch: 4, .. }"
    );
    let (_clock, limiter) = limiter(Quota::per_second(1).burst(3));
    let mut local = limiter.local(2);
    drop(limiter);
    (0..3).for_each(|_| local.try_acquire().unwrap());
    assert!(local.try_acquire().is_err());
}

/// A limiter that starts fresh in the second runtime does not get back tokens that were buffered
/// before.
#[cfg(feature = "tokio")]
#[test]
fn return_unused_in_another_runtime_gives_nothing_back() {
    use crate::support::paused_runtime;

    let limiter = RateLimiter::new(Quota::per_hour(1).burst(10)).clock(Clock::tokio());
    let (first, second) = (paused_runtime(), paused_runtime());
    let mut local = limiter.local(4);
    first.block_on(async { local.try_acquire().unwrap() });
    second.block_on(async {
        (0..4).for_each(|_| local.try_acquire().unwrap());
        assert_eq!(limiter.snapshot().available, 6);
        local.return_unused();
        assert_eq!(limiter.snapshot().available, 9);
    });
    first.block_on(async { local.try_acquire().unwrap() });
    second.block_on(async { local.return_unused() });
}

/// Returns a handle with seven buffered, of a limiter whose rest is taken; three are missing for
/// ten.
fn buffered_seven() -> (ManualClock, RateLimiter, LocalLimiter) {
    let (clock, limiter) = limiter(FIFTY);
    let mut local = limiter.local(8);
    local.try_acquire().unwrap();
    limiter.try_acquire_many(42).unwrap();
    (clock, limiter, local)
}

#[test]
fn close_ends_a_wait_and_leaves_what_is_buffered() {
    let (_clock, limiter, mut local) = buffered_seven();
    let mut waiter = Waiter::parked(local.acquire_many(10));
    limiter.close();
    assert_eq!(waiter.wakes(), 1);
    assert_eq!(waiter.refused(), ErrorKind::Closed);
    drop(waiter);
    assert_eq!(kind(local.try_acquire_many(8)), ErrorKind::Closed);
    local.try_acquire_many(6).unwrap();
    Waiter::new(local.acquire()).granted();
    assert_eq!(kind(local.try_acquire()), ErrorKind::Closed);
    for cost in [0, 1] {
        let refused = Waiter::new(local.acquire_many(cost)).refused();
        assert_eq!(refused, ErrorKind::Closed);
    }
}

#[test]
fn acquire_with_a_timeout_that_will_not_fit_is_refused_at_once() {
    let (clock, limiter) = spent(FIFTY);
    let mut local = limiter.local(32);
    let waiting = local.acquire_many(3).timeout(ms(30) - TICK);
    let error = Waiter::new(waiting).output().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(error.retry_after(), Some(ms(30)));
    let mut waiter = Waiter::parked(local.acquire_many(3).timeout(ms(30)));
    clock.advance(ms(30));
    waiter.granted();
}

fn bucket(capacity: usize) -> (ManualClock, LeakyBucket) {
    let clock = Clock::manual();
    let bucket = LeakyBucket::new(TEN, capacity).clock(&clock);
    (clock, bucket)
}

/// Returns the outcome of a call, and its time.
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

/// A slow waker makes the next timer late.
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
    // The next waiter gets the slot of the one that gives up.
    drop(waiting);
    assert_eq!(at(&next.granted()), ms(40));
    clock.advance(ms(100));
    let erased = BoxThrottle::new(Arc::clone(&bucket));
    drop(Waiter::new(erased.acquire()).granted());
}

#[test]
fn refusal_during_a_pause_says_so_in_its_text() {
    let (_clock, limiter) = limiter(TEN);
    for (pause, text) in [
        (ms(1005), "the limiter is paused, try again in 1.005s"),
        (Duration::MAX, "the limiter is paused"),
    ] {
        limiter.pause_for(pause);
        assert_eq!(limiter.try_acquire().unwrap_err().to_string(), text);
    }
}
