//! [`Opening`]: lets requests to an origin go step by step after a pause, by slow start as in TCP (RFC 5681,
//! section 3.1).
//!
//! 1. The window is the number of requests that may be in flight. It begins at one. Each success of a request that
//!    was sent since adds one request up to the threshold, and a tenth of one beyond it.
//! 2. A request goes with a pass. It keeps the pass until it is answered, fails or is dropped, or until it has had it
//!    for [`answer_timeout`](super::Settings::answer_timeout) without an answer: then the next goes in its place.
//! 3. A request that comes too late with its pass may take a free one, before those that wait.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tollgate::time::Tick;

use super::origin::Place;

/// One request, in the unit of the window.
pub(super) const ONE: u32 = 10;

/// The passes of an origin after a pause.
pub(super) struct Opening {
    /// A request that was sent earlier tells nothing about the time after the pause.
    pub(super) since: Tick,
    /// The requests that may be in flight, in tenths.
    pub(super) window: u32,
    threshold: u32,
    pub(super) has_succeeded: bool,
    /// The passes, and since when a request has had each without an answer.
    given: BTreeMap<Place, Tick>,
    /// The same in the order of the ticks. An entry whose tick is no longer that of its pass means nothing.
    by_tick: VecDeque<(Tick, Place)>,
}

impl Opening {
    pub(super) fn new(since: Tick, threshold: u32) -> Self {
        Self {
            since,
            window: ONE,
            threshold,
            has_succeeded: false,
            given: BTreeMap::new(),
            by_tick: VecDeque::new(),
        }
    }

    /// Returns whether a pass is free.
    pub(super) fn has_room(&self) -> bool {
        self.given.len() < (self.window / ONE) as usize
    }

    /// Returns whether a request has a pass.
    pub(super) fn has(&self, place: Place) -> bool {
        self.given.contains_key(&place)
    }

    /// Gives a pass, or begins to count the time of one anew.
    pub(super) fn give(&mut self, place: Place, now: Tick) {
        self.given.insert(place, now);
        self.by_tick.push_back((now, place));
    }

    /// Takes the pass of a request back, if it has one.
    pub(super) fn take_back(&mut self, place: Place) {
        self.given.remove(&place);
    }

    /// Counts the success of a request that was sent at this tick.
    pub(super) fn succeeded(&mut self, place: Place, sent: Tick) {
        self.take_back(place);
        if sent >= self.since {
            self.has_succeeded = true;
            let more = if self.window < self.threshold { ONE } else { 1 };
            self.window = self.window.saturating_add(more);
        }
    }

    /// Takes back the passes that requests have had for so long.
    pub(super) fn expire(&mut self, answer_timeout: Duration, now: Tick) {
        while self
            .next_expiry(answer_timeout)
            .is_some_and(|due| due <= now)
        {
            if let Some((_, place)) = self.by_tick.pop_front() {
                self.given.remove(&place);
            }
        }
    }

    /// Returns when the next pass is taken back.
    pub(super) fn next_expiry(&mut self, answer_timeout: Duration) -> Option<Tick> {
        while let Some((tick, place)) = self.by_tick.front() {
            if self.given.get(place) == Some(tick) {
                return Some(tick.saturating_add(answer_timeout));
            }
            self.by_tick.pop_front();
        }
        None
    }
}
