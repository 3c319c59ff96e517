//! [`Found`]: the rate of requests that a server takes, from what the client sees of its refusals.
//!
//! A server that limits a rate with a token bucket has less than one token when it refuses a request,
//! whatever its burst is. So from one refusal to another it accepts at most its rate times the time
//! between them, and one request. It accepts less only if the bucket was full meanwhile.
//!
//! 1. A window begins at any refusal and ends at any later one. Requests count in it that were sent after
//!    the first refusal was noted, and whose answer was noted before the second one. Its length is the time
//!    from sending the first refused request to noting the second refusal.
//! 2. An answer is noted at the time that the clock shows under the lock. So no answer counts in a window
//!    that ended before it arrived, even if a thread is preempted between an answer and noting it.
//! 3. So a window with one request less shows a rate that the server has at least, whenever it decided.
//!    A stall of the client, of the network or of the server can only make that smaller.
//! 4. The rate that is found is the highest that a window shows. The longer the windows are, and the less
//!    often the bucket is full, the closer it comes: see [`measure`](crate::measure).

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// How many requests a window has at least, so that one less is 5 %.
const FEWEST: u32 = 20;

/// How many windows are open at most. Older refusals begin none any more.
const OPEN: usize = 500;

/// What the answers tell of the rate.
#[derive(Debug, Default)]
pub(crate) struct Found(Mutex<Windows>);

#[derive(Debug, Default)]
struct Windows {
    /// In the order in which they begin.
    open: VecDeque<Window>,
    rate: Option<f64>,
}

#[derive(Debug)]
struct Window {
    /// When the request was sent whose refusal begins it, and when that refusal was noted.
    began: (Instant, Instant),
    accepted: u32,
}

impl Found {
    /// Notes an answer that has arrived, and whether it is a refusal.
    pub(crate) fn answered(&self, sent: Instant, is_refused: bool) {
        self.answered_by(Instant::now, sent, is_refused);
    }

    /// Notes an answer at the time of this clock, which is read under the lock.
    pub(crate) fn answered_by(
        &self,
        clock: impl FnOnce() -> Instant,
        sent: Instant,
        is_refused: bool,
    ) {
        let mut windows = self.windows();
        windows.answered(sent, clock(), is_refused);
    }

    /// Returns the rate per second that the server has at least.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.windows().rate
    }

    fn windows(&self) -> MutexGuard<'_, Windows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Windows {
    fn answered(&mut self, sent: Instant, now: Instant, is_refused: bool) {
        if !is_refused {
            let before = self
                .open
                .iter_mut()
                .take_while(|window| window.began.1 <= sent);
            before.for_each(|window| window.accepted += 1);
            return;
        }
        for window in self.open.iter().filter(|window| window.accepted >= FEWEST) {
            let length = (now - window.began.0).as_secs_f64();
            let rate = f64::from(window.accepted - 1) / length;
            self.rate = Some(self.rate.map_or(rate, |highest| highest.max(rate)));
        }
        if self.open.len() == OPEN {
            self.open.pop_front();
        }
        self.open.push_back(Window {
            began: (sent, now),
            accepted: 0,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Sends a request every 5 ms, from `from` on, that is refused if it is the first or the last one, and
    /// answered after a time in ms.
    fn window(
        found: &Found,
        began: Instant,
        from: u64,
        count: u64,
        answered_after: fn(u64) -> u64,
    ) {
        for n in 0..=count {
            let at = |ms| began + Duration::from_millis(ms);
            let sent = from + 5 * n;
            let now = at(sent + answered_after(n));
            found.answered_by(|| now, at(sent), n % count == 0);
        }
    }

    #[test]
    fn rate_is_the_highest_that_a_window_shows() {
        let (found, began) = (Found::default(), Instant::now());
        window(&found, began, 0, 200, |_| 0);
        assert_eq!(found.rate(), Some(198.0));
        // A window after a second in which nothing is sent shows more than both together.
        window(&found, began, 2_000, 400, |_| 0);
        assert_eq!(found.rate(), Some(398.0 / 2.0));
    }

    #[test]
    fn rate_is_lower_if_answers_are_late() {
        let began = Instant::now();
        let rate = |answered_after| {
            let found = Found::default();
            window(&found, began, 0, 200, answered_after);
            found.rate()
        };
        assert_eq!(rate(|_| 5), Some(198.0 / 1.005));
        assert_eq!(rate(|n| if n == 200 { 100 } else { 0 }), Some(198.0 / 1.1));
    }

    #[test]
    fn rate_does_not_count_requests_that_were_sent_before_the_refusal_arrived() {
        let (found, began) = (Found::default(), Instant::now());
        let at = |ms| began + Duration::from_millis(ms);
        found.answered_by(|| at(100), at(0), true);
        for ms in 0..200 {
            found.answered_by(|| at(100 + ms), at(ms), false);
        }
        found.answered_by(|| at(1_000), at(300), true);
        assert_eq!(found.rate(), Some(99.0));
    }

    /// Otherwise the answers of other threads count in a window that ends before they arrive.
    #[test]
    fn answered_reads_the_clock_under_the_lock() {
        let (found, began) = (Found::default(), Instant::now());
        let clock = || {
            assert!(found.0.try_lock().is_err());
            began
        };
        found.answered_by(clock, began, true);
    }

    #[test]
    fn rate_of_few_requests_is_unknown() {
        let (found, began) = (Found::default(), Instant::now());
        window(&found, began, 0, 20, |_| 0);
        assert_eq!(found.rate(), None);
        window(&found, began, 500, 21, |_| 0);
        assert_eq!(found.rate(), Some(19.0 / 0.105));
    }
}
