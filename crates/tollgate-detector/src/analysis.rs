//! Counts records over a period, and finds the callers over the threshold.
//!
//! Slices cover the period, each with a [summary](Summary) of its own, so that old counts can be
//! forgotten in fixed memory.
//!
//! 1. A record that a pass finds in the buffers was made after the previous pass began. So a slice
//!    begins (`since`) when the pass before the first one that counts into it began.
//! 2. A pass counts into a slice until the slice is a quarter of the period long, or longer by up
//!    to the time between two passes, or has expired. There are four slices: when the fourth is
//!    complete, the first one began a period ago, and is reused.
//! 3. A slice has expired when it began longer than a period ago. All live counts were made within
//!    one period, so a caller whose lower bound exceeds the threshold has exceeded it within a
//!    period. No caller is flagged because of an estimate.
//! 4. A flagged caller is forgiven the calls that led to the flag: one excess has one penalty.

use std::time::Duration;

use tollgate::time::Tick;

use crate::buffers::{Buffers, Place, Table};

/// The result of a [pass](crate::Detector::pass).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pass<K> {
    /// The callers whose gates this pass has blocked.
    pub flagged: Vec<K>,
    /// The number of further callers over the threshold that were not blocked, because the maximum
    /// number of gates, which is that of the [counters](crate::Detector::capacity), was blocked
    /// already. The next pass checks them again.
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

    /// Returns the slices that count: those that began within a period.
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

// Space-Saving: finds the callers with the most calls, in fixed memory.
//
// After Metwally, Agrawal and El Abbadi, *Efficient Computation of Frequent and Top-k Elements in
// Data Streams* (ICDT 2005). The number of counters is fixed. A key without a counter takes over
// the smallest one together with its count, since that count may be the key's own; the count taken
// over is kept as the error.
//
// 1. A key that has a counter made at most `count` calls, and at least `count - error`.
// 2. A key that has none made at most `floor` calls: the count of the key that lost its counter
//    last. These counts only grow, because every counter has at least the floor.
// 3. The sum of all counts is at most the number of calls, so the smallest one, and with it the
//    floor and every error, is at most that number divided by the number of counters.
// 4. Forgiving a key sets its count and its error to the floor. The three invariants still hold,
//    for the key's calls from then on.
//
// The counters are in a heap, so counting takes a logarithmic number of steps, whatever the cost.

pub(crate) struct Summary<K> {
    table: Table<K, Counter>,
    /// The slots of the table, the smallest count first.
    heap: Vec<u32>,
    floor: u64,
}

pub(crate) struct Counter {
    count: u64,
    error: u64,
    /// The position in the heap.
    at: u32,
}

/// The bounds of a key's calls, both inclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) least: u64,
    pub(crate) most: u64,
}

impl Bounds {
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            least: self.least.saturating_add(other.least),
            most: self.most.saturating_add(other.most),
        }
    }
}

impl<K: Eq> Summary<K> {
    pub(crate) fn new(counters: usize) -> Self {
        Self {
            table: Table::new(counters),
            heap: Vec::with_capacity(counters),
            floor: 0,
        }
    }

    /// Counts `n` for a key. The key that loses its counter to it is dropped.
    pub(crate) fn add(&mut self, hash: u64, key: K, n: u64) {
        if let Some(place) = self.table.find(hash, &key) {
            let counter = self.table.value_mut(place);
            counter.count = counter.count.saturating_add(n);
            let at = counter.at;
            self.sink(at as usize);
        } else if !self.table.is_full() {
            let at = self.heap.len();
            let counter = Counter {
                count: n,
                error: 0,
                at: at as u32,
            };
            self.heap.push(self.table.insert(hash, key, counter) as u32);
            self.rise(at);
        } else {
            let place = self.heap[0] as usize;
            let counter = self.table.value_mut(place);
            self.floor = counter.count;
            counter.error = counter.count;
            counter.count = counter.count.saturating_add(n);
            self.sink(0);
            drop(self.table.replace(place, hash, key));
        }
    }

