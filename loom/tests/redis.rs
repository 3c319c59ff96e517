//! Models the state that `tollgate-redis` shares between threads without a lock, or between a task and a
//! caller: the token cache and the driver slot. The rest of that crate is I/O.

#![cfg(tollgate_loom)]
#![allow(
    dead_code,
    reason = "a part of what is there is used by the rest of its crate"
)]

/// The module of `tollgate-redis`, with loom's types.
mod sync {
    pub(crate) use loom::sync::Mutex;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
}

#[path = "../../crates/tollgate-redis/src/queue/driver_slot.rs"]
mod driver_slot;
#[path = "../../crates/tollgate-redis/src/rate/token_cache.rs"]
mod token_cache;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tollgate_loom::*;

use self::driver_slot::DriverSlot;
use self::token_cache::TokenCache;

/// Returns a cache with `tokens` tokens.
fn cache(tokens: u64) -> Arc<TokenCache> {
    let cache = TokenCache::new(1);
    cache.open_until(100);
    cache.put(tokens, tokens);
    Arc::new(cache)
}

/// Takes tokens, and returns when the cache would have closed.
fn taker(cache: &Arc<TokenCache>, n: u64) -> JoinHandle<Option<u64>> {
    with(cache, move |cache| {
        cache.take(n, || 0).map(|taken| taken.closes)
    })
}

model!(two_who_take_have_tokens_of_their_own, || {
    let cache = cache(3);
    let takers = [2, 1].map(|n| taker(&cache, n));
    cache.put(1, 4);
    assert_eq!(join_all(takers), [Some(100); 2]);
    assert_eq!(cache.count(), 1);
});

model!(what_is_taken_back_is_nobodys, || {
    let cache = cache(2);
    let taken = taker(&cache, 1);
    let returned = cache.reduce(0);
    let taken = taken.join().unwrap();
    assert_eq!(returned, 2 - u64::from(taken.is_some()));
    assert_eq!(cache.count(), 0);
});

model!(what_is_put_back_is_there_once, || {
    let cache = cache(3);
    assert!(cache.take(2, || 0).is_some());
    let takers = [1, 1].map(|n| taker(&cache, n));
    assert!(cache.put(2, 3));
    let taken = join_all(takers).into_iter().flatten().count() as u64;
    assert!(taken >= 1);
    assert_eq!(cache.count(), 3 - taken);
});

// The token that expires at 100 is returned, and another one comes. Whoever gets the first one does not take it for
// the second, whose number is the same.
model!(token_is_not_taken_for_one_that_expires_later, || {
    let cache = cache(1);
    let taker = taker(&cache, 1);
    let returned = cache.reduce(0);
    cache.put(1, 1);
    cache.open_until(200);
    match taker.join().unwrap() {
        Some(200) => assert_eq!(returned, 1),
        Some(closes) => assert_eq!(closes, 100),
        None => assert_eq!(returned, 1),
    }
});

model!(who_is_in_line_is_not_overtaken_later, || {
    let cache = cache(1);
    let shut = Arc::new(AtomicBool::new(false));
    let late = with(&(cache.clone(), shut.clone()), |(cache, shut)| {
        let is_late = shut.load(Ordering::Acquire);
        (is_late, cache.take(1, || 0).is_some())
    });
    cache.open_until(0);
    shut.store(true, Ordering::Release);
    let first = cache.take_until(100, 1).is_some();
    let (is_late, took) = late.join().unwrap();
    assert!(!(is_late && took));
    assert!(first != took, "one of them has it");
});

// Either the thread that empties the cache reports it, or the driver sees it.
model!(that_it_gets_empty_is_noticed, || {
    let cache = cache(2);
    let taker = with(&cache, |cache| cache.take(1, || 0).unwrap().notify);
    let is_low = cache.is_low();
    let told = taker.join().unwrap();
    assert!(is_low || told);
});

/// Ends after this number of polls, and must never be polled twice at a time.
struct Turns {
    left: usize,
    polled: Arc<AtomicUsize>,
    polls_now: Arc<AtomicUsize>,
}

impl Future for Turns {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        assert_eq!(self.polls_now.fetch_add(1, Ordering::Relaxed), 0);
        yield_now();
        self.polled.fetch_add(1, Ordering::Relaxed);
        assert_eq!(self.polls_now.fetch_sub(1, Ordering::Relaxed), 1);
        self.left -= 1;
        match self.left {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}

fn turns(left: usize) -> (Turns, Arc<AtomicUsize>) {
    let polled = Arc::new(AtomicUsize::new(0));
    let turns = Turns {
        left,
        polled: Arc::clone(&polled),
        polls_now: Arc::new(AtomicUsize::new(0)),
    };
    (turns, polled)
}

fn to_the_end(driver: Option<Turns>) {
    if let Some(mut driver) = driver {
        let mut context = Context::from_waker(Waker::noop());
        while Pin::new(&mut driver).poll(&mut context).is_pending() {}
    }
}

/// Whichever thread polls the driver or has it handed over, it is in one place, and reaches its end.
#[test]
fn driver_is_never_lost_nor_polled_twice_at_a_time() {
    check_each(3, 1..=3, |left| {
        let slot = Arc::new(DriverSlot::new());
        let (driver, polled) = turns(left);
        let number = slot.put(driver).ok().unwrap();
        let other = with(&slot, |slot| to_the_end(slot.hand_over(None)));
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..2 {
            let (stays, handed_over) = slot.poll(number, &mut context);
            to_the_end(handed_over);
            if !stays {
                break;
            }
        }
        // The caller leaves.
        to_the_end(slot.hand_over(Some(number)));
        join_all([other]);
        assert_eq!(polled.load(Ordering::Relaxed), left);
    });
}

/// Asserts that the driver is over for the caller with this number.
fn assert_over(slot: &DriverSlot<Turns>, number: u64) {
    let mut context = Context::from_waker(Waker::noop());
    let (stays, handed_over) = slot.poll(number, &mut context);
    assert!(!stays && handed_over.is_none());
}

model!(next_driver_is_polled_by_its_own_number, || {
    let slot = Arc::new(DriverSlot::new());
    let (driver, _) = turns(1);
    let number = slot.put(driver).ok().unwrap();
    let other = with(&slot, move |slot| {
        let (driver, polled) = turns(1);
        match slot.put(driver) {
            Ok(mine) => {
                assert_ne!(mine, number);
                assert_over(slot, mine);
            }
            Err(driver) => to_the_end(Some(driver)),
        }
        assert_eq!(polled.load(Ordering::Relaxed), 1);
    });
    assert_over(&slot, number);
    // A later driver is not the caller's own.
    assert_over(&slot, number);
    join_all([other]);
});
