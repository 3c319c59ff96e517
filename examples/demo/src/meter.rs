//! [`Meter`]: a counter with a rate.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};
use tollgate::time::Tick;
use tollgate::{AcquireError, Clock};
use tollgate_observe::{Observer, Place};

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
    /// The greatest number within any second since a tick.
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

    /// Counts an event that happens now.
    pub(crate) fn count(&self) {
        self.count_at(self.clock.now());
    }

    /// Counts an event at a tick of the clock. A charge that is counted at its own tick counts when its limiter
    /// made it, and not when its task resumed, so no second shows more than the limiter admitted.
    pub(crate) fn count_at(&self, at: Tick) {
        let mut counted = self.counted();
        let Counted {
            total,
            ticks,
            most,
            since,
        } = &mut *counted;
        *total += 1;
        // Tasks may report their charges out of order.
        let place = ticks.partition_point(|tick| *tick <= at);
        ticks.insert(place, at);
        let outdated = ticks.back().map_or(0, |latest| outdated(ticks, *latest));
        ticks.drain(..outdated);
        let before = ticks.partition_point(|tick| tick < since);
        *most = (ticks.len() - before).max(*most);
    }

    /// Returns the total number.
    pub(crate) fn total(&self) -> u64 {
        self.counted().total
    }

    /// Returns the number within the last second.
    pub(crate) fn per_second(&self) -> usize {
        let counted = self.counted();
        // The clock is read under the lock, so that no tick is later.
        counted.ticks.len() - outdated(&counted.ticks, self.clock.now())
    }

    /// Returns the greatest number in any second since `forget_most`.
    pub(crate) fn most(&self) -> usize {
        self.counted().most
    }

    /// Restarts the greatest number in a second.
    pub(crate) fn forget_most(&self) {
        let mut counted = self.counted();
        counted.most = 0;
        counted.since = self.clock.now();
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().expect("no code panics under the lock")
    }
}

/// Returns the number of ticks that are not within the second that ends at `end`.
fn outdated(ticks: &VecDeque<Tick>, end: Tick) -> usize {
    ticks.partition_point(|tick| end.saturating_since(*tick) >= SECOND)
}

// [`Latencies`]: durations of the last seconds.

/// The time that a duration is kept.
const KEPT: Duration = Duration::from_secs(8);

/// The durations that were recorded within the last eight seconds. As an observer, it records how
/// long permits are held.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Mutex<Recorded>);

#[derive(Debug, Default)]
struct Recorded {
    /// The end and the length of each.
    durations: VecDeque<(Instant, Duration)>,
    restarted: Option<Instant>,
}

impl Latencies {
    /// Records a duration that ends now.
    pub(crate) fn record(&self, duration: Duration) {
        let now = Instant::now();
        let durations = &mut self.recorded().durations;
        durations.push_back((now, duration));
        while durations.front().is_some_and(|(at, _)| *at + KEPT <= now) {
            durations.pop_front();
        }
    }

    /// Excludes durations that began up to now from percentiles, so that a change shows at once.
    pub(crate) fn restart(&self) {
        self.recorded().restarted = Some(Instant::now());
    }

    /// Returns the 99th percentile of the durations within `span`, which is at most eight seconds, in
    /// milliseconds; `None` if there are none that began since `restart`.
    pub(crate) fn p99_ms(&self, span: Duration) -> Option<f64> {
        let restarted = self.recorded().restarted;
        let mut durations = self.within(span, |ended, duration| {
            restarted.is_none_or(|restarted| restarted + duration < ended)
        });
        let rank = (durations.len() * 99).div_ceil(100).checked_sub(1)?;
        let (_, p99, _) = durations.select_nth_unstable(rank);
        // Microseconds are more than anybody can read.
        Some((p99.as_secs_f64() * 1e6).round() / 1e3)
    }

    /// Returns how many durations of the last second are at most `bound`.
    pub(crate) fn last_second(&self, bound: Duration) -> u64 {
        let in_time = |_, duration| duration <= bound;
        self.within(Duration::from_secs(1), in_time).len() as u64
    }

