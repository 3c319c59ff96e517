//! [`Meter`]: a counter that knows its rate.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tollgate::{Clock, Tick};

const SECOND: Duration = Duration::from_secs(1);

/// Counts by the ticks of a clock.
#[derive(Debug)]
pub(crate) struct Meter {
    clock: Clock,
    counted: Mutex<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    total: u64,
    /// The ticks within a second of the latest, in order.
    ticks: VecDeque<Tick>,
    /// The most within any second, of those since a tick.
    most: usize,
    since: Tick,
}

impl Meter {
    pub(crate) fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            counted: Mutex::default(),
        }
    }

    /// Counts one that happened now.
    pub(crate) fn count(&self) {
        self.count_at(self.clock.now());
    }

    /// Counts one that happened at a tick of the clock. A charge that is counted at its own tick counts when its
    /// limiter made it, and not when its task resumed, so no second shows more than the limiter admitted.
    pub(crate) fn count_at(&self, at: Tick) {
        let mut counted = self.counted();
        let Counted {
            total,
            ticks,
            most,
            since,
        } = &mut *counted;
        *total += 1;
        // Tasks may report their charges in another order than that of the charges.
        let place = ticks.partition_point(|tick| *tick <= at);
        ticks.insert(place, at);
        let outdated = ticks.back().map_or(0, |latest| outdated(ticks, *latest));
        ticks.drain(..outdated);
        let before = ticks.partition_point(|tick| tick < since);
        *most = (ticks.len() - before).max(*most);
    }

    /// Returns how many there have been.
    pub(crate) fn total(&self) -> u64 {
        self.counted().total
    }

    /// Returns how many there have been within the last second.
    pub(crate) fn per_second(&self) -> usize {
        let counted = self.counted();
        // The clock is read under the lock, so that no tick is later.
        counted.ticks.len() - outdated(&counted.ticks, self.clock.now())
    }

    /// Returns the most that there have been in any second since `forget_most`.
    pub(crate) fn most(&self) -> usize {
        self.counted().most
    }

    /// Begins to look for the most in a second again.
    pub(crate) fn forget_most(&self) {
        let mut counted = self.counted();
        counted.most = 0;
        counted.since = self.clock.now();
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().expect("no code panics under the lock")
    }
}

/// Returns how many of the ticks are not within the second that ends at `end`.
fn outdated(ticks: &VecDeque<Tick>, end: Tick) -> usize {
    ticks.partition_point(|tick| end.saturating_since(*tick) >= SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_second_counts_the_last_second_and_no_more() {
        let clock = Clock::manual();
        let meter = Meter::new(&Clock::from(&clock));
        // Ten a second, as of a limiter; looked at between two of them, at the second, and late.
        for _ in 0..20 {
            meter.count();
            clock.advance(SECOND / 10);
        }
        assert_eq!((meter.per_second(), meter.total()), (9, 20));
        meter.count();
        assert_eq!(meter.per_second(), 10);
        clock.advance(SECOND / 20);
        assert_eq!(meter.per_second(), 10);
        clock.advance(SECOND);
        assert_eq!((meter.per_second(), meter.total()), (0, 21));
    }

    #[test]
    fn count_at_in_another_order_counts_each_within_its_second() {
        let clock = Clock::manual();
        let meter = Meter::new(&Clock::from(&clock));
        let at = |ms: u64| meter.count_at(Tick::from_nanos(ms * 1_000_000));
        [0, 200, 100, 999].into_iter().for_each(at);
        assert_eq!(meter.most(), 4);
        // The first one is a second old; what is late still is.
        [1000, 0].into_iter().for_each(at);
        clock.advance(SECOND);
        assert_eq!((meter.per_second(), meter.most(), meter.total()), (4, 4, 6));
    }

    #[test]
    fn forget_most_begins_again_and_keeps_the_rate() {
        let clock = Clock::manual();
        let meter = Meter::new(&Clock::from(&clock));
        (0..3).for_each(|_| meter.count());
        clock.advance(SECOND / 2);
        meter.forget_most();
        assert_eq!((meter.per_second(), meter.most()), (3, 0));
        meter.count();
        assert_eq!((meter.per_second(), meter.most(), meter.total()), (4, 1, 4));
    }
}
