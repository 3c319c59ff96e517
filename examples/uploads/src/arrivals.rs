//! Records the time and the number of bytes of each throttled request, for a comparison with the limits
//! per second.
//!
//! The embedded server records a request as soon as it has the head, and before it handles the request.
//! The client records a request when the limits admit it. Throttled requests are those that change
//! something on the server; reading back does not count.
//!
//! A *second* is any interval of one second, wherever it begins, and excludes its end: two requests that
//! are exactly one second apart are not in the same second. A limit of 50 per second with a burst of
//! one admits 50 into such a second. The limit applies when requests are admitted. Each request then takes
//! a different time to arrive. So the server may see one more request in a second than were admitted, or
//! several more if the machine is busy. The excess is at most the number of requests that can be on
//! their way, which is the number of slots.

use std::cell::Cell;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The interval over which a limit is checked.
pub const SECOND: Duration = Duration::from_secs(1);

/// The start of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The time since the log was made.
    pub at: Duration,
    /// The number of bytes of a file in the request; 0 if its body is something else.
    pub bytes: u64,
}

impl Arrival {
    /// Returns 1, the weight of a request in a count of requests.
    pub fn request(&self) -> u64 {
        1
    }

    /// Returns the weight of the request in a count of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The log of requests, in the order of their arrival.
#[derive(Debug)]
pub struct Arrivals {
    log: Mutex<Vec<Arrival>>,
    made: Instant,
}

impl Arrivals {
    /// Makes an empty log, whose time begins now.
    pub fn new() -> Arc<Arrivals> {
        Arc::new(Arrivals {
            log: Mutex::default(),
            made: Instant::now(),
        })
    }

    /// Records a request that begins now.
    pub fn record(&self, bytes: u64) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        // The time is read under the lock, so that the log is in order.
        let at = self.made.elapsed();
        log.push(Arrival { at, bytes });
    }

    /// Returns all records so far, in order.
    pub fn all(&self) -> Vec<Arrival> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.clone()
    }
}

/// Returns the exact maximum in any second. The arrivals must be in order; each counts for `weight`.
pub fn peak(arrivals: &[Arrival], weight: fn(&Arrival) -> u64) -> u64 {
    let (mut most, mut inside, mut oldest) = (0, 0, 0);
    for arrival in arrivals {
        inside += weight(arrival);
        while arrival.at - arrivals[oldest].at >= SECOND {
            inside -= weight(&arrivals[oldest]);
            oldest += 1;
        }
        most = most.max(inside);
    }
    most
}

/// Returns the total in the second before each moment, for a plot. The result has the moments at which
/// that total changes, in order, with the total from then on.
pub fn over_time(arrivals: &[Arrival], weight: fn(&Arrival) -> u64) -> Vec<(Duration, u64)> {
    let begin = arrivals.iter().map(|arrival| (arrival.at, arrival, true));
    let end = arrivals
        .iter()
        .map(|arrival| (arrival.at + SECOND, arrival, false));
    let mut changes: Vec<_> = begin.chain(end).collect();
    // At equal times, requests that leave the interval come before those that enter it.
    changes.sort_by_key(|&(at, _, begins)| (at, begins));
    let mut inside = 0;
    let step = |(at, arrival, begins): (Duration, &Arrival, bool)| {
        if begins {
            inside += weight(arrival);
        } else {
            inside -= weight(arrival);
        }
        (at, inside)
    };
    changes.into_iter().map(step).collect()
}

// The times that requests waited until they were admitted.
//
// A request waits in the job and then below the store, where the limits admit it. The task carries the
// start of the wait from the job to the limits.

tokio::task_local! {
    /// The start of the task's wait, until its request has been admitted.
    static ASKED: Cell<Option<Instant>>;
}

/// Runs a request that has been waiting since `asked`. Its wait is recorded once, however often the
/// request is repeated.
pub(crate) async fn waiting_since<F: Future>(asked: Instant, request: F) -> F::Output {
    ASKED.scope(Cell::new(Some(asked)), request).await
}

/// The waits so far.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<Vec<Duration>>);

impl Waits {
    /// Adds one wait.
    fn record(&self, wait: Duration) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(wait);
    }

    /// Adds the wait of the task's request, which is admitted now, if the task records a wait.
    pub(crate) fn admitted(&self) {
        if let Ok(Some(asked)) = ASKED.try_with(Cell::take) {
            self.record(asked.elapsed());
        }
    }

    /// Returns the shortest wait that at least `percent` of all waits did not exceed, or `None` without any.
    pub(crate) fn percentile(&self, percent: usize) -> Option<Duration> {
        let mut waits = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let rank = (waits.len() * percent).div_ceil(100).max(1);
        waits.sort_unstable();
        waits.get(rank - 1).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: &[u64]) -> Vec<Arrival> {
        let arrival = |&at| Arrival {
            at: Duration::from_millis(at),
            bytes: at,
        };
        milliseconds.iter().map(arrival).collect()
    }

    #[test]
    fn second_is_without_its_end() {
        assert_eq!(peak(&at(&[0, 1000]), Arrival::request), 1);
        assert_eq!(peak(&at(&[0, 999]), Arrival::request), 2);
        assert_eq!(peak(&[], Arrival::request), 0);
    }

    #[test]
    fn peak_is_wherever_the_second_begins() {
        // Two are in the first second and two in the next one; three of them are close together.
        let arrivals = at(&[100, 900, 1001, 1100, 2500]);
        assert_eq!(peak(&arrivals, Arrival::request), 3);
        assert_eq!(peak(&arrivals, Arrival::bytes), 900 + 1001 + 1100);
    }

    #[test]
    fn peak_is_the_most_over_time() {
        let times: Vec<u64> = (0..300).map(|n| n * n * 7919 % 10_007).collect();
        let mut arrivals = at(&times);
        arrivals.sort_by_key(|arrival| arrival.at);
        for weight in [Arrival::request, Arrival::bytes] {
            let over_time = over_time(&arrivals, weight);
            let most = over_time.iter().map(|&(_, inside)| inside).max();
            assert_eq!(Some(peak(&arrivals, weight)), most);
            assert_eq!(over_time.last().map(|&(_, inside)| inside), Some(0));
        }
    }

    #[test]
    fn log_is_in_order_and_keeps_what_each_brought() {
        let arrivals = Arrivals::new();
        for bytes in [3, 0, 5] {
            arrivals.record(bytes);
        }
        let all = arrivals.all();
        assert!(all.is_sorted_by_key(|arrival| arrival.at));
        let bytes: Vec<_> = all.iter().map(Arrival::bytes).collect();
        assert_eq!(bytes, [3, 0, 5]);
    }

    #[tokio::test]
    async fn admitted_twice_counts_the_first_time() {
        let waits = Waits::default();
        waits.admitted();
        assert_eq!(waits.percentile(50), None, "nobody asked");
        let request = async {
            waits.admitted();
            waits.admitted();
        };
        waiting_since(Instant::now(), request).await;
        assert_eq!(waits.0.lock().unwrap().len(), 1);
    }

    #[test]
    fn percentiles_are_the_nearest_ranks() {
        let waits = Waits::default();
        assert_eq!(waits.percentile(50), None);
        for n in (1..=10).rev() {
            waits.record(Duration::from_secs(n));
        }
        assert_eq!(waits.percentile(50), Some(Duration::from_secs(5)));
        assert_eq!(waits.percentile(99), Some(Duration::from_secs(10)));
        assert_eq!(waits.percentile(0), Some(Duration::from_secs(1)));
    }
}
