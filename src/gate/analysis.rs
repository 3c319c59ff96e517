//! Counting what was recorded, over a period, and telling who has made too much.
//!
//! The period is covered by slices, each with a [summary](Summary) of its own, so that what is old
//! can be forgotten in fixed memory.
//!
//! 1. What a pass finds in the buffers was recorded after the pass before it had begun. So a slice is
//!    `since` the beginning of the pass before the first that counted into it.
//! 2. A slice is counted into until it is a quarter of the period long, or as much longer as the
//!    passes are apart; or is left out. So when the fourth is, the first one began a period ago, and
//!    makes room for the next: there are four.
//! 3. A slice is left out when it began longer ago than a period. Whatever is still counted was made
//!    within one period; so of whom more than the threshold is counted, at the least, has made more
//!    than the threshold within a period. Nobody is flagged by an estimate.
//! 4. Whoever is flagged is forgiven what led to it: one excess has one penalty.

use std::time::Duration;

use super::buffers::Buffers;
use super::summary::{Bounds, Summary};
use super::table::Table;
use crate::time::Tick;

/// What a [pass](crate::Detector::pass) came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pass<K> {
    /// Who has been flagged by this pass, and is shut out now.
    pub flagged: Vec<K>,
    /// How many others should have been, but as many as there are
    /// [counters](crate::Detector::capacity) are shut out already. The next pass looks at them again.
    pub passed_over: usize,
    /// How much was counted by this pass.
    pub counted: u64,
    /// How much was lost before this pass, since the one before it.
    pub lost: u64,
    /// By how much one may have been over the threshold within the [time covered](Self::covered), and
    /// not be flagged: by what was lost then, and by what the counters may be wrong.
    pub error: u64,
    /// How far back it looked: never more than the period, and in the long run never less than three
    /// quarters of it less the time between two passes.
    pub covered: Duration,
}

/// How much somebody made, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Count<K> {
    /// Who.
    pub key: K,
    /// Made at least this.
    pub at_least: u64,
    /// Made at most this; what was lost is part of it, as it may all have been of this one.
    pub at_most: u64,
}

pub(super) struct Analysis<K> {
    slices: Box<[Slice<K>]>,
    /// Which one is counted into.
    current: usize,
    /// When the last pass began.
    before: Tick,
    /// When it ended.
    end: Tick,
    period: Duration,
    /// What the buffers are exchanged for.
    spare: Table<K, u64>,
}

struct Slice<K> {
    since: Tick,
    summary: Summary<K>,
    lost: u64,
}

/// What was found in the buffers.
pub(super) struct Found {
    pub(super) counted: u64,
    pub(super) lost: u64,
}

/// In how many parts the period is forgotten, and so how many slices there are.
pub(super) const SLICES: usize = 4;

impl<K: Clone + Eq> Analysis<K> {
    /// With so many counters for each slice, and buffers of so much room.
    pub(super) fn new(counters: usize, room: usize, period: Duration, now: Tick) -> Self {
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

    /// Counts what was recorded. `now` reads the clock.
    pub(super) fn count(&mut self, buffers: &Buffers<K>, now: impl Fn() -> Tick) -> Found {
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
        Found { counted, lost }
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

    /// The slices that count: all that began within a period.
    fn live(&self) -> impl Iterator<Item = &Slice<K>> + Clone {
        let live = |slice: &&Slice<K>| self.age(slice) <= self.period;
        self.slices.iter().filter(live)
    }

    fn age(&self, slice: &Slice<K>) -> Duration {
        self.end.saturating_since(slice.since)
    }

    /// By how much too little may be counted.
    pub(super) fn error(&self) -> u64 {
        let errors = self
            .live()
            .flat_map(|slice| [slice.summary.floor(), slice.lost]);
        errors.fold(0, u64::saturating_add)
    }

    pub(super) fn covered(&self) -> Duration {
        self.live()
            .map(|slice| self.age(slice))
            .max()
            .unwrap_or_default()
    }

    /// Everybody who has a counter, once, and how much they made.
    pub(super) fn everybody(&self) -> impl Iterator<Item = (u64, &K, Bounds)> {
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

    /// Who has made more than this, of which there is no doubt.
    pub(super) fn over(&self, threshold: u64) -> Vec<(u64, K)> {
        let over = self
            .everybody()
            .filter(|(_, _, bounds)| bounds.least > threshold);
        over.map(|(hash, key, _)| (hash, key.clone())).collect()
    }

    /// Forgets what one has made so far.
    pub(super) fn forgive(&mut self, hash: u64, key: &K) {
        for slice in &mut self.slices {
            slice.summary.forgive(hash, key);
        }
    }

    /// Those who made most, the first of whom it is known best.
    pub(super) fn top(&self, most: usize) -> Vec<Count<K>> {
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