    /// Returns the durations that ended within `span` and that `keep` accepts.
    fn within(&self, span: Duration, keep: impl Fn(Instant, Duration) -> bool) -> Vec<Duration> {
        let now = Instant::now();
        let recorded = self.recorded();
        let all = recorded.durations.iter().rev();
        all.take_while(|(ended, _)| *ended + span > now)
            .filter(|(ended, duration)| keep(*ended, *duration))
            .map(|(_, duration)| *duration)
            .collect()
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().expect("no code panics under the lock")
    }
}

impl Observer for Latencies {
    type Held = Instant;

    fn admitted(&self, _: Place, _: Option<Duration>) -> Instant {
        Instant::now()
    }

    fn released(&self, since: Instant) {
        self.record(since.elapsed());
    }
}

// [`Span`]: the first and the last decision of a throttle.

/// Observes the time from the first decision to the last.
#[derive(Debug, Default)]
pub(crate) struct Span(Mutex<Option<(Instant, Instant)>>);

impl Span {
    /// Returns the time between the first decision and the last, and forgets both.
    pub(crate) fn take(&self) -> Duration {
        let span = self.0.lock().expect("no code panics under the lock").take();
        span.map_or(Duration::ZERO, |(first, last)| last - first)
    }

    fn decided(&self) {
        let now = Instant::now();
        let mut span = self.0.lock().expect("no code panics under the lock");
        let (_, last) = span.get_or_insert((now, now));
        *last = now.max(*last);
    }
}

impl Observer for Span {
    type Held = ();

    fn admitted(&self, _: Place, _: Option<Duration>) {
        self.decided();
    }

    fn refused(&self, _: Place, _: &AcquireError, _: Option<Duration>) {
        self.decided();
    }
}

// [`pace`]: makes load at a rate.

const TICK: Duration = Duration::from_millis(5);

/// The greatest time for which the load catches up after a stall of the process.
const MOST: Duration = Duration::from_millis(100);

/// Calls `make` as often per second as `rate` says, in steps of 5 ms, until it is dropped.
pub(crate) async fn pace(rate: impl Fn() -> u64, mut make: impl FnMut()) -> Infallible {
    let mut ticker = interval(TICK);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (mut last, mut due) = (Instant::now(), 0.0);
    loop {
        ticker.tick().await;
        let now = Instant::now();
        due += rate() as f64 * (now - last).min(MOST).as_secs_f64();
        last = now;
        while due >= 1.0 {
            due -= 1.0;
            make();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_second_counts_the_last_second_and_no_more() {
        let clock = Clock::manual();
        let meter = Meter::new(&Clock::from(&clock));
        // Ten a second, like those of a limiter; read between two of them, at the second, and late.
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

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn p99_is_the_99th_of_a_hundred_within_the_span() {
        let latencies = Latencies::default();
        assert_eq!(latencies.p99_ms(KEPT), None);
        (1..=100).rev().for_each(|n| latencies.record(n * MS));
        assert_eq!(latencies.p99_ms(KEPT), Some(99.0));
        tokio::time::advance(KEPT - MS).await;
        assert_eq!(latencies.p99_ms(KEPT), Some(99.0));
        assert_eq!(latencies.p99_ms(KEPT - MS), None);
        tokio::time::advance(MS).await;
        assert_eq!(latencies.p99_ms(KEPT), None);
    }

    #[tokio::test(start_paused = true)]
    async fn restart_leaves_what_began_before_out_of_percentiles_only() {
        let latencies = Latencies::default();
        latencies.record(5 * MS);
        latencies.restart();
        assert_eq!(
            (latencies.p99_ms(KEPT), latencies.last_second(KEPT)),
            (None, 1)
        );
        tokio::time::advance(2 * MS).await;
        latencies.record(2 * MS);
        assert_eq!(latencies.p99_ms(KEPT), None);
        latencies.record(MS);
        assert_eq!(
            (latencies.p99_ms(KEPT), latencies.last_second(KEPT)),
            (Some(1.0), 3)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn last_second_counts_those_within_the_bound() {
        let latencies = Latencies::default();
        latencies.record(MS);
        tokio::time::advance(Duration::from_secs(1)).await;
        (1..=10).for_each(|n| latencies.record(n * MS));
        assert_eq!(latencies.last_second(4 * MS), 4);
    }
}
