//! Decides what the timer thread does next: it wakes, sleeps, or stays awake. This module
//! has no lock and no thread, so it can be tested on any clock.
//!
//! Sleeps end late, mostly by about the same time. So for a distant deadline the thread sleeps that
//! much less, and yields its processor until the deadline. It measures its sleeps. The estimate
//! follows the third quartile of the lateness: it goes up by three steps when a sleep was later
//! than the estimate, and down by one step otherwise. A single outlier, such as a preemption, moves
//! it no more than any other sleep.
//!
//! Deadlines in quick succession are batched, at most one batch per [`BATCH_INTERVAL`]: a thread
//! that is woken for each of a hundred thousand deadlines per second does nothing but sleep and
//! wake.

use std::task::Waker;
use std::time::Duration;

use super::counter::{CheckedCounter, Source};
use super::entries::{Queue, pop_due};
use super::tick::Tick;

/// One step, in nanoseconds.
const STEP: u64 = 1_000;

/// The maximum estimate: the thread stays awake for at most this long before a deadline.
const MAX: u64 = 100_000;

/// The number of wakers that are moved out under the lock of the timer at once.
const MAX_BATCH: usize = 1024;

/// The least time between two batches.
const BATCH_INTERVAL: Duration = Duration::from_micros(90);

pub(super) struct Schedule {
    /// The number of nanoseconds by which a sleep is likely to end late.
    latency: u64,
    /// Whether the last sleep was shortened, for a deadline that is still to come.
    awake: bool,
    /// The tick at which the thread last read the clock.
    now: Tick,
    /// The tick at which it last woke an entry.
    last_batch: Tick,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Wake the wakers that are due.
    Wake,
    /// Sleep for this long, or until an earlier entry is set.
    Sleep(Duration),
    /// Stay awake: the deadline is nearer than the precision of a sleep.
    Yield,
}

impl Schedule {
    pub(super) fn new() -> Self {
        Self {
            latency: 50 * STEP,
            awake: false,
            now: Tick::default(),
            last_batch: Tick::default(),
        }
    }

    /// Reads the clock, and moves the wakers that are due out of the queue.
    pub(super) fn next_step<S: Source>(
        &mut self,
        queue: &mut Queue,
        counter: &CheckedCounter<S>,
        due: &mut Vec<Waker>,
    ) -> Step {
        self.now = counter.checked_now();
        let wakers = std::iter::from_fn(|| pop_due(queue, self.now));
        due.extend(wakers.map(|(_, waker)| waker).take(MAX_BATCH));
        if !due.is_empty() {
            self.last_batch = self.now;
            return Step::Wake;
        }
        let Some((first, _)) = queue.first_key_value() else {
            return Step::Sleep(Duration::MAX);
        };
        let away = first.due.saturating_since(self.now);
        let since = self.now.saturating_since(self.last_batch);
        self.step_for(away, since)
    }

    /// Returns whether to sleep or stay awake for a deadline that is `away`, if the last batch was
    /// `since` ago.
    fn step_for(&mut self, away: Duration, since: Duration) -> Step {
        let early = Duration::from_nanos(self.latency);
        if self.awake && away <= early {
            return Step::Yield;
        }
        self.awake = away > BATCH_INTERVAL.max(2 * early);
        if self.awake {
            return Step::Sleep(away - early);
        }
        let rest = BATCH_INTERVAL.saturating_sub(since);
        // The sleep is likely to end late anyway.
        Step::Sleep(away.max(rest.saturating_sub(early)))
    }

    /// Records that a sleep of `duration` has ended.
    pub(super) fn slept(&mut self, duration: Duration, now: Tick) {
        let planned = self.now.saturating_add(duration);
        self.record(now.saturating_since(planned));
    }

