//! [`Group`]: what the semaphores of all keys of a [`Keyed`](crate::Keyed) share. A semaphore without keys is a group of
//! one.
//!
//! A key has nothing that another semaphore of the same key would not learn from the server, so it may be forgotten as
//! soon as nobody holds it or waits for it.

use std::sync::Arc;
use std::time::Duration;

use super::batches::Batches;
use super::drivers::Drivers;
use crate::queue::LimitCounters;
use crate::script::micros;
use crate::store::Store;
use crate::sync::{AtomicU64, Ordering};

/// The time between two looks of a process that gets messages.
const LOOK: Duration = Duration::from_secs(1);

/// The time between two looks for each ticket before the first one of the process, and the longest of these times.
const LOOK_FOR_EACH: Duration = Duration::from_millis(10);
const LONGEST_FAR_LOOK: Duration = Duration::from_secs(5);

/// The times between two looks, and between two polls, for each semaphore that this process waits for: 500 looks or 1,000
/// polls a second. Each takes the server as many instructions as five of the plainest decisions by GCRA.
const LOOK_EACH: Duration = Duration::from_millis(2);
const POLL_EACH: Duration = Duration::from_millis(1);

/// The time between two attempts in an outage, for each of them, each lease that is held, and each release.
const AGAIN_EACH: Duration = Duration::from_micros(100);

/// The longest times. The server keeps a ticket for a minute after it was named.
const LONGEST_LOOK: Duration = Duration::from_secs(10);
const LONGEST_AGAIN: Duration = Duration::from_secs(1);

/// The time for which the server keeps the state of a semaphore without keys after its last use.
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// The options, which are set when a semaphore is created.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) ttl: Duration,
    /// `None` stands for the ttl.
    pub(super) grace: Option<Duration>,
    pub(super) poll: Duration,
    pub(super) max_waiters: usize,
}

impl Options {
    /// Returns the time after a loss of data in which no new caller is admitted.
    pub(super) fn grace(&self) -> Duration {
        self.grace.unwrap_or(self.ttl)
    }
}

pub(super) struct Group {
    pub(super) store: Store,
    pub(super) options: Options,
    /// Whether these are the semaphores of keys.
    pub(super) has_keys: bool,
    pub(super) batches: Arc<Batches>,
    pub(super) drivers: Arc<Drivers>,
    /// Each lease that is held has a reference.
    pub(super) held: Arc<()>,
    pub(super) counters: LimitCounters,
    /// The highest number of a lease or a ticket that the server has given for any of them.
    highest: AtomicU64,
    /// The mean of the last round trips, in microseconds.
    round_trip: AtomicU64,
    /// Each semaphore that is waited for has a reference.
    pub(super) waited: Arc<()>,
    /// Each release in the background has a reference.
    pub(super) releasing: Arc<()>,
}

impl Group {
    pub(super) fn new(store: Store, options: Options, has_keys: bool) -> Arc<Self> {
        let batches = Batches::new(store.clone(), has_keys);
        Arc::new(Self {
            drivers: Drivers::new(&batches, store.runtime()),
            batches,
            store,
            options,
            has_keys,
            held: Arc::default(),
            counters: LimitCounters::default(),
            highest: AtomicU64::new(0),
            round_trip: AtomicU64::new(0),
            waited: Arc::default(),
            releasing: Arc::default(),
        })
    }

    /// Returns the highest number that the server has given, so that numbers do not fall.
    pub(super) fn highest(&self) -> u64 {
        self.highest.load(Ordering::Relaxed)
    }

    pub(super) fn has_seen(&self, number: u64) {
        self.highest.fetch_max(number, Ordering::Relaxed);
    }

    pub(super) fn round_trip(&self) -> Duration {
        Duration::from_micros(self.round_trip.load(Ordering::Relaxed))
    }

    pub(super) fn set_round_trip(&self, mean: Duration) {
        self.round_trip.store(micros(mean), Ordering::Relaxed);
    }

    /// Returns the time for which the server keeps the state of a semaphore after its last use.
    pub(super) fn state_lasts(&self) -> Duration {
        let (ttl, grace) = (self.options.ttl, self.options.grace());
        if self.has_keys {
            // As long as a lease may.
            2 * ttl.max(grace)
        } else {
            DAY.max(2 * ttl)
        }
    }

    /// Returns the longest time between two looks of a process with so many tickets before its first one. After a loss of
    /// data, a process that is far from the front comes back before the grace time is over.
    pub(super) fn look_interval(&self, ahead: u64) -> Duration {
        let far = LOOK_FOR_EACH.saturating_mul(u32::try_from(ahead).unwrap_or(u32::MAX));
        let far = far.min(LONGEST_FAR_LOOK).min(self.options.grace() / 2);
        let paced = times(LOOK_EACH, count(&self.waited)).clamp(LOOK, LONGEST_LOOK);
        paced.max(far)
    }

    /// Returns the shortest time between two polls.
    pub(super) fn poll_interval(&self) -> Duration {
        self.options.poll.max(self.paced_poll())
    }

    /// Returns the shortest time between two polls that the number of semaphores allows.
    pub(super) fn paced_poll(&self) -> Duration {
        times(POLL_EACH, count(&self.waited)).min(LONGEST_LOOK)
    }

    /// Returns the pause between two attempts after a failure.
    pub(super) fn pause(&self) -> Duration {
        let most = (self.options.ttl / 10).min(Duration::from_millis(100));
        let counts = [
            count(&self.waited),
            count(&self.releasing),
            count(&self.held),
        ];
        let many = counts.into_iter().max().unwrap_or_default();
        let most = times(AGAIN_EACH, many).min(LONGEST_AGAIN).max(most);
        most.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

/// Returns how many references there are beside that of the group.
fn count(references: &Arc<()>) -> usize {
    Arc::strong_count(references) - 1
}

fn times(time: Duration, count: usize) -> Duration {
    time.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn look_interval_far_from_the_front_is_longer_and_ends_before_the_grace_time() {
        let look = |ahead, ttl, grace: Option<Duration>| {
            let options = Options {
                ttl,
                grace,
                poll: LOOK,
                max_waiters: 1,
            };
            Group::new(Store::in_memory(), options, false).look_interval(ahead)
        };
        for (ahead, expected) in [(100, LOOK), (250, 5 * LOOK / 2), (u64::MAX, 5 * LOOK)] {
            assert_eq!(look(ahead, 10 * LOOK, None), expected);
        }
        assert_eq!(look(1_000, 4 * LOOK, None), 2 * LOOK);
        assert_eq!(look(1_000, LOOK, Some(6 * LOOK)), 3 * LOOK);
        // Others may pass it after a loss of data: each look costs the server more than that is worth.
        for grace in [LOOK, Duration::ZERO] {
            assert_eq!(look(1_000, 10 * LOOK, Some(grace)), LOOK);
        }
    }
}
