//! Blocking a thread, by the time of the machine. Nothing here depends on how long anything takes.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tollgate::{Clock, ErrorKind, Quota, RateLimiter};

use super::scene::{TEN, spent};
use crate::support::kind;

/// So fast that to wait takes no time that anybody would notice.
const FAST: Quota = Quota::per_second(1_000_000);

#[test]
fn a_thread_waits_its_turn() {
    let limiter = RateLimiter::new(FAST);
    let mut last = limiter.acquire().wait().unwrap().at();
    for _ in 0..200 {
        let at = limiter.acquire().wait().unwrap().at();
        let apart = at.saturating_since(last);
        assert!(apart >= Duration::from_nanos(999), "{apart:?}");
        last = at;
    }
}

#[test]
fn threads_share_the_rate() {
    let limiter = Arc::new(RateLimiter::new(FAST.burst(3)).clock(Clock::system()));
    let threads = [(); 4].map(|()| {
        let limiter = Arc::clone(&limiter);
        thread::spawn(move || {
            let each = |_| limiter.acquire().wait().unwrap().at();
            (0..100).map(each).collect::<Vec<_>>()
        })
    });
    let ticks = threads.map(|thread| thread.join().unwrap());
    assert!(ticks.iter().all(|ticks| ticks.is_sorted()));
    let mut ticks = ticks.concat();
    ticks.sort();
    // More than three take longer than the rest of them do at this rate.
    for group in ticks.windows(4) {
        let apart = group[3].saturating_since(group[0]);
        assert!(apart >= Duration::from_nanos(999), "{apart:?}");
    }
    assert_eq!(limiter.waiting(), 0);
}

#[test]
fn a_close_ends_the_wait_of_a_thread() {
    let limiter = RateLimiter::new(Quota::per_day(1));
    limiter.try_acquire().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| limiter.acquire().wait());
        while limiter.waiting() == 0 {
            thread::yield_now();
        }
        limiter.close();
        assert_eq!(kind(waiting.join().unwrap()), ErrorKind::Closed);
    });
}

#[test]
fn a_manual_clock_wakes_a_thread() {
    let (clock, limiter) = spent(TEN);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| limiter.acquire().wait());
        while limiter.waiting() == 0 {
            thread::yield_now();
        }
        clock.advance(Duration::from_millis(100));
        let charge = waiting.join().unwrap().unwrap();
        assert_eq!(charge.at().as_nanos(), 100_000_000);
    });
}

#[test]
fn a_thread_may_wait_for_a_reservation() {
    let limiter = RateLimiter::new(FAST);
    for _ in 0..50 {
        let reservation = limiter.reserve().unwrap();
        reservation.wait().unwrap();
    }
    assert_eq!(limiter.waiting(), 0);
}
