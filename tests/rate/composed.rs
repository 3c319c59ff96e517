//! Together with others: what was charged is given back when a later part refuses, and a waiter goes
//! on to the next part. See also the failure rows of chains of rates. And what is read of a limiter and of its
//! refusals: texts, and the random delay on top of the time to come again.

use std::sync::Arc;
use std::time::Duration;

use tollgate::throttle::Weighted;
use tollgate::{
    Algorithm, BoxThrottle, Clock, ErrorKind, Quota, RateLimiter, Semaphore, Throttle, all,
};

use crate::setup::{
    FIFTY, TEN, assert_available, assert_due, assert_limited, at, limiter, ms, spent,
};
use crate::support::{Waiter, assert_at_rest, poll_once};

#[test]
fn all_with_a_part_that_refuses_says_when_and_gives_the_charges_back() {
    let (_clock, bytes) = limiter(FIFTY);
    let (_, requests) = spent(TEN);
    let slots = Semaphore::new(2);
    let parts = all((&slots, bytes.cost(30), &requests));
    let error = parts.try_acquire().unwrap_err();
    assert_eq!(
        (error.kind(), error.part()),
        (ErrorKind::RateLimited, Some(2))
    );
    assert_eq!(error.retry_after(), Some(ms(100)));
    let parts = all((&slots, bytes.cost(30), requests.cost(2)));
    let error = parts.acquire().wait().unwrap_err();
    assert_eq!(
        (error.kind(), error.part()),
        (ErrorKind::ExceedsCapacity, Some(2))
    );
    assert_available(&bytes, 50);
    assert_at_rest(&slots, 2);
}

/// A waiter of an earlier part is due as soon as a later one refuses.
#[test]
fn all_with_a_later_part_that_closes_makes_waiters_of_an_earlier_one_due() {
    let (clock, requests) = limiter(TEN);
    let slots = Semaphore::new(0);
    let parts = all((&requests, &slots));
    let mut composed = Waiter::parked(parts.acquire());
    let mut alone = Waiter::parked(requests.acquire());
    clock.advance(ms(40));
    slots.close();
    assert_eq!(composed.refused(), ErrorKind::Closed);
    assert_eq!(at(&alone.granted()), ms(40));
}

#[test]
fn all_granted_in_the_queue_of_one_part_goes_on_to_the_next() {
    let (clock, requests) = spent(TEN);
    let bytes = RateLimiter::new(FIFTY).clock(&clock);
    bytes.try_acquire_many(50).unwrap();
    let parts = all((&requests, bytes.cost(30)));
    let mut waiting = Waiter::parked(parts.acquire());
    assert_eq!(bytes.snapshot().waiting, 0);
    clock.advance(ms(100));
    assert!(waiting.is_pending());
    assert_eq!(bytes.snapshot().waiting, 1);
    clock.advance(ms(200));
    let (request, volume) = waiting.granted();
    assert_eq!((at(&request), at(&volume)), (ms(100), ms(300)));
}

#[cfg(feature = "tokio")]
#[test]
fn acquire_cancelled_by_a_token_moves_those_behind_it_up() {
    let token = tokio_util::sync::CancellationToken::new();
    let (clock, limiter) = spent(TEN);
    let mut waiting = Waiter::parked(limiter.acquire().cancel_on(&token));
    let mut next = Waiter::parked(limiter.acquire());
    clock.advance(ms(30));
    token.cancel();
    assert_eq!(waiting.refused(), ErrorKind::Cancelled);
    assert_due(&clock, &mut next, ms(70));
    // A token that is cancelled already takes nothing.
    clock.advance(ms(100));
    let refused = Waiter::new(limiter.acquire().cancel_on(&token)).refused();
    assert_eq!(refused, ErrorKind::Cancelled);
    assert_available(&limiter, 1);
}

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
fn boxed_limiter_refunds_too() {
    let (_clock, requests) = limiter(TEN);
    let requests = Arc::new(requests);
    let erased = BoxThrottle::new(Arc::clone(&requests));
    let closed = Semaphore::new(1);
    closed.close();
    let parts = all((erased.clone(), &closed));
    assert_eq!(Waiter::new(parts.acquire()).refused(), ErrorKind::Closed);
    assert_available(&requests, 1);
    drop(Waiter::new(erased.acquire()).granted());
    assert_limited(&requests, 1, ms(100));
}

#[test]
fn for_each_limited_starts_at_the_rate() {
    use futures::stream;
    use std::cell::RefCell;
    use tollgate_io::stream::LimitStreamExt;

    let (clock, limiter) = limiter(TEN.burst(2));
    let started = RefCell::new(Vec::new());
    let each = stream::iter(0..5).for_each_limited(&limiter, |_| async {
        started.borrow_mut().push(clock.now().as_nanos());
    });
    let mut each = Waiter::parked(each);
    for _ in 0..6 {
        clock.advance(ms(50));
        let _ = each.is_pending();
    }
    let expected = [0, 0, 100, 200, 300].map(|millis| millis * 1_000_000);
    assert_eq!(*started.borrow(), expected);
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

#[test]
fn check_of_an_unlimited_quota_refuses_algorithms_that_count() {
    let gcra = Algorithm::Gcra;
    for algorithm in Algorithm::all().iter().filter(|it| **it != gcra) {
        let refused = algorithm.check(Quota::UNLIMITED).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "batches, windows and logs cannot be unlimited, but the quota is unlimited"
        );
    }
    assert_eq!(Algorithm::Gcra.check(Quota::UNLIMITED), Ok(()));
    assert_eq!(Algorithm::Gcra.batch(Quota::UNLIMITED), Quota::UNLIMITED);
    let limiter = RateLimiter::new(Quota::UNLIMITED).algorithm(Algorithm::Gcra);
    assert!(limiter.quota().is_unlimited());
}

const RULES: [Algorithm; 4] = [
    Algorithm::Gcra,
    Algorithm::TokenBucket,
    Algorithm::SlidingWindow,
    Algorithm::SlidingLog,
];

/// Ten a second, and all are taken.
fn jittery(algorithm: Algorithm, jitter: Duration) -> (tollgate::ManualClock, RateLimiter) {
    let clock = Clock::manual();
    let limiter = RateLimiter::new(Quota::per_second(10).burst(10))
        .algorithm(algorithm)
        .jitter(jitter)
        .max_waiters(1)
        .clock(&clock);
    limiter.try_acquire_many(10).unwrap();
    (clock, limiter)
}

/// It is added to what a try, a local handle and a full queue say; not to what is observed, nor to the
/// tick at which a waiter is granted. It is different each time, and from all of its range.
#[test]
fn jitter_is_added_to_refusals_and_to_nothing_else() {
    for algorithm in RULES {
        let (clock, limiter) = jittery(algorithm, ms(50));
        let exact = limiter.peek().retry_after;
        let mut local = limiter.local(4);
        let mut delays: Vec<_> = (0..200)
            .map(|_| limiter.try_acquire().unwrap_err())
            .chain((0..200).map(|_| local.try_acquire().unwrap_err()))
            .collect();
        assert_eq!(limiter.peek().retry_after, exact);
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
            // Of 200 none in a fifth at either end: once in 10^19 runs.
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
        let exact = limiter.peek().retry_after;
        for _ in 0..100 {
            let error = limiter.try_acquire().unwrap_err();
            assert!(error.retry_after().unwrap() >= exact);
        }
    }
}
