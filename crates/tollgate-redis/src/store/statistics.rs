//! [`StoreStatistics`]: what the calls of a store have come to, as a snapshot; and [`StoreCounters`], which it is
//! read from.
//!
//! A call adds to three counters, without a lock. They are independent of each other, so a snapshot that is taken
//! during a call may have one of them and not yet another.

use std::time::Duration;

use crate::error::StoreError;
use crate::sync::{AtomicU64, Ordering};

/// What a store and its clones have done since they were created. [`Store::statistics`](super::Store::statistics)
/// returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStatistics {
    /// The number of calls that were made: [`Store::calls`](super::Store::calls).
    pub calls: u64,
    /// The number of calls that got a reply other than an error.
    pub succeeded: u64,
    /// The time from each call to its end, connecting included: replies, errors and deadlines. Calls that the
    /// breaker rejected are not included.
    pub latency: Latency,
    /// Whether the breaker, or that of any slot of a cluster, is open:
    /// [`Store::is_broken`](super::Store::is_broken).
    pub is_broken: bool,
    /// How often the breaker, or that of any slot of a cluster, has opened. A probe that fails does not open it
    /// again.
    pub openings: u64,
    /// The number of connections that were made. More than one means that connections were lost.
    pub connections: u64,
    /// Whether there is a connection.
    pub is_connected: bool,
    failures: [u64; StoreError::COUNT],
}

impl StoreStatistics {
    /// Returns the number of calls that ended with this error. Those with [`BreakerOpen`](StoreError::BreakerOpen)
    /// were not made, and so are not in [`calls`](Self::calls).
    pub fn failures(&self, error: StoreError) -> u64 {
        self.failures[error as usize]
    }

    /// Returns every kind of error, and the number of calls that ended with it.
    pub fn all_failures(&self) -> impl Iterator<Item = (StoreError, u64)> + '_ {
        StoreError::all().map(|error| (error, self.failures(error)))
    }
}

/// A histogram of times. Its buckets double: up to 64 µs, up to 128 µs, and so on to 2.1 seconds, and longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latency {
    sum: Duration,
    buckets: [u64; BUCKETS],
}

impl Latency {
    /// Returns the number of times.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Returns the sum of all times, in whole microseconds.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// Returns each bucket: its inclusive bound, and the number of times in it, without those of the buckets
    /// before. The bound of the last one is `Duration::MAX`.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let bound = |index| match index {
            LAST => Duration::MAX,
            _ => Duration::from_micros(FIRST_BOUND << index),
        };
        let buckets = self.buckets.iter().enumerate();
        buckets.map(move |(index, count)| (bound(index), *count))
    }

    /// Returns a bound that this part of the times does not exceed, up to a factor of two; zero if there are none.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn example(store: tollgate_redis::Store) {
    /// println!("99 % of the calls took at most {:?}", store.statistics().latency.quantile(0.99));
    /// # }
    /// ```
    pub fn quantile(&self, part: f64) -> Duration {
        let mut left = (self.count() as f64 * part).ceil() as u64;
        let mut buckets = self.buckets();
        let last = buckets.find(|(_, count)| {
            left = left.saturating_sub(*count);
            left == 0
        });
        last.filter(|_| self.count() > 0)
            .map_or(Duration::ZERO, |(bound, _)| bound)
    }
}

/// In microseconds.
const FIRST_BOUND: u64 = 64;
const BUCKETS: usize = 17;
const LAST: usize = BUCKETS - 1;

fn bucket(micros: u64) -> usize {
    let above = micros.saturating_sub(1) / FIRST_BOUND;
    LAST.min((u64::BITS - above.leading_zeros()) as usize)
}

