//! Simulates a server, a client and stalls in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use async_trait::async_trait;
use object_store::client::{HttpError, HttpErrorKind, HttpResponse, HttpService};
use tollgate::Clock;

use super::*;

/// The next event of a request that was sent at this time, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives { sent: u64 },
    Answered { sent: u64, is_refused: bool },
}

/// The behaviour of a machine, in microseconds.
#[derive(Clone, Copy)]
struct Machine {
    /// The longest time in which a request reaches the server, or an answer reaches the client.
    way: u64,
    /// The longest stall.
    stall: u64,
    /// The longest time between two stalls.
    between: u64,
}

const QUIET: Machine = Machine {
    way: 500,
    stall: 500,
    between: 500_000,
};
const BUSY: Machine = Machine {
    way: 3_000,
    stall: 10_000,
    between: 50_000,
};
/// A third of its stalls are longer than the time to fill the server's bucket.
const OVERLOADED: Machine = Machine {
    way: 5_000,
    stall: 30_000,
    between: 100_000,
};
const STALLED: Machine = Machine {
    way: 10_000,
    stall: 100_000,
    between: 200_000,
};

/// Stalls. Each one delays all events within it to its end.
struct Stalls {
    random: fastrand::Rng,
    machine: Machine,
    next: (u64, u64),
}

impl Stalls {
    fn after(&mut self, at: u64) -> u64 {
        while self.next.1 <= at {
            let begin = self.next.1 + self.random.u64(1..=self.machine.between);
            self.next = (begin, begin + self.random.u64(0..=self.machine.stall));
        }
        if at < self.next.0 { at } else { self.next.1 }
    }
}

/// Returns the found rate relative to the server's rate, if a rate is found.
fn measured(limit: u64, burst: u64, start: f64, machine: Machine, seed: u64) -> Option<f64> {
    let clock = Clock::manual();
    let server = RateLimiter::new(Quota::per_second(limit).burst(burst)).clock(&clock);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut stalls = Stalls {
        random: random.fork(),
        machine,
        next: (0, 0),
    };
    let (found, mut pace) = (Found::default(), Pace::new(start * limit as f64));
    let began = Instant::now();
    let at = |micros| began + Duration::from_micros(micros);
    let mut events = BinaryHeap::new();
    let (mut now, mut next, mut under_way, mut server_time) = (0, 0, 0, 0);
    while !pace.is_over(at(now)) && at(now) - began < LONGEST {
        let event_at = events.peek().map(|&Reverse((at, _))| at);
        if under_way < PARALLEL && event_at.is_none_or(|at| next.max(now) <= at) {
            now = stalls.after(next.max(now));
            next = now + (1e6 / pace.rate) as u64;
            under_way += 1;
            let arrives = now + random.u64(0..=machine.way);
            events.push(Reverse((arrives, Event::Arrives { sent: now })));
            continue;
        }
        let Reverse((event_at, event)) = events.pop().unwrap();
        now = stalls.after(event_at.max(now));
        match event {
            Event::Arrives { sent } => {
                clock.advance(Duration::from_micros(now - server_time));
                server_time = now;
                let is_refused = server.try_acquire().is_err();
                let answered = now + random.u64(0..=machine.way);
                events.push(Reverse((answered, Event::Answered { sent, is_refused })));
            }
            Event::Answered { sent, is_refused } => {
                under_way -= 1;
                found.answered_by(|| at(now), at(sent), is_refused);
                pace.answered(at(now), is_refused, found.rate());
            }
        }
    }
    Some(found.rate()? / limit as f64)
}

/// Rates per second, with their bursts.
const QUOTAS: [(u64, u64); 5] = [(50, 2), (200, 4), (200, 40), (500, 10), (1_000, 20)];

/// Checks these quotas with many seeds and some initial paces: a rate is always found, it is never above the
/// server's rate, and it is at least the share `least` of that rate. Returns the lowest share.
fn check_range(quotas: &[(u64, u64)], machine: Machine, least: f64) -> f64 {
    let mut lowest = f64::INFINITY;
    for &(limit, burst) in quotas {
        for (seed, start) in (0..8).zip([0.3, 0.9, 3.0].into_iter().cycle()) {
            let rate = measured(limit, burst, start, machine, seed);
            assert!(
                rate.is_some_and(|rate| rate >= least && rate <= 1.0),
                "{rate:?} of {limit}, seed {seed}"
            );
            lowest = lowest.min(rate.unwrap());
        }
    }
    lowest
}

#[test]
fn measured_on_a_quiet_machine_is_exact() {
    check_range(&QUOTAS, QUIET, 0.995);
}

#[test]
fn measured_on_a_busy_machine_is_within_1_percent() {
    check_range(&QUOTAS, BUSY, 0.99);
}

#[test]
fn measured_on_an_overloaded_machine_is_within_5_percent() {
    check_range(&QUOTAS, OVERLOADED, 0.95);
}

#[test]
fn measured_in_long_stalls_is_too_low_and_never_too_high() {
    let (reached, beyond) = QUOTAS.split_at(4);
    let lowest = check_range(reached, STALLED, 0.8);
    assert!(lowest < 0.95, "{lowest}");
    // Eight requests in flight, of 10 ms each, are at most 800 per second, so none is refused.
    let (limit, burst) = beyond[0];
    assert_eq!(measured(limit, burst, 3.0, STALLED, 0), None);
}

/// A client whose requests all fail.
#[derive(Debug)]
struct Unreachable(Arc<AtomicUsize>);

#[async_trait]
impl HttpService for Unreachable {
    async fn call(&self, _: HttpRequest) -> Result<HttpResponse, HttpError> {
        self.0.fetch_add(1, Relaxed);
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        Err(HttpError::new(HttpErrorKind::Connect, refused))
    }
}

#[tokio::test]
async fn measure_after_a_request_that_cannot_be_made_sends_no_other() {
    let asked = Arc::default();
    let client = HttpClient::new(Unreachable(Arc::clone(&asked)));
    let found = Found::default();
    measure(&client, "http://127.0.0.1", &found, 1_000.0, PARALLEL).await;
    assert_eq!((asked.load(Relaxed), found.rate()), (1, None));
}

// Tests the rates that `Found` finds.

use std::time::Duration;

/// Sends a request every 5 ms, starting at `from`. The first and the last one are refused, and each is
/// answered after a time in ms.
fn window(found: &Found, began: Instant, from: u64, count: u64, answered_after: fn(u64) -> u64) {
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
    // A window after a second without requests shows a higher rate than both together.
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

/// Otherwise the answers of other threads would count in a window that ends before they arrive.
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
