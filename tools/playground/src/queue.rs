//! Runs a queue of waiters in front of a rate limit. A waiter is cancelled by dropping its future.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tollgate::rate::Charge;
use tollgate::time::ManualClock;
use tollgate::{AcquireError, Quota, RateLimiter};

use crate::steps::Steps;

/// The number of waiters of a full queue.
const FULL: usize = 48;

/// Milliseconds after which an empty queue is filled again.
const REFILL_AFTER: u64 = 1000;

pub(crate) struct Queue {
    limiter: Arc<RateLimiter>,
    /// The waiters in the order in which they joined.
    waiters: Vec<Waiter>,
    next_number: u32,
    pub(crate) released: Steps,
    last_released: u32,
    empty_since: Option<u64>,
}

struct Waiter {
    number: u32,
    future: Pin<Box<dyn Future<Output = Result<Charge, AcquireError>>>>,
    woken: Arc<Woken>,
}

/// Whether a waiter has to be polled.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Queue {
    pub(crate) fn new(clock: &ManualClock) -> Self {
        let mut queue = Self {
            limiter: Arc::new(RateLimiter::new(Quota::per_second(4)).clock(clock)),
            waiters: Vec::new(),
            next_number: 1,
            released: Steps::new(),
            last_released: 0,
            empty_since: None,
        };
        queue.refill();
        queue
    }

    /// Adds waiters until the queue is full.
    pub(crate) fn refill(&mut self) {
        while self.waiters.len() < FULL {
            self.waiters.push(Waiter {
                number: self.next_number,
                future: Box::pin(Arc::clone(&self.limiter).acquire_owned()),
                // Its first poll joins the queue.
                woken: Arc::new(Woken(AtomicBool::new(true))),
            });
            self.next_number += 1;
        }
    }

    /// Cancels the waiter with this number, if it still waits.
    pub(crate) fn cancel(&mut self, number: u32) {
        self.waiters.retain(|waiter| waiter.number != number);
    }

    pub(crate) fn set_rate(&mut self, per_second: u32) {
        self.limiter
            .set_quota(Quota::per_second(per_second.max(1).into()));
    }

    /// Releases no waiter for this duration.
    pub(crate) fn pause_for(&mut self, duration: Duration) {
        self.limiter.pause_for(duration);
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.limiter.paused_until().is_some()
    }

    /// Returns how long a new caller would wait; zero if that is unknown.
    pub(crate) fn wait_of_a_newcomer(&self) -> Duration {
        self.limiter.peek().retry_after.unwrap_or_default()
    }

    /// Returns the numbers of the waiters, in their order.
    pub(crate) fn waiting(&self) -> Vec<u32> {
        self.waiters.iter().map(|waiter| waiter.number).collect()
    }

    /// Returns the number of the last released waiter, or 0.
    pub(crate) fn last_released(&self) -> u32 {
        self.last_released
    }

    /// Polls the waiters that were woken up to this millisecond.
    pub(crate) fn step(&mut self, now: u64) {
        self.released.advance(now);
        self.waiters.retain_mut(|waiter| {
            if !waiter.woken.0.swap(false, Ordering::Relaxed) {
                return true;
            }
            let waker = Waker::from(Arc::clone(&waiter.woken));
            let polled = waiter
                .future
                .as_mut()
                .poll(&mut Context::from_waker(&waker));
            if let Poll::Ready(charge) = polled {
                charge.expect("the limiter is never closed");
                self.released.count(now);
                self.last_released = waiter.number;
                return false;
            }
            true
        });
        if !self.waiters.is_empty() {
            self.empty_since = None;
        } else if now >= *self.empty_since.get_or_insert(now) + REFILL_AFTER {
            self.refill();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use super::*;

    /// Runs some milliseconds, and returns the time and the number of each released waiter.
    fn run(queue: &mut Queue, clock: &ManualClock, times: RangeInclusive<u64>) -> Vec<(u64, u32)> {
        let mut released = Vec::new();
        for now in times {
            clock.advance(Duration::from_millis(1));
            let before = queue.last_released();
            queue.step(now);
            if queue.last_released() != before {
                released.push((now, queue.last_released()));
            }
        }
        released
    }

    fn new() -> (ManualClock, Queue) {
        let clock = tollgate::Clock::manual();
        let queue = Queue::new(&clock);
        (clock, queue)
    }

    #[test]
    fn step_releases_in_order_at_the_rate() {
        let (clock, mut queue) = new();
        let released = run(&mut queue, &clock, 1..=760);
        assert_eq!(released, [(1, 1), (251, 2), (501, 3), (751, 4)]);
        assert_eq!(queue.waiting(), (5..=48).collect::<Vec<_>>());
        assert_eq!(
            queue.wait_of_a_newcomer(),
            Duration::from_millis(45 * 250 - 9)
        );
    }

    #[test]
    fn cancel_those_behind_move_up() {
        let (clock, mut queue) = new();
        run(&mut queue, &clock, 1..=10);
        queue.cancel(2);
        queue.cancel(4);
        assert_eq!(
            queue.waiting(),
            [3].into_iter().chain(5..=48).collect::<Vec<_>>()
        );
        assert_eq!(run(&mut queue, &clock, 11..=600), [(251, 3), (501, 5)]);
    }

    #[test]
    fn set_rate_holds_for_those_who_wait() {
        let (clock, mut queue) = new();
        run(&mut queue, &clock, 1..=126);
        // Half of an interval is left, which is now 50 ms.
        queue.set_rate(10);
        let released = run(&mut queue, &clock, 127..=400);
        assert_eq!(released, [(176, 2), (276, 3), (376, 4)]);
    }

    #[test]
    fn pause_for_releases_nobody_and_keeps_the_order() {
        let (clock, mut queue) = new();
        run(&mut queue, &clock, 1..=10);
        queue.pause_for(Duration::from_secs(3));
        assert!(queue.is_paused());
        let released = run(&mut queue, &clock, 11..=3300);
        assert_eq!(released, [(3010, 2), (3260, 3)]);
        assert!(!queue.is_paused());
    }

    #[test]
    fn step_an_empty_queue_is_filled_after_a_second() {
        let (clock, mut queue) = new();
        for number in 1..=48 {
            queue.cancel(number);
        }
        run(&mut queue, &clock, 1..=1000);
        assert_eq!(queue.waiting(), []);
        run(&mut queue, &clock, 1001..=1001);
        assert_eq!(queue.waiting(), (49..=96).collect::<Vec<_>>());
    }
}