/// The counters of a store.
#[derive(Debug)]
pub(super) struct StoreCounters {
    calls: AtomicU64,
    openings: AtomicU64,
    succeeded: AtomicU64,
    failures: [AtomicU64; StoreError::COUNT],
    /// In microseconds.
    sum: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Default for StoreCounters {
    fn default() -> Self {
        Self {
            calls: AtomicU64::new(0),
            openings: AtomicU64::new(0),
            succeeded: AtomicU64::new(0),
            failures: [const { AtomicU64::new(0) }; StoreError::COUNT],
            sum: AtomicU64::new(0),
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }
}

impl StoreCounters {
    /// Counts a call that is made.
    pub(super) fn begun(&self) {
        add(&self.calls, 1);
    }

    /// Counts an opening of the breaker.
    pub(super) fn opened(&self) {
        add(&self.openings, 1);
    }

    /// Returns the number of calls.
    pub(super) fn calls(&self) -> u64 {
        get(&self.calls)
    }

    /// Counts the end of a call that took this time.
    pub(super) fn ended<T>(&self, answer: &Result<T, StoreError>, took: Duration) {
        match answer {
            Ok(_) => add(&self.succeeded, 1),
            Err(error) => self.failed(*error),
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        add(&self.sum, micros);
        add(&self.buckets[bucket(micros)], 1);
    }

    /// Counts a failure, without a time.
    pub(super) fn failed(&self, error: StoreError) {
        add(&self.failures[error as usize], 1);
    }

    /// Returns the statistics of a store with this state.
    pub(super) fn snapshot(
        &self,
        is_broken: bool,
        (connections, is_connected): (u64, bool),
    ) -> StoreStatistics {
        StoreStatistics {
            calls: self.calls(),
            succeeded: get(&self.succeeded),
            latency: Latency {
                sum: Duration::from_micros(get(&self.sum)),
                buckets: self.buckets.each_ref().map(get),
            },
            is_broken,
            openings: get(&self.openings),
            connections,
            is_connected,
            failures: self.failures.each_ref().map(get),
        }
    }
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_of_each_time_is_the_first_whose_bound_is_not_less() {
        let counters = StoreCounters::default();
        for micros in [0, 63, 64, 65, 128, 129, 2_097_152, 2_097_153, u64::MAX / 2] {
            counters.ended(&Ok(()), Duration::from_micros(micros));
            let latency = counters.snapshot(false, (0, false)).latency;
            let bounds: Vec<_> = latency.buckets().map(|(bound, _)| bound).collect();
            let expected = bounds
                .iter()
                .position(|bound| Duration::from_micros(micros) <= *bound);
            assert_eq!(Some(bucket(micros)), expected, "{micros}");
        }
        let latency = counters.snapshot(false, (0, false)).latency;
        let counts: Vec<_> = latency.buckets().map(|(_, count)| count).collect();
        assert_eq!((&counts[..3], &counts[15..]), (&[3, 2, 1][..], &[1, 2][..]));
        assert_eq!(latency.count(), 9);
    }

    #[test]
    fn quantile_of_some_times_is_the_bound_of_the_bucket() {
        let counters = StoreCounters::default();
        let quantile = |part| {
            let statistics = counters.snapshot(false, (0, false));
            statistics.latency.quantile(part)
        };
        assert_eq!(quantile(0.5), Duration::ZERO);
        for micros in [50, 100, 100, 5_000_000] {
            counters.ended(&Ok(()), Duration::from_micros(micros));
        }
        let bounds = [0.0, 0.25, 0.26, 0.75, 0.76, 1.0].map(quantile);
        let micros = Duration::from_micros;
        let (first, second, last) = (micros(64), micros(128), Duration::MAX);
        assert_eq!(bounds, [first, first, second, second, last, last]);
    }

    #[test]
    fn snapshot_has_each_error_and_the_sum_of_the_times() {
        let counters = StoreCounters::default();
        counters.ended(&Ok(()), Duration::from_micros(3));
        for (error, times) in StoreError::all().zip(1..) {
            for _ in 0..times {
                counters.ended::<()>(&Err(error), Duration::from_micros(1));
            }
        }
        counters.failed(StoreError::BreakerOpen);
        let statistics = counters.snapshot(true, (2, true));
        assert_eq!(statistics.succeeded, 1);
        for ((error, count), times) in statistics.all_failures().zip(1..) {
            let times = times + u64::from(error == StoreError::BreakerOpen);
            assert_eq!(count, times, "{error}");
        }
        let all = (StoreError::COUNT * (StoreError::COUNT + 1) / 2) as u64;
        assert_eq!(statistics.latency.sum(), Duration::from_micros(3 + all));
        assert_eq!(statistics.latency.count(), 1 + all);
        assert!(statistics.is_broken && statistics.is_connected);
    }
}