    /// Records by how much a sleep has ended late.
    fn record(&mut self, late: Duration) {
        let late = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        self.latency = if late > self.latency {
            (self.latency + 3 * STEP).min(MAX)
        } else {
            self.latency.saturating_sub(STEP)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::counter_tests::{Fake, NANO_PER_COUNT, SECOND};
    use super::super::entries::Key;
    use super::*;

    const LONG: Duration = Duration::from_secs(1);

    const fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn sleep_for_far_deadline_is_shorter_by_the_latency() {
        let mut schedule = Schedule::new();
        assert_eq!(
            schedule.step_for(micros(1000), LONG),
            Step::Sleep(micros(950))
        );
        // It ended early, so the rest is spent awake.
        assert_eq!(schedule.step_for(micros(20), LONG), Step::Yield);
        assert_eq!(schedule.step_for(micros(1), LONG), Step::Yield);
    }

    #[test]
    fn sleep_for_near_deadline_is_not_shortened() {
        let mut schedule = Schedule::new();
        assert_eq!(
            schedule.step_for(micros(1000), LONG),
            Step::Sleep(micros(950))
        );
        assert_eq!(schedule.step_for(micros(80), LONG), Step::Sleep(micros(80)));
        assert_eq!(schedule.step_for(micros(10), LONG), Step::Sleep(micros(10)));
    }

    #[test]
    fn sleep_for_deadlines_in_quick_succession_batches_them() {
        let mut schedule = Schedule::new();
        (0..40).for_each(|_| schedule.record(micros(0)));
        // Subtracts the time since the last batch, and the ten microseconds by which the sleep is
        // likely to end late.
        let rest = BATCH_INTERVAL - micros(1) - micros(10);
        assert_eq!(schedule.step_for(micros(15), micros(1)), Step::Sleep(rest));
        assert_eq!(
            schedule.step_for(micros(15), BATCH_INTERVAL),
            Step::Sleep(micros(15))
        );
        // Sleeps that are late anyway need not be longer.
        (0..100).for_each(|_| schedule.record(micros(500)));
        assert_eq!(
            schedule.step_for(micros(5), micros(1)),
            Step::Sleep(micros(5))
        );
    }

    #[test]
    fn record_follows_the_third_quartile() {
        let mut schedule = Schedule::new();
        for round in 0..10_000 {
            // One in ten is an outlier.
            let late = if round % 10 == 0 { 5000 } else { 30 };
            schedule.record(micros(late));
        }
        assert!(
            (28_000..=36_000).contains(&schedule.latency),
            "{}",
            schedule.latency
        );
        (0..1000).for_each(|_| schedule.record(micros(5000)));
        assert_eq!(schedule.latency, MAX);
        (0..1000).for_each(|_| schedule.record(micros(0)));
        assert_eq!(schedule.latency, 0);
    }

    /// Found by mutation: a timer that never compares its clock. The machine resumes after a
    /// suspension of an hour with a counter that was set back.
    #[test]
    fn next_step_after_a_suspension_wakes_what_is_due() {
        let fake = Fake::new(NANO_PER_COUNT, 7);
        let counter = fake.counter();
        let (mut queue, mut due) = (Queue::new(), Vec::new());
        let mut schedule = Schedule::new();
        fake.advance(SECOND / 2);
        assert_eq!(
            schedule.next_step(&mut queue, &counter, &mut due),
            Step::Sleep(Duration::MAX)
        );
        let hour = Duration::from_secs(3600);
        let key = Key::new(counter.now().saturating_add(hour));
        queue.insert(key, Waker::noop().clone());
        let early = Duration::from_micros(50);
        let step = schedule.next_step(&mut queue, &counter, &mut due);
        assert_eq!(step, Step::Sleep(hour - early));
        fake.suspend(3601 * SECOND);
        fake.set_back(SECOND / 4);
        // According to the counter alone, it is earlier than before.
        let step = schedule.next_step(&mut queue, &counter, &mut due);
        assert_eq!((step, due.len()), (Step::Wake, 1));
        due.clear();
        assert_eq!(
            schedule.next_step(&mut queue, &counter, &mut due),
            Step::Sleep(Duration::MAX)
        );
    }

    #[test]
    fn next_step_with_many_due_entries_moves_a_bounded_number_at_once() {
        let fake = Fake::new(NANO_PER_COUNT, 7);
        let counter = fake.counter();
        let (mut queue, mut due) = (Queue::new(), Vec::new());
        for _ in 0..=MAX_BATCH {
            queue.insert(Key::new(counter.now()), Waker::noop().clone());
        }
        let mut schedule = Schedule::new();
        let mut steps = std::iter::from_fn(|| {
            let step = schedule.next_step(&mut queue, &counter, &mut due);
            Some((step, due.drain(..).count()))
        });
        assert_eq!(steps.next(), Some((Step::Wake, MAX_BATCH)));
        assert_eq!(steps.next(), Some((Step::Wake, 1)));
        assert_eq!(steps.next(), Some((Step::Sleep(Duration::MAX), 0)));
    }
}
