//! Counts records over a period, and finds the callers over the threshold.
//!
//! Slices cover the period, each with a [summary](Summary) of its own, so that old counts can be
//! forgotten in fixed memory.
//!
//! 1. A record that a pass finds in the buffers was made after the previous pass began. So a slice
//!    begins (`since`) when the pass before the first one that counts into it began.
//! 2. A pass counts into a slice until the slice is a quarter of the period long, or as much longer
//!    as the passes are apart, or has expired. There are four slices: when the fourth is complete,
//!    the first one began a period ago, and is reused.
//! 3. A slice has expired when it began longer than a period ago. All live counts were made within
//!    one period, so a caller whose lower bound exceeds the threshold has exceeded it within a
//!    period. No caller is flagged because of an estimate.
//! 4. A flagged caller is forgiven the calls that led to the flag: one excess has one penalty.

use std::time::Duration;

use tollgate::Tick;

use crate::buffers::Buffers;
use crate::summary::{Bounds, Summary};
use crate::table::Table;

/// The result of a [pass](crate::Detector::pass).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pass<K> {
    /// The callers whose gates this pass has blocked.
    pub flagged: Vec<K>,
    /// The number of further callers over the threshold that were not blocked, because as many
    /// gates as there are [counters](crate::Detector::capacity) were blocked already. The next pass
    /// looks at them again.
    pub passed_over: usize,
    /// The amount that this pass counted.
    pub counted: u64,
    /// The amount that was lost between the previous pass and this one.
    pub lost: u64,
    /// The amount by which a caller may have exceeded the threshold within the [time
    /// covered](Self::covered) without being flagged: the amount lost in that time, plus the error
    /// of the counters.
    pub error: u64,
    /// The time before the pass that it covers: never more than the period, and in the long run
    /// never less than three quarters of it minus the time between two passes.
    pub covered: Duration,
}

/// The bounds of a caller's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Count<K> {
    /// The caller.
    pub key: K,
    /// The lower bound.
    pub at_least: u64,
    /// The upper bound. It includes the lost amount, because all of it may have been this caller's.
    pub at_most: u64,
}

pub(crate) struct Analysis<K> {
    slices: Box<[Slice<K>]>,
    /// The slice that passes count into.
    current: usize,
    /// The time at which the last pass began.
    before: Tick,
    /// The time at which it ended.
    end: Tick,
    period: Duration,
    /// The empty table that is exchanged for those of the buffers.
    spare: Table<K, u64>,
}

struct Slice<K> {
    since: Tick,
    summary: Summary<K>,
    lost: u64,
}

/// The number of slices.
const SLICES: usize = 4;

impl<K: Clone + Eq> Analysis<K> {
    /// Creates an analysis with `counters` counters for each slice, and buffers for `room` keys.
    pub(crate) fn new(counters: usize, room: usize, period: Duration, now: Tick) -> Self {
        let slice = |_| Slice {
            since: now,
            summary: Summary::new(counters),
            lost: 0,
        };
        Self {
            slices: (0..SLICES).map(slice).collect(),
            current: 0,
            before: now,
            end: now,
            period,
            spare: Table::new(room),
        }
    }

    /// Counts the records in the buffers. `now` reads the clock.
    pub(crate) fn count(&mut self, buffers: &Buffers<K>, now: impl Fn() -> Tick) -> Pass<K> {
        let begin = now().max(self.before);
        self.roll(begin);
        let slice = &mut self.slices[self.current];
        let mut counted = 0_u64;
        buffers.empty(&mut self.spare, |hash, key, n| {
            counted = counted.saturating_add(n);
            slice.summary.add(hash, key, n);
        });
        let lost = buffers.take_lost();
        slice.lost = slice.lost.saturating_add(lost);
        self.before = begin;
        self.end = now().max(begin);
        Pass {
            flagged: Vec::new(),
            passed_over: 0,
            counted,
            lost,
            error: self.error(),
            covered: self.covered(),
        }
    }

    /// Begins the next slice, if this one is long enough, or began too long ago.
    fn roll(&mut self, now: Tick) {
        let part = self.period.as_nanos().div_ceil(SLICES as u128);
        let since = self.slices[self.current].since;
        let long_enough = self.before.saturating_since(since).as_nanos() >= part;
        if long_enough || now.saturating_since(since) > self.period {
            self.current = (self.current + 1) % SLICES;
            let slice = &mut self.slices[self.current];
            slice.since = self.before;
            slice.lost = 0;
            slice.summary.clear();
        }
    }

    /// Returns the slices that count: all that began within a period.
    fn live(&self) -> impl Iterator<Item = &Slice<K>> + Clone {
        let live = |slice: &&Slice<K>| self.age(slice) <= self.period;
        self.slices.iter().filter(live)
    }

    fn age(&self, slice: &Slice<K>) -> Duration {
        self.end.saturating_since(slice.since)
    }

    /// Returns the amount by which a count may be too low.
    fn error(&self) -> u64 {
        let errors = self
            .live()
            .flat_map(|slice| [slice.summary.floor(), slice.lost]);
        errors.fold(0, u64::saturating_add)
    }

    fn covered(&self) -> Duration {
        self.live()
            .map(|slice| self.age(slice))
            .max()
            .unwrap_or_default()
    }

    /// Returns each caller that has a counter, once, with the bounds of its count.
    fn everybody(&self) -> impl Iterator<Item = (u64, &K, Bounds)> {
        self.live().enumerate().flat_map(move |(at, slice)| {
            slice.summary.keys().iter().filter_map(move |place| {
                let (hash, key) = (place.hash(), &place.key);
                let known = self
                    .live()
                    .take(at)
                    .any(|slice| slice.summary.has(hash, key));
                (!known).then(|| (hash, key, self.bounds(hash, key)))
            })
        })
    }

    fn bounds(&self, hash: u64, key: &K) -> Bounds {
        let bounds = self.live().map(|slice| slice.summary.bounds(hash, key));
        bounds.fold(Bounds::default(), Bounds::and)
    }

    /// Returns the callers that have certainly made more than `threshold` calls.
    pub(crate) fn over(&self, threshold: u64) -> Vec<(u64, K)> {
        let over = self
            .everybody()
            .filter(|(_, _, bounds)| bounds.least > threshold);
        over.map(|(hash, key, _)| (hash, key.clone())).collect()
    }

    /// Forgets the calls of a caller so far.
    pub(crate) fn forgive(&mut self, hash: u64, key: &K) {
        for slice in &mut self.slices {
            slice.summary.forgive(hash, key);
        }
    }

    /// Returns the callers with the most calls, those with the highest lower bound first.
    pub(crate) fn top(&self, most: usize) -> Vec<Count<K>> {
        let lost = self
            .live()
            .fold(0_u64, |lost, slice| lost.saturating_add(slice.lost));
        let mut top: Vec<_> = self.everybody().collect();
        top.sort_by_key(|(_, _, bounds)| std::cmp::Reverse((bounds.least, bounds.most)));
        top.truncate(most);
        let count = |(_, key, bounds): (u64, &K, Bounds)| Count {
            key: key.clone(),
            at_least: bounds.least,
            at_most: bounds.most.saturating_add(lost),
        };
        top.into_iter().map(count).collect()
    }
}
