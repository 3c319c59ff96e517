//! [`Found`]: the rate of requests that a server takes, from what the client sees of its refusals.
//!
//! A server that limits a rate with a token bucket has less than one token when it refuses a request,
//! whatever its burst is. So from one refusal to another it accepts at most its rate times the time
//! between them, and one request; and it accepts less only if the bucket was full meanwhile.
//!
//! 1. A window begins and ends with a refusal. Requests count in it that were sent after the first
//!    refusal had arrived and were accepted before the second one did. Its length is the time from
//!    sending the first refused request to the second refusal.
//! 2. So the rate of a window is at most that of the server, within one request, whenever the server decided.
//!    A stall of the client, of the network or of the server can only make it smaller.
//! 3. The rate that is found is the highest of all windows. It is exact if requests came fast
//!    enough in one of them: see [`measure`](crate::measure).

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The shortest window. The answers at its ends take a small part of it.
const SHORTEST: Duration = Duration::from_millis(500);

/// How many requests a window has at least, so that one more is 2 %.
const FEWEST: u32 = 50;

/// The difference up to which two rates agree.
const AGREED: f64 = 0.01;

/// What the answers tell of the rate.
#[derive(Debug, Default)]
pub(crate) struct Found(Mutex<Windows>);

#[derive(Debug, Default)]
struct Windows {
    open: Option<Window>,
    /// Of those that are complete, in order.
    rates: Vec<f64>,
}

#[derive(Debug)]
struct Window {
    /// When the request was sent whose refusal begins it, and when that refusal arrived.
    began: (Instant, Instant),
    accepted: u32,
}

impl Found {
    /// Notes an answer that arrives at `now`, and whether it is a refusal.
    pub(crate) fn answered(&self, sent: Instant, now: Instant, is_refused: bool) {
        self.with(|windows| windows.answered(sent, now, is_refused));
    }

    /// Returns the rate of the server per second: the highest of all windows.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.with(|windows| windows.rates.iter().copied().reduce(f64::max))
    }

    /// Returns the number of windows.
    pub(crate) fn windows(&self) -> usize {
        self.with(|windows| windows.rates.len())
    }

    /// Returns whether the three highest rates agree, without those of the first `skipped` windows. Stalls
    /// would have to take the same from all of them.
    pub(crate) fn is_settled(&self, skipped: usize) -> bool {
        self.with(|windows| {
            let mut rates = windows.rates[skipped..].to_vec();
            rates.sort_by(|a, b| b.total_cmp(a));
            matches!(rates[..], [highest, _, third, ..] if third >= highest * (1.0 - AGREED))
        })
    }

    fn with<R>(&self, use_windows: impl FnOnce(&mut Windows) -> R) -> R {
        use_windows(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Windows {
    fn answered(&mut self, sent: Instant, now: Instant, is_refused: bool) {
        if !is_refused {
            if let Some(window) = self.open.as_mut().filter(|window| sent >= window.began.1) {
                window.accepted += 1;
            }
            return;
        }
        if let Some(window) = &self.open {
            let length = now - window.began.0;
            if length < SHORTEST || window.accepted < FEWEST {
                return;
            }
            let rate = f64::from(window.accepted) / length.as_secs_f64();
            self.rates.push(rate);
        }
        self.open = Some(Window {
            began: (sent, now),
            accepted: 0,
        });
    }
}

#[cfg(test)]
mod tests {
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
            found.answered(at(sent), at(sent + answered_after(n)), n % count == 0);
        }
    }

    #[test]
    fn rate_is_that_of_the_highest_window() {
        let (found, began) = (Found::default(), Instant::now());
        assert_eq!(found.rate(), None);
        window(&found, began, 0, 200, |_| 0);
        assert_eq!((found.windows(), found.rate()), (1, Some(199.0)));
        // A second in which nothing is sent, and another window.
        window(&found, began, 2_000, 200, |_| 0);
        assert_eq!((found.windows(), found.rate()), (2, Some(199.0)));
    }

    #[test]
    fn rate_of_late_answers_is_lower() {
        let (found, began) = (Found::default(), Instant::now());
        // The second request is sent when the first refusal has arrived, and the end is 5 ms later.
        window(&found, began, 0, 200, |_| 5);
        assert_eq!(found.rate(), Some(199.0 / 1.005));
        let late = Found::default();
        window(&late, began, 0, 200, |n| if n == 200 { 100 } else { 0 });
        assert_eq!(late.rate(), Some(199.0 / 1.1));
    }

    #[test]
    fn windows_that_are_short_or_have_few_requests_go_on() {
        let (found, began) = (Found::default(), Instant::now());
        window(&found, began, 0, 90, |_| 0);
        window(&found, began, 460, 40, |_| 0);
        assert_eq!(found.windows(), 1);
    }

    #[test]
    fn is_settled_when_three_windows_agree() {
        let (found, began) = (Found::default(), Instant::now());
        window(&found, began, 0, 200, |_| 0);
        window(&found, began, 1_005, 200, |_| 0);
        assert!(!found.is_settled(0));
        window(&found, began, 2_010, 200, |_| 0);
        assert!(found.is_settled(0));
        assert!(!found.is_settled(found.windows() - 2));
    }
}
