//! Remembers when each throttled request began and how many bytes it brought, to be compared with
//! the limits per second.
//!
//! The embedded server writes a request down as soon as it has its head, and before it does
//! anything about it; the client does so when the request has been let in. Throttled is what
//! changes something on the server; reading back is not.
//!
//! A *second* is any interval of one second, wherever it begins, without its end: two requests that
//! are exactly one second apart are not in the same one. A limit of 50 per second with a burst of
//! one lets 50 into such a second. The limit is kept when requests are let in. They are on their
//! way for a while, and not all for as long, so the server may see one more in a second than were
//! let in, or several if the machine is busy; but never more than the requests that can be on
//! their way, which are as many as there are slots.

use std::cell::Cell;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// For so long a limit is looked at.
pub const SECOND: Duration = Duration::from_secs(1);

/// A request that began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time since the log was made.
    pub at: Duration,
    /// How much of a file it brought; nothing if it brought something else.
    pub bytes: u64,
}

impl Arrival {
    /// Counts for one.
    pub fn request(&self) -> u64 {
        1
    }

    /// Counts for its bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The log: the requests in the order of their arrival.
#[derive(Debug)]
pub struct Arrivals {
    log: Mutex<Vec<Arrival>>,
    made: Instant,
}

impl Arrivals {
    /// An empty log, whose time begins now.
    pub fn new() -> Arc<Arrivals> {
        Arc::new(Arrivals {
            log: Mutex::default(),
            made: Instant::now(),
        })
    }

    /// Writes down a request that begins now.
    pub fn record(&self, bytes: u64) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        // Read under the lock, so that the log is in order.
        let at = self.made.elapsed();
        log.push(Arrival { at, bytes });
    }

    /// All so far, in order.
    pub fn all(&self) -> Vec<Arrival> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.clone()
    }
}

/// The most that there is in any second, exactly. The arrivals are in order; each counts for
/// `weight`.
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

/// How much there was in the second before each moment, for a plot: the moments at which that
/// changes, in order, and what it is from then on.
pub fn over_time(arrivals: &[Arrival], weight: fn(&Arrival) -> u64) -> Vec<(Duration, u64)> {
    let begin = arrivals.iter().map(|arrival| (arrival.at, arrival, true));
    let end = arrivals
        .iter()
        .map(|arrival| (arrival.at + SECOND, arrival, false));
    let mut changes: Vec<_> = begin.chain(end).collect();
    // What ends is not there any more when something else begins.
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

// How long the requests waited until they could go.
//
// A request waits in the job and then below the store, where it is let in. The task carries the
// moment at which it asked from one to the other.

tokio::task_local! {
    /// When the task asked, until its request has been let in.
    static ASKED: Cell<Option<Instant>>;
}

/// Runs a request that has been waiting since it was asked for. It counts once, however often it is
/// repeated.
pub(crate) async fn waiting_since<F: Future>(asked: Instant, request: F) -> F::Output {
    ASKED.scope(Cell::new(Some(asked)), request).await
}

/// The waits so far.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<Vec<Duration>>);

impl Waits {
    /// Adds one.
    fn record(&self, wait: Duration) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(wait);
    }

    /// Adds the wait of the task's request, which is let in now, if it is one that counts.
    pub(crate) fn admitted(&self) {
        if let Ok(Some(asked)) = ASKED.try_with(Cell::take) {
            self.record(asked.elapsed());
        }
    }

    /// The shortest wait that at least `percent` of all did not exceed; `None` without any.
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
        // Two in the first second and two in the next one; three of them are close together.
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