    /// Returns the upper bound for keys without a counter, which is also the maximum error of a
    /// count.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// Returns the bounds of a key's calls.
    pub(crate) fn bounds(&self, hash: u64, key: &K) -> Bounds {
        match self.table.find(hash, key) {
            Some(place) => {
                let counter = &self.table.places()[place].value;
                Bounds {
                    least: counter.count - counter.error,
                    most: counter.count,
                }
            }
            None => Bounds {
                least: 0,
                most: self.floor,
            },
        }
    }

    pub(crate) fn has(&self, hash: u64, key: &K) -> bool {
        self.table.find(hash, key).is_some()
    }

    /// Returns the keys that have counters.
    pub(crate) fn keys(&self) -> &[Place<K, Counter>] {
        self.table.places()
    }

    /// Forgets the calls of a key so far.
    pub(crate) fn forgive(&mut self, hash: u64, key: &K) {
        if let Some(place) = self.table.find(hash, key) {
            let floor = self.floor;
            let counter = self.table.value_mut(place);
            counter.count = floor;
            counter.error = floor;
            let at = counter.at;
            self.rise(at as usize);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.floor = 0;
        self.heap.clear();
        self.table.clear();
    }

    fn count(&self, at: usize) -> u64 {
        self.table.places()[self.heap[at] as usize].value.count
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for at in [one, other] {
            let place = self.heap[at] as usize;
            self.table.value_mut(place).at = at as u32;
        }
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.count(parent) <= self.count(at) {
                return;
            }
            self.swap(parent, at);
            at = parent;
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            if left >= self.heap.len() {
                return;
            }
            let smaller = if right < self.heap.len() && self.count(right) < self.count(left) {
                right
            } else {
                left
            };
            if self.count(at) <= self.count(smaller) {
                return;
            }
            self.swap(at, smaller);
            at = smaller;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::{Bounds, Summary};

    #[derive(Clone, Debug)]
    enum Step {
        Add(u8, u64),
        Forgive(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        // Small keys are more frequent.
        let key = (0_u8..40, 0_u8..40).prop_map(|(one, other)| one.min(other));
        prop_oneof![
            20 => (key.clone(), 1_u64..6).prop_map(|(key, n)| Step::Add(key, n)),
            1 => key.prop_map(Step::Forgive),
        ]
    }

    proptest! {
        /// Compares the bounds with a map that counts every key.
        #[test]
        fn counts_are_within_their_bounds(
            counters in 1_usize..20,
            steps in prop::collection::vec(step(), 0..600),
        ) {
            let mut summary = Summary::new(counters);
            let (mut made, mut total) = (HashMap::new(), 0);
            for step in steps {
                match step {
                    Step::Add(key, n) => {
                        summary.add(u64::from(key), key, n);
                        *made.entry(key).or_default() += n;
                        total += n;
                    }
                    Step::Forgive(key) if summary.has(u64::from(key), &key) => {
                        summary.forgive(u64::from(key), &key);
                        made.insert(key, 0);
                    }
                    Step::Forgive(_) => {}
                }
                let error = total / counters as u64;
                prop_assert!(summary.floor() <= error);
                for key in 0..40 {
                    let Bounds { least, most } = summary.bounds(u64::from(key), &key);
                    let made = made.get(&key).copied().unwrap_or_default();
                    prop_assert!(least <= made && made <= most);
                    prop_assert!(most - least <= summary.floor());
                }
            }
        }
    }

    #[test]
    fn while_there_are_counters_every_count_is_exact() {
        let mut summary = Summary::new(3);
        for (key, n) in [(1, 5), (2, 1), (3, 2), (1, 5)] {
            summary.add(key, key, n);
        }
        assert_eq!(summary.floor(), 0);
        let exactly = |n| Bounds { least: n, most: n };
        let bounds = [1, 2, 3, 4].map(|key| summary.bounds(key, &key));
        assert_eq!(bounds, [10, 1, 2, 0].map(exactly));
    }

    #[test]
    fn the_smallest_gives_up_its_counter() {
        let mut summary = Summary::new(2);
        for (key, n) in [('a', 5), ('b', 3), ('c', 1)] {
            summary.add(7, key, n);
        }
        assert_eq!(summary.bounds(7, &'c'), Bounds { least: 1, most: 4 });
        assert_eq!(summary.bounds(7, &'b'), Bounds { least: 0, most: 3 });
        assert_eq!(summary.bounds(7, &'a'), Bounds { least: 5, most: 5 });
    }
}
