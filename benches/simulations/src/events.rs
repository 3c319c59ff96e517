//! The events of a simulation on a manual clock.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate::Clock;
use tollgate::time::ManualClock;

/// Events, in order: by tick, and then by insertion.
pub struct Events<E> {
    clock: ManualClock,
    events: BTreeMap<(u64, u64), E>,
    number: u64,
}

impl<E> Default for Events<E> {
    fn default() -> Self {
        Self {
            clock: Clock::manual(),
            events: BTreeMap::new(),
            number: 0,
        }
    }
}

impl<E> Events<E> {
    /// Returns the clock, for the limiters.
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// Returns the tick of the clock, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.clock.now().as_nanos()
    }

    /// Adds an event at a tick.
    pub fn at(&mut self, tick: u64, event: E) {
        self.number += 1;
        self.events.insert((tick, self.number), event);
    }

    /// Adds an event after a delay.
    pub fn after(&mut self, wait: Duration, event: E) {
        self.at(self.clock.now().saturating_add(wait).as_nanos(), event);
    }

    /// Moves the clock to the next event before `end`, and returns it.
    pub fn next_before(&mut self, end: u64) -> Option<E> {
        let ((tick, _), event) = self.events.pop_first()?;
        if tick >= end {
            return None;
        }
        self.clock.advance(Duration::from_nanos(tick - self.now()));
        Some(event)
    }
}
