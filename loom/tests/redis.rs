//! What `tollgate-redis` shares between threads without a lock, or between a task and a caller: the
//! token cache and the driver slot. The rest of that crate is I/O.

#![cfg(tollgate_loom)]
#![allow(
    dead_code,
    reason = "a part of what is there is used by the rest of its crate"
)]
// The threads of a model are not threads: loom asks for no `Send`.
#![allow(clippy::arc_with_non_send_sync)]

/// As `tollgate-redis` has it, but loom's.
mod sync {
    pub(crate) use loom::sync::Mutex;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
}

#[path = "../../crates/tollgate-redis/src/queue/driver_slot.rs"]
mod driver_slot;
#[path = "../../crates/tollgate-redis/src/rate/token_cache.rs"]
mod token_cache;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use self::driver_slot::DriverSlot;
use self::token_cache::TokenCache;

fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(run);
}

fn cache() -> Arc<TokenCache> {
    let cache = TokenCache::new(1);
    cache.open_until(100);
    Arc::new(cache)
}

fn taker(cache: &Arc<TokenCache>, n: u64) -> thread::JoinHandle<Option<u64>> {
    let cache = Arc::clone(cache);
    thread::spawn(move || cache.take(n, || 0).map(|taken| taken.end))
}

#[test]
fn two_who_take_have_tokens_of_their_own() {
    model(|| {
        let cache = cache();
        cache.put(3);
        let [one, other] = [2, 1].map(|n| taker(&cache, n));
        cache.put(1);
        let mut ends = [one.join().unwrap(), other.join().unwrap()];
        ends.sort_unstable();
        // One of two and one of one, in either order.
        assert!(matches!(ends, [Some(1), Some(3)] | [Some(2), Some(3)]));
        assert_eq!((cache.count(), cache.number()), (1, 3));
    });
}

#[test]
fn what_is_taken_back_is_nobodys() {
    model(|| {
        let cache = cache();
        cache.put(2);
        let taken = taker(&cache, 1);
        let passed = cache.pass(2);
        let taken = taken.join().unwrap();
        assert_eq!(passed, 2 - u64::from(taken.is_some()));
        assert_eq!((cache.count(), cache.number()), (0, 2));
    });
}

/// The tokens that are put in next have the same numbers, whatever is taken meanwhile.
#[test]
fn the_end_does_not_depend_on_who_takes() {
    model(|| {
        let cache = cache();
        cache.put(3);
        // Loom interrupts two loads only in the thread that runs second.
        let end = {
            let cache = Arc::clone(&cache);
            thread::spawn(move || cache.end())
        };
        assert!(cache.take(2, || 0).is_some());
        assert_eq!(end.join().unwrap(), 3);
    });
}

#[test]
fn what_is_put_back_is_there_once() {
    model(|| {
        let cache = cache();
        cache.put(3);
        let mine = cache.take(2, || 0).unwrap();
        assert_eq!(mine.end, 2);
        let other = taker(&cache, 1);
        let more = taker(&cache, 1);
        assert!(cache.put_back(0, 3, 2));
        let taken = [other, more].map(|taker| taker.join().unwrap());
        let taken = taken.into_iter().flatten().count() as u64;
        assert!(taken >= 1);
        assert_eq!((cache.count(), cache.number()), (3 - taken, taken));
    });
}

#[test]
fn who_is_in_line_is_overtaken_by_nobody_who_comes_later() {
    model(|| {
        let cache = cache();
        cache.put(1);
        let shut = Arc::new(loom::sync::atomic::AtomicBool::new(false));
        let late = {
            let (cache, shut) = (Arc::clone(&cache), Arc::clone(&shut));
            thread::spawn(move || {
                let is_late = shut.load(Ordering::Acquire);
                (is_late, cache.take(1, || 0).is_some())
            })
        };
        cache.open_until(0);
        shut.store(true, Ordering::Release);
        let first = cache.take_queued(1).is_some();
        let (is_late, took) = late.join().unwrap();
        assert!(!(is_late && took));
        assert!(first != took, "one of them has it");
    });
}

/// Either the thread that empties it tells, or the driver sees it.
#[test]
fn that_it_gets_empty_is_noticed() {
    model(|| {
        let cache = cache();
        cache.put(2);
        let taker = {
            let cache = Arc::clone(&cache);
            thread::spawn(move || cache.take(1, || 0).unwrap().notify)
        };
        let is_low = cache.is_low();
        let told = taker.join().unwrap();
        assert!(is_low || told);
    });
}

/// Ends when it has been polled so often, and is never polled twice at a time.
struct Turns {
    left: usize,
    polled: Arc<AtomicUsize>,
    polls_now: Arc<AtomicUsize>,
}

impl Future for Turns {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        assert_eq!(self.polls_now.fetch_add(1, Ordering::Relaxed), 0);
        thread::yield_now();
        self.polled.fetch_add(1, Ordering::Relaxed);
        assert_eq!(self.polls_now.fetch_sub(1, Ordering::Relaxed), 1);
        self.left -= 1;
        if self.left == 0 {
            Poll::Ready(())
        } else {
            Poll::Pending
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

/// Whichever thread polls it or has it handed over: it is in one place, and comes to its end.
#[test]
fn a_driver_is_never_lost_nor_polled_twice_at_a_time() {
    for left in 1..=3 {
        model(move || {
            let slot = Arc::new(DriverSlot::new());
            let (driver, polled) = turns(left);
            let number = slot.put(driver).ok().unwrap();
            let other = {
                let slot = Arc::clone(&slot);
                thread::spawn(move || to_the_end(slot.hand_over(None)))
            };
            let mut context = Context::from_waker(Waker::noop());
            for _ in 0..2 {
                let (stays, handed_over) = slot.poll(number, &mut context);
                to_the_end(handed_over);
                if !stays {
                    break;
                }
            }
            // And leaves.
            to_the_end(slot.hand_over(Some(number)));
            other.join().unwrap();
            assert_eq!(polled.load(Ordering::Relaxed), left);
        });
    }
}

#[test]
fn the_next_driver_is_polled_by_its_own_number() {
    model(|| {
        let slot = Arc::new(DriverSlot::new());
        let (driver, _) = turns(1);
        let number = slot.put(driver).ok().unwrap();
        let other = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || {
                let (driver, polled) = turns(1);
                match slot.put(driver) {
                    Ok(mine) => {
                        assert_ne!(mine, number);
                        let mut context = Context::from_waker(Waker::noop());
                        let (stays, handed_over) = slot.poll(mine, &mut context);
                        assert!(!stays && handed_over.is_none());
                    }
                    Err(driver) => to_the_end(Some(driver)),
                }
                assert_eq!(polled.load(Ordering::Relaxed), 1);
            })
        };
        let mut context = Context::from_waker(Waker::noop());
        let (stays, handed_over) = slot.poll(number, &mut context);
        assert!(!stays && handed_over.is_none());
        // Another one is not its own.
        let (stays, handed_over) = slot.poll(number, &mut context);
        assert!(!stays && handed_over.is_none());
        other.join().unwrap();
    });
}
