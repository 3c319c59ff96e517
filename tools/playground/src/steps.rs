//! Counts events by step of time, for bar charts.

use std::collections::VecDeque;

/// The milliseconds of a step.
pub(crate) const STEP: u64 = 50;

/// The number of steps that a chart shows: eight seconds.
const SHOWN: usize = 160;

/// The number of events in each of the last steps, and in the last second.
#[derive(Debug)]
pub(crate) struct Steps {
    counts: VecDeque<u32>,
    /// The millisecond of each event of the last second.
    recent: VecDeque<u64>,
    most: usize,
}

impl Steps {
    pub(crate) fn new() -> Self {
        Self {
            counts: VecDeque::from([0; SHOWN]),
            recent: VecDeque::new(),
            most: 0,
        }
    }

    /// Advances to the next millisecond. Call it before the events of that millisecond are counted.
    pub(crate) fn advance(&mut self, now: u64) {
        if now.is_multiple_of(STEP) {
            self.counts.pop_front();
            self.counts.push_back(0);
        }
        while self.recent.front().is_some_and(|at| at + 1000 <= now) {
            self.recent.pop_front();
        }
    }

    pub(crate) fn count(&mut self, now: u64) {
        *self.counts.back_mut().expect("its length is fixed") += 1;
        self.recent.push_back(now);
        self.most = self.most.max(self.recent.len());
    }

    /// Returns the counts, the oldest first; the last step is not over.
    pub(crate) fn counts(&self) -> Vec<u32> {
        self.counts.iter().copied().collect()
    }

    pub(crate) fn last_second(&self) -> usize {
        self.recent.len()
    }

    /// Restarts the search for the maximum.
    pub(crate) fn forget_most(&mut self) {
        self.most = self.recent.len();
    }

    /// Returns the maximum of any second.
    pub(crate) fn most(&self) -> usize {
        self.most
    }
}

// Generates calls at a steady rate, in whole milliseconds.

/// A rate, and the accumulated part of the next call.
#[derive(Debug)]
pub(crate) struct Pace {
    per_second: u32,
    /// The part in thousandths of a call.
    part: u32,
}

impl Pace {
    pub(crate) fn new(per_second: u32) -> Self {
        Self {
            per_second,
            part: 0,
        }
    }

    pub(crate) fn set(&mut self, per_second: u32) {
        self.per_second = per_second;
    }

    /// Returns the number of calls in the next millisecond.
    pub(crate) fn due(&mut self) -> u32 {
        self.part += self.per_second;
        let calls = self.part / 1000;
        self.part %= 1000;
        calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_events_at_the_ends_of_a_step_are_in_it() {
        let mut steps = Steps::new();
        for now in 0..=STEP {
            steps.advance(now);
            if [0, STEP - 1, STEP].contains(&now) {
                steps.count(now);
            }
        }
        assert_eq!(steps.counts()[SHOWN - 2..], [2, 1]);
    }

    #[test]
    fn last_second_an_event_of_a_second_ago_is_gone() {
        let mut steps = Steps::new();
        for now in 0..1500 {
            steps.advance(now);
            if [0, 400, 999, 1000].contains(&now) {
                steps.count(now);
            }
        }
        // The events of 999 and 1000 remain; those of 0, 400 and 999 were in one second.
        assert_eq!((steps.last_second(), steps.most()), (2, 3));
    }

    #[test]
    fn due_any_second_has_the_whole_rate() {
        for per_second in [0, 1, 60, 999, 1200] {
            let mut pace = Pace::new(per_second);
            let calls: u32 = (0..3000).map(|_| pace.due()).sum();
            assert_eq!(calls, 3 * per_second);
        }
    }
}
